// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A nemesis makes faults strike, as many as planned, and then heals everything:
// from then on no operation has a reason to take long.
type nemesis struct {
	w         *world
	rng       *rand.Rand // of run alone
	strangers sync.WaitGroup

	// Faults that wait for their moment, or nil. The connection whose CAS makes one
	// nil carries it out: see reads.
	comeback atomic.Pointer[comeback]
	clearing atomic.Pointer[clearing]
	entrance atomic.Bool            // see writes
	ambush   atomic.Pointer[ambush] // see asked
	peace    atomic.Bool            // no more faults: an ambush that was about to strike does not
	heard    sync.Map               // the bursts, by the session's id
}

func newNemesis(w *world) *nemesis {
	return &nemesis{w: w, rng: rand.New(rand.NewPCG(w.plan.seed, 3))}
}

func (n *nemesis) run() {
	// Each run has its favourites, so that faults of a kind come close together.
	favourites := n.rng.Perm(len(faults))[:4]
	for n.w.struck.Load() < int64(n.w.plan.faults) || n.w.kinds() < 3 {
		<-after(n.upTo(n.w.plan.quiet))
		if n.ofQuorum() {
			continue
		}
		i := n.rng.IntN(len(faults))
		if n.rng.IntN(2) == 0 {
			i = pick(n.rng, favourites...)
		}
		if kinds := n.w.plan.faulty; len(kinds) > 0 && n.rng.IntN(3) > 0 {
			kind := pick(n.rng, kinds...)
			i = slices.IndexFunc(faults, func(f fault) bool { return f.kind == kind })
		}
		f := faults[i]
		if n.rng.IntN(f.rarity) == 0 && f.strike(n) {
			n.w.strike(f.kind)
		}
	}
	<-after(n.outage() + n.w.plan.quiet)
	n.strangers.Wait()
	n.comeback.Store(nil)
	n.clearing.Store(nil)
	n.entrance.Store(false)
	n.ambush.Store(nil)
	n.peace.Store(true)
	n.w.heal()
}

// upTo returns a random time of at most d.
func (n *nemesis) upTo(d time.Duration) time.Duration {
	return n.w.plan.upTo(n.rng, d)
}

// A fault is a kind of fault.
type fault struct {
	kind   string
	rarity int                   // it strikes in one of this many times that it is picked
	strike func(n *nemesis) bool // reports whether it has struck
}

