// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// maxLockDelay is the longest lock-delay.
const maxLockDelay = 24 * time.Hour

// A mark is a node that says that a lock is held. A process makes it when it is granted
// the lock, before any caller learns of the grant, and deletes it in the request that
// deletes the lock's node. So a mark that the next process finds was left by a holder that
// was interrupted.
//
// The lock's own directory cannot say it: any client that queues there by one request
// empties the directory's data. The mark is persistent, and has the name of the contender
// that made it, so that a process which gets no answer to its request finds out later
// whether it was carried out. If the process took the mark over from an interrupted
// holder, the mark says so: that must not be forgotten with the answer.
//
// Each transaction that writes the mark also checks the process's own node, so a late
// request of a session that has ended changes nothing. And while that node is first in
// line, no other process writes the mark.
//
// A lock has one mark, for its present round, since only the present round is fetched.
// All fields but delay are used by steps only; path never changes.
type mark struct {
	path  string
	mutex *Mutex       // whose private lock it is of, and which is not to be collected before; nil if none
	delay atomic.Int64 // a time.Duration, from when the process takes the mark over until it has the lock

	node  string // the name of the contender that the rest is about
	state markState
	taken bool  // an earlier holder was interrupted; known if state is markOurs
	told  bool  // callers have learned of the grant
	until int64 // when the lock-delay is over, on the manager's clock; 0: there is none
}

type markState uint8

const (
	markNone   markState = iota // the contender has not made it
	markUnsure                  // the answer to a request that makes it, or takes it over, was lost
	markOurs                    // it has, and it stays so for as long as its node exists
)

// marked is what a mark says: which process has made it, as which contender.
type marked struct {
	nodeData
	Node  string `json:"node"`
	Taken bool   `json:"taken,omitempty"` // an earlier holder was interrupted, and no holder has recovered from that
}

// readMark returns what a mark says. What another client has written there is no name of
// a contender.
func readMark(data []byte) (m marked) {
	if json.Unmarshal(data, &m) != nil {
		return marked{}
	}
	return m
}

// ReportAbandoned has this process report when the holder before it was interrupted, as
// other systems do with robust mutexes. From the next grant on, [Grant.Abandoned] says
// whether the last holder
//
//   - died or was closed while a caller was inside, or
//   - lost the lock while a caller was inside, or
//   - left a function given to [Lock.Do] by a panic, or
//   - was told that the lock was abandoned, and did not call [Hold.Recovered].
//
// Then what the lock protects may be half changed. Look at it, repair it, and call
// [Hold.Recovered]. Otherwise the next holder is told as well.
//
// Only holders that have called ReportAbandoned are reported, and only to such: call it in
// every process that uses the lock. A process that does not, or uses another client, such
// as Apache Curator, neither causes a report nor hides one. No holder that released the
// lock in good order is reported. But one that was interrupted just before a caller began
// its work, or just after it ended, is reported although it has done no harm.
//
// Delay is the lock-delay: how long this process, after it has found the lock abandoned,
// keeps its place at the head of the queue before the lock is granted. Choose it longer
// than a request of the interrupted holder to another service can be under way. If that
// service compares fencing tokens, no delay is needed. During the delay [Lock.TryLock]
// waits, too.
//
// Each grant costs one write more, and the release nothing. The marks are nodes in
// <Config.Root>/_held_, where this process needs the rights that it needs under Root, and
// the right to write. If it lacks one of them, the lock cannot be acquired: the error says
// which.
//
// It cannot be undone, and keeps l from being collected until the Manager is closed. A
// further call changes the delay. ReportAbandoned does not block, and may be called
// concurrently with everything else; a grant that is under way may still be of the old
// kind. The errors are [ErrBadConfig] if l is a read lock, whose holders change nothing,
// or an upgradable one, or was set to linger by [Lock.SetLinger], or delay is negative or
// more than a day; and [ErrClosed]. Config.Linger has no effect on the lock from then on.
func (l *Lock) ReportAbandoned(delay time.Duration) error {
	return l.reportAbandoned(delay, nil)
}

