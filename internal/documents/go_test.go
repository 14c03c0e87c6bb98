// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// write writes a file of a test.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command runs a command in the repository's root, and returns what it wrote.
func command(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The Go that documents show is a program, the file of a test, or a part of a function.
func goBlocks(t *testing.T) (programs, tests, parts []block) {
	t.Helper()
	for _, b := range blocks(t) {
		switch {
		case b.lang != "go" || b.from != "" || b.not != "":
		case strings.HasPrefix(b.text, "package main\n"):
			programs = append(programs, b)
		case strings.HasPrefix(b.text, "package "):
			tests = append(tests, b)
		default:
			parts = append(parts, b)
		}
	}
	return programs, tests, parts
}

// Programs expect ZooKeeper where the README says that it is.
func TestGoPrograms(t *testing.T) {
	programs, _, _ := goBlocks(t)
	if len(programs) == 0 {
		t.Error("no document has a program")
	}
	for _, b := range programs {
		t.Run(b.file, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "main.go")
			write(t, file, strings.ReplaceAll(b.text, "127.0.0.1:2181", listen(t, server(t))))
			if out, err := command(t, "go", "run", file); err != nil {
				t.Errorf("%s:%d: %v\n%s", b.file, b.line, err, out)
			}
		})
	}
}

// The test files of a document are one package.
func TestGoTests(t *testing.T) {
	_, tests, _ := goBlocks(t)
	if len(tests) == 0 {
		t.Error("no document has a test file")
	}
	files := map[string][]string{} // by document
	dir := t.TempDir()
	for i, b := range tests {
		file := filepath.Join(dir, fmt.Sprintf("block%d_test.go", i))
		write(t, file, lineOf(t, b)+b.text)
		files[b.file] = append(files[b.file], file)
	}
	for document, files := range files {
		out, err := command(t, append([]string{"go", "test", "-count=1", "-v"}, files...)...)
		if err != nil || !strings.Contains(out, "--- PASS") {
			t.Errorf("%s: %v\n%s", document, err, out)
		}
	}
}

// imports are what parts of functions may use.
const imports = `
import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

var _, _, _, _, _ = binary.BigEndian, errors.New, http.MethodGet, time.Now, zkio.SetOp
`

const signature = `(ctx context.Context, m *manager.Manager, lock, alice, bob *manager.Lock, prices *manager.RWLock, h manager.Hold,
	work func(context.Context, manager.Hold) error, fresh func() bool) error {`

// All parts are compiled together, which takes as long as one of them.
func TestGoParts(t *testing.T) {
	_, _, parts := goBlocks(t)
	if len(parts) == 0 {
		t.Error("no document has a part of a function")
	}
	if out, err := testParts(t, parts); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func testParts(t *testing.T, parts []block) (output string, err error) {
	t.Helper()
	var file, list strings.Builder
	fmt.Fprintf(&file, "package parts\n%s\n", imports)
	for i, b := range parts {
		fmt.Fprintf(&file, "func part%d%s\n\t{\n%s%s\t}\n}\n", i, signature, lineOf(t, b), b.text)
		fmt.Fprintf(&list, "\t{\"%s:%d\", %t, part%d},\n", b.file, b.line, slices.Contains(executed, b.file), i)
	}
	fmt.Fprintf(&file, "\nvar parts = []part{\n%s}\n\nfunc init() { fmt.Print() }\n", list.String())
	dir := t.TempDir()
	surrounding, err := os.ReadFile("testdata/parts_test.go")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "parts_test.go"), string(surrounding))
	write(t, filepath.Join(dir, "blocks_test.go"), file.String())
	return command(t, "go", "test", "-count=1", filepath.Join(dir, "parts_test.go"), filepath.Join(dir, "blocks_test.go"))
}

// lineOf has the compiler speak of the document's lines.
func lineOf(t *testing.T, b block) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, b.file))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("//line %s:%d\n", path, b.line)
}

func TestGoPartsCatches(t *testing.T) {
	part := func(line int, text string) block {
		return block{file: executed[0], line: line, lang: "go", text: text}
	}
	expect := func(want []string, parts ...block) {
		t.Helper()
		out, err := testParts(t, parts)
		for _, w := range want {
			if err == nil || !strings.Contains(out, w) {
				t.Errorf("%v, want %q in\n%s", err, w, out)
			}
		}
		if strings.Contains(out, filepath.Base(executed[0])+":4") {
			t.Errorf("a good part is a failure:\n%s", out)
		}
	}
	good := part(4, "\treturn work(ctx, h)\n")
	expect([]string{filepath.Base(executed[0]) + ":7:"}, good, part(7, "\tmanager.NoSuchThing()\n\treturn nil\n"))
	expect([]string{"this Hold is not upgraded", "was it at work: false"},
		good, part(7, "\treturn h.Downgrade()\n"), part(8, "\treturn nil\n"))
}

// What a document has from a file must be in it, and that file's package must have tests.
func TestBlocksFromFiles(t *testing.T) {
	for _, b := range blocks(t) {
		if b.from == "" {
			continue
		}
		if fault := checkFrom(b); fault != "" {
			t.Errorf("%s:%d: %s", b.file, b.line, fault)
		}
	}
}

func checkFrom(b block) (fault string) {
	text, err := os.ReadFile(filepath.Join(root, b.from))
	if err != nil {
		return err.Error()
	}
	if !strings.Contains("\n"+string(text), "\n"+b.text) && !strings.Contains(string(text), "\n"+strings.TrimSuffix(b.text, "\n")+"`") {
		return "this does not stand in " + b.from
	}
	if tests, _ := filepath.Glob(filepath.Join(root, filepath.Dir(b.from), "*_test.go")); len(tests) == 0 {
		return b.from + " has no tests beside it"
	}
	return ""
}

func TestBlocksFromFilesCatches(t *testing.T) {
	for _, tt := range []struct{ from, text, fault string }{
		{"examples/cron/cron.go", "package main\n", ""},
		{"examples/cron/cron.go", "package main2\n", "does not stand in"},
		{"examples/cron/cron.go", "main\n", "does not stand in"}, // a part of a line
		{"examples/cron/gone.go", "package main\n", "no such file"},
		{"doc.go", "package holdfast\n", "has no tests"},
	} {
		if fault := checkFrom(block{from: tt.from, text: tt.text}); tt.fault == "" && fault != "" || !strings.Contains(fault, tt.fault) {
			t.Errorf("%s: %q, want %q", tt.from, fault, tt.fault)
		}
	}
}

// server starts an embedded server.
func server(t *testing.T) *zktest.Server {
	t.Helper()
	srv := zktest.NewServer(zktest.Config{Logger: discard})
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

// listen has it accept connections, and returns its address.
func listen(t *testing.T, srv *zktest.Server) string {
	t.Helper()
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
