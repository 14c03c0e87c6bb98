// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/state/model/internal/checker"
)

// An upgrade is a model of the upgradable read: a reader U that other readers may
// accompany, but no other upgradable reader and no writer, and that can become
// exclusive without letting go of what it has read. It works beside other clients
// of the same queue, which follow Curator and know nothing of upgrades.
//
// The protocol, step by step:
//
//  1. U has a node that other clients take for a reader's. Its name is marked, so
//     that Holdfast's own clients know it: a single dash parts the 32 hex digits
//     that make it unique, _c_<16 digits>-<16 digits>-__READ__<number>. U waits for
//     every writer before it and for every upgradable before it.
//  2. To upgrade, U creates a writer's node X at the end of the queue, in a
//     transaction that checks U's own node, and lists the queue. F is the first
//     writer behind U. U waits for all plain readers before F, those of its own
//     process included. It watches one of them, then lists again. It does not
//     wait for upgradables behind it: they wait for U.
//  3. If F is not X, plain readers may stand between F and X. They wait for F, and
//     would enter beside the exclusive U if F gave up. So U puts a shield before
//     them: one transaction checks U and F, creates a writer's node with the
//     number of F, and deletes X. The shield is the new X. If F has gone, U lists
//     again. Without such readers U needs no shield.
//  4. When no reader is in the way, U is exclusive, for as long as U and X both
//     exist. It watches, proves and guards both. If one of them or the session has
//     gone, the hold is lost: U deletes the other, and never queues again.
//  5. To go back to reading, or if it gives the upgrade up, U deletes X. When it
//     leaves, one transaction deletes both.
//  6. U's fencing token is the Czxid of U's node throughout, for what it writes,
//     too. So it is below those of all writers behind U, and of all upgradables
//     behind U, for they have to wait. Readers that were beside U may have a
//     higher token than U's later write.
//  7. Readers of U's own process that come while U is exclusive get a node with
//     U's number, beside U and never beside X, and U's token. A caller that has a
//     plain read in its context cannot become upgradable: it would wait for itself.
//  8. A waiter that sees an upgradable before it never enters without a list:
//     that its predecessor has gone says nothing, as U's own readers may have come
//     beside U meanwhile. Clients of an older release do not know this rule, so
//     the first release must have it.
//
// A writer V between U and X is overtaken by this hold only. U's tenure bounds
// that, as U holds up every upgradable and writer.
//
// ZooKeeper's numbers run out after some two billion contenders. From then on it
// gives the same number again and again, and only the Czxid orders clients of ours;
// others cannot be told their place. A shield cannot work then: at the same number
// it is behind the readers that it should hold up. So if X gets such a number, U
// deletes X, and refuses the upgrade.
//
// How it is modelled. Each client creates a node, lists, watches and enters as
// steps of their own. Each node has the number that decides its place, which it
// may share with the one it was created beside, and the position in ZooKeeper's
// log of its own creation. With stale, each client reads from a follower: a read
// may show any state since its own last write or read. Positions are even and
// renumbered densely in every state, so that states which differ only by what
// happened long ago are one.
type upgrade struct {
	rules   upgradeRules
	clients []upgradeClient
	nodes   []upgradeNode
}

// The invariants of the upgradable read.
const (
	// A client that is exclusive has no other process inside beside it.
	upgradeExclusion = "exclusion"
	// Two upgradables are never inside together: each would wait for the other.
	upgradeSingle = "two upgradables inside"
	// A client that enters has a token that is not below that of any earlier write, and
	// not equal to that of another client's write.
	upgradeTokens = "the token is not above that of the last write"
	// A client that would be excluded is never overtaken, U's upgrade aside.
	upgradeFair = "a client that is excluded is overtaken"
)

// upgradeRules has the bounds of a search, and the wrong readings.
type upgradeRules struct {
	upgrades uint8 // how often U may upgrade
	crashes  uint8 // how many processes may crash, or nodes be deleted
	withdraw bool  // waiting clients may give up
	stale    bool  // reads may lag
	exhaust  bool  // the numbers may run out
	admin    bool  // an administrator may delete U or X, as one of the crashes

	// namesReversed reverses the order of nodes that share a number, which is by
	// their random names.
	namesReversed bool

	// deleteUFirst has U leave by two requests, U's before X's. That is safe, too.
	deleteUFirst bool

	// From here on, each is a wrong reading.

	// noShield leaves readers behind F alone. F gives up, they enter, and U is
	// exclusive beside them: upgradeExclusion.
	noShield bool
	// waitForAll makes U wait for all readers before X instead of shielding itself
	// from those behind F. They wait for F, which waits for U: checker.Deadlock.
	waitForAll bool
	// xAtU gives X the number of U instead of one at the end. Readers behind U
	// that are inside already cannot be told from those that will wait for X. If U
	// waits for all of them, it waits for some that wait for X: checker.Deadlock.
	xAtU bool
	// ignoreBehind has U wait for none of them instead, with xAtU. Then U is
	// exclusive beside those that are inside: upgradeExclusion.
	ignoreBehind bool
	// shieldUnchecked creates the shield without a check of F. F has gone, so a
	// reader behind it has entered, and the shield hides it: upgradeExclusion.
	shieldUnchecked bool
	// waitForUpgradables makes U wait for upgradables behind it, too, which wait
	// for U: checker.Deadlock.
	waitForUpgradables bool
	// upgradablesShare lets upgradables in beside each other: upgradeSingle.
	upgradablesShare bool
	// readersTrustWatch lets a reader of ours that sees U enter when the writer it
	// watched has gone, without a list. Meanwhile U put its shield there:
	// upgradeExclusion.
	readersTrustWatch bool
	// writersTrustWatch is the same for a writer of ours: when U has gone, readers
	// of U's process may still be beside it: upgradeExclusion.
	writersTrustWatch bool
	// joinBesideX puts U's own readers beside X. Behind F, they hold F up no longer
	// when U has gone: upgradeExclusion.
	joinBesideX bool
	// upgradeExhausted goes on with an upgrade when the numbers have run out. The shield
	// is behind the readers that it should hold up: upgradeExclusion.
	upgradeExhausted bool
	// ignoreOwn has U not wait for readers of its own process. One of them keeps
	// its own token, which is below U's when it reads what U wrote: upgradeTokens.
	ignoreOwn bool
	// token chooses the token of what an exclusive U writes.
	token upgradeToken
}

