// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// Which contenders are inside together. Each letter of a queue is a process, in
// the order in which they queue:
//
//	R W E   a reader, a writer, and an exclusive lock of this package
//	r w e   the nodes of Apache Curator's read, write and mutex
//	z k     the nodes of kazoo's read lock and its lock or write lock
//
// Each turn names those who are inside together by their places in the queue, of
// which a is the first. Then they leave, and the next turn is due.
func TestReadWriteTurns(t *testing.T) {
	for _, test := range []struct{ what, queue, turns string }{
		{"readers share", "RRR", "abc"},
		{"writers do not", "WWW", "a b c"},
		{"a writer excludes readers", "WRR", "a bc"},
		{"a reader excludes a writer", "RW", "a b"},
		{"a writer waits for all readers ahead", "RRRW", "abc d"},
		{"a reader does not pass a writer that waits", "RWR", "a b c"},
		{"a writer behind a reader behind a writer", "WRW", "a b c"},
		{"writers and readers take turns", "RRWRWWRR", "ab c d e f gh"},
		{"readers on both sides of a writer", "RRWRRWRR", "ab c de f gh"},

		{"a mutex is a writer to readers", "ERR", "a bc"},
		{"a mutex is a writer to writers", "EWE", "a b c"},
		{"readers block a mutex", "RRE", "ab c"},
		{"a mutex blocks readers", "RER", "a b c"},

		{"Curator's writer", "wRR", "a bc"},
		{"Curator's readers", "rRW", "ab c"},
		{"Curator's mutex", "eRW", "a b c"},
		{"Curator's in between", "RwRrWeR", "a b cd e f g"},
		{"kazoo's lock", "kRR", "a bc"},
		{"kazoo's reader", "zRW", "ab c"},
		{"kazoo's in between", "RkRzWzR", "a b cd e fg"},
		{"all together", "rzRkEwWeRRzr", "abc d e f g h ijkl"},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				q := newTurns(c, test.queue)
				for turn := range strings.FieldsSeq(test.turns) {
					q.wantInside(turn)
					q.leave()
				}
				q.wantInside("")
				c.wantNodes(0)
			})
		})
	}
}

// turns is a queue as TestReadWriteTurns describes it.
type turns struct {
	c      *cluster
	ref    *referee
	places []turn
}

// A turn is one place in the queue.
type turn struct {
	kind rune
	hold Hold   // of a process of ours
	path string // of another client's node
	out  func() // of the referee, while it is inside
	gone bool
}

func newTurns(c *cluster, queue string) *turns {
	c.t.Helper()
	q := &turns{c: c, ref: newReferee(c.t), places: make([]turn, len(queue))}
	strangers := c.crowd()
	names := map[rune]string{
		'r': "_c_%035d-__READ__", 'w': "_c_%035d-__WRIT__", 'e': "_c_%035d-lock-",
		'z': "%032d__rlock__", 'k': "%032d__lock__",
	}
	for i, kind := range queue {
		p, label := &q.places[i], string('a'+rune(i))
		p.kind = kind
		switch kind {
		case 'R', 'W':
			p.hold = c.acquire(pick(c.rw(label), kind == 'W'))
		case 'E':
			p.hold = c.acquire(c.lock(label))
		default:
			name := strings.Replace(fmt.Sprintf(names[kind], i), "_c_0000000", "_c_0-0-0-0-", 1) // with dashes, like Curator's
			p.path = strangers.node(name + fmt.Sprintf("%010d", i))
		}
	}
	return q
}

// wantInside checks that the places of turn are inside, and no others.
func (q *turns) wantInside(turn string) {
	q.c.t.Helper()
	synctest.Wait()
	for i := range q.places {
		p, label := &q.places[i], string('a'+rune(i))
		want := strings.Contains(turn, label)
		switch {
		case p.gone:
		case p.path != "": // other clients decide for themselves
			if want {
				p.out = q.ref.enterStranger(label, strings.ContainsRune("wek", p.kind), q.c.czxid(p.path))
			}
		default:
			_, err, granted := p.hold.Granted().Poll()
			if granted != want || err != nil {
				q.c.t.Fatalf("turn %q: %s is granted: %t, %v; want %t\n%v", turn, label, granted, err, want, q.c.nodes())
			}
			if granted {
				p.out = q.ref.enter(p.hold.Lock().m, p.hold)
			}
		}
	}
}

// leave lets those who are inside leave.
func (q *turns) leave() {
	q.c.t.Helper()
	for i := range q.places {
		p := &q.places[i]
		if p.out == nil {
			continue
		}
		p.out()
		p.out, p.gone = nil, true
		if p.path != "" {
			q.c.remove(p.path)
		} else {
			mustRelease(q.c.t, p.hold)
		}
	}
}

