// SPDX-License-Identifier: Apache-2.0

package zktest

// Stop interrupts the service, as if all servers of an ensemble were down or had
// no leader: it cuts every connection, drops what is queued for clients, and
// refuses new connections until [Server.Start]. Executed requests are not
// forgotten. Meanwhile no session expires, and no container or node with a time
// to live is deleted. The Server's own methods, such as Get and Create, still
// work. Stopping a stopped server does nothing. Of an [Ensemble] only this server
// stops; the others go on if they are enough.
//
// A TCP connection is reset as soon as it is made: the server keeps its port, so
// that no other process can take it.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.role == down {
		return
	}
	hole := s.paused
	s.paused, s.gaveUp = nil, false // the others see the end of a process that pauses at once
	s.retire(down)
	if hole != nil {
		hole.Remove()
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
	if s.closed || s.role != down {
		return
	}
	s.role = looking
	s.electLater()
}

// Restart calls Stop and Start. Clients find their connections cut and resume
// their sessions.
func (s *Server) Restart() {
	s.Stop()
	s.Start()
}
