// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A place is what a group has in one of its queues: a round of its own, with a node of its
// own. The round is in no chain: no caller arrives at it, no round comes before or after it,
// and the lock's present round neither knows it nor makes way for it. All its steps are the
// group's. In all other respects it is a round like any other, so the Hold that it grants
// is a Hold like any other.
//
// Its plan, its watches and its list of the queue are those of any waiting round. But where
// that would be granted the lock, the place is reserved.
type place struct {
	*roundIO // of its round
	group    *group

	stirred atomic.Bool // contenders have come or gone since the last look behind; see PathChanged

	// Used by steps only.
	reserved bool               // nothing is ahead: the last pass over the places has shown it
	since    int64              // when it became reserved; 0: it is not
	lookedAt int64              // when the contenders behind were last listed while it waited; 0: never
	behind   [standings]suspect // the first contender of each standing behind the place, when last listed; see standing
	makers   []string           // the managers whose single contenders were behind the place then
	old      *zkio.Node         // that it left by a request without an answer; nil: surely gone
	tried    bool               // its node was to be deleted together with others
	removed  bool               // and was
}

// newPlace makes the group's place in the queue of l.
func newPlace(g *group, l *Lock) *place {
	r := newRound(l)
	r.next.Store(passed)
	t := r.io()
	// The round is wanted from the start, and for one caller.
	r.flags.Set(state.PrevReleased | state.Wanted | state.GateClosed)
	r.word.Apply(func(w state.Word) (state.Word, state.Effect) { return w.Arrive(true) })
	t.events.Raise(state.FirstLookAsked) // newcomers cannot enter, so no look behind is needed for them
	p := &place{roundIO: t, group: g}
	t.signals().group = p // no other goroutine knows t yet
	l.m.feed.began(t)
	return p
}

// placed is the trait of a group's rounds.
type placed struct{ plain }

func (placed) guid(t *roundIO) func() string { return t.place().group.guid }

func (placed) listed(t *roundIO, q queue.Queue, p queue.Prospect) queue.Prospect {
	t.place().sees(q)
	return p
}

func (placed) ended(t *roundIO, err *Error) { t.place().group.end(t.place(), err) }

// To a group, all other contenders are like another process's.
func (placed) outlook(_ *roundIO, v outlook) outlook {
	v.own = true
	return v
}

func (placed) held(t *roundIO, _ *zkio.Session) next {
	t.attempts = 0
	return sleep // its gate is no newcomer's
}

func (placed) last(t *roundIO, _ *zkio.Session, f farewell) (farewell, error) {
	f.instead = t.place().deleteNode
	return f, nil
}

func (placed) wake(t *roundIO, q zkio.Queue) bool {
	t.place().group.errand.WakeBy(q)
	return true
}

// failed is that of its round, which the group has woken by itself to try again.
func (p *place) failed(err error) next { return p.putOff(p.roundIO.failed(err)) }

// reserve notes that nothing is ahead.
func (p *place) reserve() {
	p.reserved = true
	if p.position.Load() != nil {
		p.whereabouts().clear()
	}
}

// waits notes since when the place has been reserved, if it is. The group has to wait for
// another one.
func (p *place) waits() {
	switch {
	case !p.reserved:
		p.since = 0
		return
	case p.since == 0:
		p.since = p.group.m.now()
	}
	if !p.watched { // as in park
		p.waiter().lookAtNodeLater()
	}
}

// queued notes that c has put the place's node into the queue. The lists, if there are any,
// came with it.
func (p *place) queued(c *zkio.Creation, with *along, conn connection) {
	p.teller().queued()
	now := p.group.m.now()
	p.watched, p.seenAt = c.Watched, now
	p.waiter().unwatchAhead()
	if c.Children > 0 {
		p.round.lock.counted(c.Children)
	}
	switch shown := with.listed(now); {
	case c.Children == 1:
		p.waiter().follow(queue.Prospect{Complete: true}, conn, queue.Contender{})
	case shown != nil:
		p.meet().listed = shown
	}
}

