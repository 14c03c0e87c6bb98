// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/state/model/internal/checker"
)

// A lockAll is a model of LockAll, which acquires several locks at once: all or
// none, some for reading and some for writing. It must not deadlock with other
// groups, nor with callers that hold one lock while they wait for the next.
//
// The protocol, step by step:
//
//  1. If this process holds all the locks already and all gates are open, the
//     caller is counted into each; if one refuses, the others are undone. Otherwise
//     the group gets a round of its own: one transaction creates a fresh node in
//     each queue, for writing if the caller named that lock for both. Groups of
//     equal sets in one process may share that round, until the gate of one of its
//     locks closes. A group never uses a node that its process already has.
//  2. The group enters when it is entitled everywhere. Until then no goroutine may
//     use the places in which it is first: they are reserved, not held.
//  3. To a group, the shared rounds of its own process are strangers, and to their
//     tenure the group's nodes are contenders like any others.
//  4. A group that waits gives way: if it is entitled in one queue but not in all,
//     and a contender that it excludes waits behind it there, then after its
//     patience one transaction deletes its node in that queue and creates another,
//     at the end. It keeps its other places. If there are several such queues, it
//     does so in one of them, by chance. Its patience is a tenure at first (or 100 ms
//     without one), and is doubled, and varied by chance, every time.
//  5. A caller whose context holds some of the locks, but not all, is refused: the
//     group would wait for its own caller.
//  6. A missing directory is created, and the transaction repeated; without
//     permission nothing was created. A lost answer is looked up by the nodes'
//     unique names. A caller that gives up deletes all nodes. If one node or the
//     session is lost, all are: a group that waits queues again everywhere, one
//     that holds has lost all.
//
// How it is modelled. There are up to three queues. That a waiter notices when what
// it waits for has gone is the business of the single lock: here a step is possible
// as soon as its condition is true. Giving way is a timer.
type lockAll struct {
	rules   lockAllRules
	clients []lockAllClient
}

// The invariants of LockAll: this one, and that the end stays reachable.
const (
	// Two processes are never inside the same lock if they exclude each other.
	lockAllExclusion = "exclusion"
)

// lockAllRules has the bounds of a search, and the wrong readings.
type lockAllRules struct {
	rounds  uint8 // how often each client takes its locks
	crashes bool  // a process may crash
	giveUp  bool  // groups that wait may give up

	// greedy has all clients but the first come back for ever. The first, a group,
	// must get its locks.
	greedy bool
	// patient has groups give way only when nothing else can happen. That is what
	// patience comes to when it is doubled often enough.
	patient bool
	// chance decides between groups of equal patience, and between the queues in
	// which a group may give way. Then it is enough that the first group can always
	// still get its locks. Otherwise the worst choice is made for ever.
	chance bool

	// From here on, each is a wrong reading.

	// giveWayEverywhere has a group that gives way delete all its nodes and create
	// them anew. That is free of deadlock, too. But a group that needs two locks,
	// beside two callers that take them one after the other, again and again, never
	// gets them, however long its patience: each time, the next caller has got ahead
	// of it in the first queue: checker.Trap.
	giveWayEverywhere bool
	// watchesOneQueue has the tenure of a group that goroutines share look for
	// contenders in its first queue only. Those of the others wait for ever:
	// checker.Deadlock.
	watchesOneQueue bool
	// neverGivesWay has a group keep its places. It is first for Y and waits for X,
	// whose holder waits for Y: checker.Deadlock.
	neverGivesWay bool
	// oneByOne creates the nodes one request after the other, in the order of the
	// arguments. Two groups that name the locks in different orders wait for each
	// other: checker.Deadlock.
	oneByOne bool
	// joins has a group use the node that its process already has in a queue. That
	// node is older than the group's others, so two groups see different orders in
	// two queues: checker.Deadlock.
	joins bool
	// ignoresOwnGroups has the tenure of a shared round skip the nodes of its own
	// process. Its goroutines keep coming, and the group waits for ever:
	// checker.Deadlock.
	ignoresOwnGroups bool
	// holdsOne admits a caller that holds one of the locks: checker.Deadlock.
	holdsOne bool
}

