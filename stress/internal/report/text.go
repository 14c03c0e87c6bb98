// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean returns a text from a history so that a person sees all of it: strangers wrote
// parts of it, such as labels. It shows what is not printable, or would turn the text
// round, by its number, and cuts what is longer than most characters. Escaping for HTML
// is not its matter.
func clean(text string, most int) string {
	var b strings.Builder
	n := 0
	for i, r := range text {
		if n == most {
			fmt.Fprintf(&b, "… (%d more characters)", utf8.RuneCountInString(text[i:]))
			break
		}
		n++
		switch {
		case r == '\n', unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\t':
			b.WriteByte(' ')
		default:
			fmt.Fprintf(&b, "\\u{%x}", r)
		}
	}
	return b.String()
}

// cleaned returns names so, and no nil, which JSON tells from an empty list.
func cleaned(names []string) []string {
	all := make([]string, 0, len(names))
	for _, name := range names {
		all = append(all, clean(name, longName))
	}
	return all
}

// texts are strings that many events share, by number. Number 0 is none.
type texts struct {
	all     []string
	index   map[string]int
	bytes   int
	dropped int // events whose text was one too many
}

// Limits of texts, in characters each, and in bytes together. A few are why a lock was
// lost, most why one was refused.
const (
	longText    = 300
	mostTexts   = 1_200_000
	mostRefused = 1_000_000
)

func newTexts() *texts { return &texts{all: []string{""}, index: map[string]int{"": 0}} }

// intern returns the number of a text, or 0 if there is no room below the limit.
func (t *texts) intern(text string, limit int) int {
	text = clean(text, longText)
	i, ok := t.index[text]
	switch {
	case ok:
		return i
	case t.bytes+len(text) > limit:
		t.dropped++
		return 0
	}
	i = len(t.all)
	t.all = append(t.all, text)
	t.index[text] = i
	t.bytes += len(text)
	return i
}
