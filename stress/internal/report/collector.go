// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A collector reads a history once, and keeps what the page shows of it. Its memory is
// bounded, however long the history is.
type collector struct {
	header  history.Header
	verdict verdict.Verdict
	trimmed history.Trimmed // what was removed from the history
	soFar   int64           // until when it was judged, if the run goes on; or 0

	hits    []verdict.Hit // the faults in the order of time, from which they have their numbers on the page
	faultAt map[int]int   // by the history's number, the index in hits

	// Found in the end: which of losses each of hits may have cost, and the reverse.
	lossesOf, hitsOf [][]int

	first, end int64 // of the events
	events     int

	processes []int       // their numbers
	processAt map[int]int // the reverse
	locks     []string    // their names, as they are
	lockAt    map[string]int
	laneOf    []int    // of each lock
	lanes     []string // locks, or groups of locks that share a lane
	laneAt    map[string]int
	stems     []string // what the names of locks begin with that share a lane
	workers   int      // the highest number, plus 1

	open     map[key]*acquisition
	closed   []acquisition
	most     int // acquisitions that are kept
	total    int // acquisitions, with those that were thinned out
	thinner  thinner
	meters   *meters
	texts    *texts
	findings map[int][]int // indexes of those about a lock, in the order of time
	holders  [][]int       // of each finding: numbers of the processes that held the lock then

	losses  limited[loss]
	lives   limited[life]
	outages limited[outage]
	points  [manyPoints]limited[point] // by kind
	expired map[string]int64           // when the leader ended the session
	sleeps  map[int]outage             // suspended sessions, by process
	about   map[int]string             // the lock that a fault is about, if it is about one
	living  map[int]life               // by process
}

// A key identifies an acquisition. LockAll asks for several locks at once.
type key struct {
	process, incarnation int
	op                   uint64
	lock                 string
}

// A loss is a hold of a process that was lost, of all the workers that shared it.
type loss struct {
	at          int64
	process     int // index
	incarnation int
	lock        int
	token, turn uint64
	since       int64 // when the first of the workers was told that it holds the lock
	workers     []int
	session     string
	text        string
}

// A life is an incarnation of a worker process.
type life struct {
	process, incarnation int
	from, until          int64
	text                 string // how it ended
}

// An outage is a time in which a process's session was suspended.
type outage struct {
	process     int
	from, until int64
	ended       bool // it did not come back
}

// A point is something of a moment that deserves a mark.
type point struct {
	at      int64
	kind    pointKind
	process int // index; -1 for all
	worker  int
	lock    int // -1 for none
	text    int
}

// A pointKind is a kind of point. page.js has the same list.
type pointKind int

const (
	pointRevoked pointKind = iota
	pointStale
	pointFailure
	pointSession
	pointStopping
	manyPoints
)

// String says what there is more than one of.
func (k pointKind) String() string {
	return [manyPoints]string{"revocations", "refused writes", "failures", "begins and ends of sessions", "ends"}[k]
}

// A limited list keeps the first items, and counts all.
type limited[T any] struct {
	items []T
	most  int
	total int
}

func (l *limited[T]) add(item T) {
	if l.total++; len(l.items) < l.most {
		l.items = append(l.items, item)
	}
}

// Limits of what a page has. A history of ten minutes stays far below all of them.
const (
	mostAcquisitions = 400_000
	mostLosses       = 5000
	mostSharing      = 64 // workers listed for a lost hold
	mostLives        = 5000
	mostOutages      = 5000
	mostPoints       = 10_000 // of each kind
	mostLocks        = 10_000
	mostLanes        = 128
	mostProcesses    = 1000
	mostWorkers      = 1_000_000
)

// otherLocks is the lane of locks for which there is no room.
const otherLocks = "other locks"

func newCollector(header history.Header, v verdict.Verdict) *collector {
	c := &collector{
		header: header, verdict: v,
		first: header.Begin, end: header.Begin,
		processes: []int{}, laneOf: []int{}, // JSON tells them from null
		processAt: map[int]int{}, lockAt: map[string]int{}, laneAt: map[string]int{},
		most: mostAcquisitions,
		open: map[key]*acquisition{}, texts: newTexts(), findings: map[int][]int{},
		holders: make([][]int, len(v.Findings)),
		losses:  limited[loss]{most: mostLosses}, lives: limited[life]{most: mostLives},
		outages: limited[outage]{most: mostOutages},
		expired: map[string]int64{}, sleeps: map[int]outage{}, living: map[int]life{}, about: map[int]string{},
	}
	// The history has the numbers that were planned. Faults that were not, as the first of
	// their kind had no effect, have higher ones.
	c.hits, c.faultAt = slices.Clone(v.Injected), map[int]int{}
	slices.SortStableFunc(c.hits, func(a, b verdict.Hit) int { return cmp.Compare(a.Began, b.Began) })
	for i, h := range c.hits {
		c.faultAt[h.Fault] = i
	}
	for p := range min(header.Processes, mostProcesses) {
		c.process(p)
	}
	for _, l := range header.Locks {
		if stem, ok := strings.CutSuffix(l.Name, "*"); ok {
			c.stems = append(c.stems, stem)
		} else {
			c.lock(l.Name)
		}
	}
	for i, f := range v.Findings {
		if f.Lock != "" {
			lock := c.lock(f.Lock)
			c.findings[lock] = append(c.findings[lock], i)
		}
	}
	for kind := range c.points {
		c.points[kind].most = mostPoints
	}
	c.thinner = thinner{origin: header.Begin, windows: windows(v)}
	return c
}