type upgradeToken uint8

const (
	tokenOfU upgradeToken = iota
	// tokenOfX is wrong: V between U and X writes later with a lower one:
	// upgradeTokens.
	tokenOfX
	// tokenBelowF, the Czxid of F minus 1 if F is not X, is wrong: two upgradables
	// before the same F get the same: upgradeTokens.
	tokenBelowF
)

// An upgradeClient is one client of the queue.
type upgradeClient struct {
	role    upgradeRole
	process int // the number of its first client
	node    int // the first of its nodes
	name    string
}

// An upgradeRole is a letter, so that a search can name its clients: small for
// those of other programs, capital for Holdfast's.
type upgradeRole rune

const (
	otherReader upgradeRole = 'r' // of another program, such as Curator
	otherWriter upgradeRole = 'w'
	reader      upgradeRole = 'R' // of Holdfast, in a process of its own
	writer      upgradeRole = 'W'
	downgrader  upgradeRole = 'D' // a writer that goes on to read
	upgradable  upgradeRole = 'U'
	localReader upgradeRole = 'L' // of Holdfast, in the process of the first upgradable
)

func (r upgradeRole) ours() bool { return r != otherReader && r != otherWriter }

// writes reports whether the client queues as a writer.
func (r upgradeRole) writes() bool { return r == otherWriter || r == writer || r == downgrader }

func (r upgradeRole) String() string {
	switch r {
	case otherReader:
		return "other reader"
	case otherWriter:
		return "other writer"
	case reader:
		return "reader"
	case writer:
		return "writer"
	case downgrader:
		return "downgrader"
	case upgradable:
		return "upgradable"
	case localReader:
		return "local reader"
	}
	panic(fmt.Sprintf("no role %c", rune(r)))
}

// An upgradeNode is a node that a client may create.
type upgradeNode struct {
	client int
	kind   upgradeNodeKind
}

type upgradeNodeKind uint8

const (
	readNode       upgradeNodeKind = iota
	upgradableNode                 // a reader's node to those who do not know the mark
	writeNode
	xNode // a writer's node to everyone
)

const (
	upgradeClients = 5
	upgradeNodes   = 12
)

// upgradePositions is more than the positions that one state can have: three for
// each node, the token, and the one of the step that is being taken. They are even.
const upgradePositions = 2 * (3*upgradeNodes + 3)

type upgradeState struct {
	at [upgradeClients]upgradePlace

	// Waiting: the node watched, the one to watch when it has gone, and whether the
	// client may enter without a list when that has gone, too. Nodes are counted
	// from 1; 0 is none.
	watched [upgradeClients]uint8
	then    [upgradeClients]uint8
	sure    [upgradeClients]bool

	upgrades [upgradeClients]uint8 // begun by U; 1 and more of a local reader: it queues again
	shielded [upgradeClients]bool  // U's present X is the shield
	refused  [upgradeClients]bool  // the local reader found no U to stand beside

	view [upgradeClients]uint8 // what the client has seen of the log, if reads may lag

	// Positions in the log; 0 is never.
	created [upgradeNodes]uint8
	number  [upgradeNodes]uint8 // of the creation that gave the number
	deleted [upgradeNodes]uint8
	now     uint8

	exhausted bool // the numbers have run out

	token, tokenOf uint8 // of the last write, and the client (from 1) that had it
	crashes        uint8
}

// An upgradePlace is what a client does next, or waits for.
type upgradePlace uint8

const (
	upCreate   upgradePlace = iota
	upList                  // list the queue
	upWatch                 // read the node that it will wait for, which sets the watch
	upWait                  // until the watched node has gone
	upEnter                 // it has decided to enter
	upInside                //
	upXList                 // U: X is there; list the queue
	upXWatch                // U: read the reader in the way
	upXWait                 // U: until that has gone
	upXEnter                // U: it has decided to be exclusive
	upX                     // U: exclusive
	upShield                // U: put the shield at the place of the writer "watched"
	upOnlyX                 // U has gone, X is to be deleted
	upOnlyU                 // X has gone, U is to be deleted
	upBoth                  // downgrader: has both nodes
	upReadOn                // downgrader: has the reader's node left
	upJoin                  // local reader: create a node beside U
	upJoined                // local reader: inside beside U
	upFinished              //
	upDead                  //
)

