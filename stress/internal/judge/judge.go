// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// A Judge judges a history, event by event. It must not be used concurrently: see [Trial].
type Judge struct {
	header  history.Header
	verdict Verdict
}

// New returns a judge of the history with that header.
func New(h history.Header) *Judge { return &Judge{header: h} }

// Add judges the next event.
func (j *Judge) Add(e history.Event) {
	switch e.Kind {
	case history.Request:
		j.verdict.Requests++
	case history.Granted:
		j.verdict.Grants++
	}
}

// Interim returns what the events so far have shown.
func (j *Judge) Interim() Verdict { return j.verdict }

// Finish returns the verdict. No event may be added afterwards.
func (j *Judge) Finish() Verdict { return j.verdict }

// Pictures returns, for histories of a lock that are not linearizable, pages in HTML that
// show why, by file names.
func (j *Judge) Pictures() map[string][]byte { return nil }

const verdictName = "verdict.json"

// Write writes the verdict into the directory of the history.
func (v Verdict) Write(dir string) error {
	return history.WriteJSON(filepath.Join(dir, verdictName), v)
}

// Read reads the verdict that was written into dir.
func Read(dir string) (v Verdict, err error) {
	name := filepath.Join(dir, verdictName)
	text, err := os.ReadFile(name)
	if err != nil {
		return v, fmt.Errorf("read the verdict: %w", err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("read the verdict %s: %w", name, err)
	}
	return v, nil
}
