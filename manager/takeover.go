// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Takeover is the end of a process that had a lock, and of its session, which another process
// closed for it: see package sentinel.
type Takeover struct {
	From  Contender     // the process: what it has said of itself, and its Session
	Ended time.Time     // when it was seen to have ended, by the clock of its machine
	After time.Duration // from then until its session was closed
}

// Takeovers finds out which locks this process has got because another process was killed. That
// process's session was closed by its helper, which has left a note of that under the root,
// a moment later (package takeover). The note names the session's nodes. A lock was taken over if
// the contender that the round has waited for had one of these nodes: it has not released the lock.
//
// Processes with a helper say so in their nodes. So only a grant after a wait for such a contender,
// which makes the round an heir, costs anything: the first of them in each session has steps watch
// the directory of the notes. That costs two requests at most, and each note two or three more.
// Locks of a LockAll are no heirs: their group waits for all of them at once.
type takeovers struct {
	m      *Manager
	path   string // of the directory of the notes
	errand errand.Errand

	wanted atomic.Pointer[zkio.Session] // the last session in which there was an heir
	news   atomic.Bool                  // the watch has fired

	// Used by steps only.
	armedIn  *zkio.Session // the session in which the watch is set
	watching bool          // it is registered as a watcher

	// mu protects what follows, and inheritances. It is held while a step looks for new notes' nodes
	// among the heirs, and else for a few instructions.
	mu    sync.Mutex
	notes map[string]*note // by name; what is no note has no nodes
	heirs map[*roundIO]*inheritance
	late  []*inheritance // of rounds that are over, and were granted: the note comes later than the lock
}

// A note is a takeover, with the nodes that the session had.
type note struct {
	Takeover
	record takeover.Record
}

// An inheritance is what a round that is an heir got.
type inheritance struct {
	node      string // the path of the contender that it has waited for last
	lock      string // its name
	kind      string
	granted   bool
	abandoned bool
	from      *Takeover // nil: no note tells of one
	told      bool
}

// mostLate is how many rounds that are over takeovers remember.
const mostLate = 1024

func (k *takeovers) init(m *Manager) {
	k.m, k.path = m, takeover.Directory(m.cfg.Root)
	k.notes, k.heirs = make(map[string]*note), make(map[*roundIO]*inheritance)
	k.errand.Init(m.client, k)
}

// heir is the trait of a round that waits for a contender whose process has a helper.
type heir struct{ plain }

// before forgets the contender if the round has lost its node: it will queue again.
func (heir) before(t *roundIO, _ *zkio.Session) next {
	if (t.node == nil || t.node.Czxid() == 0) && t.events.Take(state.Heir) != 0 {
		t.round.lock.m.takeovers.over(t)
	}
	return goOn
}

// first notes for which contender the round has waited, if that is known for certain: it was the only
// one ahead when the round began to wait for it. With more ahead, those that the round has not looked
// at may have gone in any order.
func (heir) first(t *roundIO, s *zkio.Session, _ *tenure) next {
	if p := t.position.Load(); p != nil && p.ahead == 1 && p.of != nil && p.of.guarded() {
		t.events.Raise(state.Heir)
		t.round.lock.m.takeovers.add(t, p.of.path, s)
	}
	return goOn
}

func (heir) granted(t *roundIO) {
	if t.events.Load().Has(state.Heir) {
		t.round.lock.m.takeovers.granted(t)
	}
}

func (heir) over(t *roundIO) {
	if t.events.Load().Has(state.Heir) {
		t.round.lock.m.takeovers.over(t)
	}
}

// add notes that the round's turn has come after that of a contender. s is the round's session.
func (k *takeovers) add(t *roundIO, node string, s *zkio.Session) {
	l := t.round.lock
	k.mu.Lock()
	k.heirs[t] = &inheritance{node: node, lock: l.Name(), kind: l.kind.String()}
	k.mu.Unlock()
	if k.wanted.Swap(s) != s {
		k.errand.WakeBy(zkio.Refetches)
	}
}

// granted tells of the takeover if the note is known already. Otherwise the step that reads it does.
func (k *takeovers) granted(t *roundIO) {
	k.mu.Lock()
	h := k.heirs[t]
	h.granted, h.abandoned = true, t.tenure.abandoned // first has added it
	for _, n := range k.notes {
		h.match(n)
	}
	tell := h.tell()
	k.mu.Unlock()
	if tell {
		k.log(h.from, []*inheritance{h})
	}
}

// match notes the takeover if n tells of it.
func (h *inheritance) match(n *note) {
	if h.from == nil && n.record.HadNode(h.node) {
		h.from = &n.Takeover
	}
}

// tell reports whether the takeover is to be told, once.
func (h *inheritance) tell() bool {
	tell := h.granted && h.from != nil && !h.told
	h.told = h.told || tell
	return tell
}

