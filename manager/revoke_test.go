// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// revoking revokes l in a goroutine of its own, and returns where its error comes.
func (c *cluster) revoking(l *Lock, reason string, within time.Duration) <-chan error {
	c.t.Helper()
	result := make(chan error, 1)
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	go func() {
		defer cancel()
		result <- l.Revoke(ctx, reason)
	}()
	synctest.Wait()
	return result
}

// wantRevoked checks that h is revoked once nothing moves any more, and returns why.
func (c *cluster) wantRevoked(h Hold) Revocation {
	c.t.Helper()
	synctest.Wait()
	r, ok := h.Revocation()
	if !ok || !isClosed(h.Revoked()) {
		c.t.Errorf("%s is not revoked", describe(h))
	}
	return r
}

// wantNotRevoked checks that h is not revoked once nothing moves any more.
func (c *cluster) wantNotRevoked(h Hold) {
	c.t.Helper()
	synctest.Wait()
	if _, ok := h.Revocation(); ok || isClosed(h.Revoked()) {
		c.t.Errorf("%s is revoked", describe(h))
	}
}

// The revoker's server lags behind, and has not heard of the grant: the holder is told all
// the same.
func TestF327_RevokerIsBehind(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		c.cycle(b)
		lag := c.srv.Faults().Lag(-1, session(b.m))
		h := mustLock(c.t, a)
		result := c.revoking(b, "deploy", time.Minute)
		c.wantRevoked(h)
		lag.Remove()
		c.unlock(h)
		wantErr(c.t, "revoke", <-result, nil)
	})
}

// The numbers of the directory have run out, and the first of the contenders goes between
// the list and the look at their transactions: the next one is revoked.
func TestF330_FirstGoesWhileRevoked(t *testing.T) {
	bubble(t, func(c *cluster) {
		c.countFrom(lastSafe + 1)
		first, asker := mustLock(c.t, c.rw("first").Writer()), c.rw("asker").Reader()
		next := c.acquire(c.rw("next").Writer())
		look := c.stopAt(asker.m, zktest.OpExists, 1)
		result := c.revoking(asker, "deploy", time.Minute)
		look.reached()
		c.unlock(first)
		c.held(next)
		look.goOn()
		c.wantRevoked(next)
		c.unlock(next)
		wantErr(c.t, "revoke", <-result, nil)
	})
}

// A process that holds the lock is told that another asks for it: newcomers wait, the
// holders decide, and the other process gets it when they have left.
func TestRevoke(t *testing.T) {
	each(t, map[string]time.Duration{"tenure": 0, "no tenure": -1}, func(c *cluster, tenure time.Duration) {
		a, b := c.lock("a", func(cfg *Config) { cfg.Tenure = tenure }), c.lock("b")
		h := mustLock(c.t, a)
		early := h.Revoked()
		next := c.acquire(b)
		c.wantNotRevoked(h)
		result := c.revoking(b, "deploy", time.Minute)
		r := c.wantRevoked(h)
		if !isClosed(early) {
			c.t.Error("the channel that was asked for before is open")
		}
		if left := time.Until(r.Until); r.Reason != "deploy" || r.From.Label != "b" || r.From.Session != session(b.m) || left < 59*time.Second || left > time.Minute {
			c.t.Errorf("the revocation is %+v", r)
		}
		newcomer := c.acquire(a)
		c.held(h)
		c.waiting(newcomer, next)
		if a := mustAsk(c.t, b, ""); !a.Yielding || !a.Revoked || a.Holders != 1 || a.Waiting != 1 {
			c.t.Errorf("the holder says %+v", a)
		}
		select {
		case err := <-result:
			c.t.Errorf("revoke has returned: %v", err)
		default:
		}
		h.Release()
		c.held(next)
		wantErr(c.t, "revoke", <-result, nil)
		c.unlock(next)
		c.held(newcomer)
		c.wantNotRevoked(newcomer)
		c.unlock(newcomer)
		if log := c.log.with("asks for the lock"); len(log) != 1 || !strings.Contains(log[0], `"deploy"`) {
			c.t.Errorf("log: %v", log)
		}
	})
}

