// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A group is a call of LockAll that does not find all its locks held, and what it has
// acquired: a place in each queue. state/model/protocols has a model of it.
//
//   - One transaction makes the nodes of all places. So of two groups that meet in two
//     queues, the same one is first in both.
//   - The group enters when all its places are reserved: when nothing is ahead of any.
//   - A contender may wait behind a reserved place while it holds what the group waits for.
//     So if a place is reserved and holds up a contender for as long as the group has
//     patience, and another place is not reserved, the group gives way: it moves that one
//     place to the end of its queue. If it moved all of them it could be starved by two
//     callers that nest the locks. If several places hold up contenders, chance decides
//     which of them moves. The patience is doubled then, and varied by chance.
//   - For how long it has patience depends on what it holds up: see standing. If groups were
//     as patient with each other as with other contenders, they would hand each other
//     places in a circle. So the group that began to wait first keeps its places, and gets
//     all it needs. And if a process is ahead of the group in one queue, and behind it in
//     another, it may well wait for the group: there is no point in long patience.
//   - If one of its nodes, or the session, is lost while it waits, it leaves all its places
//     and queues again everywhere. If that happens when it has entered, or if one of its
//     rounds fails, all of them end.
//
// A group's steps do the I/O of all its rounds; the Runner runs one at a time. So the rule
// of [roundIO] holds for all its places together: what only steps use needs no lock.
type group struct {
	m      *Manager
	errand errand.Errand
	places []*place // never changes
	rank   string   // see identity.rankAfter; never changes

	granted futures.Promise[struct{}] // all places are held; or the group has failed
	lost    futures.Promise[struct{}] // the group was ended by force; settles with an error only
	over    atomic.Bool               // the same; the goroutine that swaps it ends the rounds
	paused  atomic.Int32              // by how many goroutines: see pause

	// Used by steps only.
	session  *zkio.Session            // in which the nodes are, or may be; nil before the first
	seen     bool                     // all nodes were there when the last pass over the places began
	leaving  bool                     // all nodes are to go: see leave
	patience [standings]time.Duration // how long a contender of each standing is held up before the group gives way
	movedAt  int64                    // when it last gave way, on the manager's clock; 0: never
	requeues int                      // how many times in a row it had to queue again
	names    int64                    // how many its nodes have got: see guid
	rng      *rand.Rand
}

// never is later than any time on the manager's clock.
const never = math.MaxInt64

const (
	mostPatience = 16 // a group's patience can get this many times longer than it is at first
	patient      = 64 // with a younger group it has this many times the patience
	hasty        = 5  // with an elder group, and if it is entangled, it has only a part of it
)

func (m *Manager) newGroup(locks []*Lock) *group {
	g := &group{m: m}
	g.errand.Init(m.client, g)
	// Two groups with the same sequence of numbers could block each other for longer. The
	// manager's id is random, and simulations decide what it is.
	id, _ := strconv.ParseUint(m.id, 16, 64)
	g.rng = rand.New(rand.NewPCG(id, m.counter.Add(1)))
	first := m.firstPatience()
	g.patience = [standings]time.Duration{single: g.vary(first), elder: g.vary(first / hasty), younger: patient * first}
	g.rank = m.rankAfter(m.client.Session().Zxid())
	for _, l := range locks {
		l.rounds.Add(1)
		g.places = append(g.places, newPlace(g, l))
	}
	return g
}

// guid makes the name of a node of the group: see identity.rankAfter. A name comes again after
// 65,536 nodes of the group, in a directory from which its older nodes are gone. Other nodes
// of the manager do not count: while a group waits there may be any number of them.
func (g *group) guid() string {
	g.names++
	return g.m.id + groupMark + g.rank[:rankLength] + lastDigits(g.names, 4)
}

// firstPatience is how long a group that has not given way yet keeps a contender waiting.
func (m *Manager) firstPatience() time.Duration {
	if m.cfg.Tenure <= 0 {
		return defaultTenure
	}
	return m.cfg.Tenure
}

// vary returns d, but for a random part of up to a quarter more or less. Groups that have
// given way less often than others remain less patient than those.
func (g *group) vary(d time.Duration) time.Duration {
	return d - d/4 + time.Duration(g.rng.Int64N(int64(d/2)+1))
}