// A lockAllClient takes some locks, in its own way.
type lockAllClient struct {
	way     lockAllWay
	process int
	wants   []lockAllWant
	name    string
}

type lockAllWant struct {
	queue int
	read  bool
}

// A lockAllWay says how a client takes its locks.
type lockAllWay byte

const (
	// group takes them all at once.
	group lockAllWay = 'G'
	// equalGroups take them all at once, and share one round: they keep arriving
	// until its gate closes.
	equalGroups lockAllWay = 'E'
	// nested takes them one after the other, and holds each while it waits for the
	// next.
	nested lockAllWay = 'N'
	// ordered takes them as nested does, and gives way as a group does, but by leaving all
	// that it has: see ordered in [lockAllMove].
	ordered lockAllWay = 'O'
	// shared is a round of the process of the group before it in the list.
	// Goroutines share it, and keep arriving until its gate closes.
	shared lockAllWay = 'S'
)

const (
	lockAllClients = 4
	lockAllQueues  = 3
)

type lockAllState struct {
	phase  [lockAllClients]uint8                // of a group: groupAway and so on; of nested: the locks asked for
	inside [lockAllClients][lockAllQueues]bool  // of nested and shared
	place  [lockAllClients][lockAllQueues]uint8 // in line; 0 is none
	made   [lockAllClients]uint8                // nodes created so far, if one by one or ordered
	rounds [lockAllClients]uint8                // done
	closed [lockAllClients]bool                 // the gate of a round that goroutines share
	dead   [lockAllClients]bool

	// How often a group has given way since it queued, up to mostPatience, if groups
	// are patient.
	gaveWay [lockAllClients]uint8
}

// mostPatience is where doubling stops.
const mostPatience = 6

// What a group does.
const (
	groupAway uint8 = iota
	groupWaits
	groupInside
	orderedTries // it has queued everywhere at once, and knows not yet whether that was enough
)

// newLockAll returns a model with the given clients. Each is a word: the way in
// which it takes its locks, and their letters from X to Z, small to read.
func newLockAll(clients string, rules lockAllRules) checker.Model[lockAllState] {
	l := &lockAll{rules: rules}
	for i, word := range strings.Fields(clients) {
		c := lockAllClient{way: lockAllWay(word[0]), process: i}
		switch c.way {
		case group:
			c.name = fmt.Sprintf("group %d", i)
		case equalGroups:
			c.name = fmt.Sprintf("equal groups %d", i)
		case nested:
			c.name = fmt.Sprintf("nested %d", i)
		case ordered:
			c.name = fmt.Sprintf("ordered %d", i)
		case shared:
			c.name = fmt.Sprintf("shared %d", i)
			c.process = i - 1
		default:
			panic("lockall: no client " + word)
		}
		for _, letter := range word[1:] {
			if letter >= 'x' {
				c.wants = append(c.wants, lockAllWant{int(letter - 'x'), true})
			} else {
				c.wants = append(c.wants, lockAllWant{int(letter - 'X'), false})
			}
		}
		l.clients = append(l.clients, c)
	}
	if len(l.clients) > lockAllClients {
		panic("lockall: the state has no room for " + clients)
	}
	return checker.Model[lockAllState]{Next: l.next, Invariant: l.invariant, Done: l.done, Show: l.show, MustProgress: rules.greedy && !rules.chance}
}

// reads reports whether client c wants the lock of queue q for reading.
func (l *lockAll) reads(c, q int) bool {
	return slices.Contains(l.clients[c].wants, lockAllWant{q, true})
}

// excludes reports whether two clients of queue q exclude each other.
func (l *lockAll) excludes(a, b, q int) bool { return !l.reads(a, q) || !l.reads(b, q) }

// entitled reports whether no node before that of client c in queue q excludes it.
func (l *lockAll) entitled(s *lockAllState, c, q int) bool {
	own := s.place[c][q]
	if own == 0 {
		return false
	}
	for o := range l.clients {
		if other := s.place[o][q]; o != c && other != 0 && other < own && l.excludes(o, c, q) {
			return false
		}
	}
	return true
}

