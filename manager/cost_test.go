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
	"testing/synctest"
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
		n := testing.AllocsPerRun(1000, test.do)
		expect(t, n <= want, "%s: %v allocations, want %v", test.what, n, want)
	}
	expect(t, unsafe.Sizeof(Hold{}) <= 3*unsafe.Sizeof(uint64(0)),
		"a Hold has %d bytes", unsafe.Sizeof(Hold{}))
}

// Nor does Lock, which looks at the clock as well, if another goroutine holds the lock.
func TestLockBesideAHolderAllocatesNothing(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		mustLock(c.t, l)
		want := 0.0
		if racing.Detector {
			want = 3
		}
		n := testing.AllocsPerRun(1000, func() { c.cycle(l) })
		expect(c.t, n <= want, "%v allocations, want %v", n, want)
	})
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
		expect(t, ctx.Err() == nil && ctx.Value(contextKey{}) == nil,
			"the context has ended, or has a value")
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
		for range 2 {
			if got > most { // other work of the process can add to what was measured, and take nothing away
				got = min(got, bytesPerLock(t, what, 2000))
			}
		}
		t.Logf("a %s lock costs %d bytes", what, got)
		expect(t, got <= most, "a %s lock costs %d bytes, want at most %d", what, got, most)
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

// A cost is what something makes the servers do: exactly so many writes, and at most so many
// reads, since one look may find what two would have. A write that fails is one, too: the
// servers agree on it all the same.
type cost struct{ writes, reads int64 }

// wantCost checks what do costs.
func (c *cluster) wantCost(what string, want cost, do func()) {
	c.t.Helper()
	count := func() cost {
		synctest.Wait()
		n := c.srv.RequestCounts()
		return cost{c.srv.Zxid(), int64(n[zktest.OpGetData] + n[zktest.OpGetChildren2] + n[zktest.OpExists])}
	}
	before := count()
	do()
	after := count()
	if got := (cost{after.writes - before.writes, after.reads - before.reads}); got.writes != want.writes || got.reads > want.reads {
		c.t.Errorf("%s: %+v, want %+v at most", what, got, want)
	}
}

// docs/operating.md says what keys cost that come and go: the lock's directory is made, and
// the server removes it when it has been empty for a while.
func TestCostOfKeysThatComeAndGo(t *testing.T) {
	bubble(t, func(c *cluster) {
		wantErr(c.t, "create", c.srv.CreateAll("/holdfast/other", nil), nil) // the root stays
		m := c.open("a")
		c.cycle(exclusive(c.t, m, "other")) // the first request of a session costs more
		l := exclusive(c.t, m, "jobs")
		use := func() { c.cycle(l) }
		c.wantCost("the key is new", cost{writes: 3, reads: 2}, use)
		c.wantCost("it is used again", cost{writes: 2}, use)
		c.wantCost("it is not used for a while", cost{writes: 1}, func() { later(3 * time.Minute) })
		c.wantCost("it is used again after that", cost{writes: 4, reads: 2}, use)
	})
}

// docs/variants.md says what it costs that a lock moves between processes that let it linger.
func TestCostOfAMove(t *testing.T) {
	eachOf(t, []time.Duration{0, always}, func(c *cluster, linger time.Duration) {
		var locks []*Lock
		use := func(l *Lock) { wantErr(c.t, "unlock", mustLock(c.t, l).Unlock(c.t.Context()), nil) }
		for _, label := range []string{"a", "b"} {
			l := c.lock(label, func(cfg *Config) { cfg.Linger = linger })
			use(l)
			locks = append(locks, l)
		}
		use(locks[0])
		use(locks[1])
		want := cost{writes: 2}
		if linger > 0 {
			want.reads = 4
		}
		for i := range 10 {
			c.wantCost("the lock moves", want, func() { use(locks[i%2]) })
		}
		if linger > 0 {
			want = cost{}
		}
		c.wantCost("the lock stays", want, func() { use(locks[1]) })
	})
}
