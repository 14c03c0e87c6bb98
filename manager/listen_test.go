// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A scribe is a Listener that writes down what it is told.
type scribe struct {
	t    *testing.T
	each func() // called by each call; may be nil

	mu     sync.Mutex // protects what follows
	told   []string
	grants []Grant
	paths  []string // of the places
	inside bool
}

// listener returns a Listener that has s write.
func (s *scribe) listener() Listener {
	return Listener{
		Queued: func(p Place) {
			s.write(func() string {
				s.paths = append(s.paths, p.Path)
				behind := "unknown"
				if p.Ahead != nil {
					behind = cmp.Or(p.Ahead.Label, p.Ahead.Path)
				}
				return fmt.Sprintf("queued %d behind %s", p.Position, behind)
			})
		},
		Acquired: func(g Grant) {
			s.write(func() string {
				if s.inside || g.Token == 0 {
					s.t.Errorf("acquired %+v, inside: %v, after %q", g, s.inside, s.told)
				}
				s.inside = true
				s.grants = append(s.grants, g)
				return "acquired"
			})
		},
		Lost:     func(err error) { s.end("lost", err) },
		Released: func(err error) { s.end("released", err) },
		Failed:   func(err error) { s.write(func() string { return "failed (" + causeOf(err) + ")" }) },
	}
}

func (s *scribe) end(how string, err error) {
	s.write(func() string {
		if !s.inside {
			s.t.Errorf("%s without a grant, after %q", how, s.told)
		}
		s.inside = false
		if err != nil {
			how += " (" + causeOf(err) + ")"
		}
		return how
	})
}

func (s *scribe) write(words func() string) {
	if s.each != nil {
		s.each()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, words())
}

// lines returns what s was told so far.
func (s *scribe) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