// A holder that does not comply is reported, with the number of holders inside.
func TestRevokeNotHeeded(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(t, a)
		more, err := h.Share()
		wantErr(t, "share", err, nil)
		err = <-c.revoking(b, "", time.Second)
		wantErr(t, "revoke", err, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), ": not given up: told a@") || !strings.Contains(err.Error(), "(2 holders inside)") || errors.Is(err, ErrNoAnswer) {
			t.Errorf("the error is %v", err)
		}
		c.wantRevoked(h)
		more.Release()
		mustRelease(t, h)
		if left := c.srv.Children("/holdfast/_asks_/" + a.m.id); len(left) != 0 {
			t.Errorf("left in the mailbox: %v", left)
		}
		wantErr(t, "revoke, no holder", b.Revoke(t.Context(), ""), nil)
	})
}

// Of a read/write lock, each holder in the way is told, and no other.
func TestRevokeReadWrite(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, w := c.rw("a"), c.rw("b"), c.rw("c")
		ha, hb := mustLock(c.t, a.Reader()), mustLock(c.t, b.Reader())
		own := mustLock(c.t, w.Reader())
		wantErr(c.t, "a reader among readers", w.Reader().Revoke(c.t.Context(), ""), nil)
		c.wantNotRevoked(ha)
		result := c.revoking(w.Writer(), "write", time.Minute)
		c.wantRevoked(ha)
		c.wantRevoked(hb)
		if r := c.wantRevoked(own); !r.From.Own {
			c.t.Errorf("our own reader is revoked by %v", r.From)
		}
		c.unlock(ha, own)
		select {
		case err := <-result:
			c.t.Errorf("revoke has returned: %v", err)
		default:
		}
		c.unlock(hb)
		wantErr(c.t, "revoke", <-result, nil)

		h := mustLock(c.t, a.Writer())
		result = c.revoking(b.Reader(), "read", time.Minute)
		c.wantRevoked(h)
		c.unlock(h)
		wantErr(c.t, "a reader and a writer", <-result, nil)
	})
}

// The zero Hold is not revoked.
func TestRevokedZeroHold(t *testing.T) {
	if c := (Hold{}).Revoked(); c != nil {
		t.Error("there is a channel")
	}
	if _, ok := (Hold{}).Revocation(); ok {
		t.Error("it is revoked")
	}
}

// Apache Curator's Revoker writes into the holder's node. The holder is revoked, and
// its node says again what it said: one read and one write, and the read that sets
// the watch again.
func TestRevokedByCurator(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a := c.lock("a", func(cfg *Config) { cfg.Endpoint = "host:1" })
		h := mustLock(t, a)
		later(time.Second)
		path := grantOf(t, h).Path
		before, stat, _ := c.srv.Get(path)
		c.takeCounts()
		wantErr(t, "set", c.srv.Set(path, []byte("__REVOKE__")), nil)
		r := c.wantRevoked(h)
		if r.Reason != "revoked by Apache Curator's Revoker" {
			t.Errorf("the revocation is %+v", r)
		}
		c.wantCounts("revoked", map[verb]int{lookAtNode: 2, other: 1, list: 0})
		after, stat2, _ := c.srv.Get(path)
		if stat2.Version != 2 || stat2.Czxid != stat.Czxid || withoutTime(after) != withoutTime(before) {
			t.Errorf("the node says %s (version %d), want %s", after, stat2.Version, before)
		}
		c.held(h)
		newcomer := c.acquire(a)
		c.waiting(newcomer)
		c.unlock(h)
		c.held(newcomer)
		c.wantNotRevoked(newcomer)
	})
}

// The node of a process that still waits is revoked. That concerns its holders, once it has
// some, and not those that ask for the lock until then: they wait in the same line, and
// a TryLock does not wait at all.
func TestRevokedByCuratorWhileItWaits(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		hb := mustLock(c.t, b)
		ha := c.acquire(a)
		later(20 * time.Second) // its own node is watched by then
		wantErr(c.t, "set", c.srv.Set(c.nodeOf(a.m), []byte("__REVOKE__")), nil)
		synctest.Wait()
		joins := c.acquire(a)
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
		defer cancel()
		_, err := a.TryLock(ctx)
		wantErr(c.t, "trylock", err, ErrLocked)
		c.unlock(hb)
		c.held(ha, joins)
		c.wantRevoked(ha)
		late := c.acquire(a)
		c.waiting(late)
		c.unlock(ha, joins)
		c.held(late)
		c.unlock(late)
	})
}

