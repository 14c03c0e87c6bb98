// SPDX-License-Identifier: Apache-2.0

package report

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// keep is for a person who wants to look at the pages:
//
//	go test ./stress/internal/report -run TestPages -args -keep /tmp/pages
var keep = flag.String("keep", "", "keep the pages of the test in this directory")

// pageOf writes the page of a scenario and returns its text.
func pageOf(t *testing.T, s scenario, name string) string {
	t.Helper()
	dir := t.TempDir()
	if *keep != "" {
		dir = filepath.Join(*keep, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := Write(dir, s.header, s.verdict, s.events()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPages(t *testing.T) {
	bad := tenMinutes
	bad.violation = true
	for name, p := range map[string]plan{"ok": tenMinutes, "violation": bad} {
		t.Run(name, func(t *testing.T) {
			s := generate(p)
			page := pageOf(t, s, name)
			t.Logf("%d events, %d grants, %d lost holds, %d bytes", len(s.log), s.verdict.Grants, s.verdict.LostHolds, len(page))
		})
	}
}
