// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

// observing is what an observer's steps know.
type observing struct {
	session *zkio.Session // in which what follows was seen
	head    queue.Contender
	rest    []queue.Contender // some of those behind it in the last list, in order

	node      string // whose children it is registered for; "": none
	inDir     bool   // it is registered for the directory's children
	awaitsDir bool   // it is registered for the creation of the directory

	lookedAt int64 // when the last look began, on the manager's clock
	attempts int   // looks in a row that had no answer
}

const (
	// observerPause is the time from one look to the next, at least.
	observerPause = 50 * time.Millisecond
	// restKept is how many contenders are kept of a list.
	restKept = 16
	// listsAtOnce is how often a look lists a queue that changes meanwhile.
	listsAtOnce = 5
)

// errUnsettled says that the queue changed all through a look.
var errUnsettled = errors.New("the queue changes too quickly")

// An observerTimer is an observer as a task that wakes it later.
type observerTimer observer

// Run is called by the pool.
func (t *observerTimer) Run(*zkio.Session) {
	o := (*observer)(t)
	o.timer.Store(false)
	o.wakeFor(zkio.Fetches)
}

// wakeAfter wakes the observer after d, or when it is woken already.
func (o *observer) wakeAfter(d time.Duration) {
	if o.timer.CompareAndSwap(false, true) && !o.l.m.client.SubmitAfter(d, zkio.Fetches, (*observerTimer)(o)) {
		o.fail(ErrClosed)
	}
}

// step looks, if a caller wants to know what is not known.
func (o *observer) step(s *zkio.Session) {
	m := o.l.m
	o.mu.Lock()
	wanted := len(o.asked) > 0 || o.watchers > 0 && !o.current
	if o.closed || !wanted {
		over := o.over || o.closed
		o.mu.Unlock()
		if over {
			o.unwatch(s)
		}
		return
	}
	now := m.now()
	if rest := observerPause - time.Duration(now-o.lookedAt); o.lookedAt != 0 && rest > 0 {
		o.mu.Unlock()
		//holdfast:reached observer: looked a moment ago
		o.wakeAfter(rest)
		return
	}
	asked, before := o.asked, o.changes
	o.asked = nil
	o.mu.Unlock()

	o.lookedAt = now
	holder, err := o.look(s)
	// SessionOver outdates what was seen in a session. If it came before the look
	// began, the session is over now.
	if err == nil {
		err = s.Err()
	}
	switch {
	case err == nil:
		o.attempts = 0
		o.show(&sighting{holder: holder}, before, asked)
	case zkio.ClassOf(err) == zkio.Closed:
		o.show(&sighting{err: ErrClosed}, before, asked)
	case zkio.ClassOf(err) == zkio.Definite:
		o.attempts = 0
		o.show(&sighting{err: err}, before, asked)
	default:
		//holdfast:reached observer: no answer, looks again
		o.mu.Lock()
		o.asked = append(asked, o.asked...)
		closed := o.closed
		o.mu.Unlock()
		if closed {
			o.fail(ErrClosed) // it ended what was asked then, and not what this look had taken
			return
		}
		o.wakeAfter(backoff(o.attempts))
		o.attempts++
		return
	}
	o.mu.Lock()
	over := o.over && len(o.asked) == 0
	o.mu.Unlock()
	if over {
		o.unwatch(s)
	}
}

// look finds the holder and has a watch tell when it goes.
func (o *observer) look(s *zkio.Session) (*Contender, error) {
	if s != o.session {
		o.session, o.rest = s, nil
	}
	if c, err := o.next(s); c != nil || err != nil {
		return c, err
	}
	o.rest = nil
	o.unwatchDir(s) // what watched a free lock has fired, or watched a node that it may not read
	synced := false
	for range listsAtOnce {
		q, err := o.l.list(s)
		switch {
		case err != nil:
			return nil, err
		case !synced && o.behind(s, q):
			//holdfast:reached observer: the server is behind what was told
			synced = true
			if err := s.Sync(o.l.path); err != nil {
				return nil, err
			}
			continue
		case len(q.Contenders) == 0:
			if free, err := o.watchFree(s); free || err != nil {
				return nil, err
			}
			continue
		}
		c, err := o.first(s, q.Contenders)
		q.Free()
		if c != nil || err != nil {
			return c, err
		}
	}
	return nil, errUnsettled
}

// next returns the contender behind the holder in the last list, if the holder has
// gone, no other can have come in between, and it is there; else nil.
func (o *observer) next(s *zkio.Session) (*Contender, error) {
	if len(o.rest) == 0 || o.inDir || mayReturn(o.head) || !o.isDeleted(o.node) {
		return nil, nil
	}
	entry := o.rest[0]
	o.rest = o.rest[1:]
	c, err := o.watchNode(s, entry)
	switch {
	case err == nil:
		//holdfast:reached observer: the next of the list
		o.head = entry
		return c, nil
	case errors.Is(err, zkio.ErrNoNode):
		return nil, nil
	}
	return nil, err
}