// newUpgrade returns a model with the given clients, each a letter.
func newUpgrade(clients string, rules upgradeRules) checker.Model[upgradeState] {
	u := &upgrade{rules: rules}
	host := strings.IndexRune(clients, rune(upgradable))
	for i, letter := range clients {
		c := upgradeClient{role: upgradeRole(letter), process: i, node: len(u.nodes)}
		c.name = fmt.Sprintf("%s %d", c.role, i)
		var kinds []upgradeNodeKind
		switch c.role {
		case otherReader, reader:
			kinds = []upgradeNodeKind{readNode}
		case otherWriter, writer:
			kinds = []upgradeNodeKind{writeNode}
		case downgrader:
			kinds = []upgradeNodeKind{writeNode, readNode}
		case upgradable:
			kinds = []upgradeNodeKind{upgradableNode}
			for range rules.upgrades {
				kinds = append(kinds, xNode, xNode) // the second is the shield
			}
		case localReader:
			c.process = host
			kinds = []upgradeNodeKind{readNode, readNode, readNode} // in line; beside U; in line again
		}
		for _, kind := range kinds {
			u.nodes = append(u.nodes, upgradeNode{i, kind})
		}
		u.clients = append(u.clients, c)
	}
	if len(u.clients) > upgradeClients || len(u.nodes) > upgradeNodes {
		panic("upgrade: the state has no room for " + clients)
	}
	return checker.Model[upgradeState]{Next: u.next, Invariant: u.invariant, Done: u.done, Show: u.show}
}

// over reports whether a client has come to its end.
func (s *upgradeState) over(c int) bool { return s.at[c] == upFinished || s.at[c] == upDead }

// exists reports whether a node exists now, at the leader.
func (s *upgradeState) exists(n int) bool { return s.created[n] != 0 && s.deleted[n] == 0 }

// existed reports whether a node existed at a position in the log.
func (s *upgradeState) existed(n int, position uint8) bool {
	return s.created[n] != 0 && s.created[n] <= position && (s.deleted[n] == 0 || s.deleted[n] > position)
}

// exhaustedNumber is the number of nodes that are created when the numbers have run
// out. It is above all positions.
const exhaustedNumber = 255

// create creates a node at the end of the queue.
func (s *upgradeState) create(n int) {
	s.now += 2
	s.created[n], s.number[n], s.deleted[n] = s.now, s.now, 0
	if s.exhausted {
		s.number[n] = exhaustedNumber
	}
}

// ahead reports whether node a has a place before that of node b. Two nodes may have
// the same place, unless the numbers have run out.
func (s *upgradeState) ahead(a, b int) bool {
	if s.number[a] == exhaustedNumber && s.number[b] == exhaustedNumber {
		return s.created[a] < s.created[b]
	}
	return s.number[a] < s.number[b]
}

// createBeside creates a node with the number of another.
func (s *upgradeState) createBeside(n, other int) {
	s.create(n)
	s.number[n] = s.number[other]
}

// remove deletes those of the nodes that exist, in one transaction.
func (s *upgradeState) remove(nodes ...int) {
	s.now += 2
	for _, n := range nodes {
		if s.exists(n) {
			s.deleted[n] = s.now
		}
	}
}

// finish ends a client.
func (s *upgradeState) finish(c int, place upgradePlace) {
	s.at[c], s.view[c] = place, 0
	s.watched[c], s.then[c], s.sure[c] = 0, 0, false
	s.upgrades[c], s.shielded[c], s.refused[c] = 0, false, false
}

// isWriter reports whether a node excludes readers.
func (u *upgrade) isWriter(n int) bool { return u.nodes[n].kind >= writeNode }

// sees reports whether client c sees node n, if it sees the log up to position.
func (u *upgrade) sees(s *upgradeState, n int, position uint8) bool {
	if !u.rules.stale {
		return s.exists(n)
	}
	return s.existed(n, position)
}

// sawAll notes that client c has seen all there is, having written.
func (u *upgrade) sawAll(s *upgradeState, c int) {
	if u.rules.stale {
		s.view[c] = s.now
	}
}

// before reports whether node a is before node b in the order of Holdfast.
func (u *upgrade) before(s *upgradeState, a, b int) bool {
	switch {
	case s.ahead(a, b) || s.ahead(b, a):
		return s.ahead(a, b)
	case u.isWriter(a) != u.isWriter(b):
		return u.isWriter(a)
	}
	return a < b != u.rules.namesReversed
}

// placeOf returns the node with which client c stands in line.
func (u *upgrade) placeOf(s *upgradeState, c int) int {
	if u.clients[c].role == localReader && s.upgrades[c] > 0 {
		return u.clients[c].node + 2
	}
	return u.clients[c].node
}

// besideOf returns the node of a downgrader or local reader beside another.
func (u *upgrade) besideOf(c int) int { return u.clients[c].node + 1 }

// xOf returns the present X of upgradable c.
func (u *upgrade) xOf(s *upgradeState, c int) int {
	x := u.clients[c].node + 2*int(s.upgrades[c]) - 1
	if s.shielded[c] {
		x++
	}
	return x
}

// host returns the upgradable whose process the local readers belong to.
func (u *upgrade) host() int {
	return slices.IndexFunc(u.clients, func(c upgradeClient) bool { return c.role == upgradable })
}

// reads reports whether client c believes that it may read.
func (u *upgrade) reads(s *upgradeState, c int) bool {
	switch s.at[c] {
	case upInside:
		return !u.clients[c].role.writes()
	case upXList, upXWatch, upXWait, upShield, upXEnter, upReadOn, upJoined:
		return true
	}
	return false
}

// writes reports whether client c believes that it may write.
func (u *upgrade) writes(s *upgradeState, c int) bool {
	switch s.at[c] {
	case upInside:
		return u.clients[c].role.writes()
	case upX, upBoth:
		return true
	}
	return false
}

