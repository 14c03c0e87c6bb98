// SPDX-License-Identifier: Apache-2.0

package options

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// parse parses a command line of words without spaces.
func parse(line string) (o Options, stdout, stderr string, err error) {
	var out, problems bytes.Buffer
	o, err = Parse(strings.Fields(line), &out, &problems)
	return o, out.String(), problems.String(), err
}

func TestParseOptions(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "report")
	tests := []struct {
		line string
		ok   func(Options) bool
	}{
		{"", func(o Options) bool { return o.Servers == nil && o.Duration == 30*time.Second && o.Seed != 0 }},
		{"", func(o Options) bool { return o.Processes == 3 && o.Goroutines == 16 && o.Locks == 4 }},
		{"", func(o Options) bool { return !o.ReadWrite && !o.Greedy && o.Tenure == 0 && o.Swallow == 0 }},
		{"-seed 42", func(o Options) bool { return o.Seed == 42 }},
		{"-servers zk1,zk2:2182/a/b", func(o Options) bool {
			return slices.Equal(o.Servers, []string{"zk1:2181", "zk2:2182"}) && o.Chroot == "/a/b"
		}},
		// About one worker of a process holds each lock.
		{"-goroutines 16 -locks 4 -hold 2ms", func(o Options) bool { return o.Think == 8*time.Millisecond }},
		{"-goroutines 1 -locks 4 -hold 2ms", func(o Options) bool { return o.Think == 2*time.Millisecond }},
		{"-workload all -processes 4 -locks 8", func(o Options) bool { return o.Think == 1600*time.Millisecond }},
		{"-think 1s", func(o Options) bool { return o.Think == time.Second }},
		// Readers hold nearly all the time.
		{"-read-ratio 0.95 -hold 16ms", func(o Options) bool { return o.ReadWrite && o.ReadRatio == 0.95 && o.Think == time.Millisecond }},
		{"-read-ratio 0", func(o Options) bool { return o.ReadWrite && o.ReadRatio == 0 }},
		{"-read-ratio 1 -think 1s", func(o Options) bool { return o.ReadRatio == 1 && o.Think == time.Second }},
		{"-greedy -read-ratio 0.5 -hold 2ms", func(o Options) bool { return o.Greedy && o.Think == 0 && o.Hold == 2*time.Millisecond }},
		{"-contender redsync -ensemble 3", func(o Options) bool {
			return slices.Contains(o.Nemesis, "pause-server") && !slices.Contains(o.Nemesis, "pause-leader") && !slices.Contains(o.Nemesis, "swallow-answer")
		}},
		{"-contender kazoo -nemesis all", func(o Options) bool {
			return o.Contender == "kazoo" && o.Recorded() && slices.Contains(o.Nemesis, "kill-worker") && !slices.Contains(o.Nemesis, "revoke") && !slices.Contains(o.Nemesis, "kill-helper")
		}},
		{"-linger 1s", func(o Options) bool { return o.Linger == time.Second }},
		{"-workload all -locks 2", func(o Options) bool { return o.Kind == wire.AllWorkload && !o.ReadWrite }},
		{"-workload upgrade", func(o Options) bool { return o.ReadWrite && o.ReadRatio == 0.5 }},
		{"-workload upgrade -read-ratio 0", func(o Options) bool { return o.ReadWrite && o.ReadRatio == 0 }},
		{"-workload linger", func(o Options) bool { return o.Kind == wire.DefaultWorkload && o.Linger == 300*time.Millisecond }},
		{"-workload linger -linger 1s", func(o Options) bool { return o.Linger == time.Second }},
		{"-tenure -1s", func(o Options) bool { return o.Tenure == -time.Second }},
		{"-swallow 50ms", func(o Options) bool { return o.Swallow == 50*time.Millisecond }},
		{"", func(o Options) bool {
			return o.Hold == time.Millisecond && o.SessionTimeout == 10*time.Second && !o.Recorded()
		}},
		// Workers leave the writing of a history some time.
		{"-report " + fresh + " -goroutines 100", func(o Options) bool {
			return o.Recorded() && !o.Faulty && o.Hold == 10*time.Millisecond && o.Think == 590*time.Millisecond
		}},
		{"-report " + fresh + " -think 1ms -hold 2ms", func(o Options) bool { return o.Think == time.Millisecond && o.Hold == 2*time.Millisecond }},
		{"-nemesis revoke,cut-connection", func(o Options) bool {
			return o.Faulty && o.Recorded() && o.SessionTimeout == 4*time.Second && slices.Equal(o.Nemesis, []string{"cut-connection", "revoke"})
		}},
		{"-nemesis none", func(o Options) bool { return !o.Faulty && !o.Recorded() }},
		{"-nemesis all", func(o Options) bool {
			return slices.Contains(o.Nemesis, "kill-worker") && !slices.Contains(o.Nemesis, "kill-leader")
		}},
		{"-ensemble 3", func(o Options) bool { return slices.Contains(o.Nemesis, "kill-leader") }},
		{"-ensemble 3 -nemesis none", func(o Options) bool { return o.Ensemble == 3 && o.Recorded() && !o.Faulty }},
		{"-self-test", func(o Options) bool { return o.SelfTest }},
	}
	for _, tt := range tests {
		if o, stdout, stderr, err := parse(tt.line); err != nil || !tt.ok(o) || stdout+stderr != "" {
			t.Errorf("%q: %+v, %v, output %q %q", tt.line, o, err, stdout, stderr)
		}
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	dir, full := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ line, says string }{ // all the words, separated by "…"
		{"-processes 0", "-processes is 0…between 1 and"},
		{"-goroutines -1 -locks 0", "-goroutines is -1…-locks is 0"},
		{"-duration 1ms", "-duration is 1ms"},
		{"-hold 2h -think -1s -session-timeout 1ms -patience 0s", "-hold…-think…-session-timeout…-patience"},
		{"-greedy -think 1ms", "-think is 1ms…-greedy"},
		{"-workload all -locks 1", "-locks cannot be 1"},
		{"-workload all -greedy", "leave out -greedy"},
		{"-workload some", "-workload is \"some\"…mutex, all, upgrade, abandoned"},
		{"-workload abandoned -greedy", "leave out -greedy"},
		{"-tenure 2h", "-tenure is 2h"},
		{"-linger -1s", "-linger is -1s"},
		{"-seed -1", "seed"},
		{"-read-ratio 1.01", "-read-ratio is 1.01…between 0 and 1"},
		{"-read-ratio -0.5", "-read-ratio is -0.5"},
		{"-read-ratio NaN", "-read-ratio is NaN"},
		{"-read-ratio half", `"half"…read-ratio…between 0 and 1`},
		{"-swallow -1s", "-swallow is -1s"},
		{"-swallow 1s -servers zk1", "-swallow is 1s…-servers"},
		{"-json " + dir, "-json…" + dir + ": is a directory"},
		{"-json " + dir + "/none/file", "-json…no such file"},
		{"-nonsense", "nonsense"},
		{"30s", `"30s" is not a flag`},
		{"-servers zk1:x", "zk1:x"},
		{"-servers /only/a/chroot", "names no host"},
		{"-ensemble 2", "-ensemble is 2…1, 3 or 5"},
		{"-ensemble 3 -servers zk1", "-ensemble is 3…-servers"},
		{"-ensemble 3 -swallow 1s", "-swallow is 1s…-ensemble"},
		{"-nemesis kill-leader", "-nemesis…kill-leader…-ensemble 3"},
		{"-nemesis storm", `"storm" is no kind of fault…kill-worker`},
		{"-contender kazoo -workload mutex", "-contender is kazoo…leave out -workload"},
		{"-contender kazoo -read-ratio 0.5", "-contender is kazoo, which has no shared locks"},
		{"-contender kazoo -nemesis revoke", "revoke need Holdfast's locks"},
		{"-contender etcd", "its locks are in etcd, so say by -ensemble"},
		{"-contender etcd -ensemble 3 -nemesis isolate-leader", "isolate-leader need servers of ZooKeeper, and not of etcd"},
		{"-nemesis revoke -greedy", "-greedy…-nemesis none"},
		{"-report " + full, "-report…" + full + " has files"},
	}
	for _, tt := range tests {
		_, stdout, stderr, err := parse(tt.line)
		if err == nil || stdout != "" || !saysInOrder(stderr, tt.says+"…-help") {
			t.Errorf("%q: %v, output %q %q, want %q", tt.line, err, stdout, stderr, tt.says)
		}
	}
}

