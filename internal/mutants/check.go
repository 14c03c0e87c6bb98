// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// misfit says that a hunk's lines are not in its file, or more than once.
type misfit struct {
	hunk hunk
	at   []int
}

func (e *misfit) Error() string {
	if len(e.at) == 0 {
		return e.hunk.file + " does not have the lines that it changes"
	}
	return fmt.Sprintf("%s has the lines that it changes in %d places (lines %s): add lines of context", e.hunk.file, len(e.at), lineNumbers(e.at))
}

func lineNumbers(at []int) string {
	var all []string
	for _, i := range at {
		all = append(all, fmt.Sprint(i+1))
	}
	return strings.Join(all, ", ")
}

// check prints which mutants do not fit the module in root, and what in it is most
// like the lines that they change. It returns an error if there is one.
func check(out io.Writer, root fs.FS, list []mutant) error {
	bad := 0
	for _, m := range list {
		_, err := m.mutate(root)
		if err == nil {
			continue
		}
		bad++
		fmt.Fprintf(out, "%s.patch: %v\n", m.name, err)
		var wrong *misfit
		switch {
		case errors.As(err, &wrong) && len(wrong.at) > 0:
			continue
		case errors.As(err, &wrong):
		default: // a file is missing
			i := slices.IndexFunc(m.hunks, func(h hunk) bool { _, err := fs.Stat(root, h.file); return err != nil })
			wrong = &misfit{hunk: m.hunks[max(i, 0)]}
		}
		near, err := nearest(root, wrong.hunk)
		if err != nil {
			return err
		}
		near.print(out, wrong.hunk)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d mutants do not fit the code: %s", bad, len(list), howToMend)
	}
	fmt.Fprintf(out, "%d mutants fit the code\n", len(list))
	return nil
}

// build prints which mutants do not compile, with what the compiler says. It returns an error if
// there is one.
func build(ctx context.Context, out io.Writer, list []mutant) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bad := 0
	for _, m := range list {
		overlay, err := m.overlay(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-o", os.DevNull, "-overlay", overlay, m.pkg)
		if says, err := cmd.CombinedOutput(); err != nil {
			bad++
			fmt.Fprintf(out, "%s.patch: %v\n%s", m.name, err, says)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d mutants do not compile: change what their patches in internal/mutants/testdata add, or, if the code can no longer be broken like that, delete them", bad, len(list))
	}
	fmt.Fprintf(out, "%d mutants compile\n", len(list))
	return nil
}

const howToMend = "change the lines in their patches in internal/mutants/testdata that begin with a space or a minus sign into the code's own, or, if the code that a mutant breaks is gone, delete its patch"

// A place is a place in the module.
type place struct {
	file  string
	lines []string // of the file
	at    int      // the first of them that is meant
	n     int
	alike int // how many of the words there are those of the hunk
}

// print shows what the hunk looks for, and what is there.
func (p place) print(out io.Writer, h hunk) {
	for _, l := range h.old() {
		fmt.Fprintf(out, "\twants  %s\n", l)
	}
	if p.alike == 0 {
		fmt.Fprintln(out, "\tno file has anything like it")
		return
	}
	if moved := h.find(p.lines); len(moved) == 1 {
		fmt.Fprintf(out, "\tthey have moved to %s:%d: change the patch's lines --- and +++\n", p.file, moved[0]+1)
		return
	}
	fmt.Fprintf(out, "\tnearest at %s:%d\n", p.file, p.at+1)
	for _, l := range p.lines[p.at : p.at+p.n] {
		fmt.Fprintf(out, "\tfinds  %s\n", l)
	}
}

// nearest returns the place in the module that is most like what the hunk looks
// for. Of two that are equally like it, it takes the one that is closer to the
// hunk's own file.
func nearest(root fs.FS, h hunk) (best place, err error) {
	var files []string
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && name != "." && (base == "testdata" || base[0] == '.') {
			return fs.SkipDir
		}
		if path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") {
			files = append(files, name)
		}
		return nil
	})
	distance := func(name string) int {
		top, _, _ := strings.Cut(h.file, "/")
		switch {
		case name == h.file:
			return 0
		case path.Dir(name) == path.Dir(h.file):
			return 1
		case strings.HasPrefix(name, top+"/"):
			return 2
		}
		return 3
	}
	slices.SortStableFunc(files, func(a, b string) int { return distance(a) - distance(b) })
	old := make([][]string, 0, len(h.lines))
	for _, l := range h.old() {
		old = append(old, words(l))
	}
	for _, name := range files {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return best, err
		}
		lines := strings.Split(string(text), "\n")
		wordsOf := make([][]string, len(lines))
		for i, l := range lines {
			wordsOf[i] = words(l)
		}
		for i := range lines {
			n := min(len(old), len(lines)-i)
			if alike := likeness(old, wordsOf[i:i+n]); alike > best.alike {
				best = place{name, lines, i, n, alike}
			}
		}
	}
	return best, err
}

// words returns the identifiers and numbers in a line, in lower case: a name that
// moves to another package may become an exported one.
func words(l string) []string {
	return strings.FieldsFunc(strings.ToLower(l), func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

// likeness counts the words that two texts share, line by line, and the lines that
// are the same once more.
func likeness(a, b [][]string) (n int) {
	for i := range b {
		if len(a[i]) > 0 && slices.Equal(a[i], b[i]) {
			n++
		}
		for _, w := range a[i] {
			if slices.Contains(b[i], w) {
				n++
			}
		}
	}
	return n
}
