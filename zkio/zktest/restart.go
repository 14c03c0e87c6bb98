// SPDX-License-Identifier: Apache-2.0

package zktest

import "time"

// Stop interrupts the service, as if all servers of an ensemble were down or had
// no leader: it cuts every connection, drops what is queued for clients, and
// refuses new connections until [Server.Start]. Executed requests are not
// forgotten. Meanwhile no session expires, and no container or node with a time
// to live is deleted. The Server's own methods, such as Get and Create, still
// work. Stopping a stopped server does nothing.
//
// A TCP connection is reset as soon as it is made: the server keeps its port, so
// that no other process can take it.
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

// Start resumes the service after [Server.Stop], as a new leader would. Nodes,
// sequence numbers and sessions are the same, and each session has its whole
// timeout from now on. A new epoch begins: it is the upper half of zxids, which
// therefore keep rising. Lags have caught up. Watches were lost with the
// connections, and clients set them again when they resume their sessions.
// Starting a server that is not stopped does nothing.
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

// Restart calls Stop and Start. Clients find their connections cut and resume
// their sessions.
func (s *Server) Restart() {
	s.Stop()
	s.Start()
}
