// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync/atomic"
	"time"
)

// A Revocation is the request of a process, made by [Lock.Revoke], that this process give
// a lock up: see [Hold.Revoked].
type Revocation struct {
	// From describes the process that asks. ZooKeeper vouches for Session, and for
	// Since, which is when it asked. Host, PID, Label and Endpoint are that process's
	// own words, and nothing proves them. From is the zero Contender if Apache
	// Curator's Revoker revoked the lock, which does not say who asks.
	From Contender

	// Reason is the text that the caller of Lock.Revoke gave. It comes from another
	// process: quote it.
	Reason string

	// Until is when that caller stops waiting, by this process's clock; the zero Time
	// if its ctx has no deadline. Nothing happens at that time: the lock stays held.
	Until time.Time
}

// revocation returns why the round is revoked, and whether it is.
func (p *promises) revocation() (Revocation, bool) {
	if r := p.revokedBy(); r != nil {
		return *r, true
	}
	return Revocation{}, false
}

// revokedBy returns why the round is revoked; nil if it is not.
func (p *promises) revokedBy() *Revocation {
	if s := p.signalled.Load(); s != nil {
		r, _, _ := s.revoked.Future().Poll()
		return r
	}
	return nil
}

// A revoking is a revocation, and until when the process that revokes has waited.
type revoking struct {
	Revocation
	left atomic.Int64 // when it stopped waiting, on the manager's clock; 0: it waits
}
