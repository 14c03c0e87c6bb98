// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Servers that speak ZooKeeper's protocol, and are not ZooKeeper.

// likes are such servers: one for each quirk, and two that have several.
var likes = map[string]zktest.Quirks{
	"none":                    {},
	"containers are refused":  {Unknown: []zktest.Op{zktest.OpCreateContainer}},
	"containers hang":         {Unknown: []zktest.Op{zktest.OpCreateContainer}, Reaction: zktest.IgnoreUnknown},
	"containers close":        {Unknown: []zktest.Op{zktest.OpCreateContainer}, Reaction: zktest.CloseUnknown},
	"optional ones hang":      {Unknown: []zktest.Op{zktest.OpMultiRead, zktest.OpRemoveWatches}, Reaction: zktest.IgnoreUnknown},
	"optional ones close":     {Unknown: []zktest.Op{zktest.OpMultiRead, zktest.OpRemoveWatches}, Reaction: zktest.CloseUnknown},
	"child watches forgotten": {ForgetsChildWatches: true},
	"watches are refused":     {Unknown: []zktest.Op{zktest.OpSetWatches}},
	"watches hang":            {Unknown: []zktest.Op{zktest.OpSetWatches}, Reaction: zktest.IgnoreUnknown},
	"watches close":           {Unknown: []zktest.Op{zktest.OpSetWatches}, Reaction: zktest.CloseUnknown},
	"no resume":               {NoResume: true},
	"expired by timeout":      {ExpiredByTimeout: true},
	"other stats":             {OtherStats: true},
	"deaf to reads":           {Deaf: []zktest.Op{zktest.OpGetData, zktest.OpExists, zktest.OpGetChildren2, zktest.OpMultiRead}},
	"deaf to all but writes":  {Deaf: []zktest.Op{zktest.OpGetData, zktest.OpExists, zktest.OpGetChildren2, zktest.OpMultiRead, zktest.OpPing}},
	"ClickHouse Keeper":       zktest.ClickHouseKeeper(),
	"RaftKeeper":              zktest.RaftKeeper(),
}

// like runs a test on a server with quirks.
func like(t *testing.T, quirks zktest.Quirks, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newCluster(t, zktest.Config{Quirks: quirks})) })
}

// waitFor waits until h is granted, for up to d, and checks at each moment that no other
// of holds is held.
func (c *cluster) waitFor(d time.Duration, h Hold, holds ...Hold) {
	c.t.Helper()
	for deadline := time.Now().Add(d); h.Err() != nil; later(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: %v after %v", describe(h), h.Err(), d)
		}
	}
	for _, other := range holds {
		expect(c.t, other.Err() != nil, "%s is held, and so is the %s", describe(h), describe(other))
	}
}

// A lock is taken, contended, handed over, lost and taken again, whatever the server is like.
func TestF361_LifeOfALock(t *testing.T) {
	for name, quirks := range likes {
		t.Run(name, func(t *testing.T) {
			like(t, quirks, func(c *cluster) {
				start := time.Now()
				a, b, watcher := c.lock("a"), c.lock("b"), c.lock("c")
				wantTook(c.t, start, 0, 25*time.Second)
				watching := c.follow(watcher)
				h := mustLock(c.t, a)
				later(time.Second)
				watching.want("taken", "free", "a")
				w := b.Acquire(c.t.Context())
				later(time.Minute)
				c.waiting(w)
				c.held(h)
				later(20 * time.Millisecond)
				c.unlock(h)
				c.waitFor(100*time.Millisecond, w, h)
				later(time.Second)
				watching.want("handed over", "b")

				// The connections end, and with some servers the sessions.
				h = a.Acquire(c.t.Context())
				later(time.Second)
				c.srv.Faults().CutAll()
				for range 6 {
					later(time.Second)
					expect(c.t, w.Err() != nil || h.Err() != nil, "both hold the lock")
				}
				if w.Err() == nil {
					c.unlock(w)
				} else {
					w.Release()
				}
				c.waitFor(time.Minute, h, w)

				// The session of the holder ends, and nothing tells the process of it for a while.
				w = b.Acquire(c.t.Context())
				later(time.Second)
				c.away("a", 15*time.Second)
				lost := time.Now()
				c.waitFor(time.Minute, w, h)
				wantTook(c.t, lost, 3*time.Second, 30*time.Second)
				later(time.Minute)
				again := a.Acquire(c.t.Context())
				later(time.Minute)
				c.waiting(again)
				c.unlock(w)
				c.waitFor(time.Second, again, w)
				c.unlock(again)
				_, err := a.Queue(c.t.Context(), 10)
				wantErr(c.t, "queue", err, nil)
				later(time.Minute)
				if slices.Contains(quirks.Deaf, zktest.OpPing) {
					return // sessions without a write end, again and again
				}
				before := a.m.client.Stats()
				later(time.Minute)
				after := a.m.client.Stats()
				wantEq(c.t, "sessions", after.Epoch, before.Epoch)
				wantEq(c.t, "reconnects", after.Reconnects, before.Reconnects)
			})
		})
	}
}

