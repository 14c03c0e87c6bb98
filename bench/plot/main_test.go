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

// sample returns a document with every kind of figure.
func sample(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/figures.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// written returns the files that run writes.
func written(t *testing.T, doc string) map[string][]byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "plots")
	if err := run(strings.NewReader(doc), dir); err != nil {
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
	// with returns a document of one figure with a replacement.
	with := func(old, replacement string) string {
		const fine = `{"figures": [{"file": "a.svg", "kind": "lines", "x": {"label": "n"}, "y": {"label": "1/s", "log": true},
			"series": [{"name": "one", "points": [{"x": 1, "y": 2, "low": 1, "high": 3}, {"x": 2, "y": 2}]}, {"name": "none"}]}]}`
		if !strings.Contains(fine, old) {
			t.Fatalf("the document does not contain %s", old)
		}
		return strings.Replace(fine, old, replacement, 1)
	}
	more := strings.Repeat(`{"name": "none"}, `, 9)
	for _, tt := range []struct{ name, doc, want string }{
		{"no fault", with(`"n"`, `"n"`), ""},
		{"no document", "", "EOF"},
		{"half of one", `{"figures": [`, "unexpected EOF"},
		{"no figures", `{}`, "no figures"},
		{"two documents", with(`"n"`, `"n"`) + "{}", "more data follows it"},
		{"an unknown field", with(`"label": "n"`, `"label": "n", "unit": "s"`), `unknown field "unit"`},
		{"a path", with("a.svg", "../a.svg"), `figure 1 ("../a.svg"): its file must be a name`},
		{"another format", with("a.svg", "a.png"), "ends in .svg"},
		{"a file twice", strings.TrimSuffix(with(`"n"`, `"n"`), "]}") + "," + strings.TrimPrefix(with(`"n"`, `"n"`), `{"figures": [`), "an earlier figure has the same file"},
		{"an axis without a label", with(`"n"`, `""`), "an axis has no label"},
		{"another kind", with(`"lines"`, `"bars"`), `its kind is "bars"`},
		{"no series", with(`{"name": "none"}]`, `{"name": "none"}], "series": []`), "it has no series"},
		{"eleven series", with(`{"name": "none"}`, more+`{"name": "none"}`), "11 series, and only 10"},
		{"a series without a name", with(`"none"`, `""`), "series 2 has no name"},
		{"a name twice", with(`"none"`, `"one"`), `two series are called "one"`},
		{"no data", with(`"points": [{"x": 1, "y": 2, "low": 1, "high": 3}, {"x": 2, "y": 2}]`, `"points": []`), "none of its series has data"},
		{"half an error bar", with(`"low": 1, `, ``), `series "one": the point at x = 1 has half an error bar`},
		{"an error bar elsewhere", with(`"low": 1, `, `"low": 2.5, `), "from 2.5 to 3, does not include its y, 2"},
		{"points out of order", with(`"x": 2`, `"x": 0`), "the point at x = 0 follows the one at 1"},
		{"zero on a logarithmic axis", with(`"low": 1, `, `"low": 0, `), "y: a logarithmic axis cannot show 0"},
		{"a logarithmic axis from zero", with(`"log": true`, `"log": true, "min": 0`), "y: a logarithmic axis cannot show 0"},
		{"a value below the axis", with(`"label": "n"`, `"label": "n", "min": 1.5`), "x: the axis begins at 1.5, above the value 1"},
		{"samples among lines", with(`"points": [`, `"samples": [1], "points": [`), "only a figure of kind cdf"},
		{"points in a distribution", strings.Replace(with(`, "log": true`, ``), "lines", "cdf", 1), "it has points"},
		{"a logarithmic distribution", with("lines", "cdf"), "linear from 0 to 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			err := run(strings.NewReader(tt.doc), dir)
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
