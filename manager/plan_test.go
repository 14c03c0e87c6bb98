// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/racing"
)

// What a waiter does next, for each kind of situation.
func TestDecide(t *testing.T) {
	var (
		unknown *plan
		alone   = &plan{complete: true, conn: 1}
		last    = &plan{ahead: 1, watched: 1, complete: true, conn: 1}
		two     = &plan{ahead: 2, watched: 2, complete: true, conn: 1}
		many    = &plan{ahead: 9, watched: 2, conn: 1}
		unclear = &plan{ahead: 1, watched: 1, conn: 1}
		blind   = &plan{ahead: 1, conn: 1}

		told    = ownNode{watched: true, seen: true}
		recent  = ownNode{seen: true}
		unsure  = ownNode{}
		touched = ownNode{touched: true, watched: true, seen: true}
		due     = ownNode{due: true, seen: true}
		notDue  = ownNode{due: true, watched: true, seen: true}

		none    = news{}
		gone    = news{gone: 1}
		both    = news{gone: 2}
		other   = news{gone: 1, other: true}
		changed = news{changed: true}
	)
	for _, test := range []struct {
		what  string
		plan  *plan
		armed bool
		news  news
		own   ownNode
		conn  connection
		want  action
	}{
		{"it knows nothing", unknown, false, none, told, 1, doList},
		{"nothing was ahead when it queued", alone, false, none, recent, 1, doEnter},
		{"that was on another connection", alone, false, none, recent, 2, doList},
		{"a new plan", last, false, none, told, 1, doWatch},
		{"waiting", last, true, none, told, 1, doPark},
		{"waiting, on another connection", last, true, none, told, 2, doPark},
		{"the last one ahead went", last, true, gone, told, 1, doEnter},
		{"the last one went, and our node was seen just now", last, true, gone, recent, 1, doEnter},
		{"the last one went, and our node may have gone", last, true, gone, unsure, 1, doList},
		{"the last one went, and there is another connection", last, true, gone, told, 2, doList},
		{"the last one went, as told on another connection", last, true, other, told, 1, doList},
		{"one of two went", two, true, gone, told, 1, doPark},
		{"one of two went before both were looked at", two, false, gone, told, 1, doWatch},
		{"both went", two, true, both, told, 1, doEnter},
		{"both went, and there is another connection", two, true, both, told, 2, doList},
		{"one of many went", many, true, gone, told, 1, doList},
		{"the two nearest of many went", many, true, both, told, 1, doList},
		{"the only one went, and may come back", unclear, true, gone, told, 1, doList},
		{"one is ahead, and is not watched", blind, true, none, told, 1, doList},
		{"the one ahead was written to", last, true, changed, told, 1, doList},
		{"our node's watch fired", last, true, none, touched, 1, doLookAtOwn},
		{"our node's watch fired, and the one ahead went", last, true, gone, touched, 1, doLookAtOwn},
		{"a look at our node is due", last, true, none, due, 1, doLookAtOwn},
		{"a look is due, but the node has a watch", last, true, none, notDue, 1, doPark},
	} {
		got := decide(test.plan, test.armed, test.news, test.own, test.conn)
		expect(t, got == test.want, "%s: %v, want %v", test.what, got, test.want)
	}
}

// A watch is taken over from one plan to the next only if nothing was heard of it
// before the list that the next is made of.
func TestOutdated(t *testing.T) {
	for _, test := range []struct {
		what string
		was  heard
		want bool
	}{
		{"no watch", heard{}, false},
		{"a watch without news", heard{armed: true}, true},
		{"it was deleted", heard{armed: true, gone: 1}, false},
		{"it was written to", heard{armed: true, changed: true}, false},
	} {
		got := test.was.outdated().armed
		expect(t, got == test.want, "%s: taken over %t, want %t", test.what, got, test.want)
	}
}

func (a action) String() string {
	return [...]string{"park", "look at own", "list", "watch", "enter"}[a]
}