func (s *scribe) want(want ...string) {
	s.t.Helper()
	synctest.Wait()
	got := s.lines()
	if !slices.Equal(got, want) {
		s.t.Errorf("told\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// What listeners of process a's locks are told, in virtual time, with and without an
// observer beside them. Process b is another one.
func TestListen(t *testing.T) {
	const s = time.Second
	within := func(c *cluster, d time.Duration) context.Context { return withTimeout(c.t, d) }
	for name, test := range map[string]struct {
		do   func(c *cluster, l *Lock, b *Manager)
		want []string
	}{
		"held, by several": {
			func(c *cluster, l *Lock, _ *Manager) {
				first := mustLock(c.t, l)
				c.cycle(l)
				mustRelease(c.t, first)
			},
			[]string{"acquired", "released"},
		},
		"waits": {
			func(c *cluster, l *Lock, b *Manager) {
				other := mustLock(c.t, exclusive(c.t, b, "jobs"))
				h := c.acquire(l)
				mustRelease(c.t, other)
				c.held(h)
				c.unlock(h)
			},
			[]string{"queued 1 behind b", "acquired", "released"},
		},
		"gives up": {
			func(c *cluster, l *Lock, b *Manager) {
				other := mustLock(c.t, exclusive(c.t, b, "jobs"))
				_, err := l.Lock(within(c, s))
				wantErr(c.t, "lock", err, context.DeadlineExceeded)
				mustRelease(c.t, other)
			},
			[]string{"queued 1 behind b", "failed (context)"},
		},
		"node deleted": {
			func(c *cluster, l *Lock, _ *Manager) {
				h := mustLock(c.t, l)
				later(s)
				c.remove(c.nodeOf(l.m))
				synctest.Wait()
				h.Release()
			},
			[]string{"acquired", "lost (deleted)"},
		},
		"node deleted, found by the release": {
			func(c *cluster, l *Lock, _ *Manager) {
				h := mustLock(c.t, l) // its node is not watched yet
				later(10 * time.Millisecond)
				c.remove(c.nodeOf(l.m))
				wantErr(c.t, "unlock", h.Unlock(c.t.Context()), errNodeDeleted)
			},
			[]string{"acquired", "lost (deleted)"},
		},
		"session expires": {
			func(c *cluster, l *Lock, _ *Manager) {
				h := mustLock(c.t, l)
				c.expire(l.m)
				h.Release()
				later(s)
				c.cycle(l)
			},
			[]string{"acquired", "lost (session)", "acquired", "released"},
		},
		"session expires in a wait": {
			func(c *cluster, l *Lock, b *Manager) {
				other := mustLock(c.t, exclusive(c.t, b, "jobs"))
				h := c.acquire(l)
				c.expire(l.m)
				mustRelease(c.t, other)
				c.held(h)
				c.unlock(h)
			},
			[]string{"queued 1 behind b", "queued 1 behind b", "acquired", "released"},
		},
		"lease ends": {
			func(c *cluster, l *Lock, _ *Manager) {
				h := mustLock(c.t, l)
				frozen := c.srv.Faults().BlackholeAll()
				later(6 * s)
				frozen.Remove()
				later(s)
				h.Release()
				later(s)
			},
			[]string{"acquired", "lost (lease)"},
		},
		"closed": {
			func(c *cluster, l *Lock, _ *Manager) {
				h := mustLock(c.t, l)
				wantErr(c.t, "close", l.m.Close(), nil)
				h.Release()
			},
			[]string{"acquired", "lost (closed)"},
		},
		"closed in a wait": {
			func(c *cluster, l *Lock, b *Manager) {
				other := mustLock(c.t, exclusive(c.t, b, "jobs"))
				c.acquire(l)
				wantErr(c.t, "close", l.m.Close(), nil)
				mustRelease(c.t, other)
			},
			[]string{"queued 1 behind b", "failed (closed)"},
		},
		"handed over": {
			func(c *cluster, l *Lock, b *Manager) {
				h := mustLock(c.t, l)
				c.cycle(l) // a newcomer, so that the gate closes
				other := c.acquire(exclusive(c.t, b, "jobs"))
				later(s)
				again := c.acquire(l)
				mustRelease(c.t, h)
				later(s)
				mustRelease(c.t, other)
				later(s)
				c.unlock(again)
			},
			[]string{"acquired", "released", "queued 1 behind b", "acquired", "released"},
		},
		"idle, and wanted": {
			func(c *cluster, l *Lock, b *Manager) {
				wantErr(c.t, "set", l.SetLinger(always), nil)
				c.idle(l)
				c.cycle(l)
				later(s)
				c.cycle(exclusive(c.t, b, "jobs"))
			},
			[]string{"acquired", "released"},
		},
		"idle, and lost": {
			func(c *cluster, l *Lock, _ *Manager) {
				wantErr(c.t, "set", l.SetLinger(always), nil)
				c.idle(l)
				later(s)
				c.remove(c.nodeOf(l.m))
				synctest.Wait()
				c.cycle(l)
			},
			[]string{"acquired", "lost (deleted)", "acquired"},
		},
		"idle, and its lease lapses": {
			func(c *cluster, l *Lock, _ *Manager) {
				wantErr(c.t, "set", l.SetLinger(always), nil)
				c.idle(l)
				frozen := c.srv.Faults().BlackholeAll()
				later(6 * s)
				frozen.Remove()
				later(s)
			},
			[]string{"acquired", "lost (lease)"},
		},
		"refused": {
			func(c *cluster, l *Lock, b *Manager) {
				wantErr(c.t, "create", c.srv.CreateEphemeral(session(b), dir, nil), nil)
				_, err := l.Lock(c.t.Context())
				wantErr(c.t, "lock", err, zkio.ErrNoChildrenForEphemerals)
			},
			[]string{"failed (refused)"},
		},
		"several at once": {
			func(c *cluster, l *Lock, b *Manager) {
				all := lockAll(c.t.Context(), l.m, l, exclusive(c.t, l.m, "two"))
				synctest.Wait()
				wantErr(c.t, "lockall", all.err, nil)
				wantErr(c.t, "unlock", all.holds.Unlock(c.t.Context()), nil)
			},
			nil, // it is not about those
		},
	} {
		for beside, with := range map[string]func(*Config){"": func(*Config) {}, ", unobserved": unobserved} {
			t.Run(name+beside, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					t := c.t
					l, b := c.lock("a", with), c.open("b")
					told, others := &scribe{t: t}, &scribe{t: t}
					defer l.Listen(told.listener())()
					stop := l.Listen(others.listener())
					defer exclusive(t, l.m, "other").Listen(others.listener())()
					stop()
					test.do(c, l, b)
					told.want(test.want...)
					others.want()
				})
			})
		}
	}
}

