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

// Who is inside when, for queues of all kinds of contenders. Each letter is a
// process of its own, in the order in which they queue:
//
//	R W E   a reader, a writer, and an exclusive lock of this package
//	r w e   the nodes of Apache Curator's read, write and mutex
//	z k     the nodes of kazoo's read lock and its lock or write lock
//
// Each turn names those who are inside together, by their places in the queue, of
// which a is the first; then they leave, and the next turn is due.
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
		{"readers are in a mutex's way", "RRE", "ab c"},
		{"a mutex is in the readers' way", "RER", "a b c"},

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

// turns is a queue of processes, as TestReadWriteTurns describes it.
type turns struct {
	c     *cluster
	ref   *rwReferee
	queue string
	holds []Hold   // of ours
	paths []string // of strangers' nodes
	gone  []bool
	in    []func()
}

func newTurns(c *cluster, queue string) *turns {
	c.t.Helper()
	q := &turns{
		c: c, ref: newRWReferee(c.t), queue: queue,
		holds: make([]Hold, len(queue)), paths: make([]string, len(queue)), gone: make([]bool, len(queue)), in: make([]func(), len(queue)),
	}
	strangers := c.crowd()
	for i, kind := range queue {
		label := string('a' + rune(i))
		switch kind {
		case 'R':
			q.holds[i] = c.rw(label).Reader().Acquire(c.t.Context())
		case 'W':
			q.holds[i] = c.rw(label).Writer().Acquire(c.t.Context())
		case 'E':
			q.holds[i] = c.lock(label).Acquire(c.t.Context())
		default:
			name := map[rune]string{
				'r': "_c_%035d-__READ__", 'w': "_c_%035d-__WRIT__", 'e': "_c_%035d-lock-",
				'z': "%032d__rlock__", 'k': "%032d__lock__",
			}[kind]
			name = strings.Replace(fmt.Sprintf(name, i), "_c_0000000", "_c_0-0-0-0-", 1) // with dashes, as Curator's
			q.paths[i] = strangers.node(name + fmt.Sprintf("%010d", i))
		}
		synctest.Wait() // in its place, or inside
	}
	return q
}

// wantInside checks that those are inside, and no other.
func (q *turns) wantInside(turn string) {
	q.c.t.Helper()
	synctest.Wait()
	for i := range q.queue {
		want := strings.ContainsRune(turn, 'a'+rune(i))
		switch {
		case q.gone[i]:
		case q.paths[i] != "": // strangers decide for themselves
			if want {
				q.in[i] = q.ref.enter(string('a'+rune(i)), strings.ContainsRune("wek", rune(q.queue[i])), uint64(q.czxid(q.paths[i])))
			}
		default:
			_, err, granted := q.holds[i].Granted().Poll()
			if granted != want || err != nil {
				q.c.t.Fatalf("queue %s, turn %q: %c is granted: %t, %v; want %t\n%v", q.queue, turn, 'a'+i, granted, err, want, q.c.nodes())
			}
			if granted {
				q.in[i] = q.ref.enterHeld(q.holds[i])
			}
		}
	}
}

func (q *turns) czxid(path string) int64 {
	_, stat, _ := q.c.srv.Get(path)
	return stat.Czxid
}

// leave has those who are inside leave.
func (q *turns) leave() {
	q.c.t.Helper()
	for i, out := range q.in {
		if out == nil {
			continue
		}
		out()
		q.in[i], q.gone[i] = nil, true
		if q.paths[i] != "" {
			q.c.remove(q.paths[i])
		} else {
			mustRelease(q.c.t, q.holds[i])
		}
	}
}

// A reader watches the nearest writer ahead and nothing else. What others do is
// no request of its own.
func TestF036_ReaderWaitsForTheNearestWriterOnly(t *testing.T) {
	bubble(t, func(c *cluster) {
		strangers := c.crowd()
		far := strangers.node("__READ__0000000000")
		near := strangers.node("_c_" + hex32 + "-__WRIT__0000000001")
		beside := strangers.node("__READ__0000000002")
		h := c.rw("a").Reader().Acquire(c.t.Context())
		synctest.Wait()
		behind := strangers.node("__WRIT__0000000004")

		for path, want := range map[string]int{far: 0, near: 1, beside: 0, behind: 0} {
			if got := c.srv.Watches(path).Data; got != want {
				c.t.Errorf("%d watches of %s, want %d", got, path, want)
			}
		}
		count := c.countRequests("/")
		for _, path := range []string{far, beside, behind} {
			c.remove(path)
			wantWaiting(c.t, "a reader behind a writer", h)
		}
		c.remove(near)
		synctest.Wait()
		wantHeld(c.t, "a reader with nobody ahead", h)
		if got := count.take(); len(got) != 0 {
			c.t.Errorf("requests: %v, want none, not even when the only writer ahead went", got)
		}
		mustRelease(c.t, h)
	})
}

