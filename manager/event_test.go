// SPDX-License-Identifier: Apache-2.0

package manager

import (
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

// A course is what becomes of a lock of process a; b is another process.
type course struct {
	steps  string                   // commands of a script
	do     func(s *script, l *Lock) // if steps do not say it; l is a's lock
	events string                   // that a's observer is told of, first of locks, then of sessions
	heard  string                   // by a listener
}

var courses = map[string]course{
	"held": {
		steps:  "acquire x a; advance 3s; release x",
		events: "queued; granted after 0s; released held 3s",
		heard:  "acquired; released",
	},
	"shared": {
		steps:  "acquire x a; acquire y a; release y; acquire y a; release y; release x",
		events: "queued; granted after 0s; entered; released held 0s",
		heard:  "acquired; released",
	},
	"waits": {
		steps:  "acquire o b; acquire x a; advance 2s; release o; advance 1s; release x",
		events: "queued; placed 1 behind b; granted after 2s; released held 1s",
		heard:  "queued 1 behind b; acquired; released",
	},
	"gives up": {
		steps:  "acquire o b; lock x a timeout=2s; advance 2s; release o",
		events: "queued; placed 1 behind b; failed after 2s (context)",
		heard:  "queued 1 behind b; failed (context)",
	},
	"tries": {
		steps:  "acquire o b; try x a; release o",
		events: "queued; placed 1 behind b; failed after 0s (context)",
		heard:  "queued 1 behind b; failed (context)",
	},
	"node deleted": {
		steps:  "acquire x a; advance 1s; remove a.0; release x",
		events: "queued; granted after 0s; lost held 1s (deleted)",
		heard:  "acquired; lost (deleted)",
	},
	"node deleted, found by the release": { // it is not watched yet
		steps:  "acquire x a; advance 10ms; remove a.0; release x",
		events: "queued; granted after 0s; lost held 0s (deleted)",
		heard:  "acquired; lost (deleted)",
	},
	"session expires": { // the node has no watch yet, so that is the first news
		steps: "acquire x a; expire a; release x; advance 1s; acquire y a; release y",
		events: "queued; granted after 0s; lost held 0s (session); queued; granted after 0s; released held 0s; " +
			"connection lost (other); session over (session); session began",
		heard: "acquired; lost (session); acquired; released",
	},
	"session expires in a wait": {
		do: func(s *script, l *Lock) {
			s.run("acquire o b; acquire x a")
			start := time.Now()
			s.expire(l.m)
			later(3*time.Second - time.Since(start))
			s.run("release o; release x")
		},
		events: "queued; placed 1 behind b; queued; placed 1 behind b; granted after 3s; released held 0s; " +
			"connection lost (other); session over (session); session began",
		heard: "queued 1 behind b; queued 1 behind b; acquired; released",
	},
	"lease ends": {
		steps:  "acquire x a; blackhole a for=6s; advance 7s; release x; advance 1s",
		events: "queued; granted after 0s; lost held 5s (lease)",
		heard:  "acquired; lost (lease)",
	},
	"closed": {
		steps:  "acquire x a; advance 1s; close a; release x",
		events: "queued; granted after 0s; lost held 1s (closed); session over (closed)",
		heard:  "acquired; lost (closed)",
	},
	"closed in a wait": {
		steps:  "acquire o b; acquire x a; advance 1s; close a; release x; release o",
		events: "queued; placed 1 behind b; failed after 1s (closed); session over (closed)",
		heard:  "queued 1 behind b; failed (closed)",
	},
	"tenure is over": {
		steps:  "acquire x a; acquire y a; release y; acquire o b; advance 1s; release x; release o",
		events: "queued; granted after 0s; entered; yielded; released held 1s",
		heard:  "acquired; released",
	},
	// Callers that come when the gate is closed queue by the request that gives the lock up.
	"handed over": {
		steps: "acquire x a; acquire y a; release y; acquire o b; advance 1s; acquire z a; advance 1s; release x; " +
			"advance 1s; release o; advance 1s; release z",
		events: "queued; granted after 0s; entered; yielded; released held 2s; " +
			"queued; placed 1 behind b; granted after 2s; released held 1s",
		heard: "acquired; released; queued 1 behind b; acquired; released",
	},
	"revoked": {
		do: func(s *script, l *Lock) {
			s.run("acquire x a")
			given := s.revoking(exclusive(s.t, s.process("b").m, "jobs"), "a restart", time.Minute)
			s.run("release x")
			wantErr(s.t, "revoke", <-given, nil)
		},
		events: `queued; granted after 0s; revoked by b "a restart"; released held 0s`,
		heard:  "acquired; released",
	},
	"a mutex": {
		do: func(s *script, l *Lock) {
			for _, h := range s.line(openMutex(s.t, l.m, "mutex"), 3) {
				later(time.Second)
				h.Release()
			}
		},
		events: "queued; granted after 0s; entered; released held 3s",
	},
	"several at once": { // of which listeners hear nothing
		do: func(s *script, l *Lock) {
			s.run("acquire o b name=two")
			all := lockAll(s.t.Context(), l.m, several(s.t, l.m, "jobs", "two")...)
			later(time.Second)
			s.run("release o")
			later(time.Second)
			wantErr(s.t, "unlock", all.holds.Unlock(s.t.Context()), nil)
		},
		events: "queued; queued; placed 1 behind b; granted after 1s; granted after 1s; " +
			"released held 1s; released held 1s",
	},
	"reads, and writes": {
		do: func(s *script, l *Lock) {
			h := mustLock(s.t, readWrite(s.t, l.m, "pair").Upgradable())
			s.mustUpgrade(h)
			later(time.Second)
			mustRelease(s.t, h)
		},
		events: "queued; granted after 0s; released held 1s",
	},
	"idle, and wanted": {
		do: func(s *script, l *Lock) {
			wantErr(s.t, "set", l.SetLinger(always), nil)
			s.idle(l)
			s.cycle(l)
			later(time.Second)
			s.run("acquire o b; release o")
		},
		events: "queued; granted after 0s; entered; yielded; released held 1s",
		heard:  "acquired; released",
	},
	"idle, and lost": {
		do: func(s *script, l *Lock) {
			wantErr(s.t, "set", l.SetLinger(always), nil)
			s.idle(l)
			later(time.Second)
			s.remove(s.nodeOf(l.m))
			synctest.Wait()
			s.cycle(l)
		},
		events: "queued; granted after 0s; released held 1s (deleted); queued; granted after 0s",
		heard:  "acquired; lost (deleted); acquired",
	},
	"idle, and its lease lapses": {
		do: func(s *script, l *Lock) {
			wantErr(s.t, "set", l.SetLinger(always), nil)
			s.idle(l)
			s.run("blackhole a for=6s; advance 7s")
		},
		events: "queued; granted after 0s; released held 6s (lease)",
		heard:  "acquired; lost (lease)",
	},
	"refused": {
		do: func(s *script, l *Lock) {
			wantErr(s.t, "create", s.srv.CreateEphemeral(session(s.process("b").m), dir, nil), nil)
			wantErr(s.t, "lock", errOf(l.Lock(s.t.Context())), zkio.ErrNoChildrenForEphemerals)
		},
		events: "failed after 0s (refused)",
		heard:  "failed (refused)",
	},
	"withdrawn before its turn": {
		do: func(s *script, l *Lock) {
			s.run("acquire x a")
			s.revoking(l, "", time.Minute) // closes the gate
			wantErr(s.t, "lock", errOf(l.Lock(withTimeout(s.t, time.Second))), ErrYielding)
			s.run("release x")
		},
		events: "queued; granted after 0s; revoked by a; released held 1s; failed after 1s (context)",
		heard:  "acquired; released; failed (context)",
	},
}

// run has the lock of process a, which an observer may see, go the course, and returns what
// the observer is told, and the listener.
func (course course) run(t *testing.T, observed string) (events, heard string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t)
		defer s.end()
		s.run("open a observed=" + observed + "; open b")
		s.told["a"].mark()
		l := exclusive(t, s.process("a").m, "jobs")
		told, others := &scribe{t: t}, &scribe{t: t}
		defer l.Listen(told.listener())()
		stop := l.Listen(others.listener())
		defer exclusive(t, l.m, "other").Listen(others.listener())()
		stop()
		for step := range strings.SplitSeq(course.steps, "; ") {
			if step != "" {
				s.run(step)
			}
		}
		if course.do != nil {
			course.do(s, l)
		}
		later(eventDelay)
		others.want()
		events, heard = strings.Join(s.told["a"].lines(), "; "), strings.Join(told.lines(), "; ")
	})
	return events, heard
}