// Each lock of a pair has its own listeners.
func TestListenToAPair(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		rw := c.rw("a")
		reader, writer := &scribe{t: t}, &scribe{t: t}
		defer rw.Reader().Listen(reader.listener())()
		defer rw.Writer().Listen(writer.listener())()
		w := mustLock(t, rw.Writer())
		r := mustLock(t, rw.Reader()) // a downgrade
		mustRelease(t, w)
		synctest.Wait()
		reader.want("acquired")
		writer.want("acquired", "released")
		mustRelease(t, r)
		reader.want("acquired", "released")
	})
}

// A listener that comes while the lock is held is told so, once.
func TestListenToAHeldLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		for _, with := range []func(*Config){unobserved, func(*Config) {}} {
			l := c.lock("a", with)
			h := mustLock(t, l)
			first, second, late := &scribe{t: t}, &scribe{t: t}, &scribe{t: t}
			defer l.Listen(first.listener())()
			first.want("acquired")
			stop := l.Listen(second.listener())
			second.want("acquired")
			stop()
			g := grantOf(t, h)
			mustRelease(t, h)
			defer l.Listen(late.listener())()
			first.want("acquired", "released")
			second.want("acquired")
			late.want()
			if first.grants[0] != g {
				t.Errorf("acquired %+v, want %+v", first.grants[0], g)
			}
			wantErr(t, "close", l.m.Close(), nil)
			defer l.Listen(late.listener())()
			late.want()
		}
	})
}

// A process whose session ends while it waits queues anew, and its new node says so.
func TestListenerSeesANewPlace(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		b := c.lock("b")
		other := mustLock(t, b)
		l := c.lock("a")
		told := &scribe{t: t}
		defer l.Listen(told.listener())()
		h := c.acquire(l)
		c.expire(l.m)
		told.want("queued 1 behind b", "queued 1 behind b")
		if told.paths[0] == told.paths[1] || told.paths[1] != c.nodeOf(l.m) {
			t.Errorf("places %q, node %s", told.paths, c.nodeOf(l.m))
		}
		mustRelease(t, other)
		c.held(h)
		c.unlock(h)
	})
}

// F200: Released comes when the node is gone, not before: neither while its deletion is under
// way, nor when ZooKeeper refuses it.
func TestF200_ReleasedOnceTheNodeIsGone(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		l := c.lock("a")
		told := &scribe{t: t}
		told.each = func() {
			if told.inside && c.srv.Exists(told.grants[0].Path) {
				t.Error("told of the end while the node is there")
			}
		}
		defer l.Listen(told.listener())()
		f := c.srv.Faults().DropRequest(zktest.Match{Session: session(l.m), Op: zktest.OpDelete, Times: 1})
		h := mustLock(t, l)
		h.Release()
		<-f.Hit()
		told.want("acquired")
		later(10 * time.Second)
		told.want("acquired", "released")
	})
	bubble(t, func(c *cluster) {
		t := c.t
		l, owner := c.lock("a"), c.lock("owner", owned(zkio.PermCreate|zkio.PermRead))
		c.cycle(owner)
		told := &scribe{t: t}
		defer l.Listen(told.listener())()
		h := mustLock(t, l)
		end := h.Release()
		later(time.Second)
		wantErr(t, "release", settled(t, "release", end), zkio.ErrNoAuth)
		later(time.Minute)
		told.want("acquired")
		c.remove(c.nodeOf(l.m))
		later(time.Minute)
		told.want("acquired", "released (deleted)")
	})
}