// A queue of mutexes and of readers and writers in one directory is a mistake
// that other clients answer by granting both: it is said, once.
func TestKindsInOneDirectoryAreReported(t *testing.T) {
	const said = "mutexes and read/write locks contend in one directory"
	for _, test := range []struct {
		what string
		node string
		take func(c *cluster) Hold
	}{
		{"a mutex among readers", "lock-0000000000", func(c *cluster) Hold { return c.rw("a").Reader().Acquire(c.t.Context()) }},
		{"kazoo's lock among writers", hex32 + "__lock__0000000000", func(c *cluster) Hold { return c.rw("a").Writer().Acquire(c.t.Context()) }},
		{"a reader among mutexes", "__READ__0000000000", func(c *cluster) Hold { return c.lock("a").Acquire(c.t.Context()) }},
		{"a writer among mutexes", "__WRIT__0000000000", func(c *cluster) Hold { return c.lock("a").Acquire(c.t.Context()) }},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				path := c.crowd().node(test.node)
				h := test.take(c)
				wantWaiting(c.t, test.what, h)
				// It looks again, and again.
				second := c.crowd().node(strings.Replace(test.node, "000", "100", 1))
				c.remove(path)
				later(time.Second)
				if lines := c.log.with(said); len(lines) != 1 || !strings.Contains(lines[0], path) {
					c.t.Errorf("%s: logged %q, want one line that names %s", test.what, lines, path)
				}
				wantHeld(c.t, test.what, h)
				mustRelease(c.t, h)
				c.remove(second)
			})
		})
	}
}

// A contender that is not ephemeral does not go by itself: the waiter says so,
// in the log and to whom it answers.
func TestReaderReportsAWriterThatCannotGo(t *testing.T) {
	bubble(t, func(c *cluster) {
		path := dir + "/__WRIT__0000000000"
		if err := c.srv.CreateAll(path, []byte("left behind")); err != nil {
			t.Fatal(err)
		}
		rw := c.rw("a")
		h := rw.Reader().Acquire(c.t.Context())
		wantWaiting(c.t, "a reader", h)
		_, err := rw.Reader().TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrLocked)
		if want := "its node " + path + " is not ephemeral"; !strings.Contains(err.Error(), want) {
			c.t.Errorf("trylock says %q, want it to say %q", err, want)
		}
		if lines := c.log.with("not ephemeral"); len(lines) != 1 || !strings.Contains(lines[0], path) {
			c.t.Errorf("logged %q, want one line that names %s", lines, path)
		}
		c.remove(path)
		synctest.Wait()
		wantHeld(c.t, "the reader", h)
		mustRelease(c.t, h)
	})
}

// Children that are no contenders are in nobody's way, and are counted.
func TestF015_StrangersInTheDirectory(t *testing.T) {
	bubble(t, func(c *cluster) {
		strangers := c.crowd()
		for _, name := range []string{"README", "_c_short", "_c_", "lock-12", "__WRIT__", hex32 + "__lease__0000000001", "_c_" + hex32 + "-latch-0000000001"} {
			strangers.node(name)
		}
		r, w := c.rw("a"), c.rw("b")
		read := mustLock(c.t, r.Reader())
		if got := r.Reader().Stats().Foreign; got != 7 {
			c.t.Errorf("%d strangers counted, want 7", got)
		}
		write := w.Writer().Acquire(c.t.Context())
		wantWaiting(c.t, "a writer behind a reader", write)
		mustRelease(c.t, read)
		synctest.Wait()
		wantHeld(c.t, "the writer", write)
		mustRelease(c.t, write)
		c.wantNodes(7)
	})
}