// A server that refuses container nodes gets others, and is asked once.
func TestF360_ContainersAreRefused(t *testing.T) {
	for _, code := range []zktest.Code{zktest.CodeUnimplemented, zktest.CodeBadArguments} {
		bubble(t, func(c *cluster) {
			c.srv.Faults().FailRequest(zktest.Match{Op: zktest.OpCreateContainer, Times: zktest.Every}, code)
			a := c.lock("a")
			c.cycle(a)
			c.cycle(exclusive(c.t, a.m, "another/lock"))
			later(time.Hour) // containers would go
			expect(c.t, c.srv.Exists("/holdfast/another/lock"), "the directory is gone")
			wantEq(c.t, "requests for containers", a.m.client.Stats().Sent["createContainer"], 1)
			wantEq(c.t, "warnings", len(c.log.with("no current zookeeper server")), 1)
		})
	}
}

// That ZooKeeper refuses a path says nothing about containers.
func TestF360_PathIsRefused(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		for _, op := range []zktest.Op{zktest.OpCreateContainer, zktest.OpCreate} {
			c.srv.Faults().FailRequest(zktest.Match{Op: op, Path: "/holdfast/bad", Times: zktest.Every}, zktest.CodeBadArguments)
		}
		_, err := exclusive(c.t, a.m, "bad").Lock(c.t.Context())
		wantErr(c.t, "lock", err, zkio.ErrBadArguments)
		expect(c.t, !a.m.client.Stats().Basic, "it takes the server for another")
	})
}

// A server that answers a resumed session with another one has ended the lock: its holders are
// told before another process can have it.
func TestF363_AnotherSession(t *testing.T) {
	like(t, zktest.Quirks{NoResume: true}, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		w := b.Acquire(c.t.Context())
		later(time.Second)
		cut := time.Now()
		c.srv.Faults().Cut(session(a.m))
		<-h.Lost()
		wantTook(c.t, cut, 0, time.Second)
		wantErr(c.t, "hold", h.Err(), ErrLost)
		expect(c.t, strings.Contains(h.Err().Error(), "cannot resume sessions"), "it says %v", h.Err())
		c.waiting(w) // the old session's node is there for as long as the session
		c.waitFor(20*time.Second, w, h)
		wantTook(c.t, cut, 0, 14*time.Second)
		c.unlock(w)
		c.cycle(a)
	})
}

// The end of a session is noticed if the server tells it by the timeout.
func TestF363_ExpiredByTimeout(t *testing.T) {
	like(t, zktest.Quirks{ExpiredByTimeout: true}, func(c *cluster) {
		a := c.lock("a")
		h := mustLock(c.t, a)
		w := a.m.client.Session()
		c.away("a", 30*time.Second)
		later(35 * time.Second)
		wantErr(c.t, "hold", h.Err(), ErrLost)
		expect(c.t, w.Err() != nil && w.Gone(), "the session: %v, gone %v", w.Err(), w.Gone())
		c.cycle(a)
	})
}