// saysInOrder reports whether text contains the parts, which "…" separates.
func saysInOrder(text, parts string) bool {
	for part := range strings.SplitSeq(parts, "…") {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return true
}

// Checking whether the summary can be written does not write it.
func TestWritableLeavesTheFileAsItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary.json")
	if err := writable(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file exists now: %v", err)
	}
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writable(path); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); string(b) != "old" {
		t.Errorf("the file contains %q now: %v", b, err)
	}
}

func TestHelpNamesEveryFlagAndStatus(t *testing.T) {
	_, stdout, stderr, _ := parse("-help")
	const flags = "-check…-duration…-ensemble…-goroutines…-greedy…-hold…-json…-linger…-locks…-nemesis…-patience…-processes…-read-ratio…-report…-seed…-self-test…-servers…-session-timeout…-swallow…-tenure…-think…kill-worker"
	if !saysInOrder(stdout, "Exit status…void…Flags:…"+flags) || stderr != "" {
		t.Errorf("output %q %q", stdout, stderr)
	}
	if file := strings.Replace(wire.DumpName, "%d", "N", 1); !saysInOrder(stdout, "stacks…TMPDIR…"+file+"…Exit status") {
		t.Errorf("it does not say that stacks are in %s: %q", file, stdout)
	}
}

func TestCommand(t *testing.T) {
	tests := []struct{ line, command string }{
		{"-seed 7 -locks 2", "go run ./stress -seed 7 -locks 2"},
		{"-locks 2 -seed 0", "go run ./stress -locks 2 -seed 0 -seed 9"}, // the last one counts
		{"-locks 2", "go run ./stress -locks 2 -seed 9"},
		{"-json it's", `go run ./stress -json 'it'\''s' -seed 9`},
	}
	for _, tt := range tests {
		o := Options{args: strings.Fields(tt.line)}
		if o.Seed = 9; strings.Contains(tt.line, "-seed 7") {
			o.Seed = 7
		}
		if got := o.Command(); got != tt.command {
			t.Errorf("%q: %s, want %s", tt.line, got, tt.command)
		}
	}
}
