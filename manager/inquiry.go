// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/queueio"
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/zkio"
)

// An inquiry is a question to the holder of a lock, or a revocation, from the asker's
// side; mailbox is the other side. It creates an ephemeral node with the question in the
// holder's mailbox. Then it watches two nodes: that one for the answer, and the holder's
// node for its end.
//
// The question's node goes with the asker's session. In the next session the inquiry
// creates another, and looks anew for the holder that is to answer. A revocation stays
// with the one contender that was in the way when it began.
type inquiry struct {
	lock   *Lock
	ctx    context.Context // the asker's
	errand errand.Errand
	kind   string // askKind or revokeKind
	text   []byte
	until  time.Time // when the asker gives up; zero: no deadline
	target string    // of a revocation: the path of the contender's node; else ""

	result  futures.Promise[Answer]
	gaveUp  atomic.Bool               // the asker has stopped waiting
	asked   atomic.Pointer[Contender] // the contender that is asked; nil: none yet
	told    atomic.Pointer[Answer]    // the answer of a revoked contender: it knows
	hinders atomic.Pointer[error]     // why the last try failed; nil if it did not
	looked  atomic.Int64              // when the rotation has had it look last, or when it began

	heardOf

	// Used by steps only.
	session *zkio.Session // in which the fields below hold
	to      *Contender    // the contender that is asked; its node is watched
	posting
	synced *zkio.Session // in which a Sync has succeeded since the inquiry began
	local  bool          // this process itself answers, on another goroutine
	done   bool          // steps have nothing left to do
}

// A heardOf is what the dispatcher has told an inquiry.
type heardOf struct {
	watched  atomic.Pointer[string] // the path of the contender's node
	gone     atomic.Bool            // the contender's node was deleted
	moved    atomic.Bool            // something else happened to it
	answered atomic.Bool            // something happened to the question's node
}

// A posting is the node of an inquiry's question.
type posting struct {
	path   string // it may exist; "" if it does not
	posted bool   // it was created
	armed  bool   // it is watched
	again  int    // how often it was created again because a client had deleted it
}

func newInquiry(l *Lock, kind string, text []byte, target string) *inquiry {
	return &inquiry{lock: l, kind: kind, text: text, target: target}
}

// begin begins to ask. When ctx ends, the question is taken back.
func (q *inquiry) begin(ctx context.Context) {
	q.ctx = ctx
	q.errand.Init(q.lock.m.client, q)
	q.until, _ = ctx.Deadline()
	q.looked.Store(q.lock.m.now())
	q.lock.m.inquiries.add(q)
	stop := context.AfterFunc(ctx, q.giveUp)
	q.result.Future().OnDone(func(Answer, error) { stop() })
	q.errand.Wake()
}

// giveUp notes that the asker has stopped waiting.
func (q *inquiry) giveUp() {
	q.gaveUp.Store(true)
	if !q.drop() {
		q.errand.Wake()
	}
}

// drop ends an inquiry that no worker has taken yet: there is nothing to take back. So
// those that are given up in an outage do not pile up until its end, with their texts.
func (q *inquiry) drop() (done bool) {
	q.errand.Preempt(func() {
		if q.session == nil {
			q.text = nil
			q.end()
		}
		done = q.done
	})
	return done
}

// addressee says which contender the question was put to, and why the last try failed, as
// part of an error.
func (q *inquiry) addressee() string {
	var b strings.Builder
	if c := q.asked.Load(); c != nil {
		fmt.Fprintf(&b, ": asked %s", c)
	}
	if why := q.hinders.Load(); why != nil {
		fmt.Fprintf(&b, ": %v", *why)
	}
	return b.String()
}

// Urgent reports whether the next step only deletes the question.
func (q *inquiry) Urgent() bool { return q.over() }

// over reports whether there is a result, or no asker that waits for one.
func (q *inquiry) over() bool { return q.gaveUp.Load() || q.result.Settled() }

// Closed ends the inquiry: the question's node goes with the session.
func (q *inquiry) Closed(zkio.Queue) {
	q.fail(ErrClosed)
	q.lock.m.inquiries.remove(q)
}

