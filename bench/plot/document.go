// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A document is what the program reads.
type document struct {
	Figures []figure `json:"figures"`
}

// readDocument reads a document and nothing else from r, and checks it. A field
// that it does not know is an error: it would be a figure that lacks what
// somebody wanted to see in it.
func readDocument(r io.Reader) (document, error) {
	var d document
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return document{}, fmt.Errorf("read the document on standard input: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return document{}, errors.New("read the document on standard input: something comes after it; write one object")
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
			return document{}, fmt.Errorf("figure %d (%q): an earlier figure has the same file; name another", i+1, f.File)
		}
		files[f.File] = true
	}
	return d, nil
}