// withoutTime returns a node's data without the time in it.
func withoutTime(data []byte) string {
	before, rest, _ := strings.Cut(string(data), `"since":"`)
	_, after, _ := strings.Cut(rest, `"`)
	return before + after
}

// A Curator contender is told in the way of its Revoker, if it looks there.
func TestRevokeCurators(t *testing.T) {
	const dashed = "_c_0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-"
	each(t, map[string]struct {
		name, data string
		told       bool
	}{
		"revocable":         {dashed + "lock-0000000000", "", true},
		"revoked already":   {dashed + "lock-0000000000", "__REVOKE__", true},
		"revocable, writer": {dashed + "__WRIT__0000000000", "", true},
		"not revocable":     {dashed + "lock-0000000000", "10.0.0.1", false},
		"go-zookeeper":      {"_c_0a1b2c3d0a1b0a1b0a1b0a1b2c3d4e5f-lock-0000000000", "", false},
		"kazoo":             {"0a1b2c3d0a1b0a1b0a1b0a1b2c3d4e5f__lock__0000000000", "", false},
		"no guid":           {"lock-0000000000", "", false},
	}, func(c *cluster, test struct {
		name, data string
		told       bool
	}) {
		b := c.lock("b")
		path := c.crowd().node(test.name, []byte(test.data)...)
		result := c.revoking(b, "", time.Minute)
		data, _, _ := c.srv.Get(path)
		if !test.told {
			wantErr(c.t, "revoke", <-result, ErrNoAnswer)
			if string(data) != test.data {
				c.t.Errorf("the node says %q", data)
			}
			return
		}
		if string(data) != "__REVOKE__" {
			c.t.Errorf("the node says %q", data)
		}
		c.remove(path)
		wantErr(c.t, "revoke", <-result, nil)
	})
}

// A contender of Curator's that is told and stays is reported.
func TestRevokeCuratorNotHeeded(t *testing.T) {
	bubble(t, func(c *cluster) {
		b := c.lock("b")
		c.crowd().node("_c_0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-lock-0000000000")
		err := <-c.revoking(b, "", time.Second)
		wantErr(c.t, "revoke", err, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), "told ") || errors.Is(err, ErrNoAnswer) {
			c.t.Errorf("the error is %v", err)
		}
	})
}

// The holder's node cannot be read before ctx ends. The error names the node.
func TestRevokeHolderNotReached(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(t, a)
		grant, err := h.Grant()
		wantErr(t, "grant", err, nil)
		path := grant.Path
		unread := c.srv.Faults().SwallowRequest(zktest.Match{Path: path, Session: session(b.m), Times: zktest.Every})
		err = <-c.revoking(b, "", time.Second)
		unread.Remove()
		wantErr(t, "revoke", err, ErrNoAnswer)
		if !strings.Contains(err.Error(), "no answer: could not ask "+path) {
			t.Errorf("the error does not name the holder's node: %v", err)
		}
		mustRelease(t, h)
	})
}

