// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// mailboxOf returns the path of the mailbox of the manager called id.
func (m *Manager) mailboxOf(id string) string {
	return strings.TrimSuffix(m.cfg.Root, "/") + "/" + asksSegment + "/" + id
}

// A mailbox is where other processes put questions to a manager: a directory under
// the root, named after the manager. An asker creates each question as an ephemeral
// node there, and the manager writes its answer into the same node.
//
// The first asker creates the directory. Until then the manager watches for its creation:
// that takes one read in each session, shortly before the manager's first node, and its
// nodes say so by "asks" in their JSON. Once the directory exists, the manager watches its
// children.
//
// The mailbox's steps read the questions and hand them out. A question that calls
// Config.OnAsk gets a goroutine of its own. At most [maxAsked] of these are under way,
// from when they are read until their answers are written; the others wait in ZooKeeper.
// What calls no user code does not wait: revocations, and questions about the state.
type mailbox struct {
	m      *Manager
	path   string
	errand errand.Errand

	wanted atomic.Pointer[zkio.Session] // the last session in which this process has made a node
	made   atomic.Bool                  // the watch has reported that the directory was created
	news   atomic.Bool                  // it has reported something else
	again  atomic.Bool                  // the rotation wants a list, if the directory exists
	busy   atomic.Int32                 // questions under way that call Config.OnAsk
	told   atomic.Bool                  // refused has logged its line
	awaits atomic.Bool                  // revocations wait for a grant: see granted

	ctx  context.Context // the parent of all contexts of OnAsk; Close ends it
	stop context.CancelCauseFunc

	// Used by steps only.
	armedIn  *zkio.Session // the session in which the watch is set
	watching bool          // the mailbox is registered as a watcher
	there    bool          // the directory exists, as far as steps know
	letters  map[string]*letter
}

// maxAsked is how many questions that call Config.OnAsk may be under way at a time, and how
// many letters of a kind are read at once.
const maxAsked = 16

// maxLetter is the largest size, in bytes, of a question, of the reason of a revocation,
// and of a reply.
const maxLetter = 64 << 10

// A letter is a question or a revocation in the mailbox. Only steps use it.
type letter struct {
	name    string
	said    asked              // what its node says; empty before it was read, and once it is done
	from    Contender          // the asker
	cancel  context.CancelFunc // ends the context of the call of OnAsk; nil: there is none
	done    bool               // steps need not deal with it again
	calls   bool               // it calls Config.OnAsk, and had to wait: steps read it again
	waiting bool               // it revokes a lock that is about to be granted …
	short   bool               // … and nothing but said.Node is kept: steps read it again
	until   time.Time          // when the process that revokes gives up; zero: never
	revoked *roundIO           // the round that it has revoked, whose gate is closed for it; nil: none …
	asks    *revoking          // … and what revoke has returned
}

// revokePrefix begins the names of revocations. The name of a question is only a guid.
const revokePrefix = "revoke-"

func newMailbox(m *Manager) *mailbox {
	b := &mailbox{m: m, path: m.mailboxOf(m.id), letters: make(map[string]*letter)}
	b.errand.Init(m.client, b)
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	return b
}

// arm has steps watch the mailbox in session s, in which this process is about to create
// a node. It does no I/O and does not block.
func (b *mailbox) arm(s *zkio.Session) {
	if b.wanted.Load() != s && b.wanted.Swap(s) != s {
		b.errand.Wake()
	}
}

// Urgent puts the steps into the pool's queue of releases, which is short. Otherwise a
// revocation would wait until a process that asks for many locks has queued for them all.
func (b *mailbox) Urgent() bool { return true }

// Closed does nothing: no question matters any more.
func (b *mailbox) Closed(zkio.Queue) {}

// granted is called when the process was granted a lock, after the round's word has changed.
// A step raises awaits before it looks at the word: at least one sees the other.
func (b *mailbox) granted() {
	if b.awaits.Load() {
		b.errand.Wake()
	}
}

// A task is a function that the pool runs.
type task func(*zkio.Session)

// Run is called by the pool.
func (f task) Run(s *zkio.Session) { f(s) }

// PathChanged is called by the dispatcher when something happened to the mailbox.
func (b *mailbox) PathChanged(_ string, ev zkio.Event) {
	if ev.What == zkio.NodeCreated {
		b.made.Store(true)
	} else {
		b.news.Store(true)
	}
	b.errand.Wake()
}

