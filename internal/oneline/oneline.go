// SPDX-License-Identifier: Apache-2.0

// Package oneline joins errors into one whose text is a single line, for logs.
package oneline

import "strings"

// Join is errors.Join with semicolons between the texts. A single error stays what it is.
func Join(errs ...error) error {
	var all []error
	var texts []string
	for _, err := range errs {
		if err != nil {
			all, texts = append(all, err), append(texts, err.Error())
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &joined{strings.Join(texts, "; "), all}
}

type joined struct {
	text string
	errs []error
}

func (j *joined) Error() string   { return j.text }
func (j *joined) Unwrap() []error { return j.errs }