// isDeleted reports whether path is the node that was heard to be deleted last.
func (o *observer) isDeleted(path string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return path == o.deleted
}

// behind reports whether the server that listed the queue may be behind what this
// process was told: in an earlier session, or by the news of a deletion.
func (o *observer) behind(s *zkio.Session, q queue.Queue) bool {
	return !s.CaughtUp() || len(q.Contenders) > 0 && o.isDeleted(o.l.path+"/"+q.Contenders[0].Name)
}

// first returns the first contender of a list that is still there; nil if the queue
// has to be listed again. After one that has gone, the list is old.
func (o *observer) first(s *zkio.Session, list []queue.Contender) (*Contender, error) {
	for i, entry := range list[:min(2, len(list))] {
		c, err := o.watchNode(s, entry)
		switch {
		case err == nil:
			o.head = entry
			o.rest = slices.Clone(list[i+1 : min(i+1+restKept, len(list))])
			return c, nil
		case !errors.Is(err, zkio.ErrNoNode):
			return nil, err
		case mayReturn(entry):
			return nil, nil
		}
	}
	return nil, nil
}

// mayReturn reports whether c, when it has gone, may be at the head of the queue again,
// or a read in its place that came out of it, which a list from before does not have.
func mayReturn(c queue.Contender) bool {
	return c.Kind == queue.Write || !c.GUID || queue.Exhausted(c.Seq)
}

// watchNode watches a contender's node, and returns what is known about it. The error
// is ErrNoNode if it has gone.
func (o *observer) watchNode(s *zkio.Session, entry queue.Contender) (*Contender, error) {
	m := o.l.m
	c := o.l.contender(entry)
	if o.node != c.Path {
		if o.node != "" {
			s.UnwatchChildren(o.node, o)
		}
		o.node = c.Path
		m.client.WatchChildren(c.Path, o)
	}
	_, stat, err := s.Children(c.Path)
	if errors.Is(err, zkio.ErrNoAuth) {
		stat, err = o.watchUnreadable(s, entry)
	}
	if err != nil {
		return nil, err
	}
	c.describe(nil, stat)
	c.Holds = true
	if by, known := m.peers.findIn(entry.Name, c.Session); known {
		c.by(by)
		return &c, nil
	}
	data, stat, err := s.Get(c.Path)
	switch {
	case errors.Is(err, zkio.ErrNoAuth):
	case err != nil:
		return nil, err
	default:
		m.peers.describe(&c, data, stat)
	}
	return &c, nil
}

// watchUnreadable watches the directory in place of a node that this process may not
// read: the server does not tell what happens to that. Its results are those of
// [zkio.Session.Exists], but for the error ErrNoNode if the node has gone.
func (o *observer) watchUnreadable(s *zkio.Session, entry queue.Contender) (zkio.Stat, error) {
	//holdfast:reached observer: the holder may not be read
	names, err := o.watchDir(s)
	if err != nil {
		return zkio.Stat{}, err
	}
	if !slices.Contains(names, entry.Name) {
		return zkio.Stat{}, zkio.ErrNoNode
	}
	stat, there, err := s.Exists(o.l.path + "/" + entry.Name)
	if err == nil && !there {
		err = zkio.ErrNoNode
	}
	return stat, err
}

// watchDir watches the directory's children, and lists them.
func (o *observer) watchDir(s *zkio.Session) ([]string, error) {
	if !o.inDir {
		o.inDir = true
		o.l.m.client.WatchChildren(o.l.path, o)
	}
	names, _, err := s.Children(o.l.path)
	return names, err
}

// watchFree watches the directory of a lock that seems to be free, and reports whether
// it is.
func (o *observer) watchFree(s *zkio.Session) (free bool, err error) {
	if o.node != "" {
		s.UnwatchChildren(o.node, o)
		o.node = ""
	}
	names, err := o.watchDir(s)
	switch {
	case err == nil:
		return !slices.ContainsFunc(names, isContender), nil
	case !errors.Is(err, zkio.ErrNoNode):
		return false, err
	}
	// There is no directory. Nothing else says when there is one.
	o.unwatchDir(s)
	if !o.awaitsDir {
		o.awaitsDir = true
		o.l.m.client.Watch(o.l.path, o)
	}
	_, there, err := s.Exists(o.l.path)
	return !there, err
}

func isContender(name string) bool {
	_, ok := queue.ParseName(name)
	return ok
}

// unwatchDir undoes what watchDir and watchFree have registered.
func (o *observer) unwatchDir(s *zkio.Session) {
	if o.inDir {
		o.inDir = false
		s.UnwatchChildren(o.l.path, o)
	}
	if o.awaitsDir {
		o.awaitsDir = false
		s.Unwatch(o.l.path, o)
	}
}

// unwatch has this process and the server forget what the observer watches.
func (o *observer) unwatch(s *zkio.Session) {
	if o.node != "" {
		s.UnwatchChildren(o.node, o)
		o.node = ""
	}
	o.unwatchDir(s)
	o.rest = nil
}