// What TryLock answers, by who is there already. "own" is the process that
// tries, in another goroutine of it.
func TestReadWriteTryLock(t *testing.T) {
	type who struct {
		own   bool
		write bool
	}
	ownR, ownW, otherR, otherW := who{true, false}, who{true, true}, who{false, false}, who{false, true}
	for _, test := range []struct {
		what        string
		there       []who
		read, write error
		ahead       string // the process that a refused writer is told of
	}{
		{"nobody", nil, nil, nil, ""},
		{"another's reader", []who{otherR}, nil, ErrLocked, "other"},
		{"another's writer", []who{otherW}, ErrLocked, ErrLocked, "other"},
		{"own reader", []who{ownR}, nil, ErrLocked, "own"},
		{"own writer", []who{ownW}, nil, nil, ""},
		{"own writer, and another's that waits", []who{ownW, otherW}, nil, nil, ""},
		{"own reader, and another's writer that waits", []who{ownR, otherW}, nil, ErrLocked, "other"},
		{"another's reader, and a writer that waits", []who{otherR, otherW}, ErrLocked, ErrLocked, "other"},
		{"another's writer, and own writer that waits", []who{otherW, ownW}, ErrLocked, ErrLocked, "other"},
		{"another's writer, and own reader that waits", []who{otherW, ownR}, ErrLocked, ErrLocked, "own"},
		{"another's reader, and own writer that waits", []who{otherR, ownW}, ErrLocked, ErrLocked, "other"},
		{"own reader and another's", []who{ownR, otherR}, nil, ErrLocked, ""},
		{"own writer and own reader", []who{ownW, ownR}, nil, nil, ""},
	} {
		for _, write := range []bool{false, true} {
			want := test.read
			if write {
				want = test.write
			}
			t.Run(fmt.Sprintf("%s/write=%t", test.what, write), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					own, n := c.rw("own"), 0
					var there []Hold
					for _, w := range test.there {
						rw := own
						if !w.own {
							rw = c.rw(fmt.Sprintf("other%d", n))
							n++
						}
						there = append(there, pick(rw, w.write).Acquire(c.t.Context()))
						synctest.Wait()
					}
					nodes := len(c.nodes())

					l := pick(own, write)
					_, inside := l.State()
					h, err := l.TryLock(c.t.Context())
					synctest.Wait()
					wantErr(c.t, "trylock", err, want)
					if err == nil {
						wantHeld(c.t, "trylock", h)
						mustRelease(c.t, h)
					} else if write && test.ahead != "" && !strings.Contains(err.Error(), test.ahead) {
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

// pick returns one of the two locks.
func pick(rw *RWLock, write bool) *Lock {
	if write {
		return rw.Writer()
	}
	return rw.Reader()
}

// A name is of one kind in a process for as long as somebody uses it, however it
// is written.
func TestErrKind(t *testing.T) {
	bubble(t, func(c *cluster) {
		m, other := c.open("a"), c.open("b")
		rw, err := m.ReadWrite("one")
		wantErr(c.t, "readwrite", err, nil)
		lock, err := m.Exclusive("two")
		wantErr(c.t, "exclusive", err, nil)
		for _, name := range []string{"one", "/one"} {
			_, err := m.Exclusive(name)
			wantErr(c.t, "exclusive of a read/write lock", err, ErrKind)
			again, err := m.ReadWrite(name)
			wantErr(c.t, "readwrite again", err, nil)
			if again != rw {
				c.t.Errorf("%q is another pair", name)
			}
		}
		for _, name := range []string{"two", "/two"} {
			_, err := m.ReadWrite(name)
			wantErr(c.t, "readwrite of an exclusive lock", err, ErrKind)
		}
		// Names below and beside it are others; so is another process's.
		for _, name := range []string{"one/x", "on", "one1"} {
			_, err := m.Exclusive(name)
			wantErr(c.t, name, err, nil)
		}
		_, err = other.Exclusive("one")
		wantErr(c.t, "another process", err, nil)
		if rw.Reader() == rw.Writer() || rw.Reader().Path() != rw.Writer().Path() || rw.Writer().Name() != "one" {
			c.t.Errorf("the pair is %s and %s", rw.Reader().Path(), rw.Writer().Path())
		}
		wantState(c.t, lock, state.Free, 0)
	})
}

// Who asks for the write lock with a context that says that he reads would wait
// for himself. It is the innermost live hold of each kind that counts.
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
				for _, ask := range []struct {
					l    *Lock
					want string
				}{{rw.Reader(), test.read}, {rw.Writer(), test.write}} {
					h := ask.l.Acquire(ctx)
					synctest.Wait()
					_, err, settled := h.Granted().Poll()
					got := anew
					switch {
					case settled && err != nil:
						wantErr(c.t, "acquire", err, ErrUpgrade)
						got = upgrade
					case h.Depth() > 1:
						got = reentered
					}
					if got != ask.want {
						c.t.Errorf("%s: %s, %v; want %s", ask.l.kind, got, err, ask.want)
					}
					if got == upgrade {
						// At once, whatever the verb, and without a trace.
						_, err = ask.l.Lock(ctx)
						wantErr(c.t, "lock", err, ErrUpgrade)
						_, err = ask.l.TryLock(ctx)
						wantErr(c.t, "trylock", err, ErrUpgrade)
						err = ask.l.Do(ctx, func(context.Context, Hold) error { c.t.Error("inside"); return nil })
						wantErr(c.t, "do", err, ErrUpgrade)
						wantState(c.t, ask.l, state.Free, 0)
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
			mustRelease(c.t, holds[step[1]-'0'])
			synctest.Wait()
			continue
		case 'p':
			mustLock(c.t, c.rw("b").Writer())
			h = rw.Reader().Acquire(c.t.Context())
			synctest.Wait()
		default:
			h = mustLock(c.t, pick(rw, step == "w")) // a holder of its own: no context is given
		}
		inside, cancel := h.Context(ctx)
		c.t.Cleanup(cancel)
		// A context ends with its hold; what it says of the others is to go on.
		ctx = context.WithoutCancel(inside)
		holds = append(holds, h)
	}
	return holds, ctx
}

// Who reads may not ask to write although the process holds the write lock, too:
// another of its goroutines does, and newcomers enter there at once.
func TestUpgradeBesideAWriter(t *testing.T) {
	bubble(t, func(c *cluster) {
		rw := c.rw("a")
		w := mustLock(c.t, rw.Writer())
		for range 2 { // the second one finds all that there is to find out
			mustRelease(c.t, rw.Writer().Acquire(c.t.Context()))
		}
		r := mustLock(c.t, rw.Reader())
		ctx, cancel := r.Context(c.t.Context())
		defer cancel()
		_, err := rw.Writer().Acquire(ctx).Granted().Wait(c.t.Context())
		wantErr(c.t, "acquire", err, ErrUpgrade)
		mustRelease(c.t, w)
		mustRelease(c.t, r)
	})
}

// The contexts of one pair mean nothing to another pair, nor to the same lock of
// another process.
func TestUpgradeIsOfOneLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		one, two := readWrite(c.t, m, "one"), readWrite(c.t, m, "two")
		h := mustLock(c.t, one.Reader())
		ctx, cancel := h.Context(c.t.Context())
		defer cancel()
		w, err := two.Writer().Lock(ctx)
		wantErr(c.t, "another lock", err, nil)
		mustRelease(c.t, w)
		abroad := readWrite(c.t, c.open("b"), "one").Writer().Acquire(context.WithoutCancel(ctx))
		wantWaiting(c.t, "another process", abroad)
		mustRelease(c.t, h)
		synctest.Wait()
		wantHeld(c.t, "another process", abroad)
		mustRelease(c.t, abroad)
	})
}

// The tokens of grants in the order of the grants: a writer's is above all
// before it, a reader's above every earlier writer's and below every later
// one's, a downgraded reader's is its writer's.
func TestF056_ReadWriteTokens(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.rw("a"), c.rw("b")
		var last uint64 // of the newest write
		var reads uint64
		for i := range 5 {
			w := mustLock(c.t, a.Writer())
			token := grantOf(c.t, w).Token
			if token <= last || token <= reads {
				c.t.Errorf("round %d: writer's token %d after a writer's %d and a reader's %d", i, token, last, reads)
			}
			last = token
			next := b.Writer().Acquire(c.t.Context())
			synctest.Wait()
			down := mustLock(c.t, a.Reader())
			if got := grantOf(c.t, down).Token; got != last {
				c.t.Errorf("round %d: downgraded reader's token %d, its writer's is %d", i, got, last)
			}
			mustRelease(c.t, w)
			wantWaiting(c.t, "a writer behind a downgraded reader", next)
			mustRelease(c.t, down)
			synctest.Wait()
			if token = grantOf(c.t, next).Token; token <= last {
				c.t.Errorf("round %d: writer's token %d after a writer's %d", i, token, last)
			}
			last = token
			mustRelease(c.t, next)
			for _, l := range []*Lock{a.Reader(), b.Reader()} {
				h := mustLock(c.t, l)
				if got := grantOf(c.t, h).Token; got <= last {
					c.t.Errorf("round %d: reader's token %d after a writer's %d", i, got, last)
				} else {
					reads = max(reads, got)
				}
				mustRelease(c.t, h)
			}
			// The directory is made anew, and its numbers begin again at 0.
			if err := c.srv.DeleteAll(dir); err != nil {
				c.t.Fatal(err)
			}
		}
	})
}

