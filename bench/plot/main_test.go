// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sample returns made-up charts.
func sample(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/charts.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// written returns the files that run writes.
func written(t *testing.T, charts string) map[string][]byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "plots")
	if err := run(strings.NewReader(charts), dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestRun(t *testing.T) {
	files, again := written(t, sample(t)), written(t, sample(t))
	if len(files) != 3 {
		t.Errorf("%d files were written, want 3", len(files))
	}
	for name, text := range files {
		if !bytes.Equal(text, again[name]) {
			t.Errorf("%s differs from one run to the next", name)
		}
		if err := xml.Unmarshal(text, new(struct{})); err != nil {
			t.Fatalf("%s is malformed: %v", name, err)
		}
		if odd := regexp.MustCompile(`NaN|Inf`).Find(text); odd != nil {
			t.Errorf("%s contains %s", name, odd)
		}
		// The background is white on a dark page, too.
		size := regexp.MustCompile(`viewBox="0 0 (\S+) (\S+)"`).FindSubmatch(text)
		if size == nil {
			t.Fatalf("%s has no size", name)
		}
		white := "M0,0L" + string(size[1]) + ",0L" + string(size[1]) + "," + string(size[2]) + "L0," + string(size[2]) + "Z\" style=\"fill:#FFFFFF\""
		if !bytes.Contains(text, []byte(white)) {
			t.Errorf("%s does not begin with a white rectangle of its size, %s", name, white)
		}
		if fallback := []byte("'Liberation Sans',Arial"); bytes.Count(text, fallback) != bytes.Count(text, []byte("<text")) {
			t.Errorf("%s has text without a fallback font", name)
		}
	}
}

// The error says what is wrong and where.
func TestRunRefuses(t *testing.T) {
	// with returns charts, of which there is one, with a replacement.
	with := func(old, replacement string) string {
		const fine = `[{"File": "a.svg", "X": {"Label": "n"}, "Y": {"Label": "1/s", "Log": true},
			"Series": [{"Name": "one", "Points": [{"X": 1, "Y": 2, "Low": 1, "High": 3}, {"X": 2, "Y": 2, "Low": 2, "High": 2}]}, {"Name": "none"}]}]`
		if !strings.Contains(fine, old) {
			t.Fatalf("the charts do not contain %s", old)
		}
		return strings.Replace(fine, old, replacement, 1)
	}
	more := strings.Repeat(`{"Name": "none"}, `, 9)
	for _, tt := range []struct{ name, charts, want string }{
		{"no fault", with(`"n"`, `"n"`), ""},
		{"nothing", "", "EOF"},
		{"half of one", `[{"File": "a.svg"`, "unexpected EOF"},
		{"no charts", `[]`, "no charts"},
		{"an unknown field", with(`"Label": "n"`, `"Label": "n", "Unit": "s"`), `unknown field "Unit"`},
		{"eleven series", with(`{"Name": "none"}`, more+`{"Name": "none"}`), "draw a.svg: it has 11 series, and only 10"},
		{"no data", `[{"File": "a.svg", "Series": [{"Name": "none"}]}]`, "none of its series has points"},
		{"zero on a logarithmic axis", with(`"Low": 1`, `"Low": 0`), `the axis "1/s" cannot show 0`},
		{"less than zero", with(`"X": 1`, `"X": -1`), `the axis "n" cannot show -1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			err := run(strings.NewReader(tt.charts), dir)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got the error %v, want %q in it", err, tt.want)
			}
			if entries, _ := os.ReadDir(dir); tt.want != "" && len(entries) > 0 {
				t.Errorf("%s was written", entries[0].Name())
			}
		})
	}
	t.Run("no directory", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(strings.NewReader(sample(t)), file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("got the error %v, want one that names %s", err, file)
		}
	})
}
