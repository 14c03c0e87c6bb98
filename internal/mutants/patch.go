// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A mutant is one mistake, and the tests that must notice it. It is read from a
// patch: see the package documentation.
type mutant struct {
	name   string   // the patch's file name, without its extension
	what   string   // what the mutant does wrong
	faults []string // the rows of docs/faults.md whose handling it breaks
	pkg    string   // where the tests are: "./manager"
	tests  []string // it is enough if one of them fails
	seeds  int      // how many seeds to simulate, if pkg is the simulation
	hunks  []hunk
}

// A hunk replaces some lines of a file. Where they are does not matter, as long as
// they are there once; nor does their indentation.
type hunk struct {
	file  string
	lines []line
}

// A line of a hunk.
type line struct {
	op   byte // ' ' stays, '-' goes, '+' comes
	text string
}

// load reads all patches in dir, in the order of their names.
func load(dir string) (list []mutant, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err == nil && len(names) == 0 {
		err = errors.New("no patches in " + dir + ": run it in the module's root directory")
	}
	for _, name := range names {
		text, e := os.ReadFile(name)
		m, e2 := parse(strings.TrimSuffix(filepath.Base(name), ".patch"), string(text))
		if e = errors.Join(e, e2); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, e))
		}
		list = append(list, m)
	}
	return list, err
}

// parse reads a patch.
func parse(name, text string) (mutant, error) {
	m := mutant{name: name}
	var file string // of the hunks that follow
	inHunk := false
	for i, text := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		fault := func(format string, args ...any) (mutant, error) {
			return m, fmt.Errorf("line %d: %s", i+1, fmt.Sprintf(format, args...))
		}
		switch key, value, isHeader := strings.Cut(text, ":"); {
		case strings.HasPrefix(text, "diff "):
			file, inHunk = "", false
		case strings.HasPrefix(text, "--- "):
			file, inHunk = strings.TrimPrefix(strings.TrimSpace(text[4:]), "a/"), false
		case strings.HasPrefix(text, "@@"):
			if file == "" {
				return fault("a hunk without a file: there is no line that begins with ---")
			}
			m.hunks, inHunk = append(m.hunks, hunk{file: file}), true
		case inHunk:
			if text == "" {
				text = " " // some editors strip it
			}
			h := &m.hunks[len(m.hunks)-1]
			switch text[0] {
			case ' ', '-', '+':
				h.lines = append(h.lines, line{text[0], text[1:]})
			case '\\': // no newline at the end of the file
			default:
				return fault("%q in a hunk begins with none of space, - and +", text)
			}
		case file != "" || text == "" || !isHeader && strings.HasPrefix(text, "index "):
			// What git writes between the header and the hunks.
		default:
			value = strings.TrimSpace(value)
			switch key {
			case "Mutant":
				m.what = value
			case "Fault":
				m.faults = strings.Fields(value)
			case "Package":
				m.pkg = value
			case "Tests":
				m.tests = strings.Fields(value)
			case "Seeds":
				var err error
				if m.seeds, err = strconv.Atoi(value); err != nil || m.seeds < 1 {
					return fault("%q is not a number of seeds", value)
				}
			default:
				return fault("%q is none of Mutant:, Fault:, Package:, Tests: and Seeds:", text)
			}
		}
	}
	return m, m.complete()
}

// complete returns an error if something is missing.
func (m mutant) complete() error {
	for _, part := range []struct {
		name    string
		missing bool
	}{
		{"Mutant:, a line that says what it does wrong", m.what == ""},
		{"Fault:, the rows of docs/faults.md that it is for", len(m.faults) == 0},
		{"Package:, where the tests are", m.pkg == ""},
		{"Tests:, those that must fail", len(m.tests) == 0},
		{"a hunk", len(m.hunks) == 0},
	} {
		if part.missing {
			return fmt.Errorf("it lacks %s", part.name)
		}
	}
	for _, h := range m.hunks {
		switch {
		case len(h.old()) == 0:
			return fmt.Errorf("a hunk for %s only adds lines: it needs a line of context", h.file)
		case !slices.ContainsFunc(h.lines, func(l line) bool { return l.op != ' ' }):
			return fmt.Errorf("a hunk for %s changes nothing", h.file)
		}
	}
	return nil
}

// old returns the lines that the hunk looks for.
func (h hunk) old() (old []string) {
	for _, l := range h.lines {
		if l.op != '+' {
			old = append(old, l.text)
		}
	}
	return old
}

// find returns where in the file the lines are that the hunk looks for.
func (h hunk) find(file []string) (at []int) {
	old := h.old()
	for i := 0; i+len(old) <= len(file); i++ {
		if slices.EqualFunc(file[i:i+len(old)], old, func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }) {
			at = append(at, i)
		}
	}
	return at
}

// apply returns the file's lines with the hunk's change made.
func (h hunk) apply(file []string) ([]string, error) {
	at := h.find(file)
	if len(at) != 1 {
		return nil, &misfit{h, at}
	}
	i := at[0]
	changed := slices.Clone(file[:i])
	for _, l := range h.lines {
		if l.op == '+' {
			changed = append(changed, l.text)
			continue
		}
		if l.op == ' ' {
			changed = append(changed, file[i])
		}
		i++
	}
	return append(changed, file[i:]...), nil
}

// mutate returns the files of the module in root that m changes, by their names,
// as they are with the mistake in them.
func (m mutant) mutate(root fs.FS) (map[string]string, error) {
	files := map[string][]string{}
	for _, h := range m.hunks {
		if files[h.file] == nil {
			text, err := fs.ReadFile(root, path.Clean(h.file))
			if err != nil {
				return nil, err
			}
			files[h.file] = strings.Split(string(text), "\n")
		}
		changed, err := h.apply(files[h.file])
		if err != nil {
			return nil, err
		}
		files[h.file] = changed
	}
	mutated := map[string]string{}
	for name, lines := range files {
		mutated[name] = strings.Join(lines, "\n")
	}
	return mutated, nil
}