// over forgets a round, but for what a note may say later.
func (k *takeovers) over(t *roundIO) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.heirs[t]; h != nil && h.granted && !h.told {
		if len(k.late) >= mostLate {
			k.late = slices.Clone(k.late[mostLate/2:])
		}
		k.late = append(k.late, h)
	}
	delete(k.heirs, t)
}

// of returns from which process the round, which is an heir, has the lock; nil if no note says so.
func (k *takeovers) of(t *roundIO) *Takeover {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.heirs[t]; h != nil {
		return h.from
	}
	return nil
}

// log counts the locks that were taken over from one process, and logs that.
func (k *takeovers) log(by *Takeover, heirs []*inheritance) {
	k.m.totals.takeovers.Add(uint64(len(heirs)))
	h := heirs[0]
	rest := []any{"kind", h.kind, "abandoned", h.abandoned, "from", by.From.String(), "session", fmt.Sprintf("%#x", uint64(by.From.Session)), "after", by.After}
	if log := k.m.cfg.Logger; len(heirs) == 1 {
		log.Info("holdfast: took a lock over from a process that has ended, and whose session was closed at once", append(rest, "lock", h.lock)...)
	} else {
		log.Info("holdfast: took locks over from a process that has ended, and whose session was closed at once", append(rest, "locks", len(heirs), "first", h.lock)...)
	}
}

// PathChanged is called by the dispatcher when a note came or went.
func (k *takeovers) PathChanged(string, zkio.Event) {
	k.news.Store(true)
	k.errand.WakeBy(zkio.Refetches)
}

// Urgent puts the steps behind what callers wait for.
func (k *takeovers) Urgent() bool { return false }

// Closed does nothing: the locks are lost.
func (k *takeovers) Closed(zkio.Queue) {}

// Step reads the notes that are new.
func (k *takeovers) Step(s *zkio.Session) {
	if k.m.stage.Load() == closingDown || k.wanted.Load() == nil {
		return
	}
	err := k.look(s)
	// If s has ended meanwhile, a wake for the next session may have come to this step.
	if err == nil {
		err = s.Err()
	}
	switch class := zkio.ClassOf(err); {
	case err == nil:
		k.errand.Tries = 0
	case class == zkio.Definite: // they may not be read
	case class != zkio.Closed:
		k.errand.Retry()
	}
}

func (k *takeovers) look(s *zkio.Session) error {
	if !k.watching {
		k.watching = true
		k.m.client.Watch(k.path, k)
	}
	if news := k.news.Swap(false); k.armedIn == s && !news {
		return nil
	}
	k.armedIn = nil // if a read fails, the next step lists again
	names, _, err := s.Children(k.path)
	if errors.Is(err, zkio.ErrNoNode) {
		var there bool
		if _, there, err = s.Exists(k.path); err == nil && there {
			names, _, err = s.Children(k.path)
		}
	}
	if err != nil {
		return err
	}
	names = takeover.Notes(names)
	if err := k.read(s, names[:min(takeover.Most, len(names))]); err != nil {
		return err
	}
	k.armedIn = s
	return nil
}

// read makes the notes those with these names.
func (k *takeovers) read(s *zkio.Session, names []string) error {
	notes := make(map[string]*note, len(names))
	var unread []string
	k.mu.Lock()
	for _, name := range names {
		if n, known := k.notes[name]; known {
			notes[name] = n
		} else {
			unread = append(unread, name)
		}
	}
	k.mu.Unlock()
	if len(unread) == 0 {
		return nil
	}
	found, err := takeover.Read(s, k.m.cfg.Root, unread)
	if err != nil {
		return err
	}
	for _, name := range unread {
		notes[name] = new(note) // not to be read again, whatever it is
	}
	var fresh []*note
	for _, r := range found {
		n := &note{Takeover{Ended: r.Ended, After: r.After}, r}
		n.From.describe(r.Process, zkio.Stat{EphemeralOwner: r.Session})
		n.From.Since = time.Time{}
		notes[r.Name] = n
		fresh = append(fresh, n)
	}
	told := make(map[*Takeover][]*inheritance)
	match := func(h *inheritance) {
		for _, n := range fresh {
			h.match(n)
		}
		if h.tell() {
			told[h.from] = append(told[h.from], h)
		}
	}
	k.mu.Lock()
	k.notes = notes
	for _, h := range k.heirs {
		match(h)
	}
	for _, h := range k.late {
		match(h)
	}
	k.late = slices.DeleteFunc(k.late, func(h *inheritance) bool { return h.told })
	k.mu.Unlock()
	for by, heirs := range told {
		slices.SortFunc(heirs, func(a, b *inheritance) int { return strings.Compare(a.lock, b.lock) })
		k.log(by, heirs)
	}
	return nil
}