// ReportAbandoned is [Lock.ReportAbandoned] for a Mutex. Each goroutine that gets the lock
// is told, also of one of its own process that was interrupted by a panic, until one has
// called [Hold.Recovered]. From then on a [Mutex.Locker] refuses to lock the Mutex.
func (x *Mutex) ReportAbandoned(delay time.Duration) error { return x.lock.reportAbandoned(delay, x) }

// reportAbandoned is ReportAbandoned of l, or of x if l is its private lock.
func (l *Lock) reportAbandoned(delay time.Duration, x *Mutex) error {
	if err := l.mayReport(delay); err != nil {
		return &Error{Op: "report abandoned", Name: l.Name(), Err: err}
	}
	l.m.marks.add(l, x).delay.Store(int64(delay))
	l.noted.Raise(state.Marking) // after that: a step that finds it looks for the mark
	l.cur.Load().endIdle()       // see neverLingers
	return nil
}

// mayReport returns why the lock cannot report abandonment with that delay; nil if it can.
func (l *Lock) mayReport(delay time.Duration) error {
	switch {
	case l.m.closing():
		return ErrClosed
	case abilities[l.kind].unmarked != "":
		return fmt.Errorf("%w: %s", ErrBadConfig, abilities[l.kind].unmarked)
	case l.linger.ms.Load() > 0:
		return fmt.Errorf("%w: the lock was set to linger: a lock that reports abandonment cannot", ErrBadConfig)
	case delay < 0 || delay > maxLockDelay:
		return fmt.Errorf("%w: the lock-delay is %v: it must be between 0 and %v", ErrBadConfig, delay, maxLockDelay)
	}
	return nil
}

// marks are those of a Manager's locks that report abandonment, which they keep alive. The zero
// value has none.
type marks struct {
	mu sync.Mutex // protects of; held for a few instructions
	of map[*Lock]*mark
}

// add returns the lock's mark, and makes it on first use. If l is the private lock of a
// Mutex, x is that.
func (all *marks) add(l *Lock, x *Mutex) *mark {
	all.mu.Lock()
	defer all.mu.Unlock()
	mk := all.of[l]
	if mk == nil {
		mk = &mark{path: l.m.marksDir() + "/" + Escape(l.Name()), mutex: x}
		if all.of == nil {
			all.of = make(map[*Lock]*mark)
		}
		all.of[l] = mk
	}
	return mk
}

func (all *marks) get(l *Lock) *mark {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.of[l]
}

// mark returns the lock's mark; nil if the lock does not report abandonment.
func (l *Lock) mark() *mark {
	if !l.noted.Load().Has(state.Marking) {
		return nil
	}
	return l.m.marks.get(l)
}

// marksDir returns the directory of the marks.
func (m *Manager) marksDir() string {
	return strings.TrimSuffix(m.cfg.Root, "/") + "/" + marksSegment
}

// Recovered says that the caller has repaired what the lock protects, or found it in
// order, after [Grant.Abandoned] was true. The release then clears the mark that the
// interrupted holder has left, and the next holder is not told. Until then nothing changes
// in ZooKeeper: if this process dies first, the next holder is told.
//
// All holders of this process share the grant, and one call counts for all. If the lock
// was not abandoned, Recovered does nothing. It fails as [Hold.Grant] does if the lock is
// not held. It does not block; it reads the clock.
func (h Hold) Recovered() error {
	if err := h.check("recovered"); err != nil {
		return err
	}
	s := h.home()
	s.flags.Set(state.Recovered)
	if turn := s.promises().turn(); turn != nil {
		turn.tellHost(func(host *roundIO) {
			host.round.flags.Set(state.Recovered)
			host.round.flags.Clear(state.Interrupted) // an earlier turn was; this one would not come here
		})
	}
	return nil
}

// interrupted notes that a function that ran under the lock did not return. If it has
// released the hold before, its work had ended.
func (h Hold) interrupted() {
	if h.check("hold") != nil {
		return
	}
	s := h.home()
	s.flags.Set(state.Interrupted)
	if turn := s.promises().turn(); turn != nil {
		turn.tellHost(func(host *roundIO) { host.round.flags.Set(state.Interrupted) })
	}
}