func (u *upgrade) invariant(s upgradeState) string {
	for a := range u.clients {
		for b := range u.clients {
			if u.clients[a].process == u.clients[b].process {
				continue
			}
			if u.writes(&s, a) && (u.writes(&s, b) || u.reads(&s, b)) {
				return fmt.Sprintf("%s: %s writes while %s is inside", upgradeExclusion, u.clients[a].name, u.clients[b].name)
			}
			if u.clients[a].role == upgradable && u.clients[b].role == upgradable && u.reads(&s, a) && u.reads(&s, b) {
				return upgradeSingle
			}
		}
	}
	return ""
}

func (u *upgrade) done(s upgradeState) bool {
	for c := range u.clients {
		if !s.over(c) {
			return false
		}
	}
	return true
}

// enter checks the token and the order in which client c enters at the place of the
// given node, and returns what is violated.
func (u *upgrade) enter(s *upgradeState, c int, token uint8, write bool, place int) string {
	name := u.clients[c].name
	shares := s.tokenOf == uint8(c+1) || u.clients[c].role == localReader
	if token < s.token || token == s.token && !shares {
		return fmt.Sprintf("%s: %s after %s", upgradeTokens, name, u.clients[s.tokenOf-1].name)
	}
	if write {
		s.token, s.tokenOf = token, uint8(c+1)
	}
	for o := range u.clients {
		if u.clients[o].process == u.clients[c].process || s.at[o] < upList || s.at[o] > upEnter {
			continue
		}
		n := u.placeOf(s, o)
		if s.exists(n) && s.ahead(n, place) && (write || u.isWriter(n)) {
			return fmt.Sprintf("%s: %s by %s", upgradeFair, u.clients[o].name, name)
		}
	}
	return ""
}

// normalize makes states equal that differ only in what cannot matter any more: it
// forgets nodes whose deletion every client has seen, and numbers the positions
// anew.
func (u *upgrade) normalize(s *upgradeState) {
	seen := s.now // by all
	if u.rules.stale {
		for c := range u.clients {
			if !s.over(c) && s.at[c] != upCreate {
				seen = min(seen, s.view[c])
			}
		}
	}
	for n := range u.nodes {
		if s.deleted[n] != 0 && s.deleted[n] <= seen {
			s.created[n], s.number[n], s.deleted[n] = 0, 0, 0
		}
	}
	if u.rules.stale {
		for c := range u.clients {
			s.view[c] = u.lastEvent(s, c)
		}
	}

	// A token may be odd, just below a position. That keeps its distance.
	var used [upgradePositions]bool
	for n := range u.nodes {
		used[s.created[n]], used[s.deleted[n]] = true, true
		if s.number[n] != exhaustedNumber {
			used[s.number[n]] = true
		}
	}
	used[s.token+s.token%2] = true
	var renumbered [upgradePositions]uint8
	last := uint8(0)
	for p := 2; p <= int(s.now); p += 2 {
		if used[p] {
			last += 2
			renumbered[p] = last
		}
	}
	for n := range u.nodes {
		s.created[n], s.deleted[n] = renumbered[s.created[n]], renumbered[s.deleted[n]]
		if s.number[n] != exhaustedNumber {
			s.number[n] = renumbered[s.number[n]]
		}
	}
	for c := range u.clients {
		s.view[c] = renumbered[s.view[c]]
	}
	s.token = renumbered[s.token+s.token%2] - s.token%2
	s.now = last
}

// lastEvent returns the position of the last event that client c has seen, of those
// that are still known. A view between two events is the same as that.
func (u *upgrade) lastEvent(s *upgradeState, c int) uint8 {
	if s.over(c) || s.at[c] == upCreate {
		return 0
	}
	last := uint8(0)
	for n := range u.nodes {
		for _, p := range [...]uint8{s.created[n], s.deleted[n]} {
			if p <= s.view[c] {
				last = max(last, p)
			}
		}
	}
	return last
}

func (u *upgrade) show(s upgradeState) string {
	var there []int
	for n := range u.nodes {
		if s.exists(n) {
			there = append(there, n)
		}
	}
	slices.SortFunc(there, func(a, b int) int {
		switch {
		case u.before(&s, a, b):
			return -1
		case u.before(&s, b, a):
			return 1
		}
		return 0
	})
	var b strings.Builder
	b.WriteString("queue:")
	for _, n := range there {
		kind := [...]string{"R", "U", "W", "X"}[u.nodes[n].kind]
		fmt.Fprintf(&b, " %s%d", kind, u.nodes[n].client)
		if s.number[n] != exhaustedNumber {
			fmt.Fprintf(&b, "@%d", s.number[n]/2)
		}
	}
	for c := range u.clients {
		if u.writes(&s, c) {
			fmt.Fprintf(&b, "; %s writes", u.clients[c].name)
		} else if u.reads(&s, c) {
			fmt.Fprintf(&b, "; %s reads", u.clients[c].name)
		}
	}
	return b.String()
}

// An upgradeMove takes the steps of one client that are possible in a state.
type upgradeMove struct {
	*upgrade
	c    int
	old  upgradeState // the state
	take func(checker.Step[upgradeState])
}

func (u *upgrade) next(s upgradeState, take func(checker.Step[upgradeState])) {
	for c := range u.clients {
		m := upgradeMove{u, c, s, take}
		m.misfortunes()
		m.proceed()
		m.giveUpgradeUp()
	}
	if u.rules.exhaust && !s.exhausted {
		s.exhausted = true
		take(checker.Step[upgradeState]{Actor: "ZooKeeper", Action: "runs out of numbers", To: s, Kind: checker.Optional})
	}
}

