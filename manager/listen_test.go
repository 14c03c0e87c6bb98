// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
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
				expect(s.t, !s.inside && g.Token != 0,
					"acquired %+v, inside: %v, after %q", g, s.inside, s.told)
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
		expect(s.t, s.inside, "%s without a grant, after %q", how, s.told)
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
	expect(s.t, slices.Equal(got, want),
		"told\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
}

// Each lock of a pair has its own listeners.
func TestListenToAPair(t *testing.T) {
	bubble(t, func(c *cluster) {
		rw := c.rw("a")
		reader, writer := &scribe{t: c.t}, &scribe{t: c.t}
		defer rw.Reader().Listen(reader.listener())()
		defer rw.Writer().Listen(writer.listener())()
		w := mustLock(c.t, rw.Writer())
		r := mustLock(c.t, rw.Reader()) // a downgrade
		mustRelease(c.t, w)
		synctest.Wait()
		reader.want("acquired")
		writer.want("acquired", "released")
		mustRelease(c.t, r)
		reader.want("acquired", "released")
	})
}

// A listener that comes while the lock is held is told so, once.
func TestListenToAHeldLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		for _, with := range []func(*Config){unobserved, func(*Config) {}} {
			l := c.lock("a", with)
			h := mustLock(c.t, l)
			first, second, late := &scribe{t: c.t}, &scribe{t: c.t}, &scribe{t: c.t}
			defer l.Listen(first.listener())()
			first.want("acquired")
			stop := l.Listen(second.listener())
			second.want("acquired")
			stop()
			g := grantOf(c.t, h)
			mustRelease(c.t, h)
			defer l.Listen(late.listener())()
			first.want("acquired", "released")
			second.want("acquired")
			late.want()
			expect(c.t, first.grants[0] == g, "acquired %+v, want %+v", first.grants[0], g)
			wantErr(c.t, "close", l.m.Close(), nil)
			defer l.Listen(late.listener())()
			late.want()
		}
	})
}

// A process whose session ends while it waits queues anew, and its new node says so.
func TestListenerSeesANewPlace(t *testing.T) {
	bubble(t, func(c *cluster) {
		b := c.lock("b")
		other := mustLock(c.t, b)
		l := c.lock("a")
		told := &scribe{t: c.t}
		defer l.Listen(told.listener())()
		h := c.acquire(l)
		c.expire(l.m)
		told.want("queued 1 behind b", "queued 1 behind b")
		expect(c.t, told.paths[0] != told.paths[1] && told.paths[1] == c.nodeOf(l.m),
			"places %q, node %s", told.paths, c.nodeOf(l.m))
		mustRelease(c.t, other)
		c.held(h)
		c.unlock(h)
	})
}

