// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Linear is a check: the history of each lock is linearizable, that is, it can be explained
// by moments at which processes acquired the lock and gave it up, one after the other.
//
// A process that acquires a lock exclusively does so between the request and the grant. A
// reader does so when it is told, and every process gives the lock up when its release
// begins or the loss is told. In truth readers have it earlier and processes give it up
// later. But if that explains the history, then this does, too, and the checker has far
// less to try. What a process does that was stopped, or whose node was deleted, may have
// happened at any time since.
//
// Porcupine looks for the explanation, in windows.
//
// The goroutines of a process that are inside under one token are one possession of the
// process. (Mutexes have one for each turn.)
//
// A window ends when a process is told that it has the lock exclusively. Then the state is
// known, and acquisitions that were requested before and are granted later can only have
// taken effect after that. Among readers a window ends when
// it gets too large. That is right, too: an acquisition that was not told yet may always
// be taken to happen later.
type Linear struct {
	Check
	Checker  checker
	Pictures map[string][]byte
	budget   time.Duration // what is left for difficult windows
	unjudged uint64        // windows

	lines       map[*scene.Lock]*line
	possessions map[*scene.Hold]*possession // of which a hold is one
}

// A checker looks for an order of the operations that the model allows, for a limited time.
type checker func(m porcupine.Model, operations []porcupine.Operation, limit time.Duration) porcupine.CheckResult

const (
	// FewOperations is how many operations a window has at least.
	FewOperations = 48
	// ManyOperations is how many it has at most.
	ManyOperations = 512
	// forWindow is how long the checker may take for one window. For all of them it may
	// take that long if they are difficult, and then a tenth of forWindow each.
	forWindow    = 2 * time.Second
	forDifficult = time.Minute
	manyPictures = 5
)

// A line is what was done to one lock since the last window ended.
type line struct {
	begin   int64     // of the window
	state   lockState // at its beginning
	actions []*operation
	owns    []*possession // those that have not ended, in the order of their numbers
	number  int           // of the last possession

	judged, unjudged uint64 // windows
}

// An operation is one of the window.
type operation struct {
	Action
	call, ret int64
}

// A possession is that of a process that has the lock, under one token.
type possession struct {
	number  int
	process *scene.Process
	session string
	fence   history.Fence
	mode    history.Mode // the strongest of the holds
	holds   []*scene.Hold
	asked   int64 // when the process asked for it
	from    int64 // when it was acquired at the earliest
	known   int64 // when one of them was last known to be valid
}

// NewLinear returns the check at the beginning of a run.
func NewLinear() Linear {
	return Linear{
		Check:       New(verdict.Linear),
		Checker:     porcupine.CheckOperationsTimeout,
		Pictures:    map[string][]byte{},
		lines:       map[*scene.Lock]*line{},
		possessions: map[*scene.Hold]*possession{},
		budget:      forDifficult,
	}
}

// of returns the line of the lock, or nil if it is not judged: permits are counted, and
// elements of queues are used once.
func (c *Linear) of(h *scene.Hold) *line {
	l := h.Lock
	if h.Mode == history.Permit || l.Once {
		return nil
	}
	if c.lines[l] == nil {
		c.lines[l] = &line{}
	}
	return c.lines[l]
}

// Granted notes that the worker was told that h is granted.
func (c *Linear) Granted(sc *scene.Scene, h *scene.Hold) {
	n := c.of(h)
	if n == nil {
		return
	}
	_, excused := sc.Excused(h, h.Granted)
	for _, p := range n.owns {
		if p.process == h.Process && p.fence == h.Fence && h.Mode != history.Mutex {
			p.holds = append(p.holds, h)
			p.known = h.Granted
			c.possessions[h] = p
			n.adapt(p, h.Granted, h.Granted)
			return
		}
	}
	if h.Granted < n.begin {
		return // it comes late
	}
	if excused && h.Fence.Token != 0 && !n.state.last.allow(Action{process: h.Process.ID, Mode: h.Mode, fence: h.Fence}) {
		return // it was told after a stop, and may have been over for long
	}
	n.number++
	p := &possession{number: n.number, process: h.Process, session: h.Session, fence: h.Fence, mode: h.Mode, holds: []*scene.Hold{h}, asked: h.Asked, known: h.Granted}
	c.possessions[h] = p
	// What the process had before under another token, it knows to be over.
	for _, old := range slices.Clone(n.owns) {
		if old.process == p.process && !scene.Together(old.mode, p.mode) && (p.mode != history.Mutex || old.fence.Token != p.fence.Token) {
			// If it was told of that one late, it may have been over for long.
			n.end(old, sc.Sure(old.holds[0], old.known), old.known)
		}
	}
	n.owns = append(n.owns, p)
	p.from = max(h.Requested, n.begin)
	if !excused && (h.Mode == history.Read || h.Mode == history.Upgradable) {
		p.from = h.Granted
	}
	n.add(Action{what: acquire, possession: p.number, process: p.process.ID, Mode: p.mode, fence: p.fence}, p.from, h.Granted)
	switch {
	case len(n.actions) >= FewOperations && !excused && h.Mode.Alone():
		c.cut(sc, h.Lock, h.Granted, p)
	case len(n.actions) >= ManyOperations:
		c.cut(sc, h.Lock, h.Granted, nil)
	}
}