// tellHost calls tell with the host of the turn, unless the turn has left. No other turn
// is granted the lock meanwhile, so tell must not block.
func (t *turn) tellHost(tell func(host *roundIO)) {
	x := t.turns
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.inside == t {
		tell(x.hold.promises().io)
	}
}

var errNoContender = fmt.Errorf("the contender's own node is gone: %w", zkio.ErrNoNode)

// leave makes the mark for the round, or takes over one that an interrupted holder has left,
// and then waits for the lock-delay. The round's node is first in line.
func (mk *mark) leave(t *roundIO, s *zkio.Session) next {
	if own := t.node.Name(); mk.node != own {
		mk.node, mk.state, mk.taken, mk.told, mk.until = own, markNone, false, false, 0
	}
	if mk.state != markOurs {
		if right, err := mk.make(t, s); err != nil {
			return mk.failed(t, right, err)
		}
		t.attempts = 0
		if d := mk.delay.Load(); mk.taken && d > 0 {
			mk.until = t.round.lock.m.now() + d
		}
	}
	if rest := mk.until - t.round.lock.m.now(); mk.until > 0 && rest > 0 {
		//holdfast:reached abandoned: the heir waits for the lock-delay
		t.node.KeepAlive(true) // it may have been far behind a moment ago
		if t.position.Load() != nil {
			t.whereabouts().clear()
		}
		// An early wake finds the timer raised, and comes here again.
		if !t.delays().after(time.Duration(rest), state.DelayTimer, 0) {
			return retry
		}
		return sleep
	}
	return goOn
}

// waitsForDelay reports whether the round, which is pending, is first in line and waits for
// the lock-delay: then a wake is on its way.
func waitsForDelay(t *roundIO) bool { return t.events.Load().Has(state.DelayTimer) }

// make makes the mark, or takes it over. If that fails, it also says which right it
// takes.
func (mk *mark) make(t *roundIO, s *zkio.Session) (right string, err error) {
	m := t.round.lock.m
	err = mk.write(t, s, zkio.CreateOp(mk.path, mk.says(t, false), m.cfg.ACL))
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, errNoContender):
		return "", err
	case errors.Is(err, zkio.ErrNoNode):
		if err := s.Create(m.marksDir(), nil, m.cfg.ACL); err != nil && !errors.Is(err, zkio.ErrNodeExists) {
			return "to create a node in " + m.cfg.Root, err
		}
		return "", err // to be tried again
	case !errors.Is(err, zkio.ErrNodeExists):
		return "to create a node in " + m.marksDir(), err
	}

	data, stat, err := s.Get(mk.path)
	if err != nil {
		return "to read " + mk.path, err
	}
	found := readMark(data)
	if found.Node == mk.node {
		//holdfast:reached abandoned: an answer was lost, the mark is ours
		mk.state, mk.taken = markOurs, found.Taken
		return "", nil
	}
	if err := mk.write(t, s, zkio.SetOp(mk.path, mk.says(t, true), stat.Version)); err != nil {
		return "to write " + mk.path, err
	}
	//holdfast:reached abandoned: the mark of an interrupted holder was taken over
	mk.taken = true
	m.cfg.Logger.Info("holdfast: the last holder of a lock was interrupted; the next one is told",
		"lock", t.round.lock.Name(), "last", found.String())
	return "", nil
}

// write performs op, which writes the mark, if the round's node is there: otherwise
// the error is errNoContender.
func (mk *mark) write(t *roundIO, s *zkio.Session, op zkio.Op) error {
	before := mk.state
	mk.state = markUnsure
	results, err := s.Multi(zkio.CheckOp(t.node.Path(), -1), op)
	if err == nil {
		mk.state = markOurs
		return nil
	}
	if class := zkio.ClassOf(err); class == zkio.NotSent || class == zkio.Definite {
		mk.state = before
	}
	if len(results) > 0 && errors.Is(results[0].Err, zkio.ErrNoNode) {
		return errNoContender
	}
	return err
}

