// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Taking a lock that this process owns costs no allocation, whatever the
// context.
func TestRetainedAllocatesNothing(t *testing.T) {
	l := retained(t)
	cancellable, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := l.Acquire(t.Context())
	defer h.Release()
	inside, cancelInside := h.Context(t.Context())
	defer cancelInside()
	for _, test := range []struct {
		what string
		do   func()
	}{
		{"acquire and release", func() { l.Acquire(context.Background()).Release() }},
		{"with a context that can end", func() { l.Acquire(cancellable).Release() }},
		{"reentering by context", func() { l.Acquire(inside).Release() }},
		{"looking", func() { l.State(); l.Stats(); h.Depth(); h.Granted().Poll(); h.Lost() }},
	} {
		// Under the race detector pools forget at random, and slots are made anew.
		want := 0.0
		if raceEnabled {
			want = 3
		}
		if n := testing.AllocsPerRun(1000, test.do); n > want {
			t.Errorf("%s: %v allocations, want %v", test.what, n, want)
		}
	}
	if s := unsafe.Sizeof(Hold{}); s > 3*unsafe.Sizeof(uint64(0)) {
		t.Errorf("a Hold has %d bytes", s)
	}
}

// BenchmarkIdleLock reports the bytes that a lock costs which nobody holds or
// wants, its entry in the manager included.
func BenchmarkIdleLock(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		m := &Manager{
			cfg:     Config{Root: "/holdfast", Logger: slog.New(slog.DiscardHandler)},
			locks:   make(map[string]entry),
			sweepAt: minSweep,
		}
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("accounts/%08d", i)
		}
		locks := make([]*Lock, n)
		before := liveHeap()
		for i, name := range names {
			l, err := m.Exclusive(name)
			if err != nil {
				b.Fatal(err)
			}
			locks[i] = l
		}
		b.ReportMetric(float64(liveHeap()-before)/n, "B/lock")
		runtime.KeepAlive(names)
		runtime.KeepAlive(locks)
		runtime.KeepAlive(m)
	}
}

// In which states a busy lock is measured.
const (
	stateHeld   = "held"
	stateQueued = "queued"
)

// What a lock costs that this process holds, or is in the queue of, all included:
// on the heap and in goroutines' stacks.
func TestBusyLocksAreSmall(t *testing.T) {
	if raceEnabled {
		return // the race detector has its own idea of memory
	}
	const n = 10_000
	for state, most := range map[string]float64{stateHeld: 1130, stateQueued: 1380} {
		if got := bytesOfBusyLock(t, state, n); got > most {
			t.Errorf("a lock that is %s costs %.0f bytes, want at most %.0f", state, got, most)
		}
	}
}

// BenchmarkBusyLock reports the bytes that a lock costs which this process holds,
// or is in the queue of while another process holds it.
func BenchmarkBusyLock(b *testing.B) {
	for _, state := range []string{stateHeld, stateQueued} {
		b.Run("state="+state, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(bytesOfBusyLock(b, state, 10_000), "B/lock")
			}
		})
	}
}

// bytesOfBusyLock has n locks held, or queued for, and returns what each costs.
// The server, and whoever holds the locks that are queued for, are in another
// process.
func bytesOfBusyLock(tb testing.TB, state string, n int) float64 {
	tb.Helper()
	taken := 0
	if state == stateQueued {
		taken = n
	}
	m, err := Open(tb.Context(), Config{Servers: []string{startLender(tb, taken)}, Logger: slog.New(slog.DiscardHandler), SessionTimeout: 40 * time.Second})
	if err != nil {
		tb.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			tb.Error(err)
		}
	}()
	names, holds := make([]string, n), make([]Hold, n)
	for i := range names {
		names[i] = lentLock(i)
	}
	before := liveMemory()
	for i, name := range names {
		l, err := m.Exclusive(name)
		if err != nil {
			tb.Fatal(err)
		}
		holds[i] = l.Acquire(context.Background())
	}
	await(tb, holds, func(h Hold) bool {
		t := h.round.io()
		if state == stateQueued {
			return t.position.Load() != nil
		}
		// All that a lock that is held for long has: the watch on its directory, too.
		return t.granted.Settled() && t.tenure.lookedAt.Load() != 0 && !t.events.Load().Has(behindTimer)
	})
	bytes := float64(liveMemory()-before) / float64(n)
	released := make([]*futures.Future[struct{}], n)
	for i, h := range holds {
		if _, _, granted := h.Granted().Poll(); granted != (state == stateHeld) {
			tb.Fatalf("%s is not %s", names[i], state)
		}
		released[i] = h.Release()
	}
	for _, f := range released {
		if _, err := f.Wait(tb.Context()); err != nil && state == stateHeld {
			tb.Fatal(err)
		}
	}
	runtime.KeepAlive(names)
	return bytes
}

// await waits until all holds are what is asked for.
func await(tb testing.TB, holds []Hold, is func(Hold) bool) {
	tb.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for i := 0; i < len(holds); {
		switch {
		case is(holds[i]):
			i++
		case time.Now().After(deadline):
			tb.Fatalf("%d of %d in time", i, len(holds))
		default:
			<-time.After(time.Millisecond) // thousands of futures: looking is cheaper than waiting for each
		}
	}
}

// liveMemory returns the bytes that are in use on the heap and in stacks.
func liveMemory() int64 {
	heap := liveHeap()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return heap + int64(m.StackInuse)
}

// childLender makes this test binary a process that serves ZooKeeper's protocol,
// and holds as many locks there as it says.
const childLender = "HOLDFAST_TEST_LENDER_LOCKS"

// lentLock is the name of one of the locks.
func lentLock(i int) string { return fmt.Sprintf("busy/%08d", i) }

// lenderProcess takes the locks, says the server's address, and ends when its
// standard input does.
func lenderProcess(locks string) error {
	srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer srv.Close()
	address, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	m, err := Open(context.Background(), Config{Servers: []string{address}, Label: "lender", Tenure: -1, SessionTimeout: 40 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer m.Close()
	n, err := strconv.Atoi(locks)
	if err != nil {
		return err
	}
	holds := make([]Hold, n)
	for i := range holds {
		l, err := m.Exclusive(lentLock(i))
		if err != nil {
			return err
		}
		holds[i] = l.Acquire(context.Background())
	}
	for _, h := range holds {
		if _, err := h.Granted().Wait(context.Background()); err != nil {
			return err
		}
	}
	fmt.Println(address)
	_, err = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(holds)
	return err
}

// startLender starts such a process, which ends with the test or benchmark, and
// returns the server's address.
func startLender(tb testing.TB, locks int) string {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), childLender+"="+strconv.Itoa(locks))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // it is killed at the latest when the context ends
	})
	out := bufio.NewScanner(pipe)
	if !out.Scan() {
		tb.Fatalf("the process said nothing: %v", out.Err())
	}
	return out.Text()
}
