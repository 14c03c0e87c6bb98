// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/stress/internal/contender"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// TestOtherLibraries: the harness contends for the locks of Curator, which may have readers, of kazoo
// and of etcd. What it finds is theirs; here the clients have no faults to cope with but killed and
// stopped processes, on one server.
func TestOtherLibraries(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"curator-listening": {"-duration", "12s"},
		"curator-rw":        {"-duration", "8s", "-read-ratio", "0.5"},
		"kazoo":             {"-duration", "12s"},
		"etcd":              {"-duration", "12s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := contender.Command(t.Context(), name); errors.Is(err, contender.ErrNotInstalled) {
				realzk.NotRun(t, err.Error())
			} else if err != nil {
				t.Fatal(err)
			}
			if contender.BackendOf(name) == nil {
				_, address := newServer(t)
				flags = append(flags, "-servers", address)
			} else {
				flags = append(flags, "-ensemble", "1")
			}
			r := runStress(t, append(flags,
				"-contender", name, "-nemesis", "kill-worker,pause-worker", "-session-timeout", "2s",
				"-processes", "3", "-goroutines", "3", "-locks", "2", "-seed", "3"))
			s := r.summary
			if s.History == nil || s.Contender != name || s.Failures > 0 || s.Leaks > 0 {
				t.Errorf("the run of %s: %+v\n%s", name, s, r.output)
				return
			}
			if s.ReadWrite && (s.ReadEntries == 0 || s.WriteEntries == 0) {
				t.Errorf("%d entries of readers, %d of writers\n%s", s.ReadEntries, s.WriteEntries, r.output)
			}
			if s.History.Grants < 20 || s.History.FaultCount() == 0 { // on a busy machine there are few
				t.Errorf("%d grants, %d faults\n%s", s.History.Grants, s.History.FaultCount(), r.output)
			}
		})
	}
}

// TestContenderThatExcludesNothing: the judge finds what a program does wrong, and says so; of readers
// and writers, too.
func TestContenderThatExcludesNothing(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "always")
	const script = `#!/bin/sh
echo ready
while read client command lock; do
	case $command in
	acquire*) echo "$client granted" ;;
	release) echo "$client released" ;;
	esac
done
`
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		flags []string
		found string
	}{
		"exclusive":  {nil, `lock "lock-0" was held twice at`},
		"in-process": {[]string{"-processes", "1"}, `lock "lock-0" was held twice at .*by process 0, .*by process 0, `},
		"shared":     {[]string{"-read-ratio", "0.5"}, `lock "lock-0" was held twice at .*(, read, .*, write, |, write, .*, read, )`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runStress(t, append([]string{"-contender", program, "-duration", "3s", "-processes", "2", "-goroutines", "2", "-locks", "1"}, tt.flags...))
			r.expect(t, wire.ExitFailure, verdict.Violation, tt.found, "To repeat the run: .* -contender "+program)
		})
	}
}