// A directory in which mutexes contend with readers and writers is a mistake:
// other clients grant both. It is logged once.
func TestKindsInOneDirectoryAreReported(t *testing.T) {
	const said = "mutexes and read/write locks contend in one directory"
	type mix struct {
		node string
		take func(c *cluster) *Lock
	}
	each(t, map[string]mix{
		"a mutex among readers":      {"lock-0000000000", func(c *cluster) *Lock { return c.rw("a").Reader() }},
		"kazoo's lock among writers": {hex32 + "__lock__0000000000", func(c *cluster) *Lock { return c.rw("a").Writer() }},
		"a reader among mutexes":     {"__READ__0000000000", func(c *cluster) *Lock { return c.lock("a") }},
		"a writer among mutexes":     {"__WRIT__0000000000", func(c *cluster) *Lock { return c.lock("a") }},
	}, func(c *cluster, test mix) {
		path := c.crowd().node(test.node)
		h := test.take(c).Acquire(c.t.Context())
		c.waiting(h)
		second := c.crowd().node(strings.Replace(test.node, "000", "100", 1)) // it lists again, and again
		c.remove(path)
		later(time.Second)
		if lines := c.log.with(said); len(lines) != 1 || !strings.Contains(lines[0], path) {
			c.t.Errorf("logged %q, want one line that names %s", lines, path)
		}
		c.held(h)
		c.unlock(h)
		c.remove(second)
	})
}

// What TryLock answers, by who is there already: R and W are the process's own
// reader and writer, r and w those of other processes, in the order in which they
// queue. A refused writer is told who is ahead.
func TestReadWriteTryLock(t *testing.T) {
	for _, test := range []struct {
		there       string
		read, write error
		ahead       string
	}{
		{"", nil, nil, ""},
		{"r", nil, ErrLocked, "other"},
		{"w", ErrLocked, ErrLocked, "other"},
		{"R", nil, ErrLocked, "own"},
		{"W", nil, nil, ""},
		{"Ww", nil, nil, ""},
		{"Rw", nil, ErrLocked, "other"},
		{"rw", ErrLocked, ErrLocked, "other"},
		{"wW", ErrLocked, ErrLocked, "other"},
		{"wR", ErrLocked, ErrLocked, "own"},
		{"rW", ErrLocked, ErrLocked, "other"},
		{"Rr", nil, ErrLocked, ""},
		{"WR", nil, nil, ""},
	} {
		for _, write := range []bool{false, true} {
			want := test.read
			if write {
				want = test.write
			}
			t.Run(fmt.Sprintf("%s/write=%t", test.there, write), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					own := c.rw("own")
					var there []Hold
					for i, who := range test.there {
						rw := own
						if strings.ContainsRune("rw", who) {
							rw = c.rw(fmt.Sprintf("other%d", i))
						}
						there = append(there, c.acquire(pick(rw, strings.ContainsRune("wW", who))))
					}
					nodes := len(c.nodes())

					l := pick(own, write)
					_, inside := l.State()
					h, err := l.TryLock(c.t.Context())
					wantErr(c.t, "trylock", err, want)
					if err == nil {
						c.held(h)
						c.unlock(h)
					} else if write && !strings.Contains(err.Error(), test.ahead) {
						c.t.Errorf("trylock says %q, want it to name %s", err, test.ahead)
					}
					synctest.Wait()
					c.wantNodes(nodes)
					if _, now := l.State(); now != inside {
						c.t.Errorf("%d holders afterwards, %d before", now, inside)
					}
					for _, h := range there {
						h.Release()
						synctest.Wait()
					}
					c.wantNodes(0)
				})
			})
		}
	}
}

// A name has one kind in a process for as long as it is in use, however it is
// written.
func TestErrKind(t *testing.T) {
	bubble(t, func(c *cluster) {
		m, other := c.open("a"), c.open("b")
		rw, lock := readWrite(c.t, m, "one"), exclusive(c.t, m, "two")
		for _, slash := range []string{"", "/"} {
			_, err := m.Exclusive(slash + "one")
			wantErr(c.t, "exclusive of a read/write lock", err, ErrKind)
			_, err = m.ReadWrite(slash + "two")
			wantErr(c.t, "readwrite of an exclusive lock", err, ErrKind)
			if readWrite(c.t, m, slash+"one") != rw {
				c.t.Errorf("%q is another pair", slash+"one")
			}
		}
		for _, name := range []string{"one/x", "on", "one1"} {
			exclusive(c.t, m, name)
		}
		exclusive(c.t, other, "one")
		if rw.Reader() == rw.Writer() || rw.Reader().Path() != rw.Writer().Path() || rw.Writer().Name() != "one" {
			c.t.Errorf("the pair is %s and %s", rw.Reader().Path(), rw.Writer().Path())
		}
		wantState(c.t, lock, state.Free, 0)
	})
}