var faults = []fault{
	{"drop reply", 1, func(n *nemesis) bool { f, m := n.match(); f.DropReply(m); return true }},
	{"drop request", 1, func(n *nemesis) bool { f, m := n.match(); f.DropRequest(m); return true }},
	{"swallow reply", 2, func(n *nemesis) bool { f, m := n.match(); f.SwallowReply(m); return true }},
	{"swallow request", 2, func(n *nemesis) bool { f, m := n.match(); f.SwallowRequest(m); return true }},
	{"delay reply", 1, func(n *nemesis) bool {
		f, m := n.match()
		f.DelayReply(m, n.upTo(pick(n.rng, 20*time.Millisecond, time.Second, n.w.plan.timeout)))
		return true
	}},
	{"cut", 1, func(n *nemesis) bool { id, f := n.session(); return f.Cut(id) }},
	{"cut all", 4, func(n *nemesis) bool { return n.server().Faults().CutAll() > 0 }},
	{"silence", 3, func(n *nemesis) bool {
		id, f := n.session()
		hole := f.Blackhole(id)
		now := time.Now()
		n.w.silence.Store(&now)
		time.AfterFunc(n.outage(), hole.Remove)
		return true
	}},
	{"silent connection", 2, func(n *nemesis) bool {
		id, f := n.session()
		hole := f.BlackholeConnection(id)
		time.AfterFunc(n.outage(), hole.Remove)
		return true
	}},
	{"silence of all", 8, func(n *nemesis) bool {
		hole := n.server().Faults().BlackholeAll()
		time.AfterFunc(n.outage()/2, hole.Remove)
		return true
	}},
	{"refuse all", 8, func(n *nemesis) bool {
		f := n.server().Faults()
		f.RefuseFor(n.outage())
		return f.CutAll() > 0
	}},
	{"refuse a process", 3, func(n *nemesis) bool {
		pr := pick(n.rng, n.w.procs...)
		pr.refused.Store(true)
		time.AfterFunc(n.outage(), func() { pr.refused.Store(false) })
		id, f := n.session()
		return f.Cut(id)
	}},
	{"restart", 4, func(n *nemesis) bool { n.server().Restart(); return true }},
	{"stop and start", 8, func(n *nemesis) bool {
		srv := n.server()
		srv.Stop()
		time.AfterFunc(n.outage(), srv.Start)
		return true
	}},
	{"a follower that lags", 1, func(n *nemesis) bool {
		behind := pick(n.rng, 1, 3, 10, -1)
		id, f := n.session()
		lag := f.Lag(behind, id)
		time.AfterFunc(n.outage(), lag.Remove)
		return true
	}},
	{"late requests", 1, func(n *nemesis) bool {
		id, f := n.session()
		hold := f.BlockRequests(id)
		time.AfterFunc(n.upTo(n.w.plan.timeout/4), hold.Remove)
		return true
	}},
	{"late replies", 1, func(n *nemesis) bool {
		id, f := n.session()
		hold := f.BlockReplies(id)
		time.AfterFunc(n.upTo(n.w.plan.timeout/4), hold.Remove)
		return true
	}},
	{"end a session", 6, func(n *nemesis) bool {
		id, _ := n.session()
		n.w.log("nemesis", "end session %#x", id)
		return n.w.ref.endSession(id)
	}},
	{"delete a node", 3, func(n *nemesis) bool {
		path := n.node()
		n.w.log("nemesis", "delete %s", name(path))
		return path != "" && n.w.ref.delete(path)
	}},
	{comesBack, 1, func(n *nemesis) bool {
		n.comeback.Store(&comeback{pause: n.upTo(n.w.plan.timeout / 20), late: n.upTo(n.w.plan.timeout / 4)})
		return false
	}},
	{cleared, 1, (*nemesis).clear},
	{robbed, 2, func(n *nemesis) bool { n.entrance.Store(true); return false }},
	{stranger, 4, (*nemesis).visitOfStranger},
	{"a node that others may not read", 3, func(n *nemesis) bool {
		path := n.node()
		if path == "" || n.w.plan.sequence > 0 { // where numbers run out, a client that may not read cannot queue
			return false
		}
		_, stat, _ := n.w.srv.Get(path)
		for _, s := range n.w.srv.Sessions() {
			if s.ID != stat.EphemeralOwner {
				for _, op := range []zktest.Op{zktest.OpGetData, zktest.OpGetChildren2} {
					n.w.servers[s.Server-1].Faults().FailRequest(zktest.Match{Op: op, Path: path, Session: s.ID, Times: zktest.Every}, zktest.CodeNoAuth)
				}
			}
		}
		return true
	}},
	{"write into a node", 2, func(n *nemesis) bool {
		path := n.node()
		return path != "" && n.w.srv.Set(path, []byte("not a contender's")) == nil
	}},
	{noDirectory, 2, func(n *nemesis) bool {
		dirs := []string{jobs, more, table}
		if n.w.plan.crowds {
			dirs = append(dirs, crowdName(n.rng.IntN(crowdLocks)), crowdName(n.rng.IntN(crowdLocks)))
		}
		return n.w.srv.Delete(root+"/"+pick(n.rng, dirs...)) == nil
	}},
}

// server returns a random server.
func (n *nemesis) server() *zktest.Server {
	if len(n.w.servers) == 1 {
		return n.w.srv
	}
	return pick(n.rng, n.w.servers...)
}

// session returns a random session, and the faults of the server that it was last at.
func (n *nemesis) session() (int64, *zktest.Faults) {
	id, at := n.w.session(n.rng)
	return id, at.Faults()
}

// outage returns how long something lasts that a session may or may not survive.
func (n *nemesis) outage() time.Duration {
	if n.rng.IntN(3) == 0 {
		return n.upTo(2 * n.w.plan.timeout)
	}
	return n.upTo(n.w.plan.timeout / 2)
}

// match returns a Match for requests of a kind that is common, and the faults of a server.
func (n *nemesis) match() (*zktest.Faults, zktest.Match) {
	ops := []zktest.Op{zktest.OpMulti, zktest.OpMulti, zktest.OpDelete, zktest.OpDelete, zktest.OpGetChildren2, zktest.OpGetData,
		zktest.OpSync, zktest.OpCreate, zktest.OpCreateContainer, zktest.OpConnect, zktest.OpSetWatches, 0}
	m := zktest.Match{Op: pick(n.rng, ops...), Nth: 1 + n.rng.IntN(3), Times: 1 + n.rng.IntN(2)}
	if n.rng.IntN(2) == 0 && m.Op != zktest.OpConnect {
		id, f := n.session()
		m.Session = id
		return f, m
	}
	return n.server().Faults(), m
}

