// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/zkio"
)

// What the observer of process a is told, in virtual time: first of locks, then of
// sessions. Process b is another one.
func TestEvents(t *testing.T) {
	const s = time.Second
	within := func(c *cluster, d time.Duration) context.Context { return withTimeout(c.t, d) }
	each(t, map[string]struct {
		do   func(c *cluster, a, b *Manager)
		want []string
	}{
		"held": {
			func(c *cluster, a, b *Manager) {
				h := mustLock(c.t, exclusive(c.t, a, "jobs"))
				later(3 * s)
				mustRelease(c.t, h)
			},
			[]string{"queued", "granted after 0s", "released held 3s"},
		},
		"shared": {
			func(c *cluster, a, b *Manager) {
				l := exclusive(c.t, a, "jobs")
				first := mustLock(c.t, l)
				for range 100 {
					mustRelease(c.t, mustLock(c.t, l))
				}
				mustRelease(c.t, first)
			},
			[]string{"queued", "granted after 0s", "entered", "released held 0s"},
		},
		"waits": {
			func(c *cluster, a, b *Manager) {
				other := mustLock(c.t, exclusive(c.t, b, "jobs"))
				h := c.acquire(exclusive(c.t, a, "jobs"))
				later(2 * s)
				mustRelease(c.t, other)
				later(s)
				mustRelease(c.t, h)
			},
			[]string{"queued", "placed 1 behind b", "granted after 2s", "released held 1s"},
		},
		"gives up": {
			func(c *cluster, a, b *Manager) {
				other := mustLock(c.t, exclusive(c.t, b, "jobs"))
				_, err := exclusive(c.t, a, "jobs").Lock(within(c, 2*s))
				wantErr(c.t, "lock", err, context.DeadlineExceeded)
				mustRelease(c.t, other)
			},
			[]string{"queued", "placed 1 behind b", "failed after 2s (context)"},
		},
		"tries": {
			func(c *cluster, a, b *Manager) {
				other := mustLock(c.t, exclusive(c.t, b, "jobs"))
				_, err := exclusive(c.t, a, "jobs").TryLock(c.t.Context())
				wantErr(c.t, "trylock", err, ErrLocked)
				mustRelease(c.t, other)
			},
			[]string{"queued", "placed 1 behind b", "failed after 0s (context)"},
		},
		"node deleted": {
			func(c *cluster, a, b *Manager) {
				h := mustLock(c.t, exclusive(c.t, a, "jobs"))
				later(s)
				c.remove(c.nodeOf(a))
				synctest.Wait()
				wantErr(c.t, "the hold", h.Err(), ErrLost)
				h.Release()
			},
			[]string{"queued", "granted after 0s", "lost held 1s (deleted)"},
		},
		"session expires": {
			func(c *cluster, a, b *Manager) {
				// The node has no watch yet, so the end of the session is the first news.
				h := mustLock(c.t, exclusive(c.t, a, "jobs"))
				c.expire(a)
				wantErr(c.t, "the hold", h.Err(), ErrLost)
				h.Release()
			},
			[]string{
				"queued", "granted after 0s", "lost held 0s (session)",
				"connection lost (other)", "session over (session)", "session began",
			},
		},
		"session expires in a wait": {
			func(c *cluster, a, b *Manager) {
				other := mustLock(c.t, exclusive(c.t, b, "jobs"))
				h := c.acquire(exclusive(c.t, a, "jobs"))
				start := time.Now()
				c.expire(a)
				later(3*s - time.Since(start))
				mustRelease(c.t, other)
				c.held(h)
				mustRelease(c.t, h)
			},
			[]string{
				"queued", "placed 1 behind b", "queued", "placed 1 behind b", "granted after 3s", "released held 0s",
				"connection lost (other)", "session over (session)", "session began",
			},
		},
		"lease ends": {
			func(c *cluster, a, b *Manager) {
				h := mustLock(c.t, exclusive(c.t, a, "jobs"))
				frozen := c.srv.Faults().BlackholeAll()
				later(6 * s)
				frozen.Remove()
				later(s)
				wantErr(c.t, "the hold", h.Err(), ErrLost)
				h.Release()
				later(s)
			},
			[]string{"queued", "granted after 0s", "lost held 5s (lease)"},
		},
		"closed": {
			func(c *cluster, a, b *Manager) {
				h := mustLock(c.t, exclusive(c.t, a, "jobs"))
				later(s)
				wantErr(c.t, "close", a.Close(), nil)
				h.Release()
			},
			[]string{"queued", "granted after 0s", "lost held 1s (closed)", "session over (closed)"},
		},
		"closed in a wait": {
			func(c *cluster, a, b *Manager) {
				other := mustLock(c.t, exclusive(c.t, b, "jobs"))
				h := c.acquire(exclusive(c.t, a, "jobs"))
				later(s)
				wantErr(c.t, "close", a.Close(), nil)
				h.Release()
				mustRelease(c.t, other)
			},
			[]string{"queued", "placed 1 behind b", "failed after 1s (closed)", "session over (closed)"},
		},
		"tenure is over": {
			func(c *cluster, a, b *Manager) {
				l := exclusive(c.t, a, "jobs")
				h := mustLock(c.t, l)
				mustRelease(c.t, mustLock(c.t, l)) // a newcomer
				waits := c.acquire(exclusive(c.t, b, "jobs"))
				later(s)
				mustRelease(c.t, h)
				c.held(waits)
				mustRelease(c.t, waits)
			},
			[]string{"queued", "granted after 0s", "entered", "yielded", "released held 1s"},
		},
		"revoked": {
			func(c *cluster, a, b *Manager) {
				h := mustLock(c.t, exclusive(c.t, a, "jobs"))
				given := c.revoking(exclusive(c.t, b, "jobs"), "a restart", time.Minute)
				c.wantRevoked(h)
				mustRelease(c.t, h)
				wantErr(c.t, "revoke", <-given, nil)
			},
			[]string{"queued", "granted after 0s", `revoked by b "a restart"`, "released held 0s"},
		},
		"handed over": {
			func(c *cluster, a, b *Manager) {
				// Callers that come when the gate is closed queue by the request that
				// gives the lock up.
				l := exclusive(c.t, a, "jobs")
				h := mustLock(c.t, l)
				mustRelease(c.t, mustLock(c.t, l))
				other := c.acquire(exclusive(c.t, b, "jobs"))
				later(s)
				again := c.acquire(l)
				later(s)
				mustRelease(c.t, h)
				later(s)
				mustRelease(c.t, other)
				later(s)
				mustRelease(c.t, again)
			},
			[]string{
				"queued", "granted after 0s", "entered", "yielded", "released held 2s",
				"queued", "placed 1 behind b", "granted after 2s", "released held 1s",
			},
		},
		"a mutex": {
			func(c *cluster, a, b *Manager) {
				x := openMutex(c.t, a, "jobs")
				for _, h := range c.line(x, 3) {
					later(s)
					h.Release()
				}
				synctest.Wait()
			},
			[]string{"queued", "granted after 0s", "entered", "released held 3s"},
		},
		"several at once": {
			func(c *cluster, a, b *Manager) {
				other := mustLock(c.t, exclusive(c.t, b, "two"))
				all := lockAll(c.t.Context(), a, several(c.t, a, "one", "two")...)
				later(s)
				mustRelease(c.t, other)
				synctest.Wait()
				wantErr(c.t, "lockall", all.err, nil)
				later(s)
				wantErr(c.t, "unlock", all.holds.Unlock(c.t.Context()), nil)
			},
			[]string{
				"queued", "queued", "placed 1 behind b", "granted after 1s", "granted after 1s",
				"released held 1s", "released held 1s",
			},
		},
		"reads, and writes": {
			func(c *cluster, a, b *Manager) {
				h := mustLock(c.t, readWrite(c.t, a, "jobs").Upgradable())
				u := c.upgrade(h)
				u.done()
				later(s)
				mustRelease(c.t, h)
			},
			[]string{"queued", "granted after 0s", "released held 1s"},
		},
		"idle, and wanted": {
			func(c *cluster, a, b *Manager) {
				l := exclusive(c.t, a, "jobs")
				wantErr(c.t, "set", l.SetLinger(always), nil)
				c.idle(l)
				later(s)
				mustRelease(c.t, mustLock(c.t, exclusive(c.t, b, "jobs")))
			},
			[]string{"queued", "granted after 0s", "yielded", "released held 1s"},
		},
		"idle, and lost": {
			func(c *cluster, a, b *Manager) {
				l := exclusive(c.t, a, "jobs")
				wantErr(c.t, "set", l.SetLinger(always), nil)
				c.idle(l)
				later(s)
				c.remove(c.nodeOf(a))
				synctest.Wait()
			},
			[]string{"queued", "granted after 0s", "released held 1s (deleted)"},
		},
		"refused": {
			func(c *cluster, a, b *Manager) {
				wantErr(c.t, "create", c.srv.CreateEphemeral(session(b), "/holdfast/jobs", nil), nil)
				_, err := exclusive(c.t, a, "jobs").Lock(c.t.Context())
				wantErr(c.t, "lock", err, zkio.ErrNoChildrenForEphemerals)
			},
			[]string{"failed after 0s (refused)"},
		},
		"withdrawn before its turn": {
			func(c *cluster, a, b *Manager) {
				l := exclusive(c.t, a, "jobs")
				h := mustLock(c.t, l)
				c.revoking(l, "", time.Minute) // closes the gate
				_, err := l.Lock(within(c, s))
				wantErr(c.t, "lock", err, ErrYielding)
				mustRelease(c.t, h)
				synctest.Wait()
			},
			[]string{
				"queued", "granted after 0s", "revoked by a", "released held 1s",
				"failed after 1s (context)",
			},
		},
	}, func(c *cluster, test struct {
		do   func(c *cluster, a, b *Manager)
		want []string
	}) {
		a, b := c.open("a"), c.open("b")
		synctest.Wait()
		c.told["a"].mark()
		test.do(c, a, b)
		later(eventDelay)
		if got := c.told["a"].lines(); !slices.Equal(got, test.want) {
			c.t.Errorf("told\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(test.want, "\n\t"))
		}
	})
}

// Every event of a lock says which lock it is, and from the grant on by which token and in
// which session it is held.
func TestEventFields(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.open("a")
		x := openMutex(c.t, a, "jobs/x")
		h, err := x.Lock(c.t.Context())
		wantErr(c.t, "lock", err, nil)
		g := grantOf(c.t, h)
		h.Release()
		later(time.Second)
		r := mustLock(c.t, readWrite(c.t, a, "jobs/rw").Reader())
		mustRelease(c.t, r)
		later(eventDelay)
		var last Event
		for _, e := range c.told["a"].all() {
			switch {
			case e.Lock == "":
				if e.Session != session(a) {
					c.t.Errorf("%v: session %#x, want %#x", e.Kind, e.Session, session(a))
				}
			case e.Lock == "jobs/x" && e.LockKind != KindMutex, e.Lock == "jobs/rw" && e.LockKind != KindRead:
				c.t.Errorf("%v: lock %q is of kind %v", e.Kind, e.Lock, e.LockKind)
			case e.Lock == "jobs/x" && e.Kind == EventGranted && (e.Token != g.Token || e.Session != g.Session):
				c.t.Errorf("granted token %d in session %#x, want %+v", e.Token, e.Session, g)
			case e.Lock == "jobs/rw" && e.Round == last.Round && last.Lock == "jobs/x":
				c.t.Errorf("two locks have events of round %d", e.Round)
			}
			last = e
		}
	})
}

