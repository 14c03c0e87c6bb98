// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Acquiring a lock that the process already owns does not allocate, whatever the
// context.
func TestRetainedAllocatesNothing(t *testing.T) {
	l := retained(t)
	cancellable, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := l.Acquire(t.Context())
	defer h.Release()
	inside, cancelInside := h.Context(t.Context())
	defer cancelInside()
	aside := context.WithValue(t.Context(), contextKey{}, 1)
	for _, test := range []struct {
		what string
		do   func()
	}{
		{"acquire and release", func() { l.Acquire(context.Background()).Release() }},
		{"with a context that can end", func() { l.Acquire(cancellable).Release() }},
		{"reentering by context", func() { l.Acquire(inside).Release() }},
		{"a caller with another context", func() { l.Acquire(aside).Release() }},
		{"observing", func() { l.State(); l.Stats(); h.Depth(); h.Granted().Poll(); h.Lost() }},
	} {
		// Under the race detector sync.Pool drops items at random.
		want := 0.0
		if racing.Detector {
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

// What Do makes for its function is one allocation, as long as that does not ask for the channel.
func TestContextAllocatesOnce(t *testing.T) {
	h := retained(t).Acquire(t.Context())
	defer h.Release()
	want := 1.0
	if racing.Detector {
		want = 3
	}
	if n := testing.AllocsPerRun(1000, func() {
		ctx := h.context(context.Background())
		if ctx.Err() != nil || ctx.Value(contextKey{}) != nil {
			t.Error("the context has ended, or has a value")
		}
		ctx.finish()
	}); n > want {
		t.Errorf("%v allocations, want %v", n, want)
	}
}

// BenchmarkIdleLock reports the memory of a lock that has no holder and no waiter,
// including its entry in the manager.
func BenchmarkIdleLock(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		m := disconnected()
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

// maxBytes is the most memory that one more lock may cost a process, by what the
// process does with it.
var maxBytes = map[string]int{
	"at rest": 900,  // it holds the lock, and nothing else has happened
	"held":    1090, // it was entered, so it has a home, and has looked who waits for it
	"queued":  1085, // it waits for another process
}

// A busy lock is small. What it costs is measured in a process of its own, as the
// difference between n locks and 2n: the fixed costs of a manager, the race
// detector's bookkeeping and what earlier tests left behind do not count.
func TestBusyLocksAreSmall(t *testing.T) {
	if racing.Detector {
		return // the race detector allocates memory of its own for each object
	}
	for what, most := range maxBytes {
		got := bytesPerLock(t, what, 2000)
		t.Logf("a %s lock costs %d bytes", what, got)
		if got > most {
			t.Errorf("a %s lock costs %d bytes, want at most %d", what, got, most)
		}
	}
}

// BenchmarkBusyLock reports the memory of a lock that is held, or queued for.
func BenchmarkBusyLock(b *testing.B) {
	for what := range maxBytes {
		b.Run("state="+what, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(float64(bytesPerLock(b, what, 2000)), "B/lock")
			}
		})
	}
}

// bytesPerLock runs meterProcess against a server in this process, and returns
// what it prints.
func bytesPerLock(tb testing.TB, what string, n int) int {
	tb.Helper()
	srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer srv.Close()
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	if what == "queued" {
		owner, err := Open(tb.Context(), Config{Servers: []string{addr}, SessionTimeout: 40 * time.Second, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			tb.Fatal(err)
		}
		defer owner.Close()
		session := owner.client.Session().ID()
		for i := range 2 * n {
			path := "/holdfast/" + meterLock(i)
			if err := srv.CreateAll(path, nil); err != nil {
				tb.Fatal(err)
			}
			if err := srv.CreateEphemeral(session, path+"/lock-0000000000", nil); err != nil {
				tb.Fatal(err)
			}
		}
	}
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), childMeter+"="+addr, childMeter+"_N="+strconv.Itoa(n), childMeter+"_OF="+what)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatal(err)
	}
	bytes, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		tb.Fatal(err)
	}
	return bytes
}

// childMeter is the environment variable that makes this test binary a
// meterProcess. Its value is the address of the server.
const childMeter = "HOLDFAST_TEST_METER"

// meterLock returns the name of the ith lock of a meterProcess.
func meterLock(i int) string { return fmt.Sprintf("busy/%08d", i) }

// meterProcess acquires n locks and then n more, and prints how many bytes of its
// heap each of the second n takes. It checks that they take no goroutines.
func meterProcess(addr string) error {
	n, err := strconv.Atoi(os.Getenv(childMeter + "_N"))
	if err != nil {
		return err
	}
	m, err := Open(context.Background(), Config{Servers: []string{addr}, Tenure: time.Millisecond, SessionTimeout: 40 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer m.Close()
	newcomers := os.Getenv(childMeter+"_OF") == "held"
	names, holds := make([]string, 2*n), make([]Hold, 2*n)
	for i := range names {
		names[i] = meterLock(i)
	}
	acquire := func(from, to int) (bytes, goroutines int, err error) {
		for i := from; i < to; i++ {
			l, err := m.Exclusive(names[i])
			if err != nil {
				return 0, 0, err
			}
			holds[i] = l.Acquire(context.Background())
		}
		if err := settle(m, to); err != nil {
			return 0, 0, err
		}
		// A newcomer has a held lock look behind, which the pace would spread.
		for i := from; i < to && newcomers; i++ {
			l, err := m.Exclusive(names[i])
			if err != nil {
				return 0, 0, err
			}
			l.Acquire(context.Background()).Release()
		}
		if newcomers {
			err = settle(m, 2*to)
		}
		if err != nil {
			return 0, 0, err
		}
		return settledHeap(), runtime.NumGoroutine(), nil
	}
	once, goroutines, err := acquire(0, n)
	if err != nil {
		return err
	}
	twice, more, err := acquire(n, 2*n)
	if err != nil {
		return err
	}
	if more > goroutines+10 {
		return fmt.Errorf("%d goroutines with %d locks, %d with %d", goroutines, n, more, 2*n)
	}
	fmt.Println((twice - once) / n)
	runtime.KeepAlive(names)
	runtime.KeepAlive(holds)
	return nil
}

// settle waits until the locks of m, which are held or queued for, have nothing more
// to do, and at least n nodes are watched: the own one of each, and the directory or
// the contender ahead.
func settle(m *Manager, n int) error {
	for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(10 * time.Millisecond) {
		st := m.client.Stats()
		if st.Watches >= n && st.Busy+st.QueuedFetches+st.Delayed == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d watches do not settle: %+v", n, st)
		}
	}
}

// settledHeap returns the bytes of the heap that are reachable: the least that a
// few garbage collections find, since requests under way add to some of them.
func settledHeap() int {
	least := -1
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for range 5 {
		runtime.GC()
		metrics.Read(live)
		if n := int(live[0].Value.Uint64()); least < 0 || n < least {
			least = n
		}
	}
	return least
}