// Our own readers, however many come, do not keep our own writer out for longer
// than a tenure: not if they are inside when it begins to queue, and not if they
// were queued ahead of it. It takes no request.
func TestOwnWriterClosesOwnReadersGate(t *testing.T) {
	for _, test := range []struct {
		what  string
		begin func(c *cluster, p *RWLock) (read, write Hold)
	}{
		{"readers are inside", func(c *cluster, p *RWLock) (read, write Hold) {
			read = mustLock(c.t, p.Reader())
			write = p.Writer().Acquire(c.t.Context())
			return read, write
		}},
		{"readers are queued ahead", func(c *cluster, p *RWLock) (read, write Hold) {
			other := mustLock(c.t, c.rw("other").Writer())
			read = p.Reader().Acquire(c.t.Context())
			synctest.Wait()
			write = p.Writer().Acquire(c.t.Context())
			synctest.Wait()
			mustRelease(c.t, other)
			return read, write
		}},
		{"readers came in beside the writer before", func(c *cluster, p *RWLock) (read, write Hold) {
			before := mustLock(c.t, p.Writer())
			read = mustLock(c.t, p.Reader())
			mustRelease(c.t, before)
			write = p.Writer().Acquire(c.t.Context())
			return read, write
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				p := c.rw("a")
				read, write := test.begin(c, p)
				synctest.Wait()
				wantHeld(c.t, "the reader", read)
				pending(c.t, "the writer", write.Granted())
				// There is always a reader, if they let each other in.
				sent := p.writer.m.client.Stats().Sent["getChildren2"]
				for i := range 20 {
					if _, _, granted := write.Granted().Poll(); granted && i < 5 {
						c.t.Error("the readers had no tenure")
					}
					next := p.Reader().Acquire(c.t.Context())
					later(defaultTenure / 10)
					read.Release()
					synctest.Wait()
					read = next
				}
				if _, _, granted := write.Granted().Poll(); !granted {
					c.t.Fatal("our own readers keep our writer out")
				}
				wantHeld(c.t, "the writer", write)
				if looked := p.writer.m.client.Stats().Sent["getChildren2"] - sent; looked > 2 {
					c.t.Errorf("%d lists for it; want one for each of the two locks at most", looked)
				}
				read.Release()
				write.Release()
				synctest.Wait()
				c.wantNodes(0)
			})
		})
	}
}