// holdsUp reports whether client c excludes a node behind it in queue q.
func (l *lockAll) holdsUp(s *lockAllState, c, q int) bool {
	for o := range l.clients {
		if o != c && s.place[o][q] > s.place[c][q] && l.excludes(o, c, q) {
			return true
		}
	}
	return false
}

// holds reports whether client c believes that it holds the lock of queue q.
func (l *lockAll) holds(s *lockAllState, c, q int) bool {
	if way := l.clients[c].way; way == group || way == equalGroups {
		return s.phase[c] == groupInside && s.place[c][q] != 0
	}
	return s.inside[c][q]
}

func (l *lockAll) over(s *lockAllState, c int) bool {
	return s.dead[c] || s.rounds[c] == l.rules.rounds
}

// sharedBy returns the shared round of the process of group c, or -1.
func (l *lockAll) sharedBy(c int) int {
	if c+1 < len(l.clients) && l.clients[c+1].way == shared {
		return c + 1
	}
	return -1
}

// reset takes client c out of all queues.
func (s *lockAllState) reset(c int) {
	s.phase[c], s.inside[c], s.place[c], s.made[c], s.closed[c] = 0, [lockAllQueues]bool{}, [lockAllQueues]uint8{}, 0, false
	s.gaveWay[c] = 0
}

// end returns the place at the end of every queue. One transaction creates all of a
// group's nodes, so they have the same place in the order of transactions.
func (s *lockAllState) end() uint8 {
	last := uint8(0)
	for _, places := range s.place {
		last = max(last, slices.Max(places[:]))
	}
	return last + 1
}

// normalize numbers the places anew, keeping their order.
func (s *lockAllState) normalize() {
	const most = lockAllClients*lockAllQueues + 2
	var used [most]bool
	for _, places := range s.place {
		for _, p := range places {
			used[p] = true
		}
	}
	var renumbered [most]uint8
	last := uint8(0)
	for p := 1; p < most; p++ {
		if used[p] {
			last++
			renumbered[p] = last
		}
	}
	for c := range s.place {
		for q := range s.place[c] {
			s.place[c][q] = renumbered[s.place[c][q]]
		}
	}
}

func (l *lockAll) invariant(s lockAllState) string {
	for q := range lockAllQueues {
		for a := range l.clients {
			for b := range a {
				if l.clients[a].process != l.clients[b].process && l.holds(&s, a, q) && l.holds(&s, b, q) && l.excludes(a, b, q) {
					return fmt.Sprintf("%s: %s and %s in %c", lockAllExclusion, l.clients[b].name, l.clients[a].name, 'X'+q)
				}
			}
		}
	}
	return ""
}

// done: all have had their locks. Rounds that goroutines share may stay for ever if
// they hold up no contender.
func (l *lockAll) done(s lockAllState) bool {
	if l.rules.greedy {
		return l.over(&s, 0)
	}
	for c := range l.clients {
		stays := l.clients[c].way == shared || l.clients[c].way == equalGroups && s.phase[c] == groupInside && !s.closed[c]
		if !stays && !l.over(&s, c) {
			return false
		}
	}
	return true
}

func (l *lockAll) show(s lockAllState) string {
	var queues []string
	for q := range lockAllQueues {
		var line []int
		for c := range l.clients {
			if s.place[c][q] != 0 {
				line = append(line, c)
			}
		}
		if len(line) == 0 {
			continue
		}
		slices.SortFunc(line, func(a, b int) int { return int(s.place[a][q]) - int(s.place[b][q]) })
		text := fmt.Sprintf("%c:", 'X'+q)
		for _, c := range line {
			text += fmt.Sprintf(" %c%d", l.clients[c].way, c)
			if l.holds(&s, c, q) {
				text += " (inside)"
			}
		}
		queues = append(queues, text)
	}
	return strings.Join(queues, "; ")
}

// A lockAllMove takes the steps of one client that are possible in a state.
type lockAllMove struct {
	*lockAll
	c    int
	old  lockAllState // the state
	take func(checker.Step[lockAllState])
}