// endOf returns when a fault ended. One that lasts until the end of the history has no end.
func (c *collector) endOf(h verdict.Hit) int64 {
	return max(cmp.Or(h.Ended, c.end), h.Began)
}

// mayCost reports whether a fault may have cost a hold of that process, by the rule of the
// judge: the hold was lost during the fault, or within two session timeouts.
func (c *collector) mayCost(h verdict.Hit, l loss) bool {
	if l.at < h.Began || l.at > c.endOf(h)+2*c.header.SessionTimeout {
		return false
	}
	if process := history.TargetProcess(h.Target); process >= 0 && process != c.processes[l.process] {
		return false
	}
	about := c.about[h.Fault]
	return about == "" || about == c.locks[l.lock]
}

// stopped reports whether a process was stopped then, and could not know what happened.
func (c *collector) stopped(process int, at int64) bool {
	return slices.ContainsFunc(c.hits, func(h verdict.Hit) bool {
		return h.Kind == "pause-worker" && history.TargetProcess(h.Target) == process && h.Began <= at && at <= c.endOf(h)+int64(time.Second)
	})
}

// windows returns the times of which a page should have all detail.
func windows(v verdict.Verdict) []window {
	const s = int64(time.Second)
	var all []window
	for _, f := range v.Findings {
		all = append(all, window{f.At - 2*s, f.At + 2*s, atFinding})
	}
	for _, h := range v.Injected {
		if h.Ended == 0 { // it lasts
			all = append(all, window{h.Began - s, h.Began + 5*s, atEdge})
			continue
		}
		end := max(h.Ended, h.Began)
		all = append(all, window{h.Began - s, h.Began + 2*s, atEdge}, window{end - s, end + 3*s, atEdge}, window{h.Began, end + 5*s, atFault})
	}
	return all
}

// process returns the index of a process, or -1 if it is one too many.
func (c *collector) process(number int) int {
	if i, ok := c.processAt[number]; ok {
		return i
	}
	if number < 0 || len(c.processes) == mostProcesses {
		return -1
	}
	c.processAt[number] = len(c.processes)
	c.processes = append(c.processes, number)
	return len(c.processes) - 1
}

// lock returns the index of a lock. Locks that are too many share the last one.
func (c *collector) lock(name string) int {
	if i, ok := c.lockAt[name]; ok {
		return i
	}
	if len(c.locks) >= mostLocks {
		name = otherLocks
		if i, ok := c.lockAt[name]; ok {
			return i
		}
	}
	lane := name
	for _, stem := range c.stems {
		if strings.HasPrefix(name, stem) {
			lane = stem + "…"
		}
	}
	if stem := strings.TrimRight(name, "0123456789"); lane == name && len(c.header.Locks) > mostLanes && stem != "" && stem != name {
		lane = stem + "…" // those whose names differ in a number only share a lane
	}
	if _, ok := c.laneAt[lane]; !ok && len(c.lanes) >= mostLanes {
		lane = otherLocks
	}
	if _, ok := c.laneAt[lane]; !ok {
		c.laneAt[lane] = len(c.lanes)
		c.lanes = append(c.lanes, lane)
	}
	c.lockAt[name] = len(c.locks)
	c.locks = append(c.locks, name)
	c.laneOf = append(c.laneOf, c.laneAt[lane])
	return len(c.locks) - 1
}