// With a negative tenure a process lets nobody by, not even its own writer.
func TestNegativeTenureKeepsOwnReadersGateOpen(t *testing.T) {
	bubble(t, func(c *cluster) {
		p := c.rw("a", func(cfg *Config) { cfg.Tenure = -1 })
		read := mustLock(c.t, p.Reader())
		write := p.Writer().Acquire(c.t.Context())
		wantWaiting(c.t, "the writer", write)
		for range 20 {
			next, err := p.Reader().TryLock(c.t.Context())
			wantErr(c.t, "another reader", err, nil)
			later(time.Second)
			read.Release()
			read = next
		}
		wantWaiting(c.t, "the writer", write)
		mustRelease(c.t, read)
		synctest.Wait()
		wantHeld(c.t, "the writer", write)
		mustRelease(c.t, write)
	})
}

// The holders of the two locks of a process are counted apart, and each lock's
// release is its own.
func TestF079_ReaderAndWriterOfOneProcess(t *testing.T) {
	bubble(t, func(c *cluster) {
		p, other := c.rw("a"), c.rw("b")
		w1 := mustLock(c.t, p.Writer())
		r1 := mustLock(c.t, p.Reader())
		w2, r2 := mustLock(c.t, p.Writer()), mustLock(c.t, p.Reader())
		wantState(c.t, p.Writer(), state.Retained, 2)
		wantState(c.t, p.Reader(), state.Retained, 2)
		c.wantNodes(2)
		next := other.Reader().Acquire(c.t.Context())
		wantWaiting(c.t, "another's reader", next)
		mustRelease(c.t, w1)
		mustRelease(c.t, r1)
		wantState(c.t, p.Writer(), state.Retained, 1)
		wantState(c.t, p.Reader(), state.Retained, 1)
		mustRelease(c.t, w2)
		synctest.Wait()
		wantState(c.t, p.Writer(), state.Free, 0)
		wantHeld(c.t, "our reader", r2)
		wantHeld(c.t, "another's reader beside ours", next)
		mustRelease(c.t, r2)
		mustRelease(c.t, next)
		c.wantNodes(0)
	})
}
