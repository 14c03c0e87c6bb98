// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"
)

// An EnsembleConfig configures an Ensemble. Its zero value is three servers with ZooKeeper's
// timing.
type EnsembleConfig struct {
	// Config is that of each server, but for its ID, which is the server's number.
	Config

	// Servers is how many servers vote. The default is 3.
	Servers int

	// Observers is how many more follow the leader and have no vote. Their numbers come after
	// the others'.
	Observers int

	// Relayed has observers follow a follower instead of the leader (ZooKeeper's
	// observerMasterPort). What the leader knows of their clients is then half a tick older.
	Relayed bool

	// SyncLimit is for how many ticks a follower waits for news of its leader before it gives
	// it up, and a leader for those of its followers. The default is 5.
	SyncLimit int

	// Seed decides what takes how long: when the leader's ticks begin, and each election.
	Seed uint64
}

// An Ensemble is several Servers that have the same data. One of them leads: it decides on the
// order of transactions, and on the end of sessions. A transaction is committed when more than
// half of the servers that vote have it.
//
// Each server has connections, watches and faults of its own; [Ensemble.Server] returns it, to be
// stopped and started or for its Faults. A server whose link to the leader is cut goes on for
// [EnsembleConfig.SyncLimit] ticks with what it knows: it answers pings and reads, and nothing
// that takes the leader, nor what a client asks after that in the same session. Then it closes
// its clients' connections, and serves none until it has a leader again. A leader that is cut
// off from the others does the same, and answers its clients' syncs too, which therefore prove
// nothing. The others elect another leader, and every session begins its timeout anew.
//
// The leader hears of the clients of other servers every half tick: what they send keeps their
// sessions alive only when it has been reported.
//
// What methods of a Server do to the data, such as [Server.Create], is committed at once, whatever
// is cut; a server that is cut off does not learn of it. They show what is committed.
//
// Left out are the messages of elections, snapshots and logs on disks, local sessions, read-only
// mode and reconfiguration. All methods are safe for concurrent use, do not block, and have taken
// effect when they return.
type Ensemble struct{ svc *service }

// NewEnsemble starts an ensemble that has elected its last server that votes. Clients reach its
// servers by Dial, or by TCP after Listen of a Server.
func NewEnsemble(cfg EnsembleConfig) *Ensemble {
	if cfg.Servers <= 0 {
		cfg.Servers = 3
	}
	if cfg.SyncLimit <= 0 {
		cfg.SyncLimit = 5
	}
	svc := newService(cfg.Config)
	svc.quorum, svc.syncLimit, svc.relayed = cfg.Servers/2+1, cfg.SyncLimit, cfg.Relayed
	svc.rng = rand.New(rand.NewPCG(cfg.Seed, 0x656e73656d626c65))
	for i := range cfg.Servers + cfg.Observers {
		svc.add(uint8(i + 1)).observer = i >= cfg.Servers
	}
	svc.run()
	svc.leader.led = svc.leader.led.Add(-time.Duration(svc.rng.Int64N(int64(svc.cfg.TickTime))))
	return &Ensemble{svc}
}

// Server returns the server with this number: from 1 to how many servers there are, those that
// vote first and the observers behind them. It panics if there is none, as all methods do that
// take a number. [Ensemble.Leader] can be 0.
func (e *Ensemble) Server(number int) *Server {
	if all := e.svc.servers; number < 1 || number > len(all) {
		panic(fmt.Sprintf("zktest: there is no server %d: the ensemble has 1 to %d", number, len(all)))
	}
	return e.svc.servers[number-1]
}

// pair returns two servers that have a link.
func (e *Ensemble) pair(a, b int) (*Server, *Server) {
	if a == b {
		panic(fmt.Sprintf("zktest: server %d has no link to itself: name two servers", a))
	}
	return e.Server(a), e.Server(b)
}

// Close ends all servers; see [Server.Close].
func (e *Ensemble) Close() error { return e.Server(1).Close() }