func (c *collector) add(e history.Event) {
	if c.events++; c.events == 1 || c.meters == nil {
		c.first = min(e.At, c.header.Begin)
		if c.header.Begin == 0 {
			c.first = e.At
		}
		c.end = max(c.end, c.first)
		c.thinner.origin = c.first
		c.meters = newMeters(c.first, max(len(c.processes), 1)*max(len(c.lanes), 1))
	}
	c.end = max(c.end, e.At)
	process := c.process(e.Process)
	switch e.Kind {
	case history.Expired:
		if len(c.expired) < mostLosses && e.Text != history.Deposed {
			c.expired[e.Session] = e.At
		}
		return
	case history.FaultBegan, history.FaultEnded: // it may know its lock only then
		if e.Lock != "" && len(c.about) < mostFaults {
			c.about[e.Fault] = e.Lock
		}
		return
	case history.Stopping:
		c.point(point{at: e.At, kind: pointStopping, process: -1, lock: -1})
		return
	case history.Overlap:
		if e.Target != "" {
			return // whether it is a violation only the verdict tells
		}
		fallthrough
	case history.Failure:
		c.point(point{e.At, pointFailure, process, e.Worker, c.lockOf(e), c.texts.intern(e.Text, mostTexts)})
		return
	}
	if process < 0 {
		return
	}
	switch e.Kind {
	case history.Request:
		c.request(e, process)
	case history.Granted, history.Refused, history.Changed, history.Lost, history.Release, history.Released:
		c.acquisition(e, process)
	case history.Revoked:
		c.point(point{e.At, pointRevoked, process, e.Worker, c.lockOf(e), c.texts.intern(e.Text, mostTexts)})
	case history.Write:
		if !e.OK {
			c.point(point{e.At, pointStale, process, e.Worker, c.lockOf(e), 0})
		}
	case history.Session:
		c.session(e, process)
	case history.Started:
		c.finishLife(process, e.At, "")
		c.living[process] = life{process: process, incarnation: e.Incarnation, from: e.At}
	case history.Ended:
		c.died(e, process)
	}
}

func (c *collector) point(p point) { c.points[p.kind].add(p) }

func (c *collector) lockOf(e history.Event) int {
	if e.Lock == "" {
		return -1
	}
	return c.lock(e.Lock)
}

func keyOf(e history.Event) key { return key{e.Process, e.Incarnation, e.Op, e.Lock} }

func (c *collector) request(e history.Event, process int) *acquisition {
	if old := c.open[keyOf(e)]; old != nil { // a history that says so twice is not ours to mend
		c.close(keyOf(e), old, e.At, stillWaiting)
	}
	a := &acquisition{
		process: process, worker: min(max(e.Worker, 0), mostWorkers), lock: c.lock(e.Lock), mode: modeOf(e.Mode),
		requested: e.At,
	}
	c.workers = max(c.workers, a.worker+1)
	c.open[keyOf(e)] = a
	c.meter(a, e.At, 1, 0)
	return a
}

func (c *collector) meter(a *acquisition, at int64, waiting, holding int) {
	c.meters.note(row{a.process, c.laneOf[a.lock]}, at, waiting, holding)
}

// acquisition takes an event of an acquisition that was requested before, unless the
// history lacks its begin.
func (c *collector) acquisition(e history.Event, process int) {
	a := c.open[keyOf(e)]
	if a == nil {
		if e.Kind != history.Granted {
			return // e.g. the release of a hold that was lost
		}
		a = c.request(e, process)
	}
	switch holds := a.granted != 0 && a.ended == 0; {
	case e.Kind == history.Granted && a.granted == 0:
		a.granted, a.token, a.turn, a.mode = e.At, e.Token, e.Turn, cmp.Or(modeOf(e.Mode), a.mode)
		c.meter(a, e.At, -1, 1)
	case e.Kind == history.Changed && holds:
		a.last = modeOf(e.Mode)
	case e.Kind == history.Refused && a.granted == 0:
		a.text = c.texts.intern(e.Text, mostRefused)
		c.close(keyOf(e), a, e.At, refused)
	case e.Kind == history.Lost && holds:
		a.text = c.texts.intern(e.Text, mostTexts)
		c.lose(e, a)
		c.close(keyOf(e), a, e.At, lost)
	case e.Kind == history.Release && holds:
		a.ended = e.At
		c.meter(a, e.At, 0, -1)
	case e.Kind == history.Released && a.granted != 0:
		if e.Text != "" {
			a.text = c.texts.intern(e.Text, mostTexts)
		}
		c.close(keyOf(e), a, e.At, released)
	}
}

// lose notes a loss. Workers that shared the hold learn of it one after another.
func (c *collector) lose(e history.Event, a *acquisition) {
	for i := len(c.losses.items) - 1; i >= 0; i-- {
		l := &c.losses.items[i]
		if e.At-l.at > int64(10*time.Second) {
			break
		}
		if l.process == a.process && l.incarnation == e.Incarnation && l.lock == a.lock && l.token == a.token && l.turn == a.turn && a.mode != modeOf(history.Permit) {
			if len(l.workers) < mostSharing {
				l.workers = append(l.workers, a.worker)
			}
			l.since = min(l.since, a.granted)
			return
		}
	}
	c.losses.add(loss{
		at: e.At, process: a.process, incarnation: e.Incarnation, lock: a.lock, token: a.token, turn: a.turn,
		since: a.granted, workers: []int{a.worker}, session: e.Session, text: clean(e.Text, longText),
	})
}

