// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What one platform takes another one refuses: a name, a constant, also in a test.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module example\n\ngo 1.26\n",
		"name_linux.go":      "package example\n\nconst name = \"linux\"\n",
		"example.go":         "package example\n\nvar Big int = 1 << 40\n",
		"example_test.go":    "package example\n\nimport \"testing\"\n\nfunc TestName(t *testing.T) { t.Log(name) }\n",
		"other/other_386.go": "package other\n\nvar Small int8 = 1 << 10\n",
		"other/other.go":     "package other\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		platform string
		found    int
		says     []string
	}{
		{"linux/amd64", 0, nil},
		{"windows/amd64", 1, []string{"example_test.go:5", "undefined: name"}},
		// The tests of example are checked together with a second copy of it.
		{"linux/386", 3, []string{"example.go:3", "overflows", "other_386.go:3"}},
	} {
		var out bytes.Buffer
		found, err := check(&out, dir, []string{"./..."}, tt.platform)
		if err != nil || found != tt.found {
			t.Errorf("%s: %d errors, want %d: %v\n%s", tt.platform, found, tt.found, err, out.String())
		}
		for _, text := range tt.says {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s: the output lacks %q:\n%s", tt.platform, text, out.String())
			}
		}
	}
	if _, err := check(&bytes.Buffer{}, dir, []string{"./..."}, "linux"); err == nil {
		t.Error("a platform without an architecture was taken")
	}
	if _, err := check(&bytes.Buffer{}, dir, []string{"./..."}, "plan10/amd64"); err == nil {
		t.Error("a system that does not exist was taken")
	}
}