// What the observer of process a is told, in virtual time, and a listener beside it.
func TestEvents(t *testing.T) {
	for name, course := range courses {
		t.Run(name, func(t *testing.T) {
			events, heard := course.run(t, "yes")
			wantEq(t, "told", events, course.events)
			wantEq(t, "heard", heard, course.heard)
		})
	}
}

// What a listener of process a's lock is told where there is no observer.
func TestListen(t *testing.T) {
	for name, course := range courses {
		t.Run(name, func(t *testing.T) {
			_, heard := course.run(t, "no")
			wantEq(t, "heard", heard, course.heard)
		})
	}
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
				expect(c.t, e.Session == session(a),
					"%v: session %#x, want %#x", e.Kind, e.Session, session(a))
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
		expect(c.t, a.Stats().Losses == 1 && loss != nil && loss.Held == 10*time.Millisecond,
			"%d losses, the last is %+v", a.Stats().Losses, loss)
		if lines := c.log.with("WARN holdfast: lost a lock; its holders have been told lock=jobs kind=exclusive session="); len(lines) != 1 || !strings.Contains(lines[0], " held=10ms cause=") {
			c.t.Errorf("logged %q", c.log.with("WARN"))
		}
		got := c.told["a"].lines()
		expect(c.t, len(got) == 4 && got[2] == "lost held 0s (deleted)", "told %q", got)
	})
}

