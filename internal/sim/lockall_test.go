// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// together acquires several of the process's locks at once. The referee judges each of the
// grants, as any other, so a lock that is only reserved would be found out. Here it is
// checked that there is never a part of them.
func (k *worker) together(lock) {
	m, all := k.pr.present()
	all = all[:4] // the upgradable read lock can only be acquired alone
	var chosen []*manager.Lock
	for _, i := range k.rng.Perm(len(all))[:2+k.rng.IntN(3)] {
		chosen = append(chosen, all[i].shared)
	}
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	switch k.rng.IntN(4) {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, k.upTo(200*time.Millisecond))
	case 1:
		ctx, cancel = context.WithTimeout(ctx, k.upTo(10*time.Second))
	}
	defer cancel()
	hs, err := m.LockAll(ctx, chosen...)
	if !k.result("lock all", err, context.DeadlineExceeded) {
		return
	}
	k.w.did("locked all")
	if len(hs) != len(chosen) {
		k.w.fail("%s: %d holds of %d locks", k.name, len(hs), len(chosen))
	}
	var inside []*visit
	for _, h := range hs {
		k.seen(h)
		if v := k.w.ref.enter(k.pr.label, h, !isReader(all, h)); v != nil {
			inside = append(inside, v)
		}
	}
	if hs.Err() == nil && len(inside) < len(hs) {
		k.w.fail("%s: LockAll has returned, and %d of %d locks are held", k.name, len(inside), len(hs))
	}
	if k.rng.IntN(k.w.plan.long) == 0 {
		k.stay(hs[0])
	} else {
		k.pause(20 * time.Millisecond)
	}
	for _, v := range inside {
		k.w.ref.left(v)
	}
	switch k.rng.IntN(3) {
	case 0:
		hs.Release()
	case 1:
		for _, h := range hs {
			k.pause(2 * time.Millisecond)
			h.Release()
		}
	default:
		k.result("unlock all", hs.Unlock(context.Background()))
	}
}

// isReader reports whether h is of a read lock.
func isReader(all []lock, h manager.Hold) bool {
	for _, l := range all {
		if l.shared == h.Lock() {
			return !l.write
		}
	}
	return false
}

// present returns the process's present manager and its locks.
func (pr *process) present() (*manager.Manager, []lock) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return pr.m, pr.locks
}