// step takes a step to s.
func (m *upgradeMove) step(s upgradeState, kind checker.Kind, action, violates string) {
	m.normalize(&s)
	m.take(checker.Step[upgradeState]{Actor: m.clients[m.c].name, Action: action, To: s, Kind: kind, Violates: violates})
}

func (m *upgradeMove) must(s upgradeState, action string) { m.step(s, checker.Mandatory, action, "") }
func (m *upgradeMove) may(s upgradeState, action string)  { m.step(s, checker.Optional, action, "") }

// misfortunes takes the steps that never have to happen.
func (m *upgradeMove) misfortunes() {
	c, place := m.c, m.old.at[m.c]
	client := m.clients[c]
	if client.process == c && m.old.crashes < m.rules.crashes && !m.old.over(c) {
		m.crash()
	}
	holdsU := client.role == upgradable && (place >= upInside && place <= upShield)
	if m.rules.admin && holdsU && m.old.crashes < m.rules.crashes {
		s := m.old
		s.crashes++
		s.remove(client.node)
		if place == upInside {
			s.finish(c, upFinished)
		} else {
			s.at[c] = upOnlyX
		}
		m.may(s, "loses U to an administrator")
		if place != upInside {
			s := m.old
			s.crashes++
			s.remove(m.xOf(&s, c))
			s.at[c] = upOnlyU
			m.may(s, "loses X to an administrator")
		}
	}
	waits := place == upList || place == upWatch || place == upWait
	if m.rules.withdraw && waits && client.role != upgradable && client.role != localReader {
		s := m.old
		s.remove(client.node)
		s.finish(c, upFinished)
		m.may(s, "gives up")
	}
}

// crash ends the process of the client, with all its clients and nodes.
func (m *upgradeMove) crash() {
	s := m.old
	s.crashes++
	var nodes []int
	for n, node := range m.nodes {
		if m.clients[node.client].process == m.c {
			nodes = append(nodes, n)
		}
	}
	s.remove(nodes...)
	for o := range m.clients {
		if m.clients[o].process == m.c && !s.over(o) {
			s.finish(o, upDead)
		}
	}
	m.may(s, "crashes")
}

// giveUpgradeUp has U give an upgrade up that is not done yet.
func (m *upgradeMove) giveUpgradeUp() {
	switch m.old.at[m.c] {
	case upXList, upXWatch, upXWait, upShield:
		if m.rules.withdraw {
			s := m.old
			m.backToReading(&s)
			m.may(s, "gives the upgrade up")
		}
	}
}

func (m *upgradeMove) backToReading(s *upgradeState) {
	s.remove(m.xOf(s, m.c))
	s.at[m.c], s.watched[m.c], s.shielded[m.c] = upInside, 0, false
}

// proceed takes the client's next step on its way.
func (m *upgradeMove) proceed() {
	c, s := m.c, m.old
	client := m.clients[c]
	switch s.at[c] {
	case upCreate:
		m.tryToJoin()
		s.create(m.placeOf(&s, c))
		s.at[c] = upList
		m.sawAll(&s, c)
		m.must(s, "creates its node")
	case upList:
		m.tryToJoin()
		m.eachView(func(s upgradeState, position uint8) {
			switch {
			case client.role == otherReader:
				m.listAsOtherReader(s, position)
			case client.role == otherWriter:
				m.listAsOtherWriter(s, position)
			default:
				m.list(s, position)
			}
		})
	case upWatch:
		m.eachView(func(s upgradeState, position uint8) {
			if m.sees(&s, int(s.watched[c])-1, position) {
				s.at[c] = upWait
				m.must(s, "watches the one ahead")
			} else {
				m.afterWatched(&s)
				m.must(s, "finds the one ahead gone")
			}
		})
	case upWait:
		m.tryToJoin()
		m.told(func(s upgradeState) {
			m.afterWatched(&s)
			m.must(s, "is told that the one ahead has gone")
		})
	case upEnter:
		s.at[c] = upInside
		s.watched[c], s.then[c], s.sure[c], s.refused[c] = 0, 0, false, false
		n := m.placeOf(&s, c)
		m.step(s, checker.Mandatory, "enters", m.enter(&s, c, s.created[n], m.isWriter(n), n))
	case upInside:
		m.inside()
	case upBoth:
		s.remove(m.placeOf(&s, c))
		s.at[c] = upReadOn
		m.must(s, "gives the write up and reads on")
	case upReadOn, upJoined:
		s.remove(m.besideOf(c))
		s.finish(c, upFinished)
		m.must(s, "leaves")
	case upJoin:
		m.join()
	case upXList:
		m.eachView(m.listForUpgrade)
	case upShield:
		m.shield()
	case upXWatch:
		m.eachView(func(s upgradeState, position uint8) {
			if m.sees(&s, int(s.watched[c])-1, position) {
				s.at[c] = upXWait
				m.must(s, "watches the reader in the way")
			} else {
				s.at[c], s.watched[c] = upXList, 0
				m.must(s, "finds the reader in the way gone")
			}
		})
	case upXWait:
		m.told(func(s upgradeState) {
			s.at[c], s.watched[c] = upXList, 0
			m.must(s, "is told that the reader in the way has gone")
		})
	case upXEnter:
		m.enterExclusively()
	case upX:
		back := s
		m.backToReading(&back)
		m.must(back, "goes back to reading")
		if m.rules.deleteUFirst {
			s.remove(client.node)
			s.at[c] = upOnlyX
			m.must(s, "leaves, U first")
		} else {
			s.remove(client.node, m.xOf(&s, c))
			s.finish(c, upFinished)
			m.must(s, "leaves")
		}
	case upOnlyX:
		s.remove(m.xOf(&s, c))
		s.finish(c, upFinished)
		m.must(s, "deletes X")
	case upOnlyU:
		s.remove(client.node)
		s.finish(c, upFinished)
		m.must(s, "deletes U")
	case upFinished, upDead:
	}
}