// A situation is everything that matters for one waiter: the nodes in the directory,
// what the server has told and the client not heard yet, and what the waiter
// knows. It is a value: each step makes another one.
type situation struct {
	kind    queue.Kind
	ahead   [maxAhead]aheadNode
	own     bool // the waiter's node is there
	ownDead bool // … and was not any more when the last contender ahead went

	ownWatch     bool // the server has a watch for the waiter's node
	disconnected bool
	conn         uint8

	events [10]untold // told by the server, not heard by the waiter; zero values at the end

	// The waiter.
	awake  bool
	plan   planState
	heard  [maxAhead]heard // by contender, of those that the plan knows
	asked  bool            // a list is under way …
	answer planState       // … and this is what it shows
	node   ownNode

	// What may still happen; bounded, so that there is an end.
	reconnects, writes, rotations uint8
}

const maxAhead = 4 // three, and a read that a downgrade leaves

// An aheadNode is a contender ahead, or one that a downgrade may put at its place.
type aheadNode struct {
	kind      queue.Kind // 0: none
	seq       uint8
	guid      bool
	there     bool
	watched   bool  // the server has a watch for it
	missed    bool  // it was written to, or came back, while the waiter had no connection
	unlisted  bool  // the waiter's last list did not show it
	mayReturn uint8 // how often a node of this name may still be made
}

// An untold is what a watch told about a contender, or about the own node.
type untold struct {
	of      int8 // 1 + index in ahead; -1: the own node; 0: no event
	changed bool
	conn    uint8 // on which it was told
}

// A planState is a plan by indices into ahead.
type planState struct {
	known    [2]int8 // 1 + index, the nearest last; 0: none
	n        uint8
	ahead    int8
	complete bool
	conn     uint8
	exists   bool
}

func (n aheadNode) name(i int) string {
	name := &aheadNames[i][n.kind][n.seq][0]
	if n.guid {
		name = &aheadNames[i][n.kind][n.seq][1]
	}
	if *name == "" {
		*name = fmt.Sprintf("%s%010d", n.kind.Mark(), n.seq)
		if n.guid {
			*name = fmt.Sprintf("_c_%032x-%s", i+1, *name)
		}
	}
	return *name
}

// aheadNames has the names that were made so far: by index, kind, number, and whether
// there is a GUID.
var aheadNames [maxAhead][queue.Write + 1][maxAhead + 1][2]string

const (
	ownGUID = "_c_ffffffffffffffffffffffffffffffff-"
	ownSeq  = 7
)

func (s *situation) ownName() string { return ownNames[s.kind] }

var ownNames = func() (names [queue.Write + 1]string) {
	for kind := queue.Exclusive; kind <= queue.Write; kind++ {
		names[kind] = fmt.Sprintf("%s%s%010d", ownGUID, kind.Mark(), ownSeq)
	}
	return names
}()

// excluded reports whether a contender ahead that is there keeps the waiter out.
func (s *situation) excluded() bool {
	return slices.ContainsFunc(s.ahead[:], func(n aheadNode) bool { return n.there && queue.Excludes(n.kind, s.kind) })
}

// index returns where the contender called name is in ahead.
func (s *situation) index(name string) int {
	for i, n := range s.ahead {
		if n.kind != 0 && n.name(i) == name {
			return i
		}
	}
	panic("no such contender: " + name)
}

func (s *situation) push(e untold) {
	e.conn = s.conn
	for i := range s.events {
		if s.events[i].of == 0 {
			s.events[i] = e
			return
		}
	}
	panic("more events than a situation has room for")
}

// room reports whether some step's events fit.
func (s *situation) room() bool { return s.events[len(s.events)-4].of == 0 }

// fire tells the waiter of a contender, if the server has a watch for it.
func (s *situation) fire(i int, changed bool) {
	switch n := &s.ahead[i]; {
	case !n.watched:
	case s.disconnected:
		n.missed = n.missed || changed
	default:
		n.watched = false
		s.push(untold{of: int8(i + 1), changed: changed})
	}
}

// planned is p as a planState.
func (s *situation) planned(p queue.Prospect, conn uint8) planState {
	plan := planOf(p, connection(conn))
	state := planState{n: uint8(plan.watched), ahead: int8(plan.ahead), complete: plan.complete, conn: conn, exists: true}
	for i, c := range p.Known {
		state.known[i] = int8(s.index(c.Name) + 1)
	}
	return state
}