// Leader returns the number of the server that leads; 0 if none does, as after a stop of the leader
// until the others have elected another. A leader that is cut off from the others leads until it
// notices, or until they have elected another.
func (e *Ensemble) Leader() int {
	e.svc.mu.Lock()
	defer e.svc.mu.Unlock()
	if e.svc.leader.role != leading {
		return 0
	}
	return e.svc.leader.number
}

// Addresses returns the addresses of the servers for Dial, in the order of their numbers:
// zk1:2181, zk2:2181 and so on.
func (e *Ensemble) Addresses() []string {
	var addresses []string
	for _, s := range e.svc.servers {
		addresses = append(addresses, address(s.number))
	}
	return addresses
}

func address(number int) string { return fmt.Sprintf("zk%d:2181", number) }

// Dial is [Server.Dial] of the server with that address.
func (e *Ensemble) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	for _, s := range e.svc.servers {
		if strings.EqualFold(address(s.number), addr) {
			return s.Dial(ctx, network, addr)
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: pipeAddr(addr), Err: syscall.EHOSTUNREACH}
}

// Isolate cuts the links between these servers and all others, until Heal. Those to clients stay.
func (e *Ensemble) Isolate(numbers ...int) {
	s := e.svc
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disrupt(func() {
		for _, a := range numbers {
			for _, b := range s.servers {
				if !slices.Contains(numbers, b.number) {
					s.link(e.Server(a), b).cut = true
				}
			}
		}
	})
}

// CutLink cuts the link between two servers, until Heal. Neither notices, but for what it does
// not hear.
func (e *Ensemble) CutLink(a, b int) {
	s := e.svc
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disrupt(func() { s.link(e.pair(a, b)).cut = true })
}

// Deafen has nothing arrive at one server of what another sends to it, until Heal or until the other
// is deafened instead. What the first sends arrives.
func (e *Ensemble) Deafen(server, to int) {
	s := e.svc
	s.mu.Lock()
	defer s.mu.Unlock()
	a, b := e.pair(server, to)
	s.link(a, b).deaf = a
	for _, ch := range s.channels() {
		if s.link(ch.from, ch.to) == s.link(a, b) {
			ch.deliver() // in the other direction
			ch.severed()
		}
	}
}

// SlowLink has what one of two servers sends to the other arrive after d.
func (e *Ensemble) SlowLink(a, b int, d time.Duration) {
	s := e.svc
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.link(e.pair(a, b))
	l.delay = d
	for _, ch := range s.channels() {
		if l != s.link(ch.from, ch.to) {
			continue
		}
		if d > 0 {
			ch.from.fallBehind()
		}
		ch.deliver()
	}
}

// Heal mends all links that are cut. What was sent meanwhile arrives, unless the receiver has
// given up the sender. Links that are slow stay so.
func (e *Ensemble) Heal() {
	s := e.svc
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		l.cut, l.deaf = false, nil
	}
	s.mended()
}

// Pause stops a server's process for a time, as the signal SIGSTOP does: its clients and the
// other servers hear nothing of it, and what they send waits until Resume.
func (e *Ensemble) Pause(number int) {
	s := e.Server(number)
	hole := s.faults.BlackholeAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused != nil || s.role == down {
		hole.Remove()
		return
	}
	s.disrupt(func() { s.paused = hole })
}

// Resume has a server go on after Pause.
func (e *Ensemble) Resume(number int) {
	s := e.Server(number)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused == nil {
		return
	}
	for i, c := range s.connections() { // one after the other: in virtual time, in this order
		c.mute()
		s.after(time.Duration(i), c.unmute)
	}
	s.paused.Remove()
	s.paused = nil
	if s.gaveUp {
		s.gaveUp = false
		s.leave()
	}
	if s.role == leading {
		s.pingAll() // which was due meanwhile
	}
	s.mended()
}

// OnExpire has fn called when the end of a session that has timed out, or that
// [Server.ExpireSession] ends, is committed: before any server, or any client, learns of it. fn
// must not block, and must not call methods of the ensemble or its servers. Nil ends that.
func (e *Ensemble) OnExpire(fn func(Expiry)) {
	e.svc.mu.Lock()
	defer e.svc.mu.Unlock()
	e.svc.onExpire = fn
}
