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
	expect(c.t, ok && isClosed(h.Revoked()), "%s is not revoked", describe(h))
	return r
}

// wantNotRevoked checks that h is not revoked once nothing moves any more.
func (c *cluster) wantNotRevoked(h Hold) {
	c.t.Helper()
	synctest.Wait()
	_, ok := h.Revocation()
	expect(c.t, !ok && !isClosed(h.Revoked()), "%s is revoked", describe(h))
}

// The zero Hold is not revoked.
func TestRevokedZeroHold(t *testing.T) {
	c := (Hold{}).Revoked()
	expect(t, c == nil, "there is a channel")
	_, ok := (Hold{}).Revocation()
	expect(t, !ok, "it is revoked")
}

// Apache Curator's Revoker writes into the holder's node. The holder is revoked, and
// its node says again what it said: one read and one write, and the read that sets
// the watch again.
func TestRevokedByCurator(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a", func(cfg *Config) { cfg.Endpoint = "host:1" })
		h := mustLock(c.t, a)
		later(time.Second)
		path := grantOf(c.t, h).Path
		before, stat, _ := c.srv.Get(path)
		c.takeCounts()
		wantErr(c.t, "set", c.srv.Set(path, []byte("__REVOKE__")), nil)
		r := c.wantRevoked(h)
		expect(c.t, r.Reason == "revoked by Apache Curator's Revoker", "the revocation is %+v", r)
		c.wantCounts("revoked", map[verb]int{lookAtNode: 2, other: 1, list: 0})
		after, stat2, _ := c.srv.Get(path)
		expect(c.t, stat2.Version == 2 && stat2.Czxid == stat.Czxid && withoutTime(after) == withoutTime(before),
			"the node says %s (version %d), want %s", after, stat2.Version, before)
		c.held(h)
		newcomer := c.acquire(a)
		c.waiting(newcomer)
		c.unlock(h)
		c.held(newcomer)
		c.wantNotRevoked(newcomer)
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
	type node struct {
		name, data string
		told       bool
	}
	each(t, map[string]node{
		"revocable":         {dashed + "lock-0000000000", "", true},
		"revoked already":   {dashed + "lock-0000000000", "__REVOKE__", true},
		"revocable, writer": {dashed + "__WRIT__0000000000", "", true},
		"not revocable":     {dashed + "lock-0000000000", "10.0.0.1", false},
		"go-zookeeper":      {"_c_0a1b2c3d0a1b0a1b0a1b0a1b2c3d4e5f-lock-0000000000", "", false},
		"kazoo":             {"0a1b2c3d0a1b0a1b0a1b0a1b2c3d4e5f__lock__0000000000", "", false},
		"no guid":           {"lock-0000000000", "", false},
	}, func(c *cluster, test node) {
		b := c.lock("b")
		path := c.crowd().node(test.name, []byte(test.data)...)
		result := c.revoking(b, "", time.Minute)
		data, _, _ := c.srv.Get(path)
		if !test.told {
			wantErr(c.t, "revoke", <-result, ErrNoAnswer)
			expect(c.t, string(data) == test.data, "the node says %q", data)
			return
		}
		expect(c.t, string(data) == "__REVOKE__", "the node says %q", data)
		c.remove(path)
		wantErr(c.t, "revoke", <-result, nil)
	})
}

// Revoke with a ctx that has ended, or ends before ZooKeeper has answered, names the holder
// that the process knows of: the one that it waits for, or that it remembers.
func TestRevokeNamesTheKnownHolder(t *testing.T) {
	each(t, map[string]func(c *cluster, b *Lock){
		"it waits for it": func(c *cluster, b *Lock) { c.acquire(b) },
		"it remembers it": func(c *cluster, b *Lock) { c.wantCached("first", b, "a") },
	}, func(c *cluster, learn func(*cluster, *Lock)) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		learn(c, b)
		over, cancel := context.WithCancelCause(c.t.Context())
		cancel(errors.New("no time left"))
		slow := c.srv.Faults().SwallowRequest(zktest.Match{Path: dir, Session: session(b.m), Times: zktest.Every})
		for what, err := range map[string]error{
			"ended":       b.Revoke(over, ""),
			"ends":        <-c.revoking(b, "", time.Second),
			"ended (Ask)": errOf(b.Ask(over, nil)),
		} {
			e, ok := errors.AsType[*Error](err)
			expect(c.t, ok && e.Holder != nil && e.Holder.Path == grantOf(c.t, h).Path && strings.Contains(err.Error(), "held by a@") && !strings.Contains(err.Error(), "\n"),
				"ctx %s: %v, want one that names the holder", what, err)
			if what != "ends" {
				wantErr(c.t, what, err, context.Canceled)
				wantErr(c.t, what, err, context.Cause(over))
			} else {
				wantErr(c.t, what, err, context.DeadlineExceeded)
			}
		}
		slow.Remove()
		c.unlock(h)
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
		q := c.asking(b, "?", time.Minute)
		stop.reached()
		stop.goOn()
		q.wantReply(c.t, "?")
		wantEq(c.t, "the phase", q.answer.Phase, state.Retained)
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
			la := exclusive(c.t, a, name)
			first = append(first, mustLock(c.t, exclusive(c.t, b, name)))
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
			expect(c.t, r.Reason == fmt.Sprintf("reason %02d", i) && r.From.Session == session(b) && r.Until.Sub(until).Abs() <= time.Second,
				"lock %d: the revocation is %+v", i, r)
		}
		c.unlock(holds...)
	})
}
