// SPDX-License-Identifier: Apache-2.0

package zktest

import "slices"

// A proposal is a transaction that the leader has put into its log. It is executed when a quorum
// has it in theirs; until then it changes nothing that anyone sees.
type proposal struct {
	session *session    // that asked for it; nil: the leader itself
	execute func() *txn // returns nil if it has become pointless
	logged  []*Server   // the servers that have it in their logs
	acked   int         // how many of them the leader knows of
	then    []func()    // what waits for it
}

// propose has a quorum agree on a transaction of a session, or on one of its own, and commits
// it. s leads.
func (s *Server) propose(sess *session, execute func() *txn) {
	p := &proposal{session: sess, execute: execute, logged: []*Server{s}, acked: 1}
	s.outstanding = append(s.outstanding, p)
	for _, ch := range s.downlinks {
		s.offer(ch, p)
	}
	s.settle()
}

// offer proposes p to a server that follows s.
func (s *Server) offer(ch *channel, p *proposal) {
	if ch.from.observer {
		return
	}
	ch.send(&ch.down, func() {
		p.logged = append(p.logged, ch.from)
		ch.send(&ch.up, func() {
			p.acked++
			s.settle()
		})
	})
}

// settle commits what a quorum has.
func (s *Server) settle() {
	for s == s.leader && len(s.outstanding) > 0 && s.outstanding[0].acked >= s.quorum {
		p := s.outstanding[0]
		s.outstanding = s.outstanding[1:]
		s.enact(p.execute)
		for _, do := range p.then {
			do()
		}
	}
}

// whenSettled calls do when all that s has proposed is committed.
func (s *Server) whenSettled(do func()) {
	if n := len(s.outstanding); n > 0 {
		s.outstanding[n-1].then = append(s.outstanding[n-1].then, do)
		return
	}
	do()
}

// lastOf returns the last proposal of a session that is not committed; nil if there is none.
func (s *Server) lastOf(sess *session) *proposal {
	for _, p := range slices.Backward(s.outstanding) {
		if p.session == sess {
			return p
		}
	}
	return nil
}

// enact executes a transaction on the committed state, and tells the servers.
func (s *service) enact(execute func() *txn) {
	if tx := execute(); tx != nil {
		s.commit(tx)
	}
}

// commit has the servers learn of tx, each when the news reaches it. A failed transaction has no
// changes but, as in a real server, has used up its zxid.
func (s *service) commit(tx *txn) {
	if l := s.leader; l != nil && l.role == leading && l.apply(tx) {
		tx.answer()
	}
	s.scheduleSweep()
}

// apply repeats tx on the server's data, and passes it on to those that follow the server. It
// reports whether tx has thereby reached the server that has to answer a client.
func (s *Server) apply(tx *txn) (reached bool) {
	if s.view.tree != s.tree {
		tx.repeat(s.view.tree)
	}
	s.view.announce(tx)
	for _, l := range s.lags {
		l.view.pending = append(l.view.pending, tx)
		if l.behind >= 0 {
			l.view.advance(len(l.view.pending) - l.behind)
		}
	}
	reached = tx.answer != nil && tx.by == s
	for _, ch := range s.downlinks {
		late := false
		ch.send(&ch.down, func() {
			there := ch.from.apply(tx)
			if late && there {
				tx.answer()
			}
			reached = reached || there
		})
		late = true
	}
	return reached
}
