// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A row is a combination that is tested. What it does not name is as the machine has it.
type row struct {
	name     string
	table    string // the marker of its table in the document
	releases []release
	columns  []column
}

// A column is what a cell of a row shows.
type column struct {
	dirs  []string // the tests below them,
	kinds []string // of those the ones that need one of these, and nothing of others
	run   func(ctx context.Context, m *matrix, log string, env []string) (string, error)
}

var (
	servers = []column{
		{dirs: []string{"zkio"}},
		{dirs: []string{"manager"}},
		{dirs: []string{"recipes"}},
		{dirs: []string{"cmd/holdfast", "internal/doctor", "sentinel"}},
		{dirs: []string{"manager", "recipes", "cmd/holdfast"}, kinds: []string{"curator", "kazoo"}},
		{run: harness},
	}
	clients = func(kind string) []column {
		return []column{{dirs: []string{"manager", "recipes", "cmd/holdfast"}, kinds: []string{kind}}}
	}
)

// rows are the rows of docs/compatibility.md.
var rows = []row{
	{"ZooKeeper 3.5.10", "servers", []release{zookeeper("3.5.10")}, servers},
	{"ZooKeeper 3.6.4", "servers", []release{zookeeper("3.6.4")}, servers},
	{"ZooKeeper 3.7.2", "servers", []release{zookeeper("3.7.2")}, servers},
	{"ZooKeeper 3.8.0 (Debian)", "servers", nil, servers},
	{"ZooKeeper 3.8.6", "servers", []release{zookeeper("3.8.6")}, servers},
	{"ZooKeeper 3.9.5", "servers", []release{zookeeper("3.9.5")}, servers},
	{"Curator 5.4.0", "clients", []release{zookeeper("3.9.5"), curator("5.4.0")}, clients("curator")},
	{"Curator 5.9.0", "clients", []release{zookeeper("3.9.5"), curator("5.9.0")}, clients("curator")},
	{"kazoo 2.8.0", "clients", []release{zookeeper("3.9.5"), kazoo("2.8.0")}, clients("kazoo")},
	{"kazoo 2.11.0", "clients", []release{zookeeper("3.9.5"), kazoo("2.11.0")}, clients("kazoo")},
}

// A matrix runs rows.
type matrix struct {
	bin, document string
	out           io.Writer
	check         int // if not 0, only so many columns are run, and the document stays
}

// errFailed says that a test or a run of the harness failed; what failed has been printed.
var errFailed = errors.New("something failed: see above")

// run runs the rows that are wanted, and writes each into the document when it is done.
func (m *matrix) run(ctx context.Context, want func(row) bool) error {
	var failed error
	for _, r := range rows {
		if !want(r) {
			continue
		}
		cells, err := m.cells(ctx, r)
		if err != nil && !errors.Is(err, errFailed) {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		if err != nil {
			failed = err
		}
		if m.check > 0 {
			continue
		}
		if err := setRow(m.document, r.table, append([]string{r.name}, cells...)); err != nil {
			return err
		}
	}
	return failed
}

// fetch downloads what a row needs, and prints the environment.
func (m *matrix) fetch(ctx context.Context, name string) error {
	i := slices.IndexFunc(rows, func(r row) bool { return strings.Contains(r.name, name) })
	if i < 0 {
		return fmt.Errorf("no row has %q in its name; -list prints them", name)
	}
	env, err := m.environment(ctx, rows[i])
	for _, setting := range env {
		fmt.Println(setting)
	}
	return err
}

// environment returns the settings that make tests use the releases of a row.
func (m *matrix) environment(ctx context.Context, r row) (env []string, err error) {
	for _, release := range r.releases {
		setting, err := release.setting(ctx, m.bin)
		if err != nil {
			return nil, err
		}
		env = append(env, setting)
	}
	return env, nil
}

// cells runs the columns of a row. The error is errFailed if only tests failed.
func (m *matrix) cells(ctx context.Context, r row) (cells []string, err error) {
	settings, err := m.environment(ctx, r)
	if err != nil {
		return nil, err
	}
	// A test that can't run ends as not run, which counts here as not passed.
	env := append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "CI=") }), settings...)
	var failed error
	columns := r.columns
	if m.check > 0 {
		columns = columns[:min(m.check, len(columns))]
	}
	for i, c := range columns {
		log := filepath.Join(m.bin, strings.ReplaceAll(r.name, " ", "-")+fmt.Sprintf("-%d.log", i+1))
		run := c.run
		if run == nil {
			run = c.test
		}
		begun := time.Now()
		cell, err := run(ctx, m, log, env)
		if err != nil && !errors.Is(err, errFailed) {
			return nil, err
		}
		if err != nil || m.check > 0 && strings.Contains(cell, notRun) {
			failed = errFailed
		}
		fmt.Fprintf(m.out, "%s, %d of %d: %s (%.0f s; %s)\n", r.name, i+1, len(columns), cell, time.Since(begun).Seconds(), log)
		cells = append(cells, cell)
	}
	return cells, failed
}