// PathChanged is called by the dispatcher when something happened to the contender's
// node or to the question's.
func (q *inquiry) PathChanged(path string, ev zkio.Event) {
	switch at := q.watched.Load(); {
	case !strings.HasPrefix(path, q.lock.path+"/"):
		q.answered.Store(true)
	case at == nil || *at != path: // a late event, of a contender that was asked before
	case ev.What == zkio.NodeDeleted:
		q.gone.Store(true)
	default:
		q.moved.Store(true)
	}
	q.errand.Wake()
}

// lookAgain has a step look at both nodes if it has not done so for long, in case news of them
// was lost, and reports whether it did. Only the rotation calls it.
func (q *inquiry) lookAgain(now int64) bool {
	if now-q.looked.Load() < int64(rotationTimeout) {
		return false
	}
	q.looked.Store(now)
	q.moved.Store(true)
	q.answered.Store(true)
	q.errand.Wake()
	return true
}

func (q *inquiry) settle(a Answer) { q.result.Settle(a, nil) }
func (q *inquiry) fail(err error)  { q.result.Settle(Answer{}, err) }

// noAnswer fails the inquiry with ErrNoAnswer and a reason.
func (q *inquiry) noAnswer(format string, args ...any) {
	q.fail(fmt.Errorf("%w: "+format, append([]any{ErrNoAnswer}, args...)...))
}

// Step goes on with the inquiry until it has to wait.
func (q *inquiry) Step(s *zkio.Session) {
	for more := true; more && !q.done; {
		switch {
		case q.session != s:
			more = q.start(s)
		case q.over():
			more = q.clean(s)
		case s.Err() != nil:
			// The wake of its end may have come to this step, and then no other will.
			more = q.later(s.Err())
		case q.local:
			more = false
		case q.to == nil:
			more = q.find(s)
		case q.told.Load() != nil:
			more = q.await(s)
		case !q.posted:
			more = q.post(s)
		default:
			more = q.read(s)
		}
	}
}

// start begins anew, in session s.
func (q *inquiry) start(s *zkio.Session) (more bool) {
	if q.session != nil && q.session.Err() == nil {
		return q.later(nil) // this worker still has the session before q.session
	}
	//holdfast:reached-if q.session != nil && !q.over(): ask: once more in a new session
	q.unwatch()
	q.session, q.path, q.posted = s, "", false // the node went with its session
	return true
}

// unwatch takes the watches back and forgets the contender, for which the next step looks
// again.
func (q *inquiry) unwatch() {
	client := q.lock.m.client
	if q.to != nil {
		client.Unwatch(q.to.Path, q)
	}
	if q.path != "" {
		client.Unwatch(q.path, q)
	}
	q.to, q.armed = nil, false
	q.watched.Store(nil)
	q.gone.Store(false)
	q.moved.Store(false)
	q.answered.Store(false)
}

// later has a step try again after a while. err is why the last try failed; nil if it did
// not.
func (q *inquiry) later(err error) (more bool) {
	if zkio.ClassOf(err) == zkio.Closed && err != nil {
		q.fail(ErrClosed)
	} else if err != nil {
		q.hinders.Store(&err)
	}
	q.errand.Retry()
	return false
}

// tried decides what an error means: the inquiry fails, or a step tries again.
func (q *inquiry) tried(err error) (more bool) {
	if zkio.ClassOf(err) == zkio.Definite && !errors.Is(err, zkio.ErrNoNode) {
		q.fail(err)
		return true
	}
	return q.later(err)
}

// end notes that steps have nothing left to do.
func (q *inquiry) end() {
	q.unwatch()
	q.errand.Stop()
	q.done = true
	q.lock.m.inquiries.remove(q)
}

// clean deletes the question's node.
func (q *inquiry) clean(s *zkio.Session) (more bool) {
	if q.path != "" {
		// If the answer to the creation was lost, that request was sent on an earlier
		// connection of this session: it took effect before this deletion, or never will.
		err := s.Delete(q.path, -1)
		switch class := zkio.ClassOf(err); {
		case err == nil, class == zkio.Definite, class == zkio.Closed, class == zkio.SessionOver:
		default:
			//holdfast:reached ask: the question is taken back once more
			return q.later(err)
		}
	}
	q.end()
	return false
}