// Revoke with a ctx that has ended, or ends before ZooKeeper has answered, names the holder
// that the process knows of: the one that it waits for, or that it remembers.
func TestRevokeNamesTheKnownHolder(t *testing.T) {
	each(t, map[string]func(c *cluster, b *Lock){
		"it waits for it": func(c *cluster, b *Lock) { c.acquire(b) },
		"it remembers it": func(c *cluster, b *Lock) { c.wantCached("first", b, "a") },
	}, func(c *cluster, learn func(*cluster, *Lock)) {
		t := c.t
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(t, a)
		learn(c, b)
		over, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("no time left"))
		slow := c.srv.Faults().SwallowRequest(zktest.Match{Path: dir, Session: session(b.m), Times: zktest.Every})
		for what, err := range map[string]error{
			"ended":       b.Revoke(over, ""),
			"ends":        <-c.revoking(b, "", time.Second),
			"ended (Ask)": func() error { _, err := b.Ask(over, nil); return err }(),
		} {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Holder == nil || e.Holder.Path != grantOf(t, h).Path || !strings.Contains(err.Error(), "held by a@") || strings.Contains(err.Error(), "\n") {
				t.Errorf("ctx %s: %v, want one that names the holder", what, err)
			}
			if what != "ends" {
				wantErr(t, what, err, context.Canceled)
				wantErr(t, what, err, context.Cause(over))
			} else {
				wantErr(t, what, err, context.DeadlineExceeded)
			}
		}
		slow.Remove()
		c.unlock(h)
	})
}

// A revocation that comes when the process does not know yet that it holds the lock
// waits for the grant.
func TestRevokeBeforeTheGrant(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		c.cycle(a)
		// The node is created, and the answer takes its time.
		hold := c.srv.Faults().BlockReplies(session(a.m))
		h := c.acquire(a)
		result := c.revoking(b, "soon", time.Minute)
		later(time.Second)
		pending(c.t, "the grant", h.Granted())
		hold.Remove()
		later(time.Second)
		c.held(h)
		c.wantRevoked(h)
		c.unlock(h)
		wantErr(c.t, "revoke", <-result, nil)
	})
}

// Phases of the holder, as the asker is told.
func TestAskPhases(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", echo), c.lock("b")
		c.cycle(a)
		stop := c.stopBefore(b.m, lookAtNode)
		h := c.acquire(a)
		c.held(h)
		got := make(chan Answer, 1)
		go func() {
			answer, _ := b.Ask(c.t.Context(), []byte("?"))
			got <- answer
		}()
		stop.reached()
		stop.goOn()
		if answer := <-got; answer.Phase != state.Retained || string(answer.Reply) != "?" {
			c.t.Errorf("the answer is %+v", answer)
		}
		c.unlock(h)
	})
}

// More locks are revoked than letters are kept, before their process knows that it holds
// them. It is told of each when it does, with the reason.
func TestManyRevokedBeforeTheGrant(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.open("a"), c.open("b")
		const locks = maxAsked + 5
		var holds, first []Hold
		for i := range locks {
			name := fmt.Sprintf("many/%02d", i)
			la, err := a.Exclusive(name)
			wantErr(c.t, "exclusive", err, nil)
			lb, err := b.Exclusive(name)
			wantErr(c.t, "exclusive", err, nil)
			first = append(first, mustLock(c.t, lb))
			holds = append(holds, c.acquire(la))
			said := asked{nodeData: b.says(), Node: la.Path() + "/" + c.srv.Children(la.Path())[0], Text: fmt.Appendf(nil, "reason %02d", i)}
			for _, node := range c.srv.Children(la.Path()) {
				if a.owns(node) {
					said.Node = la.Path() + "/" + node
				}
			}
			said.Kind, said.Within = revokeKind, time.Hour
			data, err := json.Marshal(said)
			wantErr(c.t, "marshal", err, nil)
			s := b.client.Session()
			wantErr(c.t, "mailbox", s.EnsureDir(boxOf(a), nil), nil)
			wantErr(c.t, "letter", s.CreateEphemeral(fmt.Sprintf("%s/%s%02d", boxOf(a), revokePrefix, i), data, nil), nil)
		}
		synctest.Wait()
		until := time.Now().Add(time.Hour)
		later(10 * time.Second)
		for _, h := range holds {
			c.wantNotRevoked(h)
		}
		c.unlock(first...)
		later(10 * time.Second)
		c.held(holds...)
		for i, h := range holds {
			r := c.wantRevoked(h)
			if r.Reason != fmt.Sprintf("reason %02d", i) || r.From.Session != session(b) || r.Until.Sub(until).Abs() > time.Second {
				c.t.Errorf("lock %d: the revocation is %+v", i, r)
			}
		}
		c.unlock(holds...)
	})
}
