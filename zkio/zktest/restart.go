// SPDX-License-Identifier: Apache-2.0

package zktest

import "time"

// Stop interrupts the service, as when all servers of an ensemble are down, or
// have no leader: every connection is cut, what is queued for clients is lost,
// and new connections are refused, until [Server.Start]. Nothing that was
// executed is forgotten. Meanwhile no session expires, and no container or node
// with a time to live is deleted; the Server's own methods, such as Get and
// Create, work on. Stopping a server that is stopped does nothing.
//
// A client on TCP finds its connection reset as soon as it is made, since the
// server keeps its port lest somebody else take it.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.stopped {
		return
	}
	s.stopped = true
	s.sweepAt = time.Time{}
	for _, c := range s.connections() {
		s.detach(c)
		c.abort()
	}
	for _, sess := range s.sessions {
		s.expiry.remove(sess)
	}
	s.faults.count(FaultStop)
}

// Start takes up the service after [Server.Stop], as a new leader does: with
// the same nodes, the same sessions, each of which has its whole timeout from
// now on, and the same sequence numbers, in a new epoch, which is the upper
// half of all zxids from now on. So they keep rising. Views that lag have
// caught up. Watches were lost with the connections; clients that resume their
// sessions set them again. Starting a server that was not stopped does nothing.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.stopped {
		return
	}
	s.stopped = false
	first := (s.lead.tree.zxid>>32 + 1) << 32
	for _, v := range s.views() {
		s.advance(v, len(v.pending))
		v.tree.zxid = first
	}
	for _, sess := range s.sessions {
		s.touch(sess)
	}
	s.scheduleSweep()
}

// Restart is Stop, and Start at once. Clients find their connections cut, and
// resume their sessions.
func (s *Server) Restart() {
	s.Stop()
	s.Start()
}