func (l *lockAll) next(s lockAllState, take func(checker.Step[lockAllState])) {
	busy, least := false, uint8(mostPatience)
	var timers []checker.Step[lockAllState] // of the least patience
	for c := range l.clients {
		l.steps(s, c, func(step checker.Step[lockAllState]) {
			switch {
			case !l.rules.patient || step.Kind != checker.Timer:
				busy = true
				take(step)
			case s.gaveWay[c] < least:
				least = s.gaveWay[c]
				timers = append(timers[:0], step)
			case s.gaveWay[c] == least:
				timers = append(timers, step)
			}
		})
	}
	if !busy {
		for _, step := range timers {
			take(step)
		}
	}
}

// steps takes all steps of client c that are possible in s.
func (l *lockAll) steps(s lockAllState, c int, take func(checker.Step[lockAllState])) {
	if l.over(&s, c) {
		return
	}
	m := lockAllMove{l, c, s, take}
	m.crash()
	switch l.clients[c].way {
	case nested:
		m.nested()
	case ordered:
		m.ordered()
	case shared:
		m.shared()
	case group, equalGroups:
		m.group()
	}
}

func (m *lockAllMove) step(s lockAllState, kind checker.Kind, action string) {
	s.normalize()
	progress := m.old.phase[0] == groupAway || s.phase[0] == groupInside
	m.take(checker.Step[lockAllState]{Actor: m.clients[m.c].name, Action: action, To: s, Kind: kind, Progress: progress})
}

// leave ends the client's round.
func (m *lockAllMove) leave(kind checker.Kind, action string) {
	s := m.old
	s.reset(m.c)
	if !m.rules.greedy || m.c == 0 {
		s.rounds[m.c]++
	}
	m.step(s, kind, action)
}

func (m *lockAllMove) crash() {
	queues := m.old.place[m.c] != [lockAllQueues]uint8{}
	if !m.rules.crashes || m.old.dead != [lockAllClients]bool{} || m.clients[m.c].process != m.c || !queues {
		return
	}
	s := m.old
	for o := range m.clients {
		if m.clients[o].process == m.c {
			s.reset(o)
			s.dead[o] = true
		}
	}
	m.step(s, checker.Optional, "crashes")
}

// nested takes one lock after the other.
func (m *lockAllMove) nested() {
	s, wants := m.old, m.clients[m.c].wants
	asked := int(s.phase[m.c])
	if asked > 0 && !s.inside[m.c][wants[asked-1].queue] {
		q := wants[asked-1].queue
		if m.entitled(&s, m.c, q) {
			s.inside[m.c][q] = true
			m.step(s, checker.Mandatory, "enters "+m.letter(q))
		}
		return
	}
	if asked == len(wants) {
		m.leave(checker.Mandatory, "leaves")
		return
	}
	q := wants[asked].queue
	s.phase[m.c]++
	s.place[m.c][q] = s.end()
	m.step(s, checker.Mandatory, "queues in "+m.letter(q))
}

