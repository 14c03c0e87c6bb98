// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// A step of a transcript is a command at a terminal, with the lines that appear then; or
// only lines that appear there.
type step struct {
	terminal, command string
	lines             []string
}

var (
	block  = regexp.MustCompile("(?s)```console\n(.*?)```")
	prompt = regexp.MustCompile(`^(\w+)(\$ (.+)|>)$`)
)

// steps returns the steps of the transcript in a section of a document.
func steps(t *testing.T, document, section string) (all []*step) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", document, section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, b := range block.FindAllStringSubmatch(rest, -1) {
		for line := range strings.Lines(b[1]) {
			line = strings.TrimSuffix(line, "\n")
			if p := prompt.FindStringSubmatch(line); p != nil {
				all = append(all, &step{terminal: p[1], command: p[3]})
			} else {
				last := all[len(all)-1]
				last.lines = append(last.lines, line)
			}
		}
	}
	return all
}

// normalized replaces what differs from one session to the next.
func normalized(text string) string {
	for _, r := range []struct{ pattern, by string }{
		{`127\.0\.0\.1:\d+`, "ADDRESS"},
		{`\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)`, "TIME"},
		{`0x[0-9a-f]+`, "SESSION"},
		{`@[\w.-]+`, "@HOST"},
		{`\b\d+(\.\d+)?(ms|s)\b`, "DURATION"},
		{`\b(pid|token) \d+`, "$1 N"},
		{`\b\d{2,}\b`, "N"}, // a process in a table
		{` +`, " "},
		{` +\n`, "\n"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.by)
	}
	return text
}

// TestTranscript types the first session of docs/command.md at shells, and sees what it
// shows.
func TestTranscript(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		realzk.NotRun(t, "it needs bash")
	}
	bin := t.TempDir()
	if err := os.Symlink(os.Args[0], filepath.Join(bin, "holdfast")); err != nil {
		t.Fatal(err)
	}
	type shell struct {
		keys   io.Writer
		screen *output
		want   string // all that it must have shown, in normal form
	}
	shells := map[string]*shell{}
	all := steps(t, "../../docs/command.md", "A first session")
	for _, s := range all {
		if shells[s.terminal] != nil {
			continue
		}
		c := prepare(t)
		c.Path, c.Args = bash, []string{"bash", "-s"}
		c.Env = append(c.Env, "PATH="+bin+":"+os.Getenv("PATH"))
		c.Stderr = c.stdout
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		keys, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		c.begin()
		t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }) // what is left
		shells[s.terminal] = &shell{keys: keys, screen: c.stdout}
	}
	enter := func(terminal, line string) {
		if _, err := io.WriteString(shells[terminal].keys, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range all {
		sh := shells[s.terminal]
		if i == 0 {
			s.command = strings.Replace(s.command, "holdfast server", "holdfast server --port 0", 1)
		}
		if s.command != "" {
			enter(s.terminal, s.command)
		}
		for _, line := range s.lines {
			sh.want += normalized(line + "\n")
		}
		eventually(t, func() bool { return len(normalized(sh.screen.String())) >= len(sh.want) })
		if got := normalized(sh.screen.String()); got != sh.want {
			t.Fatalf("after %q, terminal %s shows\n%s\nwant\n%s", s.command, s.terminal, got, sh.want)
		}
		if i == 0 {
			address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(sh.screen.String())
			for terminal := range shells {
				enter(terminal, "export HOLDFAST_SERVERS="+address)
			}
		}
	}
}