// find finds the contender that is to answer, and watches its node.
func (q *inquiry) find(s *zkio.Session) (more bool) {
	if q.target != "" {
		err := q.look(s, q.target)
		switch {
		case err == nil:
			return true
		case !errors.Is(err, zkio.ErrNoNode):
			return q.tried(err)
		case q.synced == s:
			q.settle(Answer{}) // the contender has given the lock up
			return true
		}
		// The server may lag behind the one that has shown the contender's node.
		if err := s.Sync(q.target); err != nil {
			return q.tried(err)
		}
		q.synced = s
		return true
	}
	all, err := q.lock.list(s)
	if err != nil {
		return q.tried(err)
	}
	defer all.Free()
	if len(all.Contenders) == 0 {
		q.noAnswer("no process holds the lock")
	}
	_, err = queueio.First(all.Contenders, func(c queue.Contender) error { return q.look(s, q.lock.pathOf(c.Name)) })
	return err == nil || q.tried(err)
}

// look reads the contender's node at path, watches it, and decides whether and how the
// contender can be asked.
func (q *inquiry) look(s *zkio.Session, path string) error {
	l := q.lock
	entry, _ := queue.ParseName(lastSegment(path))
	c := l.contender(entry)
	q.watched.Store(&path)
	q.gone.Store(false)
	q.moved.Store(false)
	l.m.client.Watch(path, q)
	data, stat, readable, err := s.Look(path)
	if err != nil {
		l.m.client.Unwatch(path, q)
		return err
	}
	ours := l.m.peers.describe(&c, data, stat)
	c.Holds = true
	q.asked.Store(&c)
	switch {
	case c.Own && q.kind == askKind:
		// The lock was granted to this process just now, or is about to be.
		q.local = true
		l.m.spawn(func() {
			a, err := l.own().ask(q.ctx, c, q.text)
			q.result.Settle(a, err)
			q.errand.Wake()
		})
	case c.Own && q.revokeOwn(&c):
	case c.asks:
	case q.kind == revokeKind && !ours && readable && revocable(entry.Name, data):
		if err := q.revokeCurator(s, &c, data, stat); err != nil {
			l.m.client.Unwatch(path, q)
			return err
		}
	case !readable:
		q.noAnswer("this process may not read the holder's node: %s", &c)
	case ours:
		q.noAnswer("the holder's version of Holdfast cannot be asked: %s", &c)
	default:
		q.noAnswer("the holder uses another ZooKeeper client and cannot be asked: %s", &c)
	}
	q.to = &c
	return nil
}

// post creates the question's node in the holder's mailbox.
func (q *inquiry) post(s *zkio.Session) (more bool) {
	m := q.lock.m
	box := m.mailboxOf(managerOf(q.to.Path))
	if q.path == "" {
		name := m.guid()
		if q.kind == revokeKind {
			name = revokePrefix + name
		}
		q.path = box + "/" + name
	}
	err := s.CreateEphemeral(q.path, q.letter(), m.lettersACL())
	switch {
	case err == nil:
	case errors.Is(err, zkio.ErrNodeExists):
		//holdfast:reached ask: the question is there, the answer to its creation was lost
	case errors.Is(err, zkio.ErrNoNode):
		if err := s.EnsureDir(box, m.cfg.ACL); err != nil {
			return q.refused(err)
		}
		if q.again++; q.again > 3 {
			return q.later(nil) // another client deletes the mailbox as soon as it is made
		}
		return true
	default:
		return q.refused(err)
	}
	q.posted, q.errand.Tries = true, 0
	q.hinders.Store(nil)
	return true
}

// refused is tried for an error of post.
func (q *inquiry) refused(err error) (more bool) {
	if errors.Is(err, zkio.ErrNoAuth) {
		q.noAnswer("the question cannot be put into the holder's mailbox: %w (%s): the holder is %s", err, q.lock.m.hint(err), q.to)
		return true
	}
	return q.tried(err)
}

// letter returns the data of the question's node.
func (q *inquiry) letter() []byte {
	said := asked{nodeData: q.lock.m.says(), Node: q.to.Path, Text: q.text}
	said.Kind = q.kind
	if !q.until.IsZero() {
		said.Within = max(1, time.Until(q.until))
	}
	data, err := json.Marshal(said)
	if err != nil {
		panic("manager: a question cannot be encoded: " + err.Error())
	}
	return data
}

