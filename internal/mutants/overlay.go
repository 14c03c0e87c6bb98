// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// overlay is what go build reads for -overlay: which file is to be read in the
// place of which.
type overlay struct{ Replace map[string]string }

// overlay writes the mutated file and its overlay into dir, and returns the
// latter's path.
func (m mutant) overlay(dir string, i int) (string, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	mutated, err := m.mutate(string(source))
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, fmt.Sprintf("%d.go", i))
	if err := os.WriteFile(changed, []byte(mutated), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(overlay{Replace: map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, fmt.Sprintf("%d.json", i))
	return name, os.WriteFile(name, text, 0o600)
}