// Processes hand a lock round, and another client writes to their nodes.
func TestF364_CversionCountsWrites(t *testing.T) {
	like(t, zktest.Quirks{OtherStats: true}, func(c *cluster) {
		locks := []*Lock{c.lock("a"), c.lock("b"), c.lock("c")}
		held := make([]Hold, len(locks))
		for i, l := range locks {
			held[i] = c.acquire(l)
		}
		for turn := range 30 {
			for _, name := range c.nodes() {
				if err := c.srv.Set(dir+"/"+name, []byte("touched")); err != nil {
					c.t.Fatal(err)
				}
			}
			now := turn % len(locks)
			c.held(held[now])
			c.waiting(held[(now+1)%3], held[(now+2)%3])
			next := locks[now].Acquire(c.t.Context()) // joins the round that ends, or begins the next
			other := locks[now].Acquire(c.t.Context())
			mustRelease(c.t, held[now])
			next.Release()
			other.Release()
			later(time.Second)
			held[now] = c.acquire(locks[now])
		}
	})
}

// A lease rests on answered writes, which every server takes for a sign of life.
func TestF365_DeafServers(t *testing.T) {
	for _, deaf := range []string{"deaf to reads", "deaf to all but writes"} {
		t.Run(deaf, func(t *testing.T) {
			like(t, likes[deaf], func(c *cluster) {
				a, b, third, idle := c.lock("a"), c.lock("b"), c.lock("c"), c.open("idle")
				h := mustLock(c.t, a)
				next := c.acquire(b)
				last := c.acquire(third)
				for range 600 { // which is all that an idle process does but for pings
					if _, err := exclusive(c.t, idle, "jobs").Holder(c.t.Context()); err != nil {
						c.t.Fatal(err)
					}
					later(time.Second)
				}
				c.held(h)
				c.waiting(next, last)
				wantEq(c.t, "epoch of the holder", a.m.client.Session().Epoch(), 1)
				wantEq(c.t, "epoch of the next one", b.m.client.Session().Epoch(), 1)
				c.unlock(h)
				c.waitFor(time.Minute, next, h)
				c.unlock(next)
				c.waitFor(time.Minute, last, next)

				// A holder that nothing reaches is told before the server gives its lock away.
				w := c.acquire(a)
				hole := c.srv.Faults().Blackhole(session(third.m))
				defer hole.Remove()
				c.waitFor(time.Minute, w, last)
				wantErr(c.t, "hold", last.Err(), ErrLost)
			})
		})
	}
}

// watchingChildren opens a client that has the children of the node at path watched, and knows
// nothing else of the server.
func (c *cluster) watchingChildren(path string) *zkio.Client {
	c.t.Helper()
	z, err := zkio.Open(c.t.Context(), zkio.Config{Servers: []string{"zk1"}, Dialer: c.srv.Dial, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = z.Close(context.Background()) })
	z.WatchChildren(path, ignore{})
	if _, _, err := z.Session().Children(path); err != nil {
		c.t.Fatal(err)
	}
	return z
}

// A server tells a waiter that the holder's node was deleted, which is not true.
func TestF366_FalseDeletion(t *testing.T) {
	like(t, zktest.RaftKeeper(), func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		w := b.Acquire(c.t.Context())
		later(time.Second)
		other := c.watchingChildren(c.nodeOf(a.m))
		told := b.m.client.Stats().WatchEvents
		c.srv.Faults().Cut(other.Session().ID())
		later(time.Second)
		expect(c.t, b.m.client.Stats().WatchEvents > told, "it was told nothing")
		c.held(h)
		c.waiting(w)
		c.unlock(h)
		c.waitFor(time.Second, w, h)
	})
}

// A process whose locks are at the top of the tree finds out what the server is, too.
func TestF366_NoRoot(t *testing.T) {
	for name, quirks := range likes {
		like(t, quirks, func(c *cluster) {
			c.t.Log(name)
			m := c.open("a", func(cfg *Config) { cfg.Root = "/" })
			wantEq(c.t, "basic", m.client.Stats().Basic, slices.Contains(quirks.Unknown, zktest.OpCreateContainer))
			wantEq(c.t, "nodes of its own", len(c.srv.Children("/")), 1)
		})
	}
}