// F201: a listener that is slow delays no caller, and misses whole rounds only: each round
// that it is told of has its end.
func TestF201_SlowListener(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		l, b := c.lock("a", unobserved), c.lock("b")
		goOn := make(chan struct{})
		told := &scribe{t: t, each: func() { <-goOn }}
		defer l.Listen(told.listener())()
		start := time.Now()
		const rounds = 998 // the last waits
		var last Grant
		for i := range rounds {
			switch i % 3 {
			case 0:
				c.cycle(l)
			case 1:
				other := mustLock(t, b)
				h := c.acquire(l)
				mustRelease(t, other)
				c.held(h)
				last = grantOf(t, h)
				c.unlock(h)
			case 2:
				other := mustLock(t, b)
				_, err := l.TryLock(t.Context())
				wantErr(t, "trylock", err, ErrLocked)
				mustRelease(t, other)
			}
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("callers waited for %v", d)
		}
		close(goOn)
		synctest.Wait()
		lines := told.lines()
		if n := len(lines); n < maxNotices-4 || n > maxNotices+1 {
			t.Errorf("told of %d things", n)
		}
		// The listener checks that each grant has one end. The first round is the one that it
		// was told of when it stopped, and the last is the last.
		if told.inside || lines[0] != "acquired" || lines[1] != "released" {
			t.Errorf("it ends inside: %v; it begins %q", told.inside, lines[:2])
		}
		queued := 0
		for i, line := range lines {
			if strings.HasPrefix(line, "queued") {
				queued++
				if i+1 == len(lines) || lines[i+1] != "acquired" && lines[i+1] != "failed (context)" {
					t.Errorf("after %q: %q", line, lines[i+1:])
				}
			}
		}
		if queued == 0 || told.grants[len(told.grants)-1] != last {
			t.Errorf("%d places; the last grant is %+v, want %+v", queued, told.grants[len(told.grants)-1], last)
		}
	})
}

// Of the places that a slow listener has missed it is told the last.
func TestF201_PlacesAreMadeOne(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		var others []Hold
		for i := range 5 {
			others = append(others, c.acquire(c.lock(fmt.Sprint("b", i))))
		}
		l := c.lock("a")
		goOn := make(chan struct{})
		told := &scribe{t: t, each: func() { <-goOn }}
		defer l.Listen(told.listener())()
		h := c.acquire(l)
		for i := range 3 {
			others[3-i].Release() // it gives up
			synctest.Wait()
		}
		close(goOn)
		told.want("queued 5 behind b4", "queued 2 behind b0")
		c.unlock(others[0])
		c.held(others[4])
		c.unlock(others[4])
		c.held(h)
		c.unlock(h)
	})
}

// F202: nothing is called after stop has returned, and stop waits for the call that is under
// way. Close waits until all is told.
func TestF202_EndOfListening(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		l := c.lock("a")
		goOn := make(chan struct{})
		told := &scribe{t: t, each: func() { <-goOn }}
		stop := l.Listen(told.listener())
		c.cycle(l)
		synctest.Wait() // the listener is being called
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		if isClosed(stopped) {
			t.Error("stop did not wait for the call that was under way")
		}
		close(goOn)
		<-stopped
		told.want("acquired")
		c.cycle(l)
		told.want("acquired")
		stop() // again

		goOn = make(chan struct{})
		told = &scribe{t: t, each: func() { <-goOn }}
		stop = l.Listen(told.listener())
		mustLock(t, l)
		closed := make(chan error)
		go func() { closed <- l.m.Close() }()
		later(time.Minute)
		select {
		case <-closed:
			t.Error("Close did not wait for the listener")
		default:
		}
		close(goOn)
		wantErr(t, "close", <-closed, nil)
		told.want("acquired", "lost (closed)")
		stop()
	})
}

// A function of a listener that does not return costs nothing but that call, and stop
// returns.
func TestF279_ListenerDoesNotReturn(t *testing.T) {
	for how, f := range noReturns {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				l := c.lock("a")
				n := 0
				stop := l.Listen(Listener{Acquired: func(Grant) { n++; f.fail(n) }})
				for i := range 10 {
					c.cycle(l)
					if i < 5 {
						synctest.Wait()
					}
				}
				synctest.Wait()
				stop()
				if n != 10 {
					c.t.Errorf("called %d times, want 10", n)
				}
				c.wantNoReturn("a Listener", f.logs)
			})
		})
	}
}

// Entering a lock that has listeners costs no more than entering another.
func TestListenedEntriesAllocateNothing(t *testing.T) {
	l := retained(t)
	l.m.feed = newFeed(l.m)
	stop := l.Listen(Listener{})
	defer stop()
	l.Acquire(t.Context()).Release()
	n := testing.AllocsPerRun(1000, func() { l.Acquire(t.Context()).Release() })
	if n > 0 && !racing.Detector {
		t.Errorf("%v allocations", n)
	}
}