// ordered is a simpler way to take several locks, which LockAll does not go: it needs no
// rounds of its own. One transaction queues everywhere. If that does not get all locks at
// once, another one withdraws it, and the client takes one lock after the other, in an
// order that all processes have in common. While it holds some and waits for the next, and
// another contender waits for one that it holds, it leaves all after its patience, and
// begins again with the first.
//
// Two callers that take the locks one after the other in the opposite order can keep it
// from them without end: each time it leaves, one of them has got ahead of it in the first
// queue and the other is ahead in the second. Only chance ends that. A group keeps its
// places, and gets its locks whatever the others do.
func (m *lockAllMove) ordered() {
	c, s, wants := m.c, m.old, m.clients[m.c].wants
	asked := int(s.made[c])
	switch s.phase[c] {
	case groupAway:
		end := s.end()
		for _, w := range wants {
			s.place[c][w.queue] = end
		}
		s.phase[c] = orderedTries
		m.step(s, checker.Mandatory, "queues everywhere")
		return
	case orderedTries:
		for _, w := range wants {
			if !m.entitled(&s, c, w.queue) {
				s.reset(c)
				s.phase[c] = groupWaits
				m.step(s, checker.Mandatory, "withdraws")
				return
			}
		}
		for _, w := range wants {
			s.inside[c][w.queue] = true
		}
		s.phase[c] = groupInside
		m.step(s, checker.Mandatory, "enters")
		return
	case groupInside:
		m.leave(checker.Mandatory, "leaves")
		return
	}
	if m.rules.giveUp {
		s := s
		s.reset(c)
		s.rounds[c] = m.rules.rounds
		m.step(s, checker.Optional, "gives up")
	}
	if asked == 0 || s.inside[c][wants[asked-1].queue] {
		q := wants[asked].queue
		s.made[c]++
		s.place[c][q] = s.end()
		m.step(s, checker.Mandatory, "queues in "+m.letter(q))
		return
	}
	if q := wants[asked-1].queue; m.entitled(&s, c, q) {
		s := s
		s.inside[c][q] = true
		if asked == len(wants) {
			s.phase[c] = groupInside
		}
		m.step(s, checker.Mandatory, "enters "+m.letter(q))
		return
	}
	if m.rules.neverGivesWay {
		return
	}
	for _, w := range wants[:asked-1] {
		if !m.holdsUp(&s, c, w.queue) {
			continue
		}
		gaveWay := s.gaveWay[c]
		s.reset(c)
		s.phase[c] = groupWaits
		if m.rules.patient {
			s.gaveWay[c] = min(gaveWay+1, mostPatience)
		}
		m.step(s, checker.Timer, "gives way")
		return
	}
}

func (m *lockAllMove) letter(q int) string { return "XYZ"[q : q+1] }

// shared is in one queue, and stays until its gate closes.
func (m *lockAllMove) shared() {
	c, s := m.c, m.old
	q := m.clients[c].wants[0].queue
	switch {
	case s.place[c][q] == 0:
		s.place[c][q] = s.end()
		m.step(s, checker.Mandatory, "queues in "+m.letter(q))
	case !s.inside[c][q]:
		if m.entitled(&s, c, q) {
			s.inside[c][q] = true
			m.step(s, checker.Mandatory, "enters "+m.letter(q))
		}
	case s.closed[c]:
		if !m.rules.joins || s.phase[m.clients[c].process] == groupAway {
			m.leave(checker.Mandatory, "is left by the last goroutine")
		}
	default:
		for o := range m.clients {
			own := m.clients[o].process == m.clients[c].process
			if o != c && s.place[o][q] > s.place[c][q] && !(m.rules.ignoresOwnGroups && own) {
				s := s
				s.closed[c] = true
				m.step(s, checker.Timer, "closes its gate")
				break
			}
		}
		if !m.rules.joins || s.phase[m.clients[c].process] != groupWaits {
			m.leave(checker.Optional, "is left by the last goroutine although the gate is open")
		}
	}
}

// group takes all locks at once.
func (m *lockAllMove) group() {
	switch m.old.phase[m.c] {
	case groupAway:
		m.queue()
	case groupWaits:
		m.wait()
	case groupInside:
		if m.clients[m.c].way == equalGroups {
			m.stay()
		} else {
			m.leave(checker.Mandatory, "leaves")
		}
	}
}

// stay has equal groups stay inside until the gate closes.
func (m *lockAllMove) stay() {
	c, s := m.c, m.old
	if s.closed[c] {
		m.leave(checker.Mandatory, "are left by the last goroutine")
		return
	}
	wants := m.clients[c].wants
	if m.rules.watchesOneQueue {
		wants = wants[:1]
	}
	if slices.ContainsFunc(wants, func(w lockAllWant) bool { return m.holdsUp(&s, c, w.queue) }) {
		s.closed[c] = true
		m.step(s, checker.Timer, "close their gate")
	}
	m.leave(checker.Optional, "are left by the last goroutine although the gate is open")
}