// Nor does this library have such a server set watches again.
func TestF366_SetsNoWatchesAgain(t *testing.T) {
	like(t, zktest.RaftKeeper(), func(c *cluster) {
		a, b, watcher := c.lock("a"), c.lock("b"), c.lock("c")
		h := mustLock(c.t, a)
		w := b.Acquire(c.t.Context())
		watching := c.follow(watcher)
		later(time.Minute)
		watching.want("held", "a")
		c.srv.Faults().CutAll()
		later(time.Second)
		c.held(h)
		c.waiting(w)
		wantEq(c.t, "setWatches", c.srv.Requests(zktest.OpSetWatches), 0)
		c.unlock(h)
		c.waitFor(time.Second, w, h)
		later(observerPause)
		watching.want("handed over", "b")
	})
}

// Watches of children are gone after a reconnect, and the server does not say so.
func TestF362_ChildWatchesForgotten(t *testing.T) {
	like(t, zktest.Quirks{ForgetsChildWatches: true}, func(c *cluster) {
		a, watcher := c.lock("a"), c.lock("c")
		watching := c.follow(watcher)
		watching.want("free", "free") // it watches the children of the root, and then of the directory
		for range 3 {
			c.srv.Faults().CutAll()
			later(time.Second)
			h := mustLock(c.t, a)
			later(observerPause)
			watching.want("taken", "a")
			c.srv.Faults().CutAll()
			later(time.Second)
			c.unlock(h)
			later(observerPause)
			watching.want("released", "free")
		}
	})
}

// A process waits for a contender whose node it may not read, and a server says of such a
// node that it is there, but not since when nor whose it is (ZooKeeper from 3.8.4 and
// 3.9.2 on) or tells that, too (before). The process is granted the lock when the node is gone, not
// before, and other calls tell what is known.
func TestF368_UnreadableContender(t *testing.T) {
	for name, takesRead := range map[string]bool{"its Stat is told": false, "its Stat is not told": true} {
		t.Run(name, func(t *testing.T) {
			like(t, zktest.Quirks{ExistsTakesRead: takesRead}, func(c *cluster) {
				l := c.lock("a")
				mustRelease(c.t, mustLock(c.t, l)) // makes the directory
				stranger := c.open("stranger", as(owner)).client.Session()
				acl := []zkio.ACL{{Perms: zkio.PermAll, Scheme: "digest", ID: digest(owner)}}
				node := zkio.NewNode(dir, "lock-", func() string { return hex32 }, []byte("x"), acl, nil)
				wantErr(c.t, "create", node.Create(stranger), nil)

				h := l.Acquire(c.t.Context())
				later(time.Minute)
				pending(c.t, "grant", h.Granted())
				ahead, err := l.Holder(c.t.Context())
				wantErr(c.t, "holder", err, nil)
				expect(c.t, ahead != nil && !ahead.Persistent && ahead.Since.IsZero() == takesRead && (ahead.Session == 0) == takesRead,
					"the holder is %+v", ahead)
				expect(c.t, len(c.log.with("not ephemeral")) == 0, "the log says that the node is not ephemeral")
				wantErr(c.t, "delete", node.Delete(stranger), nil)
				c.waitFor(time.Second, h)
				mustRelease(c.t, h)
			})
		})
	}
}

// A chroot that this process may not read is there.
func TestF368_UnreadableChroot(t *testing.T) {
	for _, takesRead := range []bool{false, true} {
		like(t, zktest.Quirks{ExistsTakesRead: takesRead}, func(c *cluster) {
			s := c.open("owner", as(owner)).client.Session()
			acl := []zkio.ACL{{Perms: zkio.PermAll, Scheme: "digest", ID: digest(owner)}, {Perms: zkio.PermCreate, Scheme: "world", ID: "anyone"}}
			wantErr(c.t, "create", s.Create("/tenant", nil, acl), nil)
			m := c.open("tenant", func(cfg *Config) { cfg.Chroot = "/tenant" })
			mustRelease(c.t, mustLock(c.t, exclusive(c.t, m, "jobs")))
		})
	}
}