// creation describes the place's node to CreateAll, and the list to send along with it.
func (p *place) creation(s *zkio.Session) (*zkio.Creation, *along) {
	l := p.round.lock
	c := &zkio.Creation{Node: p.node, Count: l.directory.countable()}
	if l.directory.Load() == dirEmpty {
		return c, nil
	}
	return c, &along{zkio.Read{Path: l.path, What: zkio.ReadChildren}, connectionOf(s)}
}

// enter grants the place's round, whose tenure is set.
func (p *place) enter() {
	l := p.round.lock
	_, e, lost := p.round.word.Apply(state.Word.Grant)
	l.noteRaces(lost)
	switch e {
	case state.Granted:
		p.teller().granted()
		p.settleGrant()
		p.node.DropCreateData()
		p.position.Store(nil)
		if !p.watched { // as in roundIO.grant
			p.watched = true
			p.node.WatchLater(l.m.firstLook())
		}
		p.teller().logGranted()
	case state.Abandoned:
		p.abandoned()
	}
}

// forget forgets the place's nodes, which have gone with their session.
func (p *place) forget() {
	if p.node != nil {
		p.node.Forget()
	}
	if p.old != nil {
		p.old.Forget()
		p.old = nil
	}
	p.gone()
}

// gone notes that the place has no node.
func (p *place) gone() {
	p.queuer().nodeGone()
	p.reserved, p.since, p.lookedAt, p.behind = false, 0, 0, [standings]suspect{}
}

// A stir is a place in its role as a watcher of the directory.
type stir place

// PathChanged is called by the dispatcher when a contender came or went.
func (w *stir) PathChanged(string, zkio.Event) {
	w.stirred.Store(true)
	(*place)(w).wakeLater()
}

// A standing is how a group treats a contender that waits behind one of its places.
type standing int

const (
	// single: it is no group's. It may hold what the group waits for, and the group gives
	// way after its patience.
	single standing = iota
	// elder: it is the place of a group that began to wait before this one, which gives way
	// soon.
	elder
	// younger: it is the place of a group that began to wait later, and gives way itself if
	// it blocks this one.
	younger

	standings = iota
)

// standingOf returns the standing of the contender called name.
func (g *group) standingOf(name string) standing {
	switch rank := rankOf(name); {
	case rank == "":
		return single
	case rank < g.rank:
		return elder
	}
	return younger
}

// sees notes which contenders wait behind the place, and since when.
func (p *place) sees(q queue.Queue) {
	own, _ := q.Find(p.node.Name())
	p.makers = p.makers[:0]
	for _, c := range q.Contenders {
		if queue.Compare(c, own) > 0 && queue.Excludes(p.round.lock.kind, c.Kind) && rankOf(c.Name) == "" {
			p.makers = append(p.makers, strings.Clone(makerOf(c.Name)))
		}
	}
	for st := range p.behind {
		c, found := q.Behind(p.node.Name(), p.round.lock.kind, func(name string) bool { return p.group.standingOf(name) != standing(st) })
		switch s := &p.behind[st]; {
		case !found:
			*s = suspect{}
		case c.Name != s.name:
			*s = suspect{strings.Clone(c.Name), p.group.m.now()} // not the whole list
		}
	}
}

// blockedAt returns when the place, which is reserved, is to give way if the contenders
// behind it are still there then; never if there are none.
func (p *place) blockedAt() int64 {
	at := int64(never)
	for st, s := range p.behind {
		if s.name == "" {
			continue
		}
		patience := p.group.patience[st]
		if standing(st) == single && p.entangled() {
			patience = p.group.patience[elder]
		}
		at = min(at, max(s.at, p.since, p.group.movedAt)+int64(patience))
	}
	return at
}

