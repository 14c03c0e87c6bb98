// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A document is the input of the program.
type document struct {
	Figures []figure `json:"figures"`
}

// readDocument reads r, which must contain one document, and checks it. An unknown
// field is an error: ignoring it would draw another figure than intended.
func readDocument(r io.Reader) (document, error) {
	var d document
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return document{}, fmt.Errorf("read the document on standard input: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return document{}, errors.New("read the document on standard input: more data follows it; write one object")
	}
	if len(d.Figures) == 0 {
		return document{}, errors.New(`the document has no figures; list them under "figures"`)
	}
	files := make(map[string]bool)
	for i := range d.Figures {
		f := &d.Figures[i]
		if err := f.check(); err != nil {
			return document{}, fmt.Errorf("figure %d (%q): %w", i+1, f.File, err)
		}
		if files[f.File] {
			return document{}, fmt.Errorf("figure %d (%q): an earlier figure has the same file; use another name", i+1, f.File)
		}
		files[f.File] = true
	}
	return d, nil
}