// F200: Released comes when the node is gone, not before: neither while its deletion is under
// way, nor when ZooKeeper refuses it.
func TestF200_ReleasedOnceTheNodeIsGone(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		told := &scribe{t: c.t}
		told.each = func() {
			expect(c.t, !told.inside || !c.srv.Exists(told.grants[0].Path),
				"told of the end while the node is there")
		}
		defer l.Listen(told.listener())()
		f := c.srv.Faults().DropRequest(zktest.Match{Session: session(l.m), Op: zktest.OpDelete, Times: 1})
		h := mustLock(c.t, l)
		h.Release()
		<-f.Hit()
		told.want("acquired")
		later(10 * time.Second)
		told.want("acquired", "released")
	})
	bubble(t, func(c *cluster) {
		l, owner := c.lock("a"), c.lock("owner", owned(zkio.PermCreate|zkio.PermRead))
		c.cycle(owner)
		told := &scribe{t: c.t}
		defer l.Listen(told.listener())()
		h := mustLock(c.t, l)
		end := h.Release()
		later(time.Second)
		wantErr(c.t, "release", settled(c.t, "release", end), zkio.ErrNoAuth)
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
		l, b := c.lock("a", unobserved), c.lock("b")
		goOn := make(chan struct{})
		told := &scribe{t: c.t, each: func() { <-goOn }}
		defer l.Listen(told.listener())()
		start := time.Now()
		const rounds = 998 // the last waits
		var last Grant
		for i := range rounds {
			switch i % 3 {
			case 0:
				c.cycle(l)
			case 1:
				other := mustLock(c.t, b)
				h := c.acquire(l)
				mustRelease(c.t, other)
				c.held(h)
				last = grantOf(c.t, h)
				c.unlock(h)
			case 2:
				other := mustLock(c.t, b)
				wantErr(c.t, "trylock", errOf(l.TryLock(c.t.Context())), ErrLocked)
				mustRelease(c.t, other)
			}
		}
		expect(c.t, time.Since(start) == 0, "callers waited for %v", time.Since(start))
		close(goOn)
		synctest.Wait()
		lines := told.lines()
		expect(c.t, len(lines) >= maxNotices-4 && len(lines) <= maxNotices+1,
			"told of %d things", len(lines))
		// The listener checks that each grant has one end. The first round is the one that it
		// was told of when it stopped, and the last is the last.
		expect(c.t, !told.inside && lines[0] == "acquired" && lines[1] == "released",
			"it ends inside: %v; it begins %q", told.inside, lines[:2])
		queued := 0
		for i, line := range lines {
			if strings.HasPrefix(line, "queued") {
				queued++
				expect(c.t, i+1 != len(lines) && (lines[i+1] == "acquired" || lines[i+1] == "failed (context)"),
					"after %q: %q", line, lines[i+1:])
			}
		}
		expect(c.t, queued != 0 && told.grants[len(told.grants)-1] == last,
			"%d places; the last grant is %+v, want %+v", queued, told.grants[len(told.grants)-1], last)
	})
}

// Of the places that a slow listener has missed it is told the last.
func TestF201_PlacesAreMadeOne(t *testing.T) {
	bubble(t, func(c *cluster) {
		var others []Hold
		for i := range 5 {
			others = append(others, c.acquire(c.lock(fmt.Sprint("b", i))))
		}
		l := c.lock("a")
		goOn := make(chan struct{})
		told := &scribe{t: c.t, each: func() { <-goOn }}
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
		l := c.lock("a")
		goOn := make(chan struct{})
		told := &scribe{t: c.t, each: func() { <-goOn }}
		stop := l.Listen(told.listener())
		c.cycle(l)
		synctest.Wait() // the listener is being called
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		expect(c.t, !isClosed(stopped), "stop did not wait for the call that was under way")
		close(goOn)
		<-stopped
		told.want("acquired")
		c.cycle(l)
		told.want("acquired")
		stop() // again

		goOn = make(chan struct{})
		told = &scribe{t: c.t, each: func() { <-goOn }}
		stop = l.Listen(told.listener())
		mustLock(c.t, l)
		closed := make(chan error)
		go func() { closed <- l.m.Close() }()
		later(time.Minute)
		select {
		case <-closed:
			c.t.Error("Close did not wait for the listener")
		default:
		}
		close(goOn)
		wantErr(c.t, "close", <-closed, nil)
		told.want("acquired", "lost (closed)")
		stop()
	})
}

// A function of a listener that does not return costs nothing but that call, and stop
// returns.
func TestF279_ListenerDoesNotReturn(t *testing.T) {
	each(t, noReturns, func(c *cluster, f noReturn) {
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
		expect(c.t, n == 10, "called %d times, want 10", n)
		c.wantNoReturn("a Listener", f.logs)
	})
}

// Entering a lock that has listeners costs no more than entering another.
func TestListenedEntriesAllocateNothing(t *testing.T) {
	l := retained(t)
	l.m.feed = newFeed(l.m)
	stop := l.Listen(Listener{})
	defer stop()
	l.Acquire(t.Context()).Release()
	n := testing.AllocsPerRun(1000, func() { l.Acquire(t.Context()).Release() })
	expect(t, n == 0 || racing.Detector, "%v allocations", n)
}