// entangled reports whether a process that is ahead of the group in another queue waits
// behind this place: perhaps by one goroutine, which waits for the group.
func (p *place) entangled() bool {
	for _, other := range p.group.places {
		if other.reserved || other.watching == nil {
			continue
		}
		for _, a := range other.watching.contenders() {
			if slices.Contains(p.makers, makerOf(a.name())) {
				return true
			}
		}
		if first := other.near().first; first != nil && slices.Contains(p.makers, makerOf(first.name())) {
			return true
		}
	}
	return false
}

// lookAt returns when the contenders behind the place are to be listed; never if there is
// nothing to be seen.
func (p *place) lookAt() int64 {
	at := p.blockedAt()
	if p.lookedAt >= at {
		return never // it is blocked, and gives way
	}
	// The list is old if the news of a change may have been lost. The rotation wakes the group
	// for the places that it waits for.
	if p.lookedAt == 0 || p.stirred.Load() || p.group.m.now()-p.lookedAt >= int64(rotationTimeout) {
		at = min(at, max(p.lookedAt, p.since)+int64(p.group.patience[elder])/2)
	}
	return at
}

// saw notes what a list of the queue shows behind the place. ok is false if the group
// cannot go on with its nodes.
func (p *place) saw(s *zkio.Session, r *zkio.Read) (ok bool, err error) {
	if errors.Is(r.Err, zkio.ErrNoNode) {
		return false, nil // our node has gone with the directory
	} else if r.Err != nil {
		return true, r.Err
	}
	q := p.round.lock.queueOf(r.Names, r.Stat)
	defer q.Free()
	if q.Exhausted {
		if err := p.waiter().order(s, &q); err != nil {
			return true, err
		}
	}
	if _, found := q.Find(p.node.Name()); !found {
		return false, nil
	}
	p.sees(q)
	p.lookedAt = p.group.m.now()
	return true, nil
}

// giveWay moves the place to the end of its queue.
func (p *place) giveWay(s *zkio.Session) next {
	//holdfast:reached lock all: gives way
	old, l := p.node, p.round.lock
	p.gone()
	p.queuer().hasNode(p.queuer().newNode())
	conn := connectionOf(s)
	c, with := p.creation(s)
	c.Old = old
	err := s.CreateAll([]*zkio.Creation{c}, with.reads()...)
	switch class := zkio.ClassOf(err); {
	case err == nil:
		p.queued(c, with, conn)
		return again
	case old.Session() == nil:
		// It has moved. What failed is a look at the new node, which is repeated.
	case class == zkio.NotSent || class == zkio.Definite:
		// It is where it was, if it is there at all.
		p.node.Forget()
		p.node = old
		p.events.Raise(state.OwnTouched)
		if errors.Is(err, zkio.ErrNoAuth) && c.Count {
			l.directory.Store(dirPlain)
			return again
		}
		if errors.Is(err, zkio.ErrNoNode) {
			return again
		}
	default:
		//holdfast:reached lock all: gives way, perhaps: the answer is lost
		p.old = old
	}
	return p.failed(err)
}

// deleteNode deletes the place's node, together with those of the group's other places that
// are being given up.
func (p *place) deleteNode(s *zkio.Session) (zkio.Removal, error) {
	if !p.tried {
		p.group.deleteTogether(s)
	}
	if p.old != nil {
		if err := p.old.Delete(s); err != nil {
			return zkio.RemovedUnknown, err
		}
		p.old = nil
	}
	if p.removed {
		return zkio.RemovedByUs, nil
	}
	return p.node.Remove(s)
}

// mayDelete reports whether the place's node is to be deleted now.
func (p *place) mayDelete() bool {
	why := p.endReason.Load()
	return p.node != nil && p.round.word.Load().Phase() == state.Releasing && why != nil && why.notBefore <= p.group.m.now()
}

// lostWith returns the error of a lock that was lost, or failed, because another of its
// group was.
func lostWith(err *Error) error {
	return fmt.Errorf("%w (it was acquired together with %q)", err.Err, err.Name)
}