func (c *collector) close(k key, a *acquisition, at int64, how outcome) {
	delete(c.open, k)
	switch {
	case a.granted == 0:
		c.meter(a, at, -1, 0)
	case a.ended == 0:
		c.meter(a, at, 0, -1)
	}
	a.outcome = how
	a.settled = max(at, a.requested)
	if a.granted == 0 {
		a.granted = a.settled
	}
	if a.ended == 0 {
		a.ended = a.settled
	}
	c.note(a)
	c.total++
	c.closed = append(c.closed, *a)
	if len(c.closed) >= 2*c.most {
		c.thin(c.most)
	}
}

// note tells the findings about the lock who held it then.
func (c *collector) note(a *acquisition) {
	if a.outcome == refused || a.outcome == diedWaiting || a.outcome == stillWaiting {
		return
	}
	for _, i := range c.findings[a.lock] {
		at, number := c.verdict.Findings[i].At, c.processes[a.process]
		if a.granted <= at && at <= a.ended && !slices.Contains(c.holders[i], number) {
			c.holders[i] = append(c.holders[i], number)
			slices.Sort(c.holders[i])
		}
	}
}

// died ends what a process had begun.
func (c *collector) died(e history.Event, process int) {
	c.abandon(func(k key) bool { return k.process == e.Process && k.incarnation <= e.Incarnation }, e.At, diedHolding, diedWaiting)
	c.wake(process, e.At, true)
	if _, ok := c.living[process]; !ok {
		c.living[process] = life{process: process, incarnation: e.Incarnation, from: c.first}
	}
	c.finishLife(process, e.At, e.Text)
}

// wake ends that the process's session is suspended, if it is.
func (c *collector) wake(process int, at int64, ended bool) {
	if s, ok := c.sleeps[process]; ok {
		s.until, s.ended = at, ended
		c.outages.add(s)
		delete(c.sleeps, process)
	}
}

func (c *collector) finishLife(process int, at int64, text string) {
	if l, ok := c.living[process]; ok {
		l.until, l.text = at, clean(text, longText)
		c.lives.add(l)
		delete(c.living, process)
	}
}

// abandon closes acquisitions that are open, in an order that does not depend on the map.
func (c *collector) abandon(which func(key) bool, at int64, holding, waiting outcome) {
	keys := slices.SortedFunc(maps.Keys(c.open), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.incarnation, b.incarnation), cmp.Compare(a.op, b.op), cmp.Compare(a.lock, b.lock))
	})
	for _, k := range keys {
		switch a := c.open[k]; {
		case !which(k):
		case a.granted == 0:
			c.close(k, a, at, waiting)
		case a.ended == 0:
			c.close(k, a, at, holding)
		default:
			c.close(k, a, at, released)
		}
	}
}

func (c *collector) session(e history.Event, process int) {
	if e.Text == history.SessionSuspended {
		if _, asleep := c.sleeps[process]; !asleep {
			c.sleeps[process] = outage{process: process, from: e.At}
		}
		return
	}
	c.wake(process, e.At, e.Text == history.SessionEnded)
	if e.Text != history.SessionResumed {
		c.point(point{e.At, pointSession, process, e.Worker, -1, c.texts.intern(strings.TrimSpace(e.Session+" "+e.Text), mostTexts)})
	}
}

func (c *collector) finish() {
	if c.meters == nil {
		c.meters = newMeters(c.first, 1)
	}
	for _, h := range c.hits {
		c.end = max(c.end, h.Ended)
	}
	c.abandon(func(key) bool { return true }, c.end, stillHolding, stillWaiting)
	c.meters.finish(c.end)
	for p := range c.processes {
		c.wake(p, c.end, false)
		c.finishLife(p, c.end, "")
	}
	c.blame()
}

// thin leaves out what exceeds the budget. The losses are known by now; what surrounds
// them is as important as what surrounds a finding.
func (c *collector) thin(budget int) {
	const s = int64(time.Second)
	t := c.thinner
	t.windows = slices.Clone(t.windows)
	for _, l := range c.losses.items {
		t.windows = append(t.windows, window{l.at - s, l.at + s, atFinding})
	}
	c.closed = t.thin(c.closed, c.end, budget)
	c.thinner.gone = t.gone
}
