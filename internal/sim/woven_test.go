// SPDX-License-Identifier: Apache-2.0

//go:build woven

package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sim/yield"
)

var (
	one   = flag.Uint64("seed", 0, "the seed of TestSeed, which TestSeeds starts in processes of their own")
	show  = flag.Bool("show", false, "with -seed: show what happens, also if nothing fails")
	shown = flag.Uint64("show-seed", 0, "simulate this one only, and show what happens")
)

// outcomeMark begins the line of a child's output that has the outcome.
const outcomeMark = "outcome: "

// TestSeed simulates the seed given by -seed, in a process that runChild started.
func TestSeed(t *testing.T) {
	if *one == 0 {
		t.Fatal("it is for the processes that TestSeeds starts: see make sim")
	}
	text, err := json.Marshal(runSeed(t, *one, *show))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s%s\n", outcomeMark, text)
}

// TestShow simulates the seed given by -show-seed as TestSeeds does, and prints what
// happens.
func TestShow(t *testing.T) {
	if *shown == 0 {
		t.Fatal("no -show-seed is given: see make sim SEED=17")
	}
	o, out, err := runChild(*shown, true)
	fmt.Printf("%s", out)
	if err != nil {
		t.Error(err)
	}
	t.Logf("seed %d: hash %s", *shown, o.Hash)
}

// TestSeeds simulates the seeds, each in a process of its own in which only the
// seed decides what happens, and adds up the outcomes.
func TestSeeds(t *testing.T) {
	began := time.Now()
	next := make(chan uint64)
	go func() {
		defer close(next)
		for s := *first; s < *first+uint64(*seeds); s++ {
			next <- s
		}
	}()
	var mu sync.Mutex
	sum := outcome{Operations: map[string]int{}, Faults: map[string]int{}, Branches: map[string]int{}}
	var failed []uint64
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for s := range next {
				o, out, err := runChild(s, false)
				mu.Lock()
				if err != nil {
					failed = append(failed, s)
					if len(failed) <= 3 {
						t.Errorf("seed %d: %v\n%s", s, err, tail(out, 120))
					}
				} else {
					sum.add(o)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	slices.Sort(failed)
	for _, s := range failed {
		t.Errorf("seed %d failed; to simulate it again: make sim SEED=%d", s, s)
	}
	report(t, sum, time.Since(began))
}

// runChild simulates a seed in a process of its own, whose arguments and
// environment always have the same length: addresses decide the order of some
// maps.
//
// The output goes to a file. Without the runtime's monitor thread, a program that
// waits for a child may never get to read from a pipe, and the child would wait
// for room in it.
func runChild(seed uint64, show bool) (o outcome, out []byte, err error) {
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{"sim", "-test.run=^TestSeed$", "-test.timeout=2m", fmt.Sprintf("-seed=%#016x", seed), fmt.Sprintf("-show=%d", b2i(show))}
	// One goroutine at a time, and no garbage collector.
	cmd.Env = []string{"GOMAXPROCS=1", "GOGC=off"}
	file, err := os.CreateTemp("", "sim")
	if err != nil {
		return o, nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	failed := cmd.Run()
	if out, err = os.ReadFile(file.Name()); failed != nil {
		return o, out, failed
	} else if err != nil {
		return o, nil, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), outcomeMark); ok {
			return o, out, json.Unmarshal([]byte(text), &o)
		}
	}
	return o, out, errors.New("no outcome")
}

func tail(out []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (o *outcome) add(p outcome) {
	for _, m := range []struct{ to, from map[string]int }{{o.Operations, p.Operations}, {o.Faults, p.Faults}, {o.Branches, p.Branches}} {
		for k, n := range m.from {
			m.to[k] += n
		}
	}
	o.Entries += p.Entries
	o.Virtual += p.Virtual
	if p.Lost > 0 && (o.Lost == 0 || p.Margin < o.Margin) {
		o.Margin = p.Margin
	}
	o.Lost += p.Lost
}

// report prints the sums, and fails the test if a branch was never reached or a kind
// of fault never struck.
func report(t *testing.T, sum outcome, took time.Duration) {
	total := func(m map[string]int) (n int) {
		for _, k := range m {
			n += k
		}
		return n
	}
	var b strings.Builder
	table := func(title string, m map[string]int, names []string) {
		fmt.Fprintf(&b, "%s: %d\n", title, total(m))
		for _, name := range names {
			fmt.Fprintf(&b, "%10d  %s\n", m[name], name)
		}
	}
	sorted := func(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
	fmt.Fprintf(&b, "%d seeds from %d in %v (%.1f a second), %.1f virtual hours\n",
		*seeds, *first, took.Round(time.Millisecond), float64(*seeds)/took.Seconds(), sum.Virtual.Hours())
	fmt.Fprintf(&b, "grants judged: %d\n", sum.Entries)
	fmt.Fprintf(&b, "losses reported before the session's end: %d, at least %v before\n", sum.Lost, sum.Margin)
	table("operations", sum.Operations, sorted(sum.Operations))
	table("faults", sum.Faults, sorted(sum.Faults))
	branches := slices.Clone(yield.Branches)
	slices.Sort(branches)
	branches = slices.Compact(branches) // several marks may have one name
	table("branches", sum.Branches, branches)
	fmt.Print(b.String())
	for _, f := range slices.Concat(faults, slices.Concat(linkFaults, serverFaults)) {
		if sum.Faults[f.kind] == 0 {
			t.Errorf("the fault %q has never struck", f.kind)
		}
	}
	for _, name := range branches {
		if sum.Branches[name] == 0 {
			t.Errorf("never reached: %s", name)
		}
	}
}

// TestReplay checks that a seed always gives the same simulation.
func TestReplay(t *testing.T) {
	for s := *first; s < *first+uint64(min(*seeds, 10)); s++ {
		a, out, err := runChild(s, false)
		b, _, again := runChild(s, false)
		if err := errors.Join(err, again); err != nil {
			t.Errorf("seed %d: %v\n%s", s, err, tail(out, 20))
		} else if a.Hash != b.Hash {
			t.Errorf("seed %d was not the same when it was repeated: %s, %s", s, a.Hash, b.Hash)
		}
	}
}
