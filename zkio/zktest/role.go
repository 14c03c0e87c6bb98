// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"slices"
	"time"
)

// A role is what a server is in its ensemble.
type role int

const (
	looking   role = iota // for a leader: it serves no client
	following             // a leader, or as an observer
	leading
	down // between Stop and Start
)

// A member is a server's part in its ensemble. service.mu protects it.
type member struct {
	number   int // from 1 on
	observer bool
	role     role
	paused   *Fault // silences its clients; nil: it runs
	gaveUp   bool   // while it was paused: it leaves when it goes on

	uplink    *channel              // if it follows
	downlinks []*channel            // of those that follow it
	lines     map[*session]*line    // of those whose requests wait for the leader
	heard     map[*session]struct{} // whose clients have given a sign of life, of which it has not told

	// Of a leader, or one that was.
	outstanding []*proposal // that no quorum has confirmed, oldest first
	led         time.Time   // since when it leads: its ticks count from then
	checking    bool        // it will look whether it has a quorum
}

// hasLeader reports whether there is a server that leads, or has not noticed yet that it
// has lost its followers.
func (s *service) hasLeader() bool {
	return s.leader != nil && s.leader.role == leading && s.leader.paused == nil
}

// channels returns all channels, in the order of the servers that follow.
func (s *service) channels() (all []*channel) {
	for _, srv := range s.servers {
		if srv.uplink != nil {
			all = append(all, srv.uplink)
		}
	}
	return all
}

// disrupt has something keep servers from reaching each other, and begins what follows from that.
func (s *service) disrupt(do func()) {
	up := slices.DeleteFunc(s.channels(), func(ch *channel) bool { return !s.reaches(ch.from, ch.to) })
	do()
	for _, ch := range up {
		if !s.reaches(ch.from, ch.to) {
			ch.severed()
		}
	}
}

// mended has things go on after links have been mended.
func (s *service) mended() {
	for _, ch := range s.channels() {
		if s.reaches(ch.from, ch.to) {
			ch.mended()
		}
	}
	for _, srv := range s.servers {
		srv.checkLater()
		if srv.role == looking {
			s.electLater()
		}
	}
}

// lastPing returns when the leader last pinged the others.
func (s *service) lastPing() time.Time {
	return s.leader.led.Add(time.Since(s.leader.led).Truncate(s.cfg.TickTime / 2))
}

// pingLater has the leader ping the others when the next half tick ends. With nothing to tell,
// they need no ping: so an ensemble without clients has no timer, and synctest can report a test
// whose goroutines are all blocked.
func (s *service) pingLater() {
	if s.pinging || s.leader == nil {
		return
	}
	s.pinging = true
	s.after(time.Until(s.lastPing().Add(s.cfg.TickTime/2)), func() {
		s.pinging = false
		if s.hasLeader() {
			s.leader.pingAll()
		}
		for _, srv := range s.servers {
			if len(srv.heard) > 0 {
				s.pingLater()
			}
		}
	})
}

// pingAll pings those that follow s, and then those that follow them, whose answers are
// thereby a ping late.
func (s *Server) pingAll() {
	for _, ch := range s.downlinks {
		ch.ping()
	}
	for _, ch := range s.downlinks {
		ch.from.pingAll()
	}
}

// checkLater has a leader look, at its next tick, whether it has a quorum.
func (s *Server) checkLater() {
	if s.role != leading || s.checking {
		return
	}
	s.checking = true
	tick := s.cfg.TickTime
	s.after(tick-time.Since(s.led)%tick, func() {
		s.checking = false
		s.check()
	})
}

// check ends the leadership of a server that has not heard of a quorum for too long.
func (s *Server) check() {
	if s.role != leading || s.paused != nil {
		return
	}
	tick := func(t time.Time) int { return int(t.Sub(s.led) / s.cfg.TickTime) }
	n, cut := 1, false
	for _, ch := range s.downlinks {
		up := s.reaches(ch.from, s)
		cut = cut || !up
		if !ch.from.observer && (up || tick(ch.up.heard)+s.syncLimit >= tick(time.Now())) {
			n++
		}
	}
	switch {
	case n < s.quorum:
		s.leave()
	case cut:
		s.checkLater()
	}
}

// leave ends what the server has with its leader or as one, and with its clients. Then it looks
// for a leader.
func (s *Server) leave() {
	if s.paused != nil {
		s.gaveUp = true
		return
	}
	if s.role == following || s.role == leading {
		s.retire(looking)
		s.electLater()
	}
}

// retire ends what the server has with others and with clients.
func (s *Server) retire(r role) {
	led := s.role == leading
	s.role, s.heard, s.lines = r, nil, make(map[*session]*line)
	for _, c := range s.connections() {
		s.detach(c)
		c.abort()
	}
	if ch := s.uplink; ch != nil {
		s.uplink, ch.closed = nil, true
		ch.to.downlinks = slices.DeleteFunc(ch.to.downlinks, func(other *channel) bool { return other == ch })
		ch.to.checkLater()
	}
	for _, ch := range slices.Clone(s.downlinks) {
		ch.refused = true
		if s.reaches(ch.from, s) {
			ch.from.leave() // it sees the end of the connection
		}
	}
	s.downlinks = nil
	s.view.tree = s.tree // it gets the data from its leader
	if led && s == s.leader {
		s.sweepAt = time.Time{}
		for _, sess := range s.sessions {
			s.expiry.remove(sess)
		}
	}
}

