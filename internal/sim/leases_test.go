// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// leases checks what can end well by luck: that no lease lasts for longer than half a session
// timeout after its session's last write, that no lock is granted after that, and that no session
// goes on at a server that is behind. It goes by when the write has come to a server, which is not
// before it was sent.
type leases struct {
	w *world

	mu    sync.Mutex // protects wrote
	wrote map[int64]time.Time
}

func newLeases(w *world) *leases { return &leases{w: w, wrote: make(map[int64]time.Time)} }

// asked is called when a session's request is about to be carried out.
func (ls *leases) asked(session int64, op zktest.Op) {
	for _, pr := range ls.w.procs {
		s := pr.manager().Access().Session()
		if s.ID() != session {
			continue
		}
		if left := s.Lease().Remaining(); left > 0 && left > ls.left(session) {
			ls.w.fail("the lease of %s lasts for another %v, and may for %v", pr.label, left, ls.left(session))
		}
		ls.behind(pr)
	}
	switch op {
	case zktest.OpMulti, zktest.OpCreate, zktest.OpCreateContainer, zktest.OpDelete, zktest.OpSetData:
		ls.mu.Lock()
		defer ls.mu.Unlock()
		ls.wrote[session] = time.Now()
	}
}

// behind checks that the process's session is not at a server that is behind what it has seen.
func (ls *leases) behind(pr *process) {
	if len(ls.w.servers) == 1 {
		return
	}
	s := pr.manager().Access().Session()
	seen := s.Zxid()
	for _, i := range ls.w.srv.Sessions() {
		if i.ID == s.ID() && i.Zxid > 0 && i.Zxid < seen {
			ls.w.fail("%s has seen transaction %#x, and is at server %d, which has come to %#x", pr.label, seen, i.Server, i.Zxid)
		}
	}
}

// left returns how long a lease of the session may last from now on.
func (ls *leases) left(session int64) time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.w.plan.timeout/2 - ls.w.plan.margin - time.Since(ls.wrote[session])
}

// await waits for a grant. If goroutines are never held up, it hears of the grant in the moment in
// which it is made.
func (ls *leases) await(h manager.Hold) error {
	f := h.Granted()
	late := ls.w.plan.stall > 0
	select {
	case <-f.Done():
		late = true
	default:
	}
	g, err := f.Wait(context.Background())
	if left := ls.left(g.Session); err == nil && !late && left <= 0 {
		ls.w.fail("a lock is granted to session %#x, whose lease can have lasted until %v ago", g.Session, -left)
	}
	return err
}