// The events of a round's usual course are told together, a moment later; the others at once,
// after those that wait; and all of them before Close has returned.
func TestEventsGather(t *testing.T) {
	type test struct {
		then   func(c *cluster, a, b *Manager, h Hold) // after queued and granted
		passes time.Duration                           // since these, until …
		want   []string                                // … is told
	}
	each(t, map[string]test{
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
			// As soon as a request has shown that the session is alive.
			time.Second + eventDelay/2, []string{"queued", "granted after 0s", "lost held 1s (deleted)"},
		},
		"failed": {
			func(c *cluster, a, b *Manager, h Hold) {
				other := mustLock(c.t, exclusive(c.t, b, "other"))
				wantErr(c.t, "trylock", errOf(exclusive(c.t, a, "other").TryLock(c.t.Context())), ErrLocked)
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
				wantEq(c.t, "events told too early", len(c.told["a"].lines()), 0)
				mustLock(c.t, exclusive(c.t, a, "jobs"))
			},
			0, slices.Repeat([]string{"queued", "granted after 0s", "released held 0s"}, maxEvents/2/3+1)[:maxEvents/2],
		},
	}, func(c *cluster, test test) {
		a, b := c.open("a"), c.open("b")
		synctest.Wait()
		c.told["a"].mark()
		start := time.Now()
		h := mustLock(c.t, exclusive(c.t, a, "jobs"))
		synctest.Wait()
		wantEq(c.t, "events told at once", len(c.told["a"].lines()), 0)
		test.then(c, a, b, h)
		later(test.passes - time.Since(start))
		wantEq(c.t, "told", strings.Join(c.told["a"].lines(), "; "), strings.Join(test.want, "; "))
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
		expect(c.t, time.Since(start) == 0, "callers waited for %v", time.Since(start))
		const all = 1 + 3*rounds
		want := uint64(all - maxEvents - 1)
		wantEq(c.t, "events dropped", m.Stats().DroppedEvents, want)
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
		wantEq(c.t, "events told", len(told), maxEvents+1)
		for i, e := range told[1:] {
			if want := []EventKind{EventQueued, EventGranted, EventReleased}[i%3]; e.Kind != want || e.Round != uint64(i/3+1) {
				c.t.Fatalf("event %d is %v of round %d, want %v of %d", i, e.Kind, e.Round, want, i/3+1)
			}
		}
	})
}

type noReturn struct {
	fail func(n int)
	logs []string
}

// The ways in which a function of the user's does not return, with what the log says.
var noReturns = map[string]noReturn{
	"panics":             {func(n int) { panic(fmt.Sprint("oops ", n)) }, []string{" panicked", "panic=oops 1 "}},
	"ends its goroutine": {func(int) { runtime.Goexit() }, []string{" ended its goroutine"}},
}

// wantNoReturn checks that the log has one error, of this function, which says that and
// where it did not return.
func (c *cluster) wantNoReturn(what string, logs []string) {
	c.t.Helper()
	lines := c.log.with("ERROR")
	for _, part := range append(logs, what+logs[0], "event_test.go") {
		expect(c.t, len(lines) == 1 && strings.Contains(lines[0], part),
			"logged %q, want one line with %q", lines, part)
	}
}

// An observer that does not return costs nothing but the event; also the last ones, which
// are told when the Manager is closed.
func TestF279_ObserverDoesNotReturn(t *testing.T) {
	each(t, noReturns, func(c *cluster, f noReturn) {
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
		expect(c.t, n == 32, "called %d times, want 32", n)
		c.wantNoReturn("Config.Observer", f.logs)
	})
}

// A second caller changes a round that was granted before the granter has told of the
// grant. The grant is told first all the same, and once.
func TestGrantIsToldFirst(t *testing.T) {
	for kind, tell := range map[EventKind]func(f *feed, r *roundIO){
		EventEntered: func(f *feed, r *roundIO) { f.once(r, EventEntered) },
		EventYielded: func(f *feed, r *roundIO) { f.once(r, EventYielded) },
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
			expect(t, slices.Equal(kinds, []EventKind{EventGranted, kind}),
				"told %v, want %v", kinds, []EventKind{EventGranted, kind})
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
	expect(t, n == 0 || racing.Detector, "%v allocations", n)
	expect(t, l.m.feed.n == 0, "%d events", l.m.feed.n)
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
		expect(t, (Event{Err: err}).Cause() == test.want,
			"%v: %q, want %q", test.err, (Event{Err: err}).Cause(), test.want)
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
		expect(t, k.String() == "invalid event", "kind %d is called %q", k, k.String())
	}
}
