// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/check"
)

// upgradable holds the upgradable read lock l for a while, and upgrades it.
func (k *worker) upgradable(l lock) {
	k.w.did("upgradable")
	k.say("lock %s", l.title)
	ctx, cancel := context.WithTimeout(context.Background(), k.upTo(2*time.Second))
	defer cancel()
	h, err := l.Lock(ctx)
	if !k.result("lock", err, context.DeadlineExceeded) {
		return
	}
	k.seen(h)
	v := k.w.ref.enter(k.pr.label, h, false)
	if v == nil {
		k.say("too late")
		h.Release()
		return
	}
	k.pause(20 * time.Millisecond)
	for range 1 + k.rng.IntN(2) {
		k.upgrade(v)
	}
	k.pause(20 * time.Millisecond)
	k.w.ref.left(v)
	if k.rng.IntN(2) == 0 {
		h.Release()
	} else {
		k.result("unlock", h.Unlock(context.Background()))
	}
}

// upgrade upgrades the hold of v for a while, if that is possible in some time.
func (k *worker) upgrade(v *visit) {
	ctx, cancel := context.WithTimeout(context.Background(), k.upTo(pick(k.rng, 50*time.Millisecond, time.Second)))
	defer cancel()
	if !k.result("upgrade", v.hold.Upgrade(ctx), context.DeadlineExceeded) {
		return
	}
	up := k.w.ref.upgraded(v)
	if up == nil {
		k.say("too late")
		return
	}
	k.w.did("upgrade")
	k.pause(50 * time.Millisecond)
	if k.rng.IntN(3) == 0 {
		k.beside()
	}
	k.w.ref.left(up)
	if k.rng.IntN(3) > 0 {
		k.result("downgrade", v.hold.Downgrade())
	}
}

// beside reads in the process that is upgraded.
func (k *worker) beside() {
	k.w.did("read beside an upgrade")
	reader := k.pr.all()[2]
	ctx, cancel := context.WithTimeout(context.Background(), k.upTo(200*time.Millisecond))
	defer cancel()
	r, err := reader.Lock(ctx)
	if k.result("read beside", err, context.DeadlineExceeded) {
		k.visit(reader, r, 1)
	}
}

// upgraded judges an upgrade of v's hold, which is inside to read. No other process is,
// and none can come in: a node of its session excludes those that wait. It returns nil if
// the lock is lost already.
func (r *referee) upgraded(v *visit) *visit {
	r.mu.Lock()
	defer r.mu.Unlock()
	up := *v
	up.write = true
	wrong := r.lookAround(&up)
	if v.hold.Err() != nil {
		return nil
	}
	if !r.excused(&up) {
		for _, what := range wrong {
			r.w.fail("%s", what)
		}
	}
	up.leave = r.check.Granted(check.Claim{
		Lock: v.lock, Owner: fmt.Sprintf("%s in session %#x", v.who, v.grant.Session), Upgraded: true, Token: v.grant.Token, Node: name(v.grant.Path),
		Held: func() bool { return v.hold.Err() == nil && !r.excused(&up) },
	})
	r.inside = append(r.inside, &up)
	return &up
}

// lookAround returns what is wrong with the queue of an upgraded v: there is no writer's
// node of its session, or another session's reader waits for no writer. Upgradables wait
// for v. lookAround notes v's writer's nodes, with those that the nemesis has deleted.
func (r *referee) lookAround(v *visit) (wrong []string) {
	dir := v.grant.Path[:strings.LastIndexByte(v.grant.Path, '/')]
	const manager = len("_c_") + 16 // the part of the name that all its nodes have in common
	for path := range r.deleted {
		if strings.HasPrefix(path, v.grant.Path[:len(dir)+1+manager]) && !isRead(path) {
			v.writers = append(v.writers, path)
		}
	}
	type contender struct {
		position
		path string
		own  bool
	}
	var all []contender
	for _, child := range r.w.srv.Children(dir) {
		path := dir + "/" + child
		if _, s, ok := r.w.srv.Get(path); ok {
			c := contender{positionOf(path, s.Czxid), path, s.EphemeralOwner == v.grant.Session}
			all = append(all, c)
			if c.own && !c.read {
				v.writers = append(v.writers, path)
			}
		}
	}
	if !r.excludesReaders(v) {
		wrong = append(wrong, fmt.Sprintf("%v is told that it is upgraded, but has no writer's node", v))
	}
	for _, c := range all {
		waits := false
		for _, w := range all {
			waits = waits || !w.read && compare(w.position, c.position) < 0
		}
		if c.read && !c.own && !waits && !isUpgradable(c.path) {
			wrong = append(wrong, fmt.Sprintf("%v is told that it is upgraded, but %s waits for no writer", v, name(c.path)))
		}
	}
	return wrong
}

// excludesReaders reports whether an upgraded v has a writer's node.
func (r *referee) excludesReaders(v *visit) bool {
	return slices.ContainsFunc(v.writers, r.w.srv.Exists)
}

// isUpgradable reports whether a node is that of an upgradable read: a dash is in the
// middle of its unique part.
func isUpgradable(path string) bool {
	guid, ok := strings.CutPrefix(name(path), "_c_")
	return ok && isRead(path) && len(guid) > 33 && guid[16] == '-' && guid[33] == '-'
}