// lookAgain has a step list the mailbox if it exists, in case the news of a question was lost.
// A process that has never been asked sends nothing for that.
func (b *mailbox) lookAgain() {
	if b.wanted.Load() != nil {
		b.again.Store(true)
		b.errand.Wake()
	}
}

// Step deals with the questions in the mailbox until none needs it.
func (b *mailbox) Step(s *zkio.Session) {
	if b.m.stage.Load() == closingDown || b.wanted.Load() == nil {
		return
	}
	err := b.look(s)
	// If s has ended meanwhile, a wake for the next session may have come to this step.
	if err == nil {
		err = s.Err()
	}
	if err != nil {
		if zkio.ClassOf(err) != zkio.Closed {
			b.errand.Retry()
		}
		return
	}
	b.errand.Tries = 0
}

// look lists the mailbox if that is due, and deals with the questions there.
func (b *mailbox) look(s *zkio.Session) error {
	if !b.watching {
		b.watching = true
		b.m.client.Watch(b.path, b)
	}
	// Take them before the reads: what the watch reports from now on may come after what
	// the reads show.
	made, news := b.made.Swap(false), b.news.Swap(false)
	again := b.again.Swap(false) && b.there
	b.there = b.there || made
	if b.armedIn != s || made || news || again {
		b.armedIn = nil // if the list fails, the next step lists again
		if err := b.list(s); err != nil {
			return err
		}
		b.armedIn = s
	}
	return b.handle(s)
}

// list finds out which questions are in the mailbox, and leaves a watch for more.
func (b *mailbox) list(s *zkio.Session) error {
	for {
		if !b.there {
			_, there, err := s.Exists(b.path)
			if err != nil {
				return err
			}
			if !there {
				b.keep(nil)
				return nil
			}
			b.there = true
		}
		names, _, err := s.Children(b.path)
		switch {
		case err == nil:
			b.keep(names)
			return nil
		case errors.Is(err, zkio.ErrNoAuth):
			b.refused(err)
			return nil
		case !errors.Is(err, zkio.ErrNoNode):
			return err
		}
		b.there = false // deleted: watch for the next creation
	}
}

// keep makes the letters those with the given names. It adds new ones, and drops those
// whose nodes are gone, since their askers have given up.
func (b *mailbox) keep(names []string) {
	here := make(map[string]bool, len(names))
	for _, name := range names {
		here[name] = true
		if b.letters[name] == nil {
			b.letters[name] = &letter{name: name}
		}
	}
	for name, l := range b.letters {
		if !here[name] {
			if l.cancel != nil {
				l.cancel()
			}
			if l.revoked != nil {
				l.revoked.incumbent().revokerLeft(l.asks)
			}
			delete(b.letters, name)
		}
	}
}

// handle deals with the letters that wait for a grant, with the unread ones, and with as many
// of those that call Config.OnAsk as may be under way.
func (b *mailbox) handle(s *zkio.Session) error {
	waiting := b.pick(func(l *letter) bool { return l.waiting })
	b.awaits.Store(len(waiting) > 0) // before the looks: see granted
	for _, l := range waiting {
		b.revoke(l)
	}
	for {
		unread := b.pick(func(l *letter) bool { return !l.done && !l.waiting && l.revokes() })
		questions := b.pick(func(l *letter) bool { return !l.done && !l.calls && !l.revokes() })
		calls := b.pick(func(l *letter) bool { return !l.done && l.calls })
		free := max(0, maxAsked-int(b.busy.Load()))
		unread = append(unread[:min(len(unread), maxAsked)], calls[:min(len(calls), free)]...)
		unread = append(unread, questions[:min(len(questions), maxAsked)]...)
		if len(unread) == 0 {
			return nil
		}
		if err := b.read(s, unread); err != nil {
			return err
		}
	}
}

// pick returns the letters for which ok is true, in the order of their names.
func (b *mailbox) pick(ok func(*letter) bool) (found []*letter) {
	for _, l := range b.letters {
		if ok(l) {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b *letter) int { return strings.Compare(a.name, b.name) })
	return found
}

// revokes reports whether the letter's name is that of a revocation.
func (l *letter) revokes() bool { return strings.HasPrefix(l.name, revokePrefix) }