// Changed notes that h has got another mode.
func (c *Linear) Changed(h *scene.Hold, at int64) {
	if n, p := c.lines[h.Lock], c.possessions[h]; p != nil {
		n.adapt(p, h.Known, at)
	}
}

// Left notes that the worker began to release h, or that its process has ended.
func (c *Linear) Left(sc *scene.Scene, h *scene.Hold, at int64) {
	n, p := c.lines[h.Lock], c.possessions[h]
	if p == nil {
		return
	}
	delete(c.possessions, h)
	p.holds = slices.DeleteFunc(p.holds, func(o *scene.Hold) bool { return o == h })
	if len(p.holds) == 0 {
		n.end(p, sc.Sure(h, at), at)
	} else {
		n.adapt(p, sc.Sure(h, at), at)
	}
}

// Lost notes that the worker was told that h is lost, and with it the possession.
func (c *Linear) Lost(sc *scene.Scene, h *scene.Hold, at int64) {
	if p := c.possessions[h]; p != nil {
		c.forget(p)
		c.lines[h.Lock].end(p, sc.Sure(h, at), at)
	}
}

func (c *Linear) forget(p *possession) {
	for _, h := range p.holds {
		delete(c.possessions, h)
	}
}

func (n *line) add(a Action, call, ret int64) {
	n.actions = append(n.actions, &operation{Action: a, call: max(call, n.begin), ret: max(ret, n.begin)})
}

// adapt notes the strongest mode of the holds of p, which changed between the times.
func (n *line) adapt(p *possession, from, to int64) {
	mode := p.holds[0].Mode
	for _, h := range p.holds[1:] {
		if slices.Index(strength, h.Mode) > slices.Index(strength, mode) {
			mode = h.Mode
		}
	}
	if mode != p.mode {
		p.mode = mode
		n.add(Action{what: change, possession: p.number, process: p.process.ID, Mode: mode}, from, to)
	}
	p.known = to
}

// strength has the modes of a read/write lock, the weakest first.
var strength = []history.Mode{history.Read, history.Upgradable, history.WriteMode}

// end ends the possession between the times.
func (n *line) end(p *possession, from, to int64) {
	if i := slices.Index(n.owns, p); i >= 0 {
		n.owns = slices.Delete(n.owns, i, i+1)
		n.add(Action{what: giveUp, possession: p.number, process: p.process.ID}, max(from, p.from), max(to, p.from))
	}
}

// cut ends the window at that time. If only is not nil, it is the only owner then.
func (c *Linear) cut(sc *scene.Scene, l *scene.Lock, at int64, only *possession) {
	n := c.lines[l]
	for _, p := range slices.Clone(n.owns) {
		if since, ok := sc.Excused(&scene.Hold{Process: p.process, Session: p.session, Lock: l, Asked: p.asked}, at); ok && p != only {
			c.forget(p)
			n.end(p, since, at)
		}
	}
	if !c.judge(sc, l, at) && only != nil { // the others cannot be there
		for _, p := range n.owns {
			if p != only {
				c.forget(p)
			}
		}
		n.owns = []*possession{only}
	}
	// Begin the next window in the known state.
	for _, op := range n.actions {
		if op.what == acquire {
			n.state.last = n.state.last.with(op.Action)
		}
	}
	n.state.owners, n.state.done = nil, counts{}
	for _, p := range n.owns {
		n.state.owners = append(n.state.owners, owner{p.number, p.process.ID, p.mode})
	}
	n.actions, n.begin = nil, at
}