// await queues everywhere, and waits until all locks are held or ctx ends.
func (g *group) await(ctx context.Context, op string) (Holds, error) {
	all := make(Holds, len(g.places))
	for i, p := range g.places {
		all[i] = newHold(&p.round.share)
	}
	g.m.groups.add(g)
	g.errand.Wake()
	_, err := g.granted.Future().Wait(ctx)
	for i := 0; err == nil && i < len(all); i++ {
		err = all[i].check(op)
	}
	if err == nil {
		return all, nil
	}
	err = g.error(op, err)
	all.Release() // also what has been granted at this very moment
	return nil, err
}

// lockNames names locks in an error.
func lockNames(locks []*Lock) string {
	var names []string
	for _, l := range locks {
		if l != nil {
			names = append(names, l.Name())
		}
	}
	return strings.Join(names, ", ")
}

// error wraps err with what is known about the lock that the group waits for.
func (g *group) error(op string, err error) error {
	if shared, ok := err.(*Error); ok { //nolint:errorlint // as in Hold.wrap
		own := *shared
		own.Op = op
		return &own
	}
	for _, p := range g.places {
		if p.position.Load() != nil {
			return p.round.error(op, err)
		}
	}
	var locks []*Lock
	for _, p := range g.places {
		locks = append(locks, p.round.lock)
	}
	return &Error{Op: op, Name: lockNames(locks), Err: err, Outage: g.m.outage()}
}

// pause keeps steps from giving up one place while the caller has yet to end the rounds of
// others. Then one request can give up all.
func (g *group) pause() { g.paused.Add(1) }

// resume undoes pause. A step that has found the group paused did nothing: this wake runs
// another.
func (g *group) resume() {
	g.paused.Add(-1)
	g.errand.Wake()
}

// end ends all rounds because that of p was ended by force, with err.
func (g *group) end(p *place, err *Error) {
	if !g.over.CompareAndSwap(false, true) {
		return
	}
	g.pause()
	defer g.resume()
	for _, other := range g.places {
		if other != p {
			other.round.fail(other.round.error(err.Op, lostWith(err)))
		}
	}
	// Only now: a caller that hears of it finds all its Holds lost.
	g.granted.Settle(struct{}{}, err)
	g.lost.Settle(struct{}{}, err)
}

// Urgent reports whether one of the places is to be given up.
func (g *group) Urgent() bool {
	for _, p := range g.places {
		if p.round.urgent() && p.round.word.Load().Phase() != state.Released {
			return true
		}
	}
	return false
}

// Closed ends the group here and now, as in roundIO.Submit.
func (g *group) Closed(q zkio.Queue) {
	if q == zkio.Releases {
		g.errand.Run(g.m.client.Session())
	} else {
		g.failPending()
	}
}

// failPending ends a group that waits, since the manager is closed.
func (g *group) failPending() {
	p := g.places[0]
	p.round.failPending(p.round.error(opAcquire, ErrClosed))
}

// Step does what the words of the rounds say is to be done, until it has to wait.
func (g *group) Step(s *zkio.Session) {
	for g.paused.Load() == 0 {
		switch g.pass(s) {
		case sleep:
			return
		case requeue:
			g.leaving = true // until all have gone: see leave
		}
	}
}

// pass looks at each round once.
func (g *group) pass(s *zkio.Session) next {
	then := sleep
	pending, over := 0, 0
	for _, p := range g.places {
		switch w := p.round.word.Load(); w.Phase() {
		case state.Fetching:
			if w.Holders() == 0 {
				p.cancel()
				then = again
			} else {
				pending++
			}
		case state.Retained:
			if p.putOff(p.keep(s)) == again {
				then = again
			}
		case state.Releasing:
			g.unwatch()
			p.release(s)
			if p.round.word.Load().Phase() == state.Released {
				over++ // no wake comes after that
			}
		default:
			over++
		}
	}
	switch {
	case over == len(g.places):
		g.m.groups.remove(g)
		g.errand.Stop()
	case pending == len(g.places) && g.m.closing():
		g.failPending()
		then = again
	case pending == len(g.places):
		then = g.fetch(s)
	}
	return then
}