// read reads the letters' nodes, in one packet, and opens the letters.
func (b *mailbox) read(s *zkio.Session, letters []*letter) error {
	reads := make([]*zkio.Read, len(letters))
	for i, l := range letters {
		reads[i] = &zkio.Read{Path: b.path + "/" + l.name, What: zkio.ReadData}
	}
	s.Read(reads...)
	var failed error
	for i, l := range letters {
		switch err := reads[i].Err; {
		case err == nil:
			b.open(l, reads[i])
		case zkio.ClassOf(err) == zkio.Definite: // its node is gone, or may not be read
			l.done = true
		default:
			failed = err // not done: a letter counts as seen only once it was read
		}
	}
	return failed
}

// open deals with a letter whose node was read.
func (b *mailbox) open(l *letter, read *zkio.Read) {
	if read.Stat.Version > 0 {
		l.done = true // answered already: in an earlier session, or by another client
		return
	}
	l.from = Contender{Path: b.path + "/" + l.name}
	l.from.describe(read.Data, read.Stat)
	l.from.Token = 0 // the node is no contender's, so its transaction is no token
	err := json.Unmarshal(read.Data, &l.said)
	switch {
	case err == nil && l.said.Kind == revokeKind && l.revokes():
		b.revoke(l)
	case err == nil && l.said.Kind == askKind && !l.revokes():
		b.ask(l)
	default:
		b.answer(l, answered{Err: "the question is not understood"})
	}
}

// ask answers a question, by Config.OnAsk if that is to be called.
func (b *mailbox) ask(l *letter) {
	own := b.m.holdingAt(l.said.Node)
	if !b.m.calls(own, l.said.Text) {
		b.answer(l, b.m.answerOf(own, l.said.Text))
		return
	}
	if b.busy.Load() >= maxAsked {
		l.calls, l.said, l.from = true, asked{}, Contender{}
		return
	}
	b.busy.Add(1) // freed takes it back
	within := l.said.Within
	if within <= 0 {
		within = math.MaxInt64 // no bound
	}
	ctx, cancel := context.WithTimeout(b.ctx, within)
	name, node := l.name, l.said.Node
	q := own.question(l.from, l.said.Text)
	l.done, l.cancel, l.said = true, cancel, asked{}
	b.m.spawn(func() {
		defer cancel()
		b.call(ctx, q, func(reply []byte, failed string) {
			if ctx.Err() != nil {
				b.freed() // the asker has given up, or Close has begun
				return
			}
			a := b.m.holdingAt(node).report()
			a.Reply, a.Err = reply, failed
			b.write(name, a, true)
		})
	})
}

// calls reports whether Config.OnAsk is called for a question about own.
func (m *Manager) calls(own holding, question []byte) bool {
	return own.holds() && len(question) > 0 && m.cfg.OnAsk != nil
}

// answerOf returns the answer to a question for which Config.OnAsk is not called: it asks
// for the state only, or cannot be put to OnAsk.
func (m *Manager) answerOf(own holding, question []byte) answered {
	a := own.report()
	switch {
	case len(question) == 0: // it asks for the state only
	case own.waits():
		a.Err = "the process does not know yet that it holds the lock"
	case !own.holds():
		a.Err = "the process does not hold the lock any more"
	case m.cfg.OnAsk == nil:
		a.Err = "the process takes no questions: its Config.OnAsk is not set"
	}
	return a
}

// call calls Config.OnAsk, and then tells its reply or the text of its error. It tells
// also if the function panics, or ends its goroutine, as a test's FailNow does: the asker
// waits, and the question counts as under way.
func (b *mailbox) call(ctx context.Context, q Question, tell func(reply []byte, failed string)) {
	var reply []byte
	failed := "Config.OnAsk has ended its goroutine and not returned"
	defer func() {
		if p := recover(); p != nil {
			reply, failed = nil, cut(fmt.Sprintf("Config.OnAsk panicked: %v", p))
			b.m.cfg.Logger.Error("holdfast: Config.OnAsk panicked", "lock", q.name(), "panic", p, "stack", string(debug.Stack()))
		}
		tell(reply, failed)
	}()
	reply, failed = answerText(b.m.cfg.OnAsk(ctx, q))
}

// answerText returns what an asker is told that Config.OnAsk has returned.
func answerText(reply []byte, err error) (_ []byte, failed string) {
	switch {
	case err != nil:
		text := cmp.Or(err.Error(), "an error without a text")
		return nil, text[:min(len(text), maxLetter)]
	case len(reply) > maxLetter:
		return nil, fmt.Sprintf("the reply has %d bytes, at most %d are allowed", len(reply), maxLetter)
	}
	return reply, ""
}