// inside takes the steps of a client that was granted the lock.
func (m *upgradeMove) inside() {
	c, s := m.c, m.old
	client := m.clients[c]
	if client.role == downgrader {
		s.createBeside(m.besideOf(c), client.node)
		s.at[c] = upBoth
		m.must(s, "creates a reader's node beside its own")
		return
	}
	if client.role == upgradable && s.upgrades[c] < m.rules.upgrades {
		s := s
		s.upgrades[c]++
		if m.rules.xAtU {
			s.createBeside(m.xOf(&s, c), client.node)
		} else {
			s.create(m.xOf(&s, c))
		}
		s.at[c] = upXList
		m.sawAll(&s, c)
		m.must(s, "upgrades: creates X")
	}
	s.remove(m.placeOf(&s, c))
	s.finish(c, upFinished)
	m.must(s, "leaves")
}

// eachView calls read with each state of the log that a read may show, as a
// position, and the state in which the client has seen that.
func (m *upgradeMove) eachView(read func(s upgradeState, position uint8)) {
	if !m.rules.stale {
		read(m.old, m.old.now)
		return
	}
	for p := m.old.view[m.c]; p <= m.old.now; p += 2 {
		s := m.old
		s.view[m.c] = p
		read(s, p)
	}
}

// told calls fn if the watched node has gone, with the state in which the client has
// seen that.
func (m *upgradeMove) told(fn func(s upgradeState)) {
	s := m.old
	n := int(s.watched[m.c]) - 1
	if s.exists(n) {
		return
	}
	if m.rules.stale {
		s.view[m.c] = max(s.view[m.c], s.deleted[n])
	}
	fn(s)
}

// afterWatched decides what to do when the watched node has gone.
func (m *upgradeMove) afterWatched(s *upgradeState) {
	c := m.c
	switch {
	case !m.clients[c].role.ours() || !s.sure[c]:
		s.at[c], s.watched[c] = upList, 0
	case s.then[c] != 0:
		s.at[c] = upWatch
		s.watched[c], s.then[c] = s.then[c], 0
	default:
		s.at[c], s.watched[c] = upEnter, 0 // without a list
	}
}

// waitFor has the client watch a node next.
func (m *upgradeMove) waitFor(s upgradeState, n int) {
	s.at[m.c], s.watched[m.c] = upWatch, uint8(n+1)
	m.must(s, "lists: has to wait")
}

func (m *upgradeMove) mayEnter(s upgradeState) {
	s.at[m.c] = upEnter
	m.must(s, "lists: may enter")
}

// listAsOtherReader is a list by another program's reader, which waits for the
// first writer. Its order of nodes with the same number is not known.
func (m *upgradeMove) listAsOtherReader(s upgradeState, position uint8) {
	own := m.clients[m.c].node
	first := -1
	for n := range m.nodes {
		if m.sees(&s, n, position) && m.isWriter(n) && s.number[n] < s.number[own] && (first < 0 || s.number[n] < s.number[first]) {
			first = n
		}
	}
	if first < 0 {
		m.mayEnter(s)
		return
	}
	for n := range m.nodes {
		if m.sees(&s, n, position) && m.isWriter(n) && s.number[n] == s.number[first] {
			m.waitFor(s, n)
		}
	}
}

// listAsOtherWriter is a list by another program's writer, which waits for its
// predecessor. Its order of nodes with the same number is not known.
func (m *upgradeMove) listAsOtherWriter(s upgradeState, position uint8) {
	own := m.clients[m.c].node
	previous := -1
	var candidates []int // those beside it, and the previous ones
	for n := range m.nodes {
		switch {
		case n == own || !m.sees(&s, n, position):
		case s.number[n] == s.number[own]:
			candidates = append(candidates, n)
		case s.number[n] < s.number[own] && (previous < 0 || s.number[n] > s.number[previous]):
			previous = n
		}
	}
	if previous < 0 {
		m.mayEnter(s)
	} else {
		for n := range m.nodes {
			if m.sees(&s, n, position) && s.number[n] == s.number[previous] {
				candidates = append(candidates, n)
			}
		}
	}
	for _, n := range candidates {
		m.waitFor(s, n)
	}
}

// list is a list by a client of ours. It waits for the nearest node that excludes
// it. If it knows all of those (one, or two with the second watched first), and
// nothing can come between them, it is sure: it may enter when they have gone.
func (m *upgradeMove) list(s upgradeState, position uint8) {
	own := m.placeOf(&s, m.c)
	role := m.clients[m.c].role
	nearest, second, count := -1, -1, 0
	upgradableAhead := false
	for n, node := range m.nodes {
		if n == own || !m.sees(&s, n, position) || !m.before(&s, n, own) {
			continue
		}
		upgradableAhead = upgradableAhead || node.kind == upgradableNode
		excludes := role.writes() || m.isWriter(n) ||
			role == upgradable && node.kind == upgradableNode && !m.rules.upgradablesShare
		if !excludes {
			continue
		}
		count++
		switch {
		case nearest < 0 || m.before(&s, nearest, n):
			nearest, second = n, nearest
		case second < 0 || m.before(&s, second, n):
			second = n
		}
	}
	if count == 0 {
		m.mayEnter(s)
		return
	}

	// A writer that goes may leave a reader's node beside its own (a downgrade), and
	// an upgradable may put a shield, or have readers beside it.
	mayBeReplaced := func(n int) bool { return m.isWriter(n) && role.writes() }
	sure := role != upgradable && !mayBeReplaced(nearest) && s.number[own] != exhaustedNumber &&
		(!upgradableAhead || m.trustsWatch(role))
	s.then[m.c], s.sure[m.c] = 0, false
	switch {
	case sure && count == 1:
		s.sure[m.c] = true
	case sure && count == 2 && !mayBeReplaced(second):
		s.sure[m.c] = true
		s.then[m.c] = uint8(nearest + 1)
		nearest = second
	}
	m.waitFor(s, nearest)
}