// fetch takes a group that waits a step further.
func (g *group) fetch(s *zkio.Session) next {
	first := g.places[0]
	if g.session != s {
		if g.session != nil && g.session.Err() == nil {
			return first.putOff(retry) // s is over: this worker comes late
		}
		//holdfast:reached-if g.session != nil: lock all: queues again in a new session
		for _, p := range g.places {
			p.forget()
		}
		g.session, g.leaving = s, false
	}
	if g.leaving {
		return g.leave(s)
	}
	var missing []*place
	for _, p := range g.places {
		if p.old != nil {
			if err := p.old.Delete(s); err != nil {
				return p.failed(err)
			}
			p.old = nil
		}
		if p.node == nil || p.node.Czxid() == 0 {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return g.queue(s, missing)
	}
	return g.wait(s)
}

// queue creates the nodes of places: all, or the one of which it is not known whether it
// has given way.
func (g *group) queue(s *zkio.Session, places []*place) next {
	if n := g.lookAtDirectories(s, places); n != goOn {
		return n
	}
	g.m.box.arm(s)
	conn := connectionOf(s)
	all, lists := make([]*zkio.Creation, len(places)), make([]*along, len(places))
	var reads []*zkio.Read
	for i, p := range places {
		if p.node == nil {
			p.queuer().hasNode(p.queuer().newNode())
		}
		all[i], lists[i] = p.creation(s)
		reads = append(reads, lists[i].reads()...)
	}
	if err := s.CreateAll(all, reads...); err != nil {
		return g.refused(places, all, err)
	}
	g.seen = len(places) == len(g.places)
	for i, p := range places {
		p.attempts = 0
		p.queued(all[i], lists[i], conn)
	}
	return again
}

// refused decides what an error of CreateAll means.
func (g *group) refused(places []*place, all []*zkio.Creation, err error) next {
	for i, c := range all {
		l := places[i].round.lock
		switch {
		case c.Err == nil:
			continue
		case errors.Is(c.Err, zkio.ErrNoNode):
			l.directory.Store(dirUnknown)
			return again
		case errors.Is(c.Err, zkio.ErrNoAuth) && c.Count:
			l.directory.Store(dirPlain)
			return again
		}
		return places[i].failed(c.Err)
	}
	if errors.Is(err, zkio.ErrNoNode) {
		return requeue // one was deleted as soon as they were made
	}
	return places[0].failed(err)
}

// lookAtDirectories finds out what is not known about the directories of places, and makes
// those that are missing.
func (g *group) lookAtDirectories(s *zkio.Session, places []*place) next {
	var unknown []*place
	var reads []*zkio.Read
	for _, p := range places {
		if l := p.round.lock; l.directory.Load() == dirUnknown {
			unknown = append(unknown, p)
			reads = append(reads, &zkio.Read{Path: l.path, What: zkio.ReadData})
		}
	}
	s.Read(reads...)
	for i, p := range unknown {
		if p.putOff(p.queuer().sawDirectory(s, reads[i].Data, reads[i].Err)) == sleep {
			return sleep
		}
	}
	if len(unknown) > 0 {
		return again
	}
	return goOn
}

// leave leaves all places, to queue again everywhere. It may take several tries to learn
// that the nodes are gone.
func (g *group) leave(s *zkio.Session) next {
	//holdfast:reached lock all: lost a place, queues again everywhere
	for _, p := range g.places {
		if p.node != nil {
			if err := p.node.Delete(s); err != nil {
				return p.failed(err)
			}
		}
		if p.old != nil {
			if err := p.old.Delete(s); err != nil {
				return p.failed(err)
			}
			p.old = nil
		}
		p.gone()
	}
	g.leaving = false
	if g.requeues++; g.requeues > 3 {
		return g.places[0].putOff(retry) // a node is deleted as soon as it is made
	}
	return again
}

// wait takes a group that has all its places further: until it has entered, or has nothing
// to do but wait for a watch.
func (g *group) wait(s *zkio.Session) next {
	then, all := goOn, true
	for _, p := range g.places {
		p.reserved = false
		switch n := p.putOff(p.waiter().wait(s)); n {
		case goOn:
			p.reserve()
		case requeue:
			return requeue
		case again: // it has failed
			then = again
		}
		all = all && p.reserved
	}
	switch {
	case then != goOn:
		return then
	case all:
		return g.enter(s)
	}
	g.requeues, g.seen = 0, false
	for _, p := range g.places {
		p.waits()
	}
	return g.mind(s)
}

// mind sees to the contenders that wait behind reserved places, and gives way if one has
// waited for too long.
func (g *group) mind(s *zkio.Session) next {
	now := g.m.now()
	var reads []*zkio.Read
	var looks []*place
	for _, p := range g.places {
		if p.reserved && p.lookAt() <= now {
			g.m.client.Watch(p.round.lock.path, (*stir)(p))
			p.stirred.Store(false) // before the list: what changes from now on is news
			looks = append(looks, p)
			reads = append(reads, &zkio.Read{Path: p.round.lock.path, What: zkio.ReadChildren})
		}
	}
	s.Read(reads...)
	for i, p := range looks {
		switch ok, err := p.saw(s, reads[i]); {
		case errors.Is(err, ErrSequenceExhausted): // no order says who is to give way
			p.round.fail(p.round.error("acquire", err))
			return again
		case err != nil:
			return p.failed(err)
		case !ok:
			return requeue
		}
	}
	lookAt, now := int64(never), g.m.now()
	var blocked []*place
	for _, p := range g.places {
		switch {
		case !p.reserved:
		case p.blockedAt() <= p.lookedAt:
			blocked = append(blocked, p)
		default:
			lookAt = min(lookAt, p.lookAt())
		}
	}
	if len(blocked) > 0 {
		g.movedAt = now
		first := g.m.firstPatience()
		g.patience[single] = g.vary(min(2*g.patience[single], mostPatience*first))
		g.patience[elder] = g.vary(first / hasty)
		return blocked[g.rng.IntN(len(blocked))].giveWay(s)
	}
	if lookAt != never {
		g.errand.WakeAfter(time.Duration(lookAt - g.m.now()))
	}
	return sleep
}

// unwatch takes back the watches of the directories.
func (g *group) unwatch() {
	for _, p := range g.places {
		g.m.client.Unwatch(p.round.lock.path, (*stir)(p))
	}
}

// enter grants all rounds: all places are reserved, in session s. The caller of LockAll
// learns of it when all words say so.
func (g *group) enter(s *zkio.Session) next {
	// A place that was reserved while the group waited may have gone, and another process may
	// hold that lock. What has shown that the last place is reserved does not tell: the
	// queues' lists, and the news of them, come in no order. So ask for all the nodes at once.
	// That is a proof of the lease, too: see roundIO.grant.
	if unsettled(s) {
		return g.places[0].delays().awaitLease(s)
	}
	lease := s.Lease()
	if need := g.m.leaseToBegin(s); !g.seen || lease.Remaining() < need {
		paths := make([]string, len(g.places))
		for i, p := range g.places {
			paths[i] = p.node.Path()
		}
		if err := s.Prove(paths[0], paths[1:]...); errors.Is(err, zkio.ErrNoNode) {
			//holdfast:reached lock all: a reserved place is gone when the last is free
			return requeue
		} else if err != nil {
			return g.places[0].failed(err)
		}
		g.seen = false // for the next time
		if lease = s.Lease(); lease.Remaining() < need {
			return g.places[0].delays().awaitLease(s)
		}
	}
	g.unwatch()
	since := g.m.now()
	for _, p := range g.places {
		p.node.KeepAlive(true)
		p.waiter().unwatchAhead()
		p.tenure = &tenure{
			token:   uint64(p.node.Czxid()),
			path:    p.node.Path(),
			since:   since,
			lease:   lease,
			session: s,
		}
		if o := p.round.lock.observer.Load(); o != nil {
			o.forget()
		}
	}
	for _, p := range g.places {
		p.enter()
	}
	// As in roundIO.grant: what ends leases, or closes the manager, says so before it looks
	// at the words.
	first := g.places[0]
	switch {
	case !lease.InForce():
		first.round.fail(first.round.lost(opAcquire, leaseOver))
	case g.m.stage.Load() == closingDown:
		first.round.fail(first.round.error(opAcquire, ErrClosed))
	default:
		g.granted.Settle(struct{}{}, nil)
	}
	return again
}

// deleteTogether deletes the nodes of the places that are being given up, in one request.
// Each is tried once; if the request fails, the places find out what became of theirs.
func (g *group) deleteTogether(s *zkio.Session) {
	var places []*place
	var nodes []*zkio.Node
	for _, p := range g.places {
		if !p.tried && p.mayDelete() {
			p.tried = true
			p.waiter().unwatchAhead()
			places, nodes = append(places, p), append(nodes, p.node)
		}
	}
	if len(nodes) > 1 && s.RemoveAll(nodes...) {
		for _, p := range places {
			p.removed = true
		}
	}
}
