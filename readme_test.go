// SPDX-License-Identifier: Apache-2.0

package holdfast_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// A reader begins by copying the programs of the README and the documents, so
// they must compile with the code beside them. Some are the middle of a function
// only.
func TestReadmePrograms(t *testing.T) {
	documents, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range append(documents, "README.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		programs := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(text, -1)
		if document == "README.md" && len(programs) == 0 {
			t.Error("README.md has no Go program in it")
		}
		for i, program := range programs {
			t.Run(fmt.Sprint(document, "/", i+1), func(t *testing.T) {
				text := program[1]
				if !bytes.HasPrefix(text, []byte("package ")) {
					text = fmt.Appendf(nil, around, text)
				}
				if out, err := build(t, text); err != nil {
					t.Errorf("go build: %v\n%s\nof the program\n%s", err, out, text)
				}
			})
		}
	}

	t.Run("a wrong one is noticed", func(t *testing.T) {
		wrong := []byte("package main\n\nimport \"" + modulePath + "/manager\"\n\nfunc main() { manager.NoSuchThing() }\n")
		if out, err := build(t, wrong); err == nil || !regexp.MustCompile("NoSuchThing").Match(out) {
			t.Errorf("go build: %v\n%s\nwant that NoSuchThing is undefined", err, out)
		}
	})
}

// around is what stands around the shorter pieces, which may use its parameters
// and declare them anew.
const around = `package main

import (
	"context"
	"errors"
	"fmt"

	"` + modulePath + `/manager"
	"` + modulePath + `/zkio"
)

func main() { _, _, _, _ = context.Canceled, errors.New, fmt.Println, zkio.SetOp }

func piece(ctx context.Context, m *manager.Manager, lock *manager.Lock, h manager.Hold) error {
	{
%s	}
}
`

// build shows the program to the go command as a package of this module, by an
// overlay, without a file in the tree.
func build(t *testing.T, program []byte) (output []byte, err error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, program, 0o600); err != nil {
		t.Fatal(err)
	}
	shown, err := filepath.Abs(filepath.Join("internal", "readme", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {shown: file}})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), "go", "build", "-overlay", overlayFile, "-o", filepath.Join(dir, "program"), "./internal/readme").CombinedOutput()
}