// wants reports whether a column has a test.
func (c column) wants(t test) bool {
	others := slices.DeleteFunc(slices.Clone(t.needs), func(kind string) bool { return kind == server })
	if c.kinds == nil {
		return len(others) == 0
	}
	return slices.ContainsFunc(c.kinds, func(kind string) bool { return slices.Contains(others, kind) })
}

// test runs the tests of a column, one package after the other.
func (c column) test(ctx context.Context, m *matrix, log string, env []string) (string, error) {
	tests, err := survey(c.dirs...)
	if err != nil {
		return "", err
	}
	names := make(map[string][]string)
	var packages []string
	for _, t := range tests {
		if !c.wants(t) {
			continue
		}
		if names[t.pkg] == nil {
			packages = append(packages, t.pkg)
		}
		names[t.pkg] = append(names[t.pkg], t.name)
	}
	out, err := os.Create(log)
	if err != nil {
		return "", err
	}
	defer out.Close()
	var all results
	for _, pkg := range packages {
		cmd := exec.CommandContext(ctx, "go", "test", "-json", "-vet=off", "-count=1", "-timeout=15m", "-run=^("+strings.Join(names[pkg], "|")+")$", pkg)
		cmd.Env = env
		cmd.Stderr = out
		got, err := all.read(cmd, out)
		if err != nil {
			return "", fmt.Errorf("%s: %w", pkg, err)
		}
		if !got {
			all.failed = append(all.failed, pkg)
		}
	}
	return all.cell()
}

// results count how tests ended. Only the test functions count, not what they have within.
type results struct {
	passed         int
	failed, notRun []string
}

// read runs go test -json, copies what it writes, and counts the tests. It reports whether
// all ended well, or which failed is known.
func (r *results) read(cmd *exec.Cmd, log io.Writer) (ok bool, err error) {
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	before := len(r.failed)
	lines := bufio.NewScanner(io.TeeReader(stdout, log))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var event struct{ Action, Test string }
		if !bytes.HasPrefix(lines.Bytes(), []byte("{")) || json.Unmarshal(lines.Bytes(), &event) != nil || event.Test == "" {
			continue
		}
		function, inside, _ := strings.Cut(event.Test, "/")
		switch event.Action {
		case "fail":
			// The parts of a test come before it.
			if inside == "" && !slices.ContainsFunc(r.failed[before:], func(name string) bool { return strings.HasPrefix(name, function+"/") }) || inside != "" {
				r.failed = append(r.failed, event.Test)
			}
		case "skip":
			r.notRun = append(r.notRun, event.Test)
		case "pass":
			if inside == "" {
				r.passed++
			}
		}
	}
	if err := lines.Err(); err != nil {
		return false, err
	}
	var exit *exec.ExitError
	switch err := cmd.Wait(); {
	case err == nil:
		return true, nil
	case errors.As(err, &exit):
		return len(r.failed) > before, nil
	default:
		return false, err
	}
}

// notRun begins the list of tests that did not run, in a cell.
const notRun = "; not run: "

// cell returns what the table says of the results.
func (r *results) cell() (string, error) {
	cell := fmt.Sprintf("%d passed", r.passed)
	if r.notRun != nil {
		cell += notRun + strings.Join(r.notRun, ", ")
	}
	if r.failed != nil {
		return cell + fmt.Sprintf("; **failed: %s**", strings.Join(r.failed, ", ")), errFailed
	}
	return cell, nil
}

// harness runs the stress harness for two minutes through faults of every kind. A run that
// was void shows nothing, because the machine was too busy or a fault struck nothing: another seed
// then.
func harness(ctx context.Context, m *matrix, log string, env []string) (string, error) {
	program := filepath.Join(m.bin, "stress")
	if err := run(ctx, ".", "go", "build", "-o", program, "./stress"); err != nil {
		return "", err
	}
	out, err := os.Create(log)
	if err != nil {
		return "", err
	}
	defer out.Close()
	var summary struct {
		Verdict    string
		Grants     uint64
		Violations uint64
		History    struct{ Injected []json.RawMessage }
	}
	for seed := 7; seed < 11; seed++ {
		report := strings.TrimSuffix(log, ".log")
		written := report + ".json"
		cmd := exec.CommandContext(ctx, program, "-ensemble", "3", "-nemesis", "all", "-duration", "2m", "-seed", strconv.Itoa(seed), "-json", written, "-report", report)
		cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return "", err
		}
		text, err := os.ReadFile(written)
		if err == nil {
			err = json.Unmarshal(text, &summary)
		}
		if err != nil {
			return "", fmt.Errorf("%v has left no summary: %w", cmd, err)
		}
		if summary.Verdict != "VOID" {
			break
		}
	}
	cell := fmt.Sprintf("%s: %d grants, %d faults, %d violations", summary.Verdict, summary.Grants, len(summary.History.Injected), summary.Violations)
	if summary.Verdict != "OK" {
		return "**" + cell + "**", errFailed
	}
	return cell, nil
}