// A loss that only the release of the lock finds is told like any other.
func TestLossFoundByTheRelease(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.open("a")
		l := exclusive(c.t, a, "jobs")
		h := mustLock(c.t, l) // its node is not watched yet
		later(10 * time.Millisecond)
		c.remove(c.nodeOf(a))
		wantErr(c.t, "unlock", h.Unlock(c.t.Context()), errNodeDeleted)
		later(time.Second)
		loss := a.journal.losses.lastOf(l)
		if n := a.Stats().Losses; n != 1 || loss == nil || loss.Held != 10*time.Millisecond {
			c.t.Errorf("%d losses, the last is %+v", n, loss)
		}
		if lines := c.log.with("WARN holdfast: lost a lock; its holders have been told lock=jobs kind=exclusive session="); len(lines) != 1 || !strings.Contains(lines[0], " held=10ms cause=") {
			c.t.Errorf("logged %q", c.log.with("WARN"))
		}
		if got := c.told["a"].lines(); len(got) != 4 || got[2] != "lost held 0s (deleted)" {
			c.t.Errorf("told %q", got)
		}
	})
}

// The events of a round's usual course are told together, a moment later; the others at once,
// after those that wait; and all of them before Close has returned.
func TestEventsGather(t *testing.T) {
	each(t, map[string]struct {
		then   func(c *cluster, a, b *Manager, h Hold) // after queued and granted
		passes time.Duration                           // since these, until …
		want   []string                                // … is told
	}{
		"released": {
			func(c *cluster, a, b *Manager, h Hold) {
				later(eventDelay / 2)
				mustRelease(c.t, h)
			},
			eventDelay, []string{"queued", "granted after 0s", "released held 0s"},
		},
		"again": {
			func(c *cluster, a, b *Manager, h Hold) {
				later(eventDelay)
				mustRelease(c.t, h)
			},
			2 * eventDelay, []string{"queued", "granted after 0s", "released held 0s"},
		},
		"lost": {
			func(c *cluster, a, b *Manager, h Hold) {
				later(time.Second) // its node is watched then
				c.remove(c.nodeOf(a))
			},
			time.Second, []string{"queued", "granted after 0s", "lost held 1s (deleted)"},
		},
		"failed": {
			func(c *cluster, a, b *Manager, h Hold) {
				other := mustLock(c.t, exclusive(c.t, b, "other"))
				_, err := exclusive(c.t, a, "other").TryLock(c.t.Context())
				wantErr(c.t, "trylock", err, ErrLocked)
				mustRelease(c.t, other)
			},
			0, []string{"queued", "granted after 0s", "queued", "placed 1 behind b", "failed after 0s (context)"},
		},
		"revoked": {
			func(c *cluster, a, b *Manager, h Hold) { c.revoking(exclusive(c.t, b, "jobs"), "", time.Minute) },
			0, []string{"queued", "granted after 0s", "revoked by b"},
		},
		"the connection": {
			func(c *cluster, a, b *Manager, h Hold) { c.srv.Faults().CutAll() },
			0, []string{"queued", "granted after 0s", "connection lost (other)"},
		},
		"closed": {
			func(c *cluster, a, b *Manager, h Hold) {
				mustRelease(c.t, h)
				wantErr(c.t, "close", a.Close(), nil)
			},
			0, []string{"queued", "granted after 0s", "released held 0s", "session over (closed)"},
		},
		"too many": {
			func(c *cluster, a, b *Manager, h Hold) {
				mustRelease(c.t, h)
				for range maxEvents/2/3 - 1 { // a round has three
					mustRelease(c.t, mustLock(c.t, exclusive(c.t, a, "jobs")))
				}
				synctest.Wait()
				if n := len(c.told["a"].lines()); n > 0 {
					c.t.Errorf("told of %d events too early", n)
				}
				mustLock(c.t, exclusive(c.t, a, "jobs"))
			},
			0, slices.Repeat([]string{"queued", "granted after 0s", "released held 0s"}, maxEvents/2/3+1)[:maxEvents/2],
		},
	}, func(c *cluster, test struct {
		then   func(c *cluster, a, b *Manager, h Hold)
		passes time.Duration
		want   []string
	}) {
		a, b := c.open("a"), c.open("b")
		synctest.Wait()
		c.told["a"].mark()
		start := time.Now()
		h := mustLock(c.t, exclusive(c.t, a, "jobs"))
		synctest.Wait()
		if got := c.told["a"].lines(); len(got) > 0 {
			c.t.Errorf("told at once of %q", got)
		}
		test.then(c, a, b, h)
		later(test.passes - time.Since(start))
		if got := c.told["a"].lines(); !slices.Equal(got, test.want) {
			c.t.Errorf("told\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(test.want, "\n\t"))
		}
	})
}

// The observer may be slow. Then events wait, up to a bound; the newest are dropped and
// counted, and no caller waits for the observer. Close does.
func TestSlowObserver(t *testing.T) {
	bubble(t, func(c *cluster) {
		var told []Event
		goOn := make(chan struct{})
		m := c.open("a", func(cfg *Config) {
			cfg.Observer = func(e Event) {
				<-goOn
				told = append(told, e)
			}
		})
		synctest.Wait() // the observer has the first event, of the session
		l := exclusive(c.t, m, "jobs")
		start := time.Now()
		const rounds = 2000 // three events each
		for range rounds {
			mustRelease(c.t, mustLock(c.t, l))
		}
		if d := time.Since(start); d > 0 {
			c.t.Errorf("callers waited for %v", d)
		}
		const all = 1 + 3*rounds
		want := uint64(all - maxEvents - 1)
		if n := m.Stats().DroppedEvents; n != want {
			c.t.Errorf("%d events dropped, want %d", n, want)
		}
		closed := make(chan error)
		go func() { closed <- m.Close() }()
		later(time.Minute)
		select {
		case <-closed:
			c.t.Error("Close did not wait for the observer")
		default:
		}
		close(goOn)
		wantErr(c.t, "close", <-closed, nil)
		// The oldest were kept. The one that the observer had was not waiting.
		if n := len(told); n != maxEvents+1 {
			c.t.Errorf("told of %d events, want %d", n, maxEvents+1)
		}
		for i, e := range told[1:] {
			if want := []EventKind{EventQueued, EventGranted, EventReleased}[i%3]; e.Kind != want || e.Round != uint64(i/3+1) {
				c.t.Fatalf("event %d is %v of round %d, want %v of %d", i, e.Kind, e.Round, want, i/3+1)
			}
		}
	})
}

// The ways in which a function of the user's does not return, with what the log says.
var noReturns = map[string]struct {
	fail func(n int)
	logs []string
}{
	"panics":             {func(n int) { panic(fmt.Sprint("oops ", n)) }, []string{" panicked", "panic=oops 1 "}},
	"ends its goroutine": {func(int) { runtime.Goexit() }, []string{" ended its goroutine"}},
}

// wantNoReturn checks that the log has one error, of this function, which says that and
// where it did not return.
func (c *cluster) wantNoReturn(what string, logs []string) {
	c.t.Helper()
	lines := c.log.with("ERROR")
	for _, part := range append(logs, what+logs[0], "event_test.go") {
		if len(lines) != 1 || !strings.Contains(lines[0], part) {
			c.t.Errorf("logged %q, want one line with %q", lines, part)
		}
	}
}

// An observer that does not return costs nothing but the event; also the last ones, which
// are told when the Manager is closed.
func TestF279_ObserverDoesNotReturn(t *testing.T) {
	for how, f := range noReturns {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				n := 0
				m := c.open("a", func(cfg *Config) {
					cfg.Observer = func(Event) { n++; f.fail(n) }
				})
				l := exclusive(c.t, m, "jobs")
				for i := range 10 {
					mustRelease(c.t, mustLock(c.t, l))
					if i < 5 {
						later(eventDelay)
					}
				}
				wantErr(c.t, "close", m.Close(), nil)
				if n != 32 {
					c.t.Errorf("called %d times, want 32", n)
				}
				c.wantNoReturn("Config.Observer", f.logs)
			})
		})
	}
}

