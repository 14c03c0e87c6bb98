// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/shards"
)

var realShards = flag.Int("shards", 40, "how many shards TestProcesses has; from 200 on, it holds the processes to their time")

// childServer names the server to a process that a test has started, childID the process,
// and childShards says how many shards there are.
const (
	childServer = "HOLDFAST_TEST_SHARDS_SERVER"
	childID     = "HOLDFAST_TEST_SHARDS_ID"
	childShards = "HOLDFAST_TEST_SHARDS_N"
)

// childTimeout is the session timeout of the processes.
const childTimeout = 4 * time.Second

// ownerProcess runs shards until it is killed, or its input ends. It prints "own" and
// "end", each with the shard, the token and the time.
func ownerProcess(server string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			continue
		}
	}()
	m, err := manager.Open(ctx, manager.Config{Servers: []string{server}, SessionTimeout: childTimeout, Label: os.Getenv(childID)})
	if err != nil {
		return err
	}
	defer m.Close()
	o := shards.Options{Name: "orders", ID: os.Getenv(childID), Settle: 500 * time.Millisecond}
	if _, err := fmt.Sscan(os.Getenv(childShards), &o.N); err != nil {
		return err
	}
	err = shards.Run(ctx, m, o, func(ctx context.Context, s shards.Shard) error {
		fmt.Println("own", s.Index, s.Token, time.Now().UnixNano())
		select {
		case <-s.Revoked:
		case <-ctx.Done():
		}
		fmt.Println("end", s.Index, s.Token, time.Now().UnixNano())
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// A tenure is what a process has said about its time with a shard.
type tenure struct {
	who      string
	shard    int
	token    uint64
	from, to int64 // in nanoseconds of the machine's clock; to is 0 until it has ended
}

// tenures are what all processes have said.
type tenures struct {
	mu  sync.Mutex // protects all
	all []*tenure
}

// note notes a line that a process has printed.
func (ts *tenures) note(who, line string) error {
	var what string
	t := &tenure{who: who}
	if _, err := fmt.Sscan(line, &what, &t.shard, &t.token, &t.from); err != nil {
		return fmt.Errorf("%s says %q: %w", who, line, err)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if what == "own" {
		ts.all = append(ts.all, t)
		return nil
	}
	for _, other := range ts.all {
		if other.who == who && other.token == t.token && other.shard == t.shard {
			other.to = t.from
		}
	}
	return nil
}

// killed notes that a process has gone.
func (ts *tenures) killed(who string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.all {
		if t.who == who && t.to == 0 {
			t.to = time.Now().UnixNano()
		}
	}
}

// owners returns who has each shard now, and since when the last has it.
func (ts *tenures) owners(n int) (owners []string, since int64) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	owners = make([]string, n)
	for _, t := range ts.all {
		if t.to == 0 {
			owners[t.shard], since = t.who, max(since, t.from)
		}
	}
	return owners, since
}

// check fails if two tenures of a shard overlap, or the tokens are not in their order.
func (ts *tenures) check(t *testing.T) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	slices.SortFunc(ts.all, func(a, b *tenure) int { return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.token, b.token)) })
	for i := 1; i < len(ts.all); i++ {
		a, b := ts.all[i-1], ts.all[i]
		if a.shard == b.shard && (a.to == 0 || a.to > b.from || a.token == b.token) {
			t.Errorf("shard %d: %+v, and then %+v", a.shard, a, b)
		}
	}
	t.Logf("%d tenures, checked for overlaps", len(ts.all))
}

// Real processes own shards. A fifth joins four, and two are killed.
func TestProcesses(t *testing.T) {
	n := *realShards
	zk := realzk.Start(t)
	var ts tenures
	running := make(map[string]*exec.Cmd)
	start := func(id string) {
		running[id] = startOwner(t, zk.Addr(), id, n, &ts)
	}
	before := make([]string, n)
	until := func(what string) {
		var here []string
		for id := range running {
			here = append(here, id)
		}
		want := shards.Assign(n, here)
		begun := time.Now()
		for deadline := begun.Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
			owners, since := ts.owners(n)
			if !slices.Equal(owners, want) {
				if time.Now().After(deadline) {
					t.Fatalf("%s: after a minute the owners are %q, want %q", what, owners, want)
				}
				continue
			}
			took := time.Unix(0, since).Sub(begun)
			share := make(map[string]int)
			for _, id := range owners {
				share[id]++
			}
			moves, least := moved(before, owners)
			t.Logf("%s: %d shards among %d processes: %v; %d have moved, least %d; the last was owned after %v", what, n, len(here), share, moves, least, took.Round(time.Millisecond))
			if most := (n + len(here) - 1) / len(here); slices.ContainsFunc(here, func(id string) bool { return share[id] > most }) {
				t.Errorf("%s: a process has more than %d", what, most)
			}
			if limit := childTimeout + 2*time.Second; n >= 200 && took > limit {
				t.Errorf("%s: that took %v, more than %v", what, took, limit)
			}
			before = owners
			return
		}
	}
	for _, id := range []string{"p1", "p2", "p3", "p4"} {
		start(id)
	}
	until("four start")
	start("p5")
	until("the fifth comes")
	for _, id := range []string{"p2", "p4"} {
		if err := running[id].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = running[id].Wait() // it reports the kill
		delete(running, id)
		ts.killed(id)
	}
	until("two are killed")
	ts.check(t)
}

// startOwner starts a process, which the end of the test kills.
func startOwner(t *testing.T, server, id string, n int, ts *tenures) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), childServer+"="+server, childID+"="+id, fmt.Sprintf("%s=%d", childShards, n))
	cmd.Stderr = new(strings.Builder)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if err := ts.note(id, lines.Text()); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
		}
		<-read
		if cmd.ProcessState == nil {
			_ = cmd.Wait() // it reports the kill
		}
		if t.Failed() {
			t.Logf("%s has logged:\n%s", id, cmd.Stderr)
		}
	})
	return cmd
}