// revoke revokes the lock that a letter is about. The asker has seen in the queue that
// this process holds it. If this process does not know that yet, the letter waits.
func (b *mailbox) revoke(l *letter) {
	l.waiting = false
	if l.said.Within > 0 && l.until.IsZero() {
		l.until = time.Now().Add(l.said.Within)
	}
	b.awaits.Store(true) // before the look: see granted
	own := b.m.holdingAt(l.said.Node)
	a := own.report()
	switch {
	case own.holds() && l.short:
		l.short = false // handle reads it again
		return
	case own.holds():
		l.revoked = own.round.io()
		l.asks = l.revoked.incumbent().revoke(Revocation{From: l.from, Reason: string(l.said.Text), Until: l.until})
		a = own.report()
	case own.waits():
		if len(b.pick(func(l *letter) bool { return l.waiting && !l.short })) >= maxAsked {
			l.short, l.said, l.from = true, asked{Node: l.said.Node}, Contender{}
		}
		//holdfast:reached mailbox: a revocation waits for the grant
		l.waiting = true // for the grant; if there is none, the asker sees the node go, and takes the letter back
		return
	default:
		a.Err = "the process does not hold the lock any more"
	}
	b.answer(l, a)
}

// answer answers a letter.
func (b *mailbox) answer(l *letter, a answered) {
	l.done, l.said = true, asked{}
	b.write(l.name, a, false)
}

// write writes the answer to the letter called name. called says that Config.OnAsk has
// given it.
func (b *mailbox) write(name string, a answered, called bool) {
	data, err := json.Marshal(a)
	if err != nil {
		panic("manager: an answer cannot be encoded: " + err.Error())
	}
	w := &answerWrite{box: b, path: b.path + "/" + name, data: data, counted: called}
	if !b.m.client.Submit(zkio.Releases, w) {
		w.end()
	}
}

// refused logs, once, that ZooKeeper refuses what an answer takes. Without an answer the
// asker cannot learn why.
func (b *mailbox) refused(err error) {
	if b.told.CompareAndSwap(false, true) {
		b.m.cfg.Logger.Warn("holdfast: cannot answer other processes' questions; further cases are not logged", "mailbox", b.path, "cause", err)
	}
}

// An answerWrite is the task that writes an answer.
type answerWrite struct {
	box     *mailbox
	path    string
	data    []byte
	counted bool         // it counts in mailbox.busy
	tries   errand.Tries // used by the present worker only
}

// Run is called by the pool. The answer is written only once: a second request finds
// another version than 0 and fails.
func (w *answerWrite) Run(s *zkio.Session) {
	_, err := s.Set(w.path, w.data, 0)
	switch {
	case err == nil, errors.Is(err, zkio.ErrNoNode), errors.Is(err, zkio.ErrBadVersion):
	case zkio.ClassOf(err) == zkio.Definite:
		w.box.refused(err)
	case zkio.ClassOf(err) != zkio.Closed:
		//holdfast:reached mailbox: an answer is written again
		if w.tries.Again(w.box.m.client, zkio.Releases, w) {
			return
		}
	}
	w.end()
}

func (w *answerWrite) end() {
	if w.counted {
		w.box.freed()
	}
}

// freed notes that a question that called Config.OnAsk is no longer under way. Another may be
// read in its place.
func (b *mailbox) freed() {
	b.busy.Add(-1)
	b.errand.Wake()
}

// question returns a question to this process about the lock that it holds by h.
func (h holding) question(from Contender, text []byte) Question {
	q := Question{Lock: h.lock, Mutex: h.mutex, Grant: h.grant, From: from, Text: text}
	if h.mutex != nil {
		q.Lock = nil
	}
	return q
}

// report returns an answer with the state of the lock in this process.
func (h holding) report() (a answered) {
	if h.lock == nil {
		a.Phase = state.Free.String()
		return a
	}
	phase, _ := h.lock.State()
	if h.round != nil {
		w := h.round.word.Load()
		if phase = w.Phase(); h.holds() && phase == state.Retained {
			t, m := h.round.io(), h.lock.m
			a.Holders, a.Held = w.Holders(), time.Duration(m.now()-t.tenure.since)
			a.Yielding = h.round.yields()
			_, a.Revoked = t.revocation()
		}
	}
	a.Phase, a.Waiting = phase.String(), h.lock.own().waiting()
	if h.mutex != nil {
		a.Waiting = h.mutex.waiters()
	}
	return a
}