// read looks for the answer.
func (q *inquiry) read(s *zkio.Session) (more bool) {
	// Load these before the reads: what a watch reports from now on may come after what
	// the reads show.
	gone := q.gone.Load()
	if gone && q.kind == revokeKind {
		return q.lost() // which is the result, whatever the contender has answered
	}
	if !q.answered.Swap(false) && q.armed && !gone {
		return q.watchHolder(s)
	}
	client := q.lock.m.client
	if q.armed {
		client.Unwatch(q.path, q) // the answer is there, so no further event matters
	} else {
		client.Watch(q.path, q)
	}
	data, stat, err := s.Get(q.path)
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		return q.ask(gone)
	case err == nil && stat.Version > 0:
		return q.take(data)
	case err == nil && gone:
		return q.lost()
	}
	q.armed = err == nil && !q.armed
	if err != nil {
		return q.tried(err)
	}
	return !q.armed || q.watchHolder(s)
}

// ask has the question put again, since another client has deleted its node. If the
// contender is gone, there is no point.
func (q *inquiry) ask(gone bool) (more bool) {
	if gone {
		return q.lost()
	}
	q.lock.m.client.Unwatch(q.path, q)
	q.path, q.posted, q.armed = "", false, false
	if q.again++; q.again > 3 {
		return q.later(nil)
	}
	return true
}

// take reads the answer.
func (q *inquiry) take(data []byte) (more bool) {
	said, err := readAnswer(data)
	if err != nil {
		q.fail(err)
		return true
	}
	a := said.answer(*q.to)
	if q.kind == askKind {
		q.settle(a)
		return true
	}
	if said.Phase == "" {
		q.noAnswer("the holder says %q: %s", cut(said.Err), q.to)
		return true
	}
	q.told.Store(&a)
	return true
}

// lost deals with a contender whose node is gone, and which has not answered.
func (q *inquiry) lost() (more bool) {
	if q.kind == revokeKind {
		q.settle(Answer{}) // that is what a revocation is for
	} else {
		q.noAnswer("the holder gave the lock up before it answered: %s", q.to)
	}
	return true
}

// watchHolder sets the watch of the contender's node again if an event has used it up.
func (q *inquiry) watchHolder(s *zkio.Session) (more bool) {
	q.errand.Tries = 0
	if !q.moved.Swap(false) {
		return false
	}
	_, _, _, err := s.Look(q.to.Path)
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		q.gone.Store(true)
		return true
	case err != nil:
		q.moved.Store(true)
		return q.later(err)
	}
	return true
}

// await waits until a contender that knows of its revocation has given the lock up.
func (q *inquiry) await(s *zkio.Session) (more bool) {
	if q.gone.Load() {
		return q.lost()
	}
	return q.watchHolder(s)
}

// managerOf returns the id of the manager that created the node at path: see guid.
func managerOf(path string) string {
	name := lastSegment(path)
	name = strings.TrimPrefix(name, "_c_")
	return name[:min(16, len(name))]
}

// wakeInquiries wakes all inquiries, since a session is over.
func (m *Manager) wakeInquiries() {
	for _, q := range m.inquiries.list() {
		q.errand.Wake()
	}
}

// says returns what this manager's nodes say about this process.
func (m *Manager) says() (d nodeData) {
	if err := json.Unmarshal(m.patterns[probeKind], &d); err != nil {
		panic("manager: a node's data cannot be decoded: " + err.Error())
	}
	return d
}

// lettersACL returns the ACL of questions: Config.ACL, with the right to write for all
// clients that it lets create nodes. The holder, which needs that right for its answer, is
// one of them.
func (m *Manager) lettersACL() []zkio.ACL {
	acl := make([]zkio.ACL, len(m.cfg.ACL))
	for i, a := range m.cfg.ACL {
		if a.Perms&zkio.PermCreate != 0 {
			a.Perms |= zkio.PermWrite
		}
		acl[i] = a
	}
	return acl
}

// failed returns the error of a question that has failed with err. If the asker gave up,
// err is that of its wait, which says nothing of what became of the question.
func (q *inquiry) failed(ctx context.Context, op string, err error) error {
	if q.result.Settled() {
		_, err, _ = q.result.Future().Poll() // just in time, if the wait has ended as well
	}
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w%s: %w", ErrNoAnswer, q.addressee(), ctxerr.Of(ctx))
	}
	return &Error{Op: op, Name: q.lock.Name(), Err: err, Outage: q.lock.m.outage()}
}