// isContender reports whether a path is that of a process's node in a queue.
func isContender(path string) bool {
	return strings.Count(path, "/") == 3 && strings.HasPrefix(name(path), "_c_")
}

// isPlace reports whether a path is that of a node that LockAll has made.
func isPlace(path string) bool {
	const mark = len("_c_0123456789abcdef")
	return isContender(path) && len(name(path)) > mark && name(path)[mark] == 'f'
}

func dir(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// node returns the path of a contender's node, or "" if there is none.
func (n *nemesis) node() string {
	var nodes []string
	for _, path := range n.w.srv.Nodes() {
		if isContender(path) {
			nodes = append(nodes, path)
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	return pick(n.rng, nodes...)
}

// Kinds of faults that are named elsewhere, too, most of which take more than one call.
const (
	noDirectory = "delete an empty directory"
	comesBack   = "delete a read node before its owner looks"
	cleared     = "delete a waiting node and the one ahead"
	robbed      = "delete a node as a transaction needs it"
	stranger    = "a stranger that reads repeatedly"
)

// A comeback deletes the next read node that a process makes beside its own write
// node, before the process looks at it, so that the process makes another. If that
// has the same name, others may take news of the first for news of the second.
type comeback struct {
	pause time.Duration // before the deletion, in which others begin to watch the node
	late  time.Duration // after it, until their next requests are executed
}

// A clearing deletes a waiter's node, and then the only contender ahead of it, when
// the waiter reads the latter's node. So the waiter finds it gone, but is told of
// its own node's deletion first.
type clearing struct {
	session int64 // of the waiter
	waiter  string
	ahead   string
}

// reads is called when a session is about to read a node. The session's later
// requests are not executed before it returns.
func (n *nemesis) reads(session int64, path string) {
	if c := n.comeback.Load(); c != nil && n.w.ref.isNew(session, path) {
		if write := n.writeBeside(session, path); write != "" && n.comeback.CompareAndSwap(c, nil) {
			n.strikeComeback(c, session, path, write)
		}
	}
	if c := n.clearing.Load(); c != nil && c.session == session && c.ahead == path && n.clearing.CompareAndSwap(c, nil) {
		if n.w.ref.delete(c.waiter) && n.w.ref.delete(c.ahead) {
			n.w.log("nemesis", "clear %s and %s", name(c.waiter), name(c.ahead))
			n.w.strike(cleared)
		}
	}
}

// writes is called when a session is about to send a transaction whose first path is this. A node
// that the transaction needs goes before it is executed. The session cannot have heard of it.
func (n *nemesis) writes(session int64, path string) {
	if !n.entrance.Load() {
		return
	}
	if needed := n.neededBeside(session, path); needed != "" && n.entrance.CompareAndSwap(true, false) && n.w.ref.delete(needed) {
		n.w.log("nemesis", "delete %s before a transaction with %s", name(needed), name(path))
		n.w.strike(robbed)
	}
}

// neededBeside returns a node that a transaction with a node of the session's needs: another place
// of a group; or, if that node is an upgradable's, the writer beside which an upgrade puts its own.
// It returns "" if there is none.
func (n *nemesis) neededBeside(session int64, path string) string {
	group, upgradable := isPlace(path), isUpgradable(path)
	own, first := "", "" // the numbers of the session's writer, and the first writer of another session
	for _, other := range n.w.srv.Nodes() {
		_, stat, _ := n.w.srv.Get(other)
		switch ours := stat.EphemeralOwner == session; {
		case group && ours && isPlace(other) && name(other) != name(path):
			return other
		case !upgradable || !isContender(other) || isRead(other) || dir(other) != dir(path) || number(other) < number(path):
		case ours:
			own = number(other)
		case first == "" || number(other) < number(first):
			first = other
		}
	}
	if own == "" || first == "" || own < number(first) {
		return ""
	}
	return first
}

// number is what ZooKeeper has appended to the name of a contender's node.
func number(path string) string { return path[len(path)-10:] }

// writeBeside returns the session's write node that has the number of the read node
// at path, or "" if there is none.
func (n *nemesis) writeBeside(session int64, path string) string {
	if !isRead(path) {
		return ""
	}
	dir, number := path[:strings.LastIndexByte(path, '/')], path[len(path)-10:]
	for _, child := range n.w.srv.Children(dir) {
		if strings.HasSuffix(child, "__WRIT__"+number) {
			if _, stat, ok := n.w.srv.Get(dir + "/" + child); ok && stat.EphemeralOwner == session {
				return dir + "/" + child
			}
		}
	}
	return ""
}

func (n *nemesis) strikeComeback(c *comeback, session int64, read, write string) {
	// All who watch the write node list the queue again, and find the read node.
	if n.w.srv.Set(write, []byte("look again")) != nil {
		return
	}
	<-after(c.pause)
	for _, s := range n.w.srv.Sessions() {
		if s.ID != session {
			hold := n.w.servers[s.Server-1].Faults().BlockRequests(s.ID)
			time.AfterFunc(c.late, hold.Remove)
		}
	}
	if n.w.ref.delete(read) {
		n.w.log("nemesis", "delete %s before its owner has looked", name(read))
		n.w.strike(comesBack)
	}
}

// clear picks a waiter that has one contender ahead and has looked at its own node,
// and makes it list the queue again. The rest happens when it reads the other node:
// see reads.
func (n *nemesis) clear() bool {
	var found []clearing
	for _, path := range n.w.srv.Nodes() {
		_, stat, ok := n.w.srv.Get(path)
		if !ok || !isContender(path) || !n.w.ref.hasLooked(path, stat) {
			continue
		}
		if ahead := n.w.ref.ahead(path, stat); len(ahead) == 1 && isContender(ahead[0].path) {
			found = append(found, clearing{stat.EphemeralOwner, path, ahead[0].path})
		}
	}
	if len(found) > 0 {
		c := pick(n.rng, found...)
		n.clearing.Store(&c)
		_ = n.w.srv.Set(c.ahead, []byte("look again")) // it may have gone
	}
	return false
}

// visitOfStranger makes another client queue for the write lock and, once it has that,
// acquire the read lock beside it several times. Its names have no GUID, so its read nodes have the same
// name. The last one outlasts the write node.
func (n *nemesis) visitOfStranger() bool {
	dir := root + "/" + table
	_, stat, ok := n.w.srv.Get(dir)
	if !ok || n.w.plan.sequence > 0 {
		return false // there is no directory, or its numbers have run out or will
	}
	number := fmt.Sprintf("%010d", (stat.Cversion+stat.NumChildren)/2)
	write, read := dir+"/__WRIT__"+number, dir+"/__READ__"+number
	if n.w.srv.Create(write, nil) != nil {
		return false
	}
	var stays, gone []time.Duration // of the read
	for range 1 + n.rng.IntN(3) {
		stays = append(stays, n.upTo(100*time.Millisecond))
		gone = append(gone, pick(n.rng, 0, 0, n.upTo(20*time.Millisecond)))
	}
	last := n.upTo(pick(n.rng, 200*time.Millisecond, 2*time.Second))
	n.strangers.Go(func() {
		if !n.comesFirst(write) {
			n.w.log("stranger", "gives up its turn, with number %s", number)
			n.must(n.w.srv.Delete(write))
			return
		}
		n.w.log("stranger", "writes, with number %s", number)
		n.must(n.w.srv.Create(read, nil))
		for i := range stays {
			<-after(stays[i])
			n.must(n.w.srv.Delete(read))
			if gone[i] > 0 {
				<-after(gone[i])
			}
			n.must(n.w.srv.Create(read, nil))
		}
		n.must(n.w.srv.Delete(write))
		n.w.log("stranger", "reads, and writes no more")
		<-after(last)
		n.must(n.w.srv.Delete(read))
		n.w.log("stranger", "leaves")
	})
	return true
}

// comesFirst waits until no other contender is ahead of the write node at path. It reports
// false if that takes too long.
func (n *nemesis) comesFirst(path string) bool {
	for range 200 {
		if _, stat, ok := n.w.srv.Get(path); ok && len(n.w.ref.ahead(path, stat)) == 0 {
			return true
		}
		<-after(5 * time.Millisecond)
	}
	return false
}

func (n *nemesis) must(err error) {
	if err != nil {
		n.w.fail("the stranger: %v", err)
	}
}
