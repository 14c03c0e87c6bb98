// SPDX-License-Identifier: Apache-2.0

package zktest

import "time"

// A link is the network between two servers. Whatever passes on it keeps its order.
type link struct {
	cut   bool
	deaf  *Server       // the one of both to which nothing comes, or nil
	delay time.Duration // in one direction
}

// link returns the link between two servers.
func (s *service) link(a, b *Server) *link {
	key := [2]int{min(a.number, b.number), max(a.number, b.number)}
	l := s.links[key]
	if l == nil {
		l = &link{}
		s.links[key] = l
	}
	return l
}

// reaches reports whether what each of two servers sends arrives at the other.
func (s *service) reaches(a, b *Server) bool { return s.passes(a, b) && s.passes(b, a) }

// passes reports whether what one server sends arrives at another.
func (s *service) passes(from, to *Server) bool {
	l := s.link(from, to)
	return !l.cut && l.deaf != to && from.paused == nil && to.paused == nil
}

// A channel is a server's connection to its leader; that of an observer can be to a follower,
// which passes things on. It ends when one of both gives it up. What is sent while the link is cut
// arrives when it is mended, if the channel is still there.
type channel struct {
	from, to *Server // from follows
	up, down pipe    // to the leader, and from it

	closed  bool // from has given it up
	refused bool // to has
	cuts    int  // how often the link was cut
}

// A pipe is one direction of a channel.
type pipe struct {
	parcels []parcel  // that are on their way, oldest first
	heard   time.Time // when one last arrived
}

type parcel struct {
	due  time.Time // when it arrives, unless one before it arrives later
	open func()
}

// clear reports whether what is put into p arrives at once.
func (ch *channel) clear(p *pipe) bool {
	return len(p.parcels) == 0 && !ch.closed && !ch.refused && ch.from.service.link(ch.from, ch.to).delay == 0 && ch.passes(p)
}

// passes reports whether what is in p arrives.
func (ch *channel) passes(p *pipe) bool {
	if p == &ch.up {
		return ch.from.service.passes(ch.from, ch.to)
	}
	return ch.from.service.passes(ch.to, ch.from)
}

// send has open called where p ends, when what was sent before has arrived there.
func (ch *channel) send(p *pipe, open func()) {
	if ch.closed {
		return
	}
	if ch.clear(p) {
		p.heard = time.Now()
		open()
		return
	}
	s := ch.from.service
	due := time.Now().Add(s.link(ch.from, ch.to).delay)
	p.parcels = append(p.parcels, parcel{due, open})
	s.after(time.Until(due), ch.deliver)
}

// deliver opens what is due in both pipes.
func (ch *channel) deliver() {
	for _, p := range []*pipe{&ch.down, &ch.up} {
		for len(p.parcels) > 0 && !ch.closed && !ch.refused && ch.passes(p) && !p.parcels[0].due.After(time.Now()) {
			open := p.parcels[0].open
			p.parcels, p.heard = p.parcels[1:], time.Now()
			open()
		}
	}
	ch.from.keepUp()
}

// severed begins what follows from a cut of the link: a server that hears nothing of the other end
// for as long as the limit gives up, and the leader looks at each tick whether it has a quorum.
func (ch *channel) severed() {
	s := ch.from.service
	ch.cuts++
	for _, p := range []*pipe{&ch.down, &ch.up} {
		if last := s.lastPing(); p.heard.Before(last) {
			p.heard = last
		}
	}
	ch.from.fallBehind()
	cuts := ch.cuts
	heard := ch.down.heard
	if ch.passes(&ch.down) {
		heard = ch.up.heard // the leader gives it up, and it sees the end of the connection
	}
	s.after(time.Until(heard.Add(time.Duration(s.syncLimit)*s.cfg.TickTime)), func() {
		if !ch.closed && ch.cuts == cuts && !s.reaches(ch.from, ch.to) {
			ch.from.leave()
		}
	})
	ch.to.checkLater()
}

// mended lets pass what was held back, or tells that the other end is gone.
func (ch *channel) mended() {
	ch.cuts++
	if ch.refused {
		ch.from.leave()
		return
	}
	ch.deliver()
}

// ping asks for a sign of life. The answer tells of which sessions the server has heard since it
// answered the last one; for a leader, that is the only sign of life of other servers' clients.
func (ch *channel) ping() {
	ch.send(&ch.down, func() {
		heard := ch.from.heard
		ch.from.heard = nil
		ch.send(&ch.up, func() {
			for sess := range heard { // in any order: it makes no difference
				ch.to.hear(sess)
			}
		})
	})
}

// hear notes a sign of life of a session's client: the leader keeps the session for another
// timeout, and another server tells its leader when that asks.
func (s *Server) hear(sess *session) {
	switch {
	case sess.over || sess.closing:
	case s.role == leading && s == s.leader:
		s.touch(sess)
	case s.uplink != nil:
		if s.heard == nil {
			s.heard = make(map[*session]struct{})
		}
		s.heard[sess] = struct{}{}
		s.pingLater()
	}
}