// follow makes p the waiter's plan. It takes over the watches that are set still.
func (s *situation) follow(p planState) {
	old := s.heard
	s.plan, s.heard = p, [maxAhead]heard{}
	for _, i := range p.known[:p.n] {
		if old[i-1].armed {
			s.heard[i-1] = old[i-1]
		}
	}
}

// drop has the waiter forget its plan.
func (s *situation) drop() { s.plan, s.heard = planState{}, [maxAhead]heard{} }

// prospect is the plan as decide takes it, with the news.
func (p planState) prospect(s *situation) (_ *plan, armed bool, n news) {
	if !p.exists {
		return nil, false, n
	}
	var all []heard
	for _, i := range p.known[:p.n] {
		all = append(all, s.heard[i-1])
	}
	n, armed = newsOf(all, connection(p.conn))
	return &plan{ahead: int32(p.ahead), watched: int8(p.n), complete: p.complete, conn: connection(p.conn)}, armed, n
}

// names returns what a list of the directory shows.
func (s *situation) names() (names []string) {
	for i, n := range s.ahead {
		if n.there {
			names = append(names, n.name(i))
		}
	}
	if s.own {
		names = append(names, s.ownName())
	}
	return names
}

// act has the waiter do what decide says. done reports that it has left the situation:
// it has entered, or has found its node gone.
func (s *situation) act() (a action, done bool, fault string) {
	p, armed, n := s.plan.prospect(s)
	a = decide(p, armed, n, s.node, connection(s.conn))
	if s.disconnected && a != doPark && a != doEnter {
		return a, false, "" // the request waits
	}
	switch a {
	case doPark:
		s.awake = false
	case doLookAtOwn:
		if !s.own {
			return a, true, ""
		}
		s.ownWatch, s.node.watched, s.node.seen, s.node.due = true, true, true, false
		if s.node.touched {
			s.node.touched = false
			s.drop()
		}
	case doList:
		if !s.own {
			return a, true, ""
		}
		for i := range s.ahead {
			s.ahead[i].unlisted = !s.ahead[i].there
		}
		q := queue.List(s.names(), false, 1<<30)
		prospect, _ := q.Prospect(s.ownName(), s.kind)
		q.Free()
		// What has been heard by now is older than the list.
		for i, h := range s.heard {
			s.heard[i] = h.outdated()
		}
		s.asked, s.answer = true, s.planned(prospect, s.conn)
	case doWatch:
		for _, i := range s.plan.known[:s.plan.n] {
			switch {
			case s.heard[i-1].armed:
				continue
			case s.ahead[i-1].there:
				s.ahead[i-1].watched = true
			default:
				s.push(untold{of: i})
			}
			s.heard[i-1].armed = true
		}
	case doEnter:
		switch {
		case s.excluded():
			fault = "it enters beside a contender that excludes it"
		case s.ownDead && (s.node.watched || !s.node.seen):
			fault = "it enters although its own node was gone before"
		}
		return a, true, fault
	}
	return a, false, ""
}

// hear has the waiter hear of the first event.
func (s *situation) hear() {
	e := s.events[0]
	copy(s.events[:], s.events[1:])
	s.events[len(s.events)-1] = untold{}
	s.awake = true
	if e.of < 0 {
		s.node.touched = true
		return
	}
	// As the dispatcher does: it tells the present watcher of the path.
	if s.plan.exists && slices.Contains(s.plan.known[:s.plan.n], e.of) {
		if e.changed {
			s.heard[e.of-1].changed = true
		} else {
			s.heard[e.of-1].gone = connection(e.conn)
		}
	}
}

// A happening is a step, as a story tells it.
type happening struct{ what, of string }

func (h happening) String() string { return h.what + h.of }