// trustsWatch reports whether a wrong reading lets this role enter without a list
// although it sees an upgradable ahead.
func (m *upgradeMove) trustsWatch(role upgradeRole) bool {
	if role.writes() {
		return m.rules.writersTrustWatch
	}
	return m.rules.readersTrustWatch
}

// tryToJoin has a local reader that finds U exclusive stand beside it.
func (m *upgradeMove) tryToJoin() {
	if m.clients[m.c].role == localReader && m.old.at[m.host()] == upX && !m.old.refused[m.c] {
		m.join()
	}
}

// join creates a local reader's node beside U. If it has a place in line already, it
// gives that up first.
func (m *upgradeMove) join() {
	c, s := m.c, m.old
	host := m.host()
	target := m.clients[host].node
	if m.rules.joinBesideX && s.upgrades[host] > 0 {
		target = m.xOf(&s, host)
	}
	switch own := m.placeOf(&s, c); {
	case s.exists(own):
		s.remove(own)
		s.at[c], s.watched[c], s.then[c], s.sure[c] = upJoin, 0, 0, false
		m.sawAll(&s, c)
		m.must(s, "leaves the queue to stand beside U")
	case !s.exists(target):
		s.at[c], s.refused[c], s.upgrades[c] = upCreate, true, 1
		m.must(s, "finds U gone, will queue")
	default:
		s.createBeside(m.besideOf(c), target)
		s.at[c] = upJoined
		m.sawAll(&s, c)
		u := m.clients[host].node // under its hold
		m.step(s, checker.Mandatory, "enters beside U", m.enter(&s, c, s.created[u], false, u))
	}
}

// listForUpgrade is U's list when X is there.
func (m *upgradeMove) listForUpgrade(s upgradeState, position uint8) {
	c := m.c
	own, x := m.clients[c].node, m.xOf(&s, c)
	if s.number[x] == exhaustedNumber && !m.rules.upgradeExhausted {
		m.backToReading(&s)
		m.must(s, "refuses the upgrade: the numbers have run out")
		return
	}

	// F, the first writer behind U; X or the shield, if that is beside F.
	first := -1
	for n := range m.nodes {
		behind := s.ahead(own, n) || m.rules.xAtU && n == x
		if !m.sees(&s, n, position) || !m.isWriter(n) || !behind {
			continue
		}
		if first < 0 || s.ahead(n, first) || n == x && !s.ahead(first, n) {
			first = n
		}
	}

	// U waits for readers before the first writer.
	isBefore := func(n int) bool {
		switch {
		case m.rules.xAtU:
			return !m.rules.ignoreBehind || s.ahead(n, own)
		case m.rules.waitForAll:
			return s.ahead(n, x)
		}
		return s.ahead(n, first)
	}
	inTheWay, exposed := -1, false
	for n, node := range m.nodes {
		switch {
		case n == own || m.isWriter(n) || !m.sees(&s, n, position):
		case m.rules.ignoreOwn && m.clients[node.client].process == m.clients[c].process:
		case !m.rules.waitForUpgradables && node.kind == upgradableNode && s.ahead(own, n):
		case isBefore(n):
			if inTheWay < 0 || s.ahead(inTheWay, n) {
				inTheWay = n
			}
		case s.ahead(n, x):
			exposed = true // this reader waits for F only
		}
	}
	switch {
	case exposed && first != x && !s.shielded[c] && !m.rules.noShield:
		s.at[c], s.watched[c] = upShield, uint8(first+1)
		m.must(s, "lists: readers behind the first writer, needs a shield")
	case inTheWay >= 0:
		s.at[c], s.watched[c] = upXWatch, uint8(inTheWay+1)
		m.must(s, "lists: has to wait for a reader")
	default:
		s.at[c], s.watched[c] = upXEnter, uint8(first+1)
		m.must(s, "lists: no reader in the way")
	}
}

// shield replaces X by a node with the number of F.
func (m *upgradeMove) shield() {
	c, s := m.c, m.old
	first := int(s.watched[c]) - 1
	s.at[c], s.watched[c] = upXList, 0
	known := s.number[first] != 0 // the model forgets a node that every client knows to be gone
	if !known || !s.exists(first) && !m.rules.shieldUnchecked {
		m.sawAll(&s, c)
		m.must(s, "finds the first writer gone, puts no shield")
		return
	}
	x := m.xOf(&s, c)
	s.shielded[c] = true
	s.createBeside(m.xOf(&s, c), first)
	s.deleted[x] = s.now
	m.sawAll(&s, c)
	m.must(s, "puts the shield beside the first writer")
}

