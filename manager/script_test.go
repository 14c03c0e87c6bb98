// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// The scripts in testdata/scripts tell what happens to a lock, step by step. A
// script file holds cases:
//
//	== waiting
//	# A waiter gets the lock when the holder releases it.
//	> open a b; acquire x a
//	queue: a.0; x: held #1
//	> acquire y b
//	queue: a.0 b.1; y: waiting
//	> release x
//	queue: b.1; x: released; y: held #2
//
// Each case runs in a synctest bubble of its own, on the embedded server. Lines
// that begin with ">" are commands, with semicolons between them; scriptCommands
// lists them. Below stands what they changed by the time that every goroutine was
// blocked: the queue, the holds, and what else was asked for. Nothing there means
// that nothing changed.
//
// A case may have variables: "== cut $when when=before,after" runs once for each
// value, with the value in place of "$when", and prints the same each time. A "+"
// in a value stands for a space.
//
// The case of a function named like it belongs to that function, which calls
// playScript; TestScripts runs the others. Rewrite what all of them print, and
// then read the difference, with
//
//	go test ./manager -run TestScripts -rewrite
var rewrite = flag.Bool("rewrite", false, "have TestScripts rewrite what the scripts print")

const scriptDir = "testdata/scripts"

// A scriptFile is one file of cases.
type scriptFile struct {
	path  string
	head  []string // the lines before the first case
	cases []*scriptCase
}

// A scriptCase is one case, as it stands in its file.
type scriptCase struct {
	title string // with its variables
	steps []*scriptStep
}

// A scriptStep is a command and what it prints, or the lines between two commands.
type scriptStep struct {
	command string // without the ">"; empty for a comment
	lines   []string
}

func readScripts(t *testing.T) []*scriptFile {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(scriptDir, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts in %s: %v", scriptDir, err)
	}
	var files []*scriptFile
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, parseScript(path, string(text)))
	}
	return files
}

func parseScript(path, text string) *scriptFile {
	f := &scriptFile{path: path}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		title, isTitle := strings.CutPrefix(line, "== ")
		if isTitle {
			f.cases = append(f.cases, &scriptCase{title: title})
			continue
		}
		if len(f.cases) == 0 {
			f.head = append(f.head, line)
			continue
		}
		c := f.cases[len(f.cases)-1]
		command, isCommand := strings.CutPrefix(line, "> ")
		isComment := line == "" || strings.HasPrefix(line, "#")
		var last *scriptStep
		if len(c.steps) > 0 {
			last = c.steps[len(c.steps)-1]
		}
		switch {
		case isCommand:
			c.steps = append(c.steps, &scriptStep{command: command})
		case last == nil || isComment && last.command != "":
			c.steps = append(c.steps, &scriptStep{lines: []string{line}})
		default:
			last.lines = append(last.lines, line)
		}
	}
	return f
}

func (f *scriptFile) String() string {
	var b strings.Builder
	for _, line := range f.head {
		fmt.Fprintln(&b, line)
	}
	for _, c := range f.cases {
		fmt.Fprintln(&b, "==", c.title)
		for _, s := range c.steps {
			if s.command != "" {
				fmt.Fprintln(&b, ">", s.command)
			}
			for _, line := range s.lines {
				fmt.Fprintln(&b, line)
			}
		}
	}
	return b.String()
}

// name is the case's name, without the variables' values.
func (c *scriptCase) name() string {
	var words []string
	for word := range strings.FieldsSeq(c.title) {
		if !strings.Contains(word, "=") {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// instances calls fn for each combination of the variables' values: with the
// name of the combination, and with what replaces each variable by its value.
func (c *scriptCase) instances(fn func(name string, r *strings.Replacer)) {
	combinations := [][]string{{}} // each is variable, value, variable, value, …
	for word := range strings.FieldsSeq(c.title) {
		variable, values, ok := strings.Cut(word, "=")
		if !ok {
			continue
		}
		var more [][]string
		for _, combination := range combinations {
			for value := range strings.SplitSeq(values, ",") {
				more = append(more, append(slices.Clone(combination), "$"+variable, strings.ReplaceAll(value, "+", " ")))
			}
		}
		combinations = more
	}
	for _, combination := range combinations {
		r := strings.NewReplacer(combination...)
		name := r.Replace(c.name())
		if name == c.name() { // the variables are not part of the title
			for i := 1; i < len(combination); i += 2 {
				name += " " + combination[i]
			}
		}
		fn(name, r)
	}
}

// play runs the case with one combination of its variables' values. In rewrite
// mode the first combination writes what is printed, and the others compare.
func (c *scriptCase) play(t *testing.T, r *strings.Replacer, write bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t)
		defer s.end()
		for _, step := range c.steps {
			if step.command == "" {
				continue
			}
			command := r.Replace(step.command)
			got := inLines(s.run(command))
			if write {
				step.lines = got
			} else if !slices.Equal(got, step.lines) {
				t.Fatalf("> %s\nprinted:\n\t%s\nwant:\n\t%s", command, strings.Join(got, "\n\t"), strings.Join(step.lines, "\n\t"))
			}
		}
	})
}

// inLines returns what was printed with semicolons between, in lines that are not too long.
func inLines(printed []string) (lines []string) {
	for i, text := range printed {
		if last := len(lines) - 1; i > 0 && len(lines[last])+len(text) < 90 {
			lines[last] += "; " + text
			continue
		}
		lines = append(lines, text)
	}
	return lines
}

// TestScripts runs the cases that no other test runs; with -rewrite, all of them.
func TestScripts(t *testing.T) {
	own, err := os.ReadFile("scripts_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range readScripts(t) {
		t.Run(strings.TrimSuffix(filepath.Base(f.path), ".txt"), func(t *testing.T) {
			for _, c := range f.cases {
				if strings.HasPrefix(c.name(), "Test") {
					if !strings.Contains(string(own), "func "+c.name()+"(t *testing.T)") {
						t.Errorf("scripts_test.go has no function %s to run this case", c.name())
					}
					if !*rewrite {
						continue
					}
				}
				write := *rewrite
				c.instances(func(name string, r *strings.Replacer) {
					t.Run(name, func(t *testing.T) { c.play(t, r, write) })
					write = false
				})
			}
		})
		if *rewrite {
			if err := os.WriteFile(f.path, []byte(f.String()), 0o644); err != nil {
				t.Error(err)
			}
		}
	}
}

// playScript runs the case that is named like the test.
func playScript(t *testing.T) {
	t.Helper()
	found := false
	for _, f := range readScripts(t) {
		for _, c := range f.cases {
			if c.name() != t.Name() {
				continue
			}
			found = true
			c.instances(func(name string, r *strings.Replacer) {
				if name == t.Name() {
					c.play(t, r, false)
					return
				}
				t.Run(strings.TrimPrefix(name, t.Name()+" "), func(t *testing.T) { c.play(t, r, false) })
			})
		}
	}
	if !found {
		t.Fatalf("no case in %s is named %s", scriptDir, t.Name())
	}
}