// How long it takes to elect a leader.
const (
	minElectionTime = 200 * time.Millisecond
	maxElectionTime = 400 * time.Millisecond
)

// electLater has the servers that look for a leader find one, or elect one of them. A server
// alone does it at once.
func (s *service) electLater() {
	switch {
	case len(s.servers) == 1:
		s.elect()
	case !s.electing:
		s.electing = true
		s.after(minElectionTime+time.Duration(s.rng.Int64N(int64(maxElectionTime-minElectionTime))), func() {
			s.electing = false
			s.elect()
		})
	}
}

// elect has the servers that look for a leader follow the one that there is, or one that a
// quorum of them reaches: of those the one with the longest log, and the highest number.
func (s *service) elect() {
	if s.hasLeader() {
		s.joinAll(s.leader)
	}
	var best *Server
	for _, srv := range s.servers {
		if srv.role != looking || srv.paused != nil || srv.observer {
			continue
		}
		n := 0
		for _, other := range s.servers {
			if other == srv || other.role == looking && !other.observer && s.reaches(srv, other) {
				n++
			}
		}
		if n >= s.quorum && (best == nil || s.logged(srv) >= s.logged(best)) {
			best = srv
		}
	}
	if best != nil {
		best.lead()
		s.joinAll(best)
	}
}

// logged returns how many of the proposals that are not committed are in the server's log.
func (s *service) logged(srv *Server) int {
	n := 0
	if s.leader != nil {
		for n < len(s.leader.outstanding) && slices.Contains(s.leader.outstanding[n].logged, srv) {
			n++
		}
	}
	return n
}

// joinAll has all servers that look for a leader follow l, if they reach it.
func (s *service) joinAll(l *Server) {
	for _, observers := range []bool{false, true} {
		for _, srv := range s.servers {
			if srv.role == looking && srv.observer == observers && s.reaches(srv, l) {
				srv.follow(l)
			}
		}
	}
}

// lead makes s the leader. What it has in its log becomes committed, and the rest of what the
// leader before it proposed never happens. A new epoch begins: it is the upper half of zxids,
// which therefore keep rising. Each session has its whole timeout from now on.
func (s *Server) lead() {
	if old := s.leader; old != nil {
		if old.role == leading { // it has not noticed
			old.fallBehind()
		}
		kept := old.outstanding[:s.logged(s)]
		old.outstanding, s.leader = old.outstanding[len(kept):], nil
		for _, p := range kept {
			s.enact(p.execute) // the clients have lost their connections
		}
		s.tree.zxid = (s.tree.zxid>>32 + 1) << 32
	}
	s.leader, s.role, s.led, s.outstanding = s, leading, time.Now(), nil
	s.view.tree = s.tree
	s.resetLags()
	for _, sess := range s.sessions {
		sess.closing = false
		s.touch(sess)
	}
	s.scheduleSweep()
}

// follow makes s follow l, which gives it its data.
func (s *Server) follow(l *Server) {
	if s.observer && s.relayed {
		for _, ch := range l.downlinks {
			if !ch.from.observer && s.reaches(s, ch.from) {
				l = ch.from
				break
			}
		}
	}
	ch := &channel{from: s, to: l, up: pipe{heard: time.Now()}, down: pipe{heard: time.Now()}}
	s.role, s.uplink, l.downlinks = following, ch, append(l.downlinks, ch)
	s.view.tree = l.view.tree
	if s.view.tree != s.tree || !ch.clear(&ch.down) {
		s.view.tree = s.view.tree.clone()
	}
	s.resetLags()
	for _, p := range l.outstanding {
		l.offer(ch, p)
	}
}

// fallBehind gives s, and those that follow it, data of their own: what is committed from now
// on may reach them late.
func (s *Server) fallBehind() {
	if s.view.tree == s.tree {
		s.view.tree = s.tree.clone()
	}
	for _, ch := range s.downlinks {
		ch.from.fallBehind()
	}
}

// keepUp has s, and those that follow it, share the committed data once they have all of it.
func (s *Server) keepUp() {
	if ch := s.uplink; ch != nil && ch.clear(&ch.down) && s.reaches(s, ch.to) && ch.to.view.tree == s.tree {
		s.view.tree = s.tree
		for _, ch := range s.downlinks {
			ch.from.keepUp()
		}
	}
}

// resetLags has the Lags of a server without clients begin anew.
func (s *Server) resetLags() {
	for _, l := range s.lags {
		l.view = view{tree: s.view.tree.clone(), watches: newWatchTable()}
	}
}

// toLeader has the leader of s, or s if it leads or has not noticed that it does no longer, do
// something when the news of it arrives there.
func (s *Server) toLeader(do func(l *Server)) {
	switch ch := s.uplink; {
	case s.role == leading:
		do(s)
	case ch != nil:
		ch.send(&ch.up, func() { ch.to.toLeader(do) })
	}
}

// fromLeader has s do something when the news of it comes from its leader, after all that the
// leader has sent it before.
func (s *Server) fromLeader(do func()) {
	switch ch := s.uplink; {
	case s.role == leading:
		do()
	case ch != nil:
		ch.to.fromLeader(func() { ch.send(&ch.down, do) })
	}
}