// A second caller changes a round that was granted before the granter has told of the
// grant. The grant is told first all the same, and once.
func TestGrantIsToldFirst(t *testing.T) {
	for kind, tell := range map[EventKind]func(f *feed, r *roundIO){
		EventEntered: func(f *feed, r *roundIO) { f.entered(r) },
		EventYielded: func(f *feed, r *roundIO) { f.yielded(r) },
		EventLost:    func(f *feed, r *roundIO) { f.lost(r, errLeaseEnded) },
	} {
		t.Run(kind.String(), func(t *testing.T) {
			l := retained(t)
			var told chronicle
			l.m.cfg.Observer = told.add
			l.m.feed = newFeed(l.m)
			r := l.cur.Load().io()
			r.tenure.since = 1
			l.m.feed.began(r)
			tell(l.m.feed, r)
			l.m.feed.granted(r)
			l.m.feed.start()
			l.m.feed.close()
			var kinds []EventKind
			for _, e := range told.all() {
				kinds = append(kinds, e.Kind)
			}
			if want := []EventKind{EventGranted, kind}; !slices.Equal(kinds, want) {
				t.Errorf("told %v, want %v", kinds, want)
			}
		})
	}
}

// Entering a lock that the process owns costs an observed process nothing either.
func TestObservedEntriesAllocateNothing(t *testing.T) {
	l := retained(t)
	l.m.cfg.Observer = func(Event) { t.Error("told of an entry") }
	l.m.feed = newFeed(l.m)
	l.Acquire(t.Context()).Release()
	l.m.feed.n = 0 // the first entry and the grant are told
	n := testing.AllocsPerRun(1000, func() { l.Acquire(t.Context()).Release() })
	if n > 0 && !racing.Detector {
		t.Errorf("%v allocations", n)
	}
	if l.m.feed.n > 0 {
		t.Errorf("%d events", l.m.feed.n)
	}
}