// steps calls next for everything that can happen at the situation.
func (s situation) steps(next func(what happening, s situation, done bool, fault string)) {
	switch {
	case s.asked:
		n := s
		n.asked, n.answer, n.node.seen = false, planState{}, true
		n.follow(s.answer)
		next(happening{what: "the list is answered"}, n, false, "")
		if s.disconnected {
			n := s
			n.asked, n.answer, n.awake = false, planState{}, true
			next(happening{what: "the list is lost"}, n, false, "")
		}
	case s.awake:
		n := s
		a, done, fault := n.act()
		next(happening{what: a.String()}, n, done, fault)
	}
	if s.events[0].of != 0 {
		n := s
		n.hear()
		next(happening{what: "hear"}, n, false, "")
	}
	if !s.room() {
		return
	}
	for i, node := range s.ahead {
		if node.there {
			n := s
			n.ahead[i].there = false
			n.fire(i, false)
			if s.excluded() && !n.excluded() && !n.own {
				n.ownDead = true
			}
			next(happening{"goes: ", node.name(i)}, n, false, "")
		}
		if node.there && node.watched && s.writes > 0 {
			n := s
			n.writes--
			n.fire(i, true)
			next(happening{"is written to: ", node.name(i)}, n, false, "")
		}
		// A downgrade makes a read as long as the write is there. A name without a
		// GUID comes back; but not if the waiter has listed the queue without it:
		// against new contenders ahead there is no protection.
		if !node.there && node.mayReturn > 0 && (node.guid && s.ahead[max(0, i-1)].there || !node.guid && !node.unlisted) {
			n := s
			n.ahead[i].there = true
			n.ahead[i].mayReturn--
			n.fire(i, true) // what is left of a watch was set on the one before
			next(happening{"comes: ", node.name(i)}, n, false, "")
		}
	}
	if s.own {
		n := s
		n.own = false
		if n.ownWatch && !n.disconnected {
			n.ownWatch = false
			n.push(untold{of: -1})
		}
		next(happening{what: "the own node goes"}, n, false, "")
	}
	switch {
	case s.disconnected:
		// The server tells, in any order, what happened to what was watched.
		var missed []untold
		for i, node := range s.ahead {
			if node.watched && (!node.there || node.missed) {
				missed = append(missed, untold{of: int8(i + 1), changed: node.there})
			}
		}
		if s.ownWatch && !s.own {
			missed = append(missed, untold{of: -1})
		}
		for range max(1, len(missed)) {
			n := s
			n.disconnected = false
			n.conn++
			for _, e := range missed {
				if e.of > 0 {
					n.ahead[e.of-1].watched, n.ahead[e.of-1].missed = false, false
				} else {
					n.ownWatch = false
				}
				if n.events[len(n.events)-1].of == 0 {
					n.push(e)
				}
			}
			next(happening{what: "reconnects"}, n, false, "")
			if len(missed) > 0 {
				missed = append(missed[1:], missed[0])
			}
		}
	case s.reconnects > 0:
		n := s
		n.reconnects--
		n.disconnected = true
		next(happening{what: "disconnects"}, n, false, "")
	}
	if s.rotations > 0 && !s.asked {
		n := s
		n.rotations--
		n.awake, n.node.due = true, true
		n.drop()
		next(happening{what: "the rotation"}, n, false, "")
	}
	if s.node.seen && !s.node.watched {
		n := s
		n.node.seen = false
		next(happening{what: "the own node was not seen for long"}, n, false, "")
	}
	if !s.node.seen && !s.node.due {
		n := s
		n.node.due, n.awake = true, true
		next(happening{what: "a look at the own node is due"}, n, false, "")
	}
}

// stuck reports that the waiter waits for news that no watch will bring.
func (s *situation) stuck() bool {
	if s.awake || s.asked || s.disconnected || s.events[0].of != 0 || !s.own {
		return false
	}
	for _, i := range s.plan.known[:s.plan.n] {
		if n := s.ahead[i-1]; n.there && n.watched {
			return false
		}
	}
	return true
}