// enterExclusively makes U exclusive.
func (m *upgradeMove) enterExclusively() {
	c, s := m.c, m.old
	own, x, first := m.clients[c].node, m.xOf(&s, c), int(s.watched[c])-1
	s.watched[c] = 0
	token := s.created[own]
	switch m.rules.token {
	case tokenOfX:
		token = s.created[x]
	case tokenBelowF:
		switch {
		case s.shielded[c]:
			token = s.number[x] - 1
		case first == x:
			token = s.created[x]
		case s.created[first] == 0:
			s.at[c] = upXList
			m.must(s, "finds the first writer gone, lists again")
			return
		default:
			token = s.created[first] - 1
		}
	case tokenOfU:
	}
	s.at[c] = upX
	m.step(s, checker.Mandatory, "is exclusive", m.enter(&s, c, token, true, own))
}

func upgradeSearches() []search {
	with := func(clients string, changes ...func(*upgradeRules)) checker.Model[upgradeState] {
		rules := upgradeRules{crashes: 1, upgrades: 1, withdraw: true}
		for _, change := range changes {
			change(&rules)
		}
		return newUpgrade(clients, rules)
	}
	lag := func(r *upgradeRules) { r.stale = true }
	safe := func(r *upgradeRules) { r.crashes = 0 }
	twice := func(r *upgradeRules) { r.upgrades = 2 }
	reverse := func(r *upgradeRules) { r.namesReversed = true }
	exhaust := func(r *upgradeRules) { r.exhaust = true }
	admin := func(r *upgradeRules) { r.admin = true }
	right := func(clients, about string, changes ...func(*upgradeRules)) search {
		if about != "" {
			about = ", " + about
		}
		return holds(strings.Join(strings.Split(clients, ""), " ")+about, with(clients, changes...))
	}
	wrong := func(clients, about, invariant string, change ...func(*upgradeRules)) search {
		return fails(about+" ["+clients+"]", invariant, with(clients, change...))
	}
	return []search{
		right("Uwrr", ""),
		right("UWRR", ""),
		right("UWRR", "names reversed", reverse),
		right("UUwr", ""),
		right("UUww", ""),
		right("ULwr", ""),
		right("ULWR", ""),
		right("DUrw", ""),
		right("DURW", ""),
		right("Uwrr", "U goes first", func(r *upgradeRules) { r.deleteUFirst = true }),
		right("Uwrr", "an administrator", admin),
		right("UWRR", "the numbers run out", exhaust),
		right("UUWR", "the numbers run out", exhaust).large(),
		right("ULWR", "the numbers run out", exhaust).large(),
		right("UWR", "the numbers run out, reads lag", exhaust, lag).large(),
		right("Uwrr", "two upgrades", twice).large(),
		right("UWRW", "two upgrades", twice).large(),
		right("Uwwrr", "").large(),
		right("UUwrR", "no crash", safe).large(),
		right("UWwRr", "no crash", safe).large(),
		right("UUwrr", "").large(),
		right("UUWRR", "").large(),
		right("DUwrR", "").large(),
		right("ULwWr", "no crash", safe).large(),
		right("Uwrr", "reads lag", lag).large(),
		right("UWRr", "reads lag", lag).large(),
		right("UUWR", "reads lag, no crash", lag, safe).large(),
		right("ULWr", "reads lag, no crash", lag, safe).large(),
		right("Uwrr", "reads lag, two upgrades, no crash", lag, twice, safe).large(),
		right("UUwr", "reads lag", lag).large(),
		right("DUwr", "reads lag", lag).large(),

		wrong("Uwrr", "readers behind F are left alone", upgradeExclusion, func(r *upgradeRules) { r.noShield = true }),
		wrong("Uwr", "the same, no crash", upgradeExclusion, safe, func(r *upgradeRules) { r.noShield = true }),
		wrong("Uwr", "waits for all readers before X", checker.Deadlock, func(r *upgradeRules) { r.waitForAll = true }),
		wrong("Ur", "X with U's number", checker.Deadlock, func(r *upgradeRules) { r.xAtU, r.noShield = true, true }),
		wrong("Ur", "the same, waits for no reader behind", upgradeExclusion, func(r *upgradeRules) { r.xAtU, r.noShield, r.ignoreBehind = true, true, true }),
		wrong("Uwr", "the shield without a check of F", upgradeExclusion, lag, func(r *upgradeRules) { r.shieldUnchecked = true }),
		wrong("UU", "waits for upgradables behind", checker.Deadlock, func(r *upgradeRules) { r.waitForUpgradables = true }),
		wrong("UU", "upgradables beside each other", upgradeSingle, func(r *upgradeRules) { r.upgradablesShare = true }),
		wrong("UWR", "our reader enters without a list", upgradeExclusion, func(r *upgradeRules) { r.readersTrustWatch = true }),
		wrong("ULW", "our writer enters without a list", upgradeExclusion, func(r *upgradeRules) { r.writersTrustWatch = true }),
		wrong("ULwr", "own readers beside X", upgradeExclusion, func(r *upgradeRules) { r.joinBesideX = true }),
		wrong("UWR", "goes on when the numbers have run out", upgradeExclusion, exhaust, func(r *upgradeRules) { r.upgradeExhausted = true }),
		wrong("Uw", "X's token", upgradeTokens, func(r *upgradeRules) { r.token = tokenOfX }),
		wrong("Uwr", "X's token, a reader behind F", upgradeTokens, func(r *upgradeRules) { r.token = tokenOfX }),
		wrong("UUw", "F's token minus 1", upgradeTokens, func(r *upgradeRules) { r.token = tokenBelowF }),
		wrong("UL", "own readers are not waited for", upgradeTokens, func(r *upgradeRules) { r.ignoreOwn = true }),
		wrong("ULw", "waits for an own reader behind F", checker.Deadlock, func(r *upgradeRules) { r.waitForAll = true }),
	}
}