// judge judges the window, which ends at that time. It reports false if no order of the
// operations explains it.
func (c *Linear) judge(sc *scene.Scene, l *scene.Lock, at int64) bool {
	n := c.lines[l]
	if len(n.actions) == 0 {
		return true
	}
	put(n.actions)
	operations := make([]porcupine.Operation, 0, len(n.actions))
	for _, op := range n.actions {
		operations = append(operations, porcupine.Operation{
			ClientId: max(op.process.Number, 0), Input: op.Action, Call: op.call, Return: op.ret,
		})
	}
	slices.SortStableFunc(operations, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	limit := forWindow
	if c.budget <= 0 {
		limit /= 10
	}
	begin := time.Now()
	result := c.Checker(from(n.state), operations, limit)
	if took := time.Since(begin); took > limit/10 {
		c.budget -= took
	}
	if result == porcupine.Unknown {
		c.unjudged++
		n.unjudged++
		return true
	}
	c.Judged++
	n.judged++
	if result == porcupine.Ok {
		return true
	}
	from := max(n.begin, operations[0].Call)
	wrong, picture := at, ""
	if len(c.Pictures) < manyPictures {
		wrong, picture = c.picture(n.state, operations, l)
	}
	c.find(sc, l, wrong, "no order of the %d operations on lock %q from %s to %s explains what the processes were told%s", len(operations), l.Name, sc.When(from), sc.When(at), picture)
	return false
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// picture keeps the checker's picture of the window. It returns how far the history can be
// explained, and where the picture is.
func (c *Linear) picture(s lockState, operations []porcupine.Operation, l *scene.Lock) (until int64, where string) {
	model := from(s)
	_, info := porcupine.CheckOperationsVerbose(model, operations, forWindow)
	// The first operation that has ended and is in no explanation of a part.
	explained := map[int]bool{}
	for _, part := range info.PartialLinearizations() {
		for _, numbers := range part {
			for _, i := range numbers {
				explained[i] = true
			}
		}
	}
	until = operations[len(operations)-1].Return
	for i, op := range operations {
		if !explained[i] {
			until = min(until, op.Return)
		}
	}
	var page bytes.Buffer
	if err := porcupine.Visualize(model, info, &page); err != nil {
		return until, fmt.Sprintf("; the picture failed: %v", err)
	}
	name := verdict.PictureName(len(c.Pictures)+1, unfit.ReplaceAllString(l.Name, "-"))
	c.Pictures[name] = page.Bytes()
	return until, ": see " + name
}

// End judges what is left.
func (c *Linear) End(sc *scene.Scene) {
	for _, name := range slices.Sorted(maps.Keys(sc.Locks)) {
		c.Last(sc, sc.Locks[name])
	}
}

// Last judges what is left of one lock.
func (c *Linear) Last(sc *scene.Scene, l *scene.Lock) {
	if c.lines[l] != nil {
		c.judge(sc, l, sc.Now)
	}
}

// Forgets notes that the scene forgets the lock.
func (c *Linear) Forgets(l *scene.Lock) { delete(c.lines, l) }

// Explain says how much was not judged.
func (c *Linear) Explain(*scene.Scene) {
	c.explain(c.unjudged, "%d windows of operations are not judged: the checker did not come to an end in time", c.unjudged)
}

// Decided is a check: Linear has come to an end in time for most windows, and for at
// least one of each lock. Otherwise its silence shows little.
type Decided struct {
	Check
	Of *Linear
}

// Lock judges a lock of which all windows have been tried.
func (c *Decided) Lock(sc *scene.Scene, l *scene.Lock) {
	n := c.Of.lines[l]
	if n == nil || n.judged == 0 && n.unjudged == 0 {
		return
	}
	c.Judged++
	if n.judged == 0 {
		c.find(sc, l, sc.Now, "none of the windows of operations on lock %q is judged, of which there are %d: the checker of linearizability did not come to an end in time; let workers hold locks for longer, or use a faster machine", l.Name, n.unjudged)
	}
}

// End judges all locks that are known, and the windows together.
func (c *Decided) End(sc *scene.Scene) {
	for _, name := range slices.Sorted(maps.Keys(sc.Locks)) {
		c.Lock(sc, sc.Locks[name])
	}
	if c.Of.unjudged > c.Of.Judged {
		c.find(sc, nil, sc.Now, "%d windows of operations are not judged, and only %d are: the checker of linearizability did not come to an end in time; let workers hold locks for longer, or use a faster machine", c.Of.unjudged, c.Of.Judged)
	}
}