// situations returns all small queues, with the waiter behind: kinds, positions, names
// that can recur, reads that a downgrade can leave; and what the waiter knows when
// it starts: nothing, or the tail of the queue as it was when it last was the head.
func situations() (all []situation) {
	for _, kinds := range [][]queue.Kind{{queue.Exclusive}, {queue.Read, queue.Write}} {
		for n := range 4 {
			for code := range pow(len(kinds)*2, n) {
				for _, own := range kinds {
					s := situation{kind: own, own: true, conn: 1, awake: true}
					// What goes on beside the contenders' coming and going; all at
					// once are millions of situations, and none of another sort.
					s.reconnects = uint8(min(1, 3-n))
					s.writes = uint8(max(0, 2-n))
					s.rotations = uint8(max(0, 2-n))
					s.node.seen = true
					at, recurs, code := 0, 0, code
					for i := range n {
						c := aheadNode{kind: kinds[code%len(kinds)], seq: uint8(i + 1), guid: code/len(kinds)%2 == 0, there: true}
						code /= len(kinds) * 2
						if !c.guid {
							recurs++
							c.mayReturn = 1
						}
						if at >= maxAhead {
							recurs = 9
							break
						}
						s.ahead[at] = c
						at++
						if c.kind == queue.Write && i == n-1 && at < maxAhead { // its owner may downgrade
							s.ahead[at] = aheadNode{kind: queue.Read, seq: c.seq, guid: true, mayReturn: 1}
							at++
						}
					}
					if recurs > 1 {
						continue
					}
					all = append(all, s)
					if recurs == 0 && n > 0 && len(kinds) == 1 {
						all = append(all, s.fromTail()...)
					}
				}
			}
		}
	}
	return all
}

func pow(b, e int) int {
	p := 1
	for range e {
		p *= b
	}
	return p
}

// fromTail returns the situation with a waiter that has queued behind a tail that it saw
// as the head: all are in it, or all but the last, which came since.
func (s situation) fromTail() (all []situation) {
	head := fmt.Sprintf("_c_%032x-%s%010d", 99, s.kind.Mark(), 0)
	for unseen := range 2 {
		n := len(slices.DeleteFunc(slices.Clone(s.ahead[:]), func(n aheadNode) bool { return n.kind == 0 }))
		if n-unseen < 1 {
			continue
		}
		names := []string{head}
		for i, c := range s.ahead[:n-unseen] {
			names = append(names, c.name(i))
		}
		q := queue.List(names, false, int64(n-unseen+1))
		tail := q.Tail(head, s.kind)
		q.Free()
		own, _ := queue.ParseName(fmt.Sprintf("%s%s%010d", ownGUID, s.kind.Mark(), n+1))
		if p, ok := tail.Prospect(own); ok {
			other := s
			other.plan = other.planned(p, 1)
			all = append(all, other)
		}
	}
	return all
}

// The decision is safe and live in every situation that a waiter in a small queue
// can get into: whatever goes, comes back under its name, is downgraded or written
// to, in whichever order the news arrive, with and without a reconnect. It never
// enters beside a contender that excludes it, nor with a node that was gone before,
// and it never waits for what no watch will tell.
func TestDecideEverywhere(t *testing.T) {
	type visit struct {
		situation
		from int32 // index of the one before; -1: none
		how  happening
	}
	var visits []visit
	seen := map[situation]struct{}{}
	come := func(v visit) {
		if _, known := seen[v.situation]; !known {
			seen[v.situation] = struct{}{}
			visits = append(visits, v)
		}
	}
	all := situations()
	for i, s := range all {
		if racing.Some(i) {
			come(visit{situation: s, from: -1})
		}
	}
	initial := len(visits)
	story := func(i int32) string {
		var steps []string
		v := visits[i]
		for ; v.from >= 0; v = visits[v.from] {
			steps = append(steps, v.how.String())
		}
		steps = append(steps, fmt.Sprintf("%s behind %v", v.ownName(), v.names()))
		slices.Reverse(steps)
		return strings.Join(steps, "\n\t")
	}
	entered, decisions := 0, 0
	for i := int32(0); int(i) < len(visits); i++ {
		s := visits[i].situation
		if s.stuck() {
			t.Fatalf("it waits for news that will not come:\n\t%s", story(i))
		}
		s.steps(func(how happening, n situation, done bool, fault string) {
			decisions++
			switch {
			case fault != "":
				t.Fatalf("%s:\n\t%s\n\t%s", fault, story(i), how)
			case !done:
				come(visit{n, i, how})
			case how.what == doEnter.String():
				entered++
			}
		})
	}
	t.Logf("%d queues, %d situations, %d steps, %d of them grants", initial, len(seen), decisions, entered)
	nth := max(1, len(all)/initial)
	expect(t, initial >= 50/nth && entered >= 1000/nth,
		"only %d queues and %d grants: the test no longer covers what it says", initial, entered)
}