// queue creates the group's nodes.
func (m *lockAllMove) queue() {
	c, s, wants := m.c, m.old, m.clients[m.c].wants
	end := s.end()
	if m.rules.oneByOne {
		q := wants[s.made[c]].queue
		s.place[c][q] = end
		if s.made[c]++; int(s.made[c]) == len(wants) {
			s.phase[c] = groupWaits
		}
		m.step(s, checker.Mandatory, "queues in "+m.letter(q))
		return
	}
	for _, w := range wants {
		if !m.usesSharedNode(&s, w.queue) {
			s.place[c][w.queue] = end
		}
	}
	s.phase[c] = groupWaits
	m.step(s, checker.Mandatory, "queues everywhere")
}

// usesSharedNode reports whether the group takes the node of its process's shared
// round in queue q for its own, which is wrong.
func (m *lockAllMove) usesSharedNode(s *lockAllState, q int) bool {
	other := m.sharedBy(m.c)
	return m.rules.joins && other >= 0 && s.place[other][q] != 0
}

// wait is the group's, once it has queued.
func (m *lockAllMove) wait() {
	c, s, wants := m.c, m.old, m.clients[m.c].wants
	everywhere := true
	var blocked []int // queues in which it is entitled and holds up a contender
	for _, w := range wants {
		node := c
		if s.place[c][w.queue] == 0 && m.usesSharedNode(&s, w.queue) {
			node = m.sharedBy(c)
		}
		entitled := m.entitled(&s, node, w.queue)
		if entitled && m.holdsUp(&s, node, w.queue) {
			blocked = append(blocked, w.queue)
		}
		if !entitled || m.rules.holdsOne && w == wants[0] {
			everywhere = false
		}
	}
	if everywhere {
		s := s
		s.phase[c] = groupInside
		m.step(s, checker.Mandatory, "enters")
	}
	switch {
	case everywhere || m.rules.neverGivesWay || len(blocked) == 0:
	case m.rules.giveWayEverywhere:
		var all []int
		for _, w := range wants {
			all = append(all, w.queue)
		}
		m.giveWay(all...)
	default:
		for _, q := range blocked { // in one of them
			m.giveWay(q)
		}
	}
	if m.rules.giveUp {
		s := s
		s.reset(c)
		s.rounds[c] = m.rules.rounds
		m.step(s, checker.Optional, "gives up")
	}
}

// giveWay creates the group's nodes in the queues anew, by one transaction.
func (m *lockAllMove) giveWay(queues ...int) {
	s := m.old
	end := s.end()
	for _, q := range queues {
		s.place[m.c][q] = end
	}
	if m.rules.patient {
		s.gaveWay[m.c] = min(s.gaveWay[m.c]+1, mostPatience)
	}
	m.step(s, checker.Timer, "gives way")
}