// The words for causes are stable: dashboards have them.
func TestCauses(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errLeaseEnded, "lease"},
		{errSessionEnded, "session"},
		{zkio.ErrSessionOver, "session"},
		{errNodeDeleted, "deleted"},
		{ErrClosed, "closed"},
		{zkio.ErrClosed, "closed"},
		{ErrNotGranted, "context"},
		{zkio.ErrNoAuth, "refused"},
		{zkio.ErrAuthFailed, "refused"},
		{zkio.ErrQuota, "refused"},
		{zkio.ErrUnknown, "unconfirmed"},
		{ErrUnconfirmed, "unconfirmed"},
		{ErrSequenceExhausted, "other"},
		{errors.New("something else"), "other"},
	} {
		err := test.err
		if err != nil {
			err = &Error{Op: "hold", Name: "jobs", Err: fmt.Errorf("wrapped: %w", err)}
		}
		if got := (Event{Err: err}).Cause(); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

// Every kind has a name of its own.
func TestEventKindNames(t *testing.T) {
	seen := make(map[string]bool)
	for k := EventQueued; k <= EventPaused; k++ {
		if name := k.String(); name == "" || name == "invalid event" || seen[name] {
			t.Errorf("kind %d is called %q", k, name)
		} else {
			seen[name] = true
		}
	}
	for _, k := range []EventKind{0, EventPaused + 1, 255} {
		if name := k.String(); name != "invalid event" {
			t.Errorf("kind %d is called %q", k, name)
		}
	}
}