// failed decides what the error of make means.
func (mk *mark) failed(t *roundIO, right string, err error) next {
	switch {
	case errors.Is(err, errNoContender):
		return requeue
	case errors.Is(err, zkio.ErrNoNode), errors.Is(err, zkio.ErrBadVersion):
		// The directory of the marks was missing, or another client has written or
		// deleted the mark: begin again.
		if t.attempts.More() > 3 {
			return retry
		}
		return again
	case errors.Is(err, zkio.ErrNoAuth):
		t.round.fail(t.round.error("acquire", fmt.Errorf("a lock that reports abandonment needs the right %s: %w (%s)", right, err, t.round.lock.m.hint(err))))
		return again
	}
	return t.failed(err)
}

// stays reports whether the mark is not to be deleted with the round's node: it is not the
// round's, or a later holder is to find it.
//
// Both are deleted by one transaction. If it is tried again after a lost answer, and was carried
// out, the node is gone, so the mark, which may be the next holder's by now, is not
// touched.
func (mk *mark) stays(t *roundIO, s *zkio.Session) (bool, error) {
	if mk.node == "" || mk.node != t.node.Name() || mk.state == markNone {
		return true, nil
	}
	if mk.state == markUnsure {
		if t.node.Session() != s {
			return true, nil // the node goes with its session, and the mark stays if there is one
		}
		data, _, err := s.Get(mk.path)
		switch found := readMark(data); {
		case errors.Is(err, zkio.ErrNoNode), errors.Is(err, zkio.ErrNoAuth):
			return true, nil
		case err != nil:
			return true, err
		case found.Node != mk.node:
			return true, nil
		default:
			mk.state, mk.taken = markOurs, found.Taken
		}
	}
	return mk.tells(t), nil
}

// tells reports whether the next holder is to find the mark of this round, which is
// being released.
func (mk *mark) tells(t *roundIO) bool {
	flags := t.round.flags.Load()
	switch {
	case mk.taken && !flags.Has(state.Recovered), flags.Has(state.Interrupted):
		return true
	default: // ended by force: lost, or closed
		return mk.told && t.endReason.Load().err != nil
	}
}

// logRefused logs that ZooKeeper has refused to delete the mark of l with the node.
func (mk *mark) logRefused(l *Lock) {
	l.m.cfg.Logger.Warn("holdfast: released a lock, but not its mark: another client has deleted the mark, or this process lacks the right to delete there; then the next holder is told that the lock was abandoned",
		"lock", l.Name(), "mark", mk.path)
}

// says returns what a mark of the round's contender says.
func (*mark) says(t *roundIO, taken bool) []byte {
	l := t.round.lock
	said := marked{Node: t.node.Name(), Taken: taken}
	if err := json.Unmarshal(l.m.nodeData(l.kind.String()), &said.nodeData); err != nil {
		panic("manager: a node's data cannot be decoded: " + err.Error())
	}
	said.Asks = 0 // that is said of contenders
	data, err := json.Marshal(said)
	if err != nil {
		panic("manager: a mark cannot be encoded: " + err.Error())
	}
	return data
}

// String describes the process that has made the mark, for a person.
func (m marked) String() string {
	c := Contender{Path: m.Node, Host: m.Host, PID: m.PID, Label: m.Label, Endpoint: m.Endpoint, Since: m.Since}
	return c.String()
}

// robust is the trait of a lock that can report abandonment, and does once it has a mark.
type robust struct{ plain }

func (robust) first(t *roundIO, s *zkio.Session, n *tenure) next {
	mk := t.round.lock.mark()
	if mk == nil {
		return goOn
	}
	then := mk.leave(t, s)
	n.abandoned = mk.taken
	return then
}

func (robust) granted(t *roundIO) {
	if mk := t.round.lock.mark(); mk != nil && mk.node == t.node.Name() {
		mk.told = true
	}
}

func (robust) last(t *roundIO, s *zkio.Session, f farewell) (farewell, error) {
	mk := t.round.lock.mark()
	if mk == nil {
		return f, nil
	}
	stays, err := mk.stays(t, s)
	if err != nil || stays {
		return f, err
	}
	f.along = append(f.along, zkio.DeleteOp(mk.path, -1))
	f.refused = func() { mk.logRefused(t.round.lock) }
	return f, nil
}