func lockAllSearches() []search {
	right := func(about, clients string, rules lockAllRules) search {
		return holds(about+" ["+clients+"]", newLockAll(clients, rules))
	}
	wrong := func(about, clients string, rules lockAllRules) search {
		rules.rounds = 1
		return fails(about+" ["+clients+"]", checker.Deadlock, newLockAll(clients, rules))
	}
	// The others come back for ever, and groups have all the patience they need.
	greedy := lockAllRules{rounds: 1, greedy: true, patient: true}
	lucky := lockAllRules{rounds: 1, greedy: true, patient: true, chance: true}
	ordinary := lockAllRules{rounds: 2, crashes: true, giveUp: true}
	var list []search
	for _, everywhere := range []bool{false, true} {
		b := lockAllRules{rounds: 2, crashes: true, giveUp: true, giveWayEverywhere: everywhere}
		long := lockAllRules{rounds: 2, giveWayEverywhere: everywhere}
		short := lockAllRules{rounds: 1, crashes: true, giveUp: true, giveWayEverywhere: everywhere}
		noGiveUp := lockAllRules{rounds: 1, crashes: true, giveWayEverywhere: everywhere}
		where := ""
		if everywhere {
			where = ", gives way everywhere"
		}
		list = append(list,
			right("two groups"+where, "GXY GYX", b),
			right("groups and single locks"+where, "GXY GYX NX NY", b),
			right("groups in a ring"+where, "GXY GYZ GZX", b),
			right("readers and writers"+where, "GxY GXy NX Nx", b),
			right("readers"+where, "Gxy GXY Nx NY", b),
			right("nested in the group's order"+where, "GXY NXY NXY", b),
			right("nested in the other order"+where, "GXY NYX NYX", b),
			right("two groups, two nested"+where, "GXY GXY NXY NXY", noGiveUp),
			right("two groups, one nested"+where, "GXY NXY GXY", long),
			right("nested through a third"+where, "GXZ NXY NYZ", b),
			right("the process shares X, too"+where, "GXY SX NY GXY", short),
			right("equal groups"+where, "EXY GXY NX NY", b),
			right("equal groups in a ring"+where, "EXY GYZ EZX NX", b),
			right("equal groups, readers, nested"+where, "ExY NXY NXY", b),
		)
	}
	return append(list,
		right("two groups that never give way", "GXY GYX", lockAllRules{rounds: 2, neverGivesWay: true}),
		right("nested, no group", "NXY NXY NXY", lockAllRules{rounds: 2, neverGivesWay: true}),

		right("no starvation", "GXY NXY NXY", greedy),
		right("no starvation", "GXY NXY NXY NXY", greedy),
		right("no starvation", "GXY GXY NXY NXY", greedy),
		right("no starvation", "GXY NYX NYX", greedy),
		right("no starvation", "GXY GXY NX NY", greedy),
		right("no starvation", "GXYZ GXY NYZ NXZ", greedy),
		right("no starvation", "GXYZ GXY GYZ GXZ", greedy),
		right("no starvation", "Gxy NXY Nxy NXY", greedy),
		right("no starvation", "GxY NXY NXy Nxy", greedy),
		right("no starvation, by chance", "GXY GYZ GXZ NXY", lucky),
		right("no starvation, by chance", "GXYZ NXY NYZ NXZ", lucky),
		right("no starvation, by chance", "GXYZ NXY NYZ NXYZ", lucky),
		right("no starvation, by chance", "GXYZ GXYZ NXY NZX", lucky),
		right("no starvation, by chance", "GXYZ GXY GYZ NZX", lucky),

		right("ordered, two", "OXY OXY", ordinary),
		right("ordered, in a ring", "OXY OYZ OXZ", ordinary),
		right("ordered and single locks", "OXY OXY NX NY", ordinary),
		right("ordered, nested in the other order", "OXY NYX NYX", ordinary),
		right("ordered, readers and writers", "OxY OXy NX Nx", ordinary),
		right("ordered, no starvation by chance", "OXY NYX NYX", lucky),
		wrong("ordered, never gives way", "OXY NYX", lockAllRules{neverGivesWay: true}),
		fails("ordered starves if no chance decides [OXY NYX NYX]", checker.Livelock, newLockAll("OXY NYX NYX", greedy)),

		wrong("nested, the group never gives way", "GXY NXY", lockAllRules{neverGivesWay: true}),
		wrong("one request for each node", "GXY GYX", lockAllRules{oneByOne: true, neverGivesWay: true}),
		wrong("uses a node of its process", "GXY SY GXY", lockAllRules{joins: true, neverGivesWay: true}),
		wrong("the own group closes no gate", "GXY SX", lockAllRules{ignoresOwnGroups: true}),
		wrong("the caller holds one of them", "GXY", lockAllRules{holdsOne: true}),
		wrong("the tenure watches one queue", "EXY NY", lockAllRules{watchesOneQueue: true}),
		fails("starves if it gives way everywhere [GXY NXY NXY]", checker.Trap, newLockAll("GXY NXY NXY", lockAllRules{rounds: 1, greedy: true, patient: true, giveWayEverywhere: true})),
		fails("starves if no chance decides who [GXY GYZ GXZ NXY]", checker.Livelock, newLockAll("GXY GYZ GXZ NXY", greedy)),
		fails("starves if no chance decides where [GXYZ NXY NYZ NXZ]", checker.Livelock, newLockAll("GXYZ NXY NYZ NXZ", greedy)),
	)
}