// Asking for the write lock with the context of a read hold is an upgrade, which
// is refused: it would wait for itself. The innermost live hold of each kind counts.
func TestF077_ErrUpgrade(t *testing.T) {
	const (
		anew      = "anew"
		reentered = "reentered"
		upgrade   = "an upgrade"
	)
	for _, test := range []struct {
		// A nest of contexts, from the outermost: r and w are a reader's and a
		// writer's, p that of a reader that waits; -0 releases the first of them.
		nest        string
		read, write string // what a reader and a writer get in it
	}{
		{"", anew, anew},
		{"r", reentered, upgrade},
		{"w", anew, reentered},
		{"w r", reentered, reentered},
		{"w r -0", reentered, upgrade}, // it was a downgrade
		{"w r -1", anew, reentered},
		{"w r -0 -1", anew, anew},
		{"r -0", anew, anew},
		{"w -0", anew, anew},
		{"r -0 w", anew, reentered},
		{"r -0 w r", reentered, reentered},
		{"r r -0", reentered, upgrade},
		{"r r -1", reentered, upgrade},
		{"w w -0", anew, reentered},
		{"w w -1", anew, reentered},
		{"w w r r -1 -3", reentered, reentered},
		{"w w r r -0 -1", reentered, upgrade},
		{"p", reentered, upgrade},
	} {
		t.Run(test.nest, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				rw := c.rw("a")
				nest, ctx := newNest(c, rw, test.nest)
				for i, l := range []*Lock{rw.Reader(), rw.Writer()} {
					want := []string{test.read, test.write}[i]
					h := l.Acquire(ctx)
					synctest.Wait()
					got := anew
					_, err, settled := h.Granted().Poll()
					switch {
					case settled && err != nil:
						got = upgrade
						wantErr(c.t, "acquire", err, ErrUpgrade)
						_, err = l.Lock(ctx)
						wantErr(c.t, "lock", err, ErrUpgrade)
						_, err = l.TryLock(ctx)
						wantErr(c.t, "trylock", err, ErrUpgrade)
						err = l.Do(ctx, func(context.Context, Hold) error { c.t.Error("inside"); return nil })
						wantErr(c.t, "do", err, ErrUpgrade)
						wantState(c.t, l, state.Free, 0)
					case h.Depth() > 1:
						got = reentered
					}
					if got != want {
						c.t.Errorf("%s: %s, %v; want %s", l.kind, got, err, want)
					}
					h.Release()
					synctest.Wait()
				}
				for _, h := range nest {
					h.Release()
				}
			})
		})
	}
}

// newNest acquires and releases what script says, as TestF077_ErrUpgrade describes
// it, and returns the holds and the innermost context.
func newNest(c *cluster, rw *RWLock, script string) (holds []Hold, ctx context.Context) {
	c.t.Helper()
	ctx = c.t.Context()
	for step := range strings.FieldsSeq(script) {
		var h Hold
		switch step[0] {
		case '-':
			c.unlock(holds[step[1]-'0'])
			continue
		case 'p':
			mustLock(c.t, c.rw("b").Writer())
			h = c.acquire(rw.Reader())
		default:
			h = mustLock(c.t, pick(rw, step == "w")) // not with ctx: another holder
		}
		inside, cancel := h.Context(ctx)
		c.t.Cleanup(cancel)
		ctx = context.WithoutCancel(inside) // what it says of the others outlives its own hold
		holds = append(holds, h)
	}
	return holds, ctx
}

// The context of a hold means nothing to another lock, nor to the same lock of
// another process.
func TestUpgradeIsOfOneLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		h := mustLock(c.t, readWrite(c.t, m, "one").Reader())
		ctx, cancel := h.Context(c.t.Context())
		defer cancel()
		w, err := readWrite(c.t, m, "two").Writer().Lock(ctx)
		wantErr(c.t, "another lock", err, nil)
		c.unlock(w)
		abroad := readWrite(c.t, c.open("b"), "one").Writer().Acquire(context.WithoutCancel(ctx))
		c.waiting(abroad)
		c.unlock(h)
		c.held(abroad)
		c.unlock(abroad)
	})
}
