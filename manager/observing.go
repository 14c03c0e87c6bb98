// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/queueio"
	"github.com/holdfast-go/holdfast/zkio"
)

// observing is the part of an observer that only its steps use.
type observing struct {
	session *zkio.Session     // in which head and rest were seen
	head    queue.Contender   // the holder
	rest    []queue.Contender // some of those behind it in the last list, in order

	node      string // the node whose children are watched; "": none
	inDir     bool   // the directory's children are watched
	awaitsDir bool   // the directory's creation is watched

	lookedAt int64 // when the last look began, on the manager's clock
}

const (
	// observerPause is the least time from the beginning of one look to the next.
	observerPause = 50 * time.Millisecond
	// restKept is how many contenders behind the holder an observer keeps of a list.
	restKept = 16
	// listsAtOnce is how many times one look lists a queue that keeps changing.
	listsAtOnce = 5
)

// errUnsettled says that the queue changed all through a look.
var errUnsettled = errors.New("the queue changes too quickly")

// Step looks, if a caller waits for an answer or a loop's last sighting is out of date.
func (o *observer) Step(s *zkio.Session) {
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
		o.errand.WakeAfter(rest)
		return
	}
	asked, before := o.asked, o.changes
	o.asked = nil
	o.mu.Unlock()

	o.lookedAt = now
	from := s.Zxid()
	holder, err := o.look(s)
	// SessionOver outdates what was seen in a session. If it was called before the look
	// began, this look's answer is out of date as well, and the session's error shows it.
	if err == nil {
		err = s.Err()
	}
	switch {
	case err == nil:
		o.errand.Tries = 0
		o.show(&sighting{holder: holder, from: from, upto: s.Zxid()}, before, asked)
	case zkio.ClassOf(err) == zkio.Closed:
		o.show(&sighting{err: ErrClosed}, before, asked)
	case zkio.ClassOf(err) == zkio.Definite:
		o.errand.Tries = 0
		o.show(&sighting{err: err}, before, asked)
	default:
		//holdfast:reached observer: no answer, looks again
		o.mu.Lock()
		o.asked = append(asked, o.asked...)
		closed := o.closed
		o.mu.Unlock()
		if closed {
			o.fail(ErrClosed) // Close has failed o.asked, but not what this step had taken
			return
		}
		o.errand.Retry()
		return
	}
	o.mu.Lock()
	over := o.over && len(o.asked) == 0
	o.mu.Unlock()
	if over {
		o.unwatch(s)
	}
}

// look finds the holder and leaves a watch that reports its end.
func (o *observer) look(s *zkio.Session) (*Contender, error) {
	if s != o.session {
		o.session, o.rest = s, nil
	}
	if c, err := o.next(s); c != nil || err != nil {
		return c, err
	}
	o.rest = nil
	o.unwatchDir(s) // it was for a free lock or an unreadable holder, which is history
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

// next returns the contender that was behind the holder in the last list, without
// another list. That is possible if the holder was deleted and no other contender can
// have come in between. Otherwise, or if that contender is gone too, next returns nil.
func (o *observer) next(s *zkio.Session) (*Contender, error) {
	// The node that is watched is not head's if the last look failed.
	if len(o.rest) == 0 || o.inDir || queueio.Returns(o.head) || !o.isDeleted(o.l.pathOf(o.head.Name)) {
		return nil, nil
	}
	entry := o.rest[0]
	c, err := o.watchNode(s, entry)
	switch {
	case err == nil:
		//holdfast:reached observer: the next of the list
		o.head, o.rest = entry, o.rest[1:]
		return c, nil
	case errors.Is(err, zkio.ErrNoNode):
		return nil, nil
	}
	return nil, err
}

// isDeleted reports whether the last deletion that was heard is that of the node at path.
func (o *observer) isDeleted(path string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return path == o.deleted
}

// behind reports whether the server that listed the queue may lag behind what this
// process has learned: in an earlier session, or from the notification of a deletion.
func (o *observer) behind(s *zkio.Session, q queue.Queue) bool {
	return !s.CaughtUp() || len(q.Contenders) > 0 && o.isDeleted(o.l.pathOf(q.Contenders[0].Name))
}

// first returns the first contender of a list that is still there; nil if the queue
// has to be listed again. It tries two: if both are gone, the list is too old to go on.
func (o *observer) first(s *zkio.Session, list []queue.Contender) (*Contender, error) {
	var c *Contender
	at, err := queueio.First(list[:min(2, len(list))], func(entry queue.Contender) (err error) {
		c, err = o.watchNode(s, entry)
		return err
	})
	if at < 0 || err != nil {
		return nil, err
	}
	kept := slices.Clone(list[at:min(at+1+restKept, len(list))])
	for i, k := range kept {
		kept[i].Name = strings.Clone(k.Name) // not the whole list
	}
	o.head, o.rest = kept[0], kept[1:]
	return c, nil
}

// watchNode watches a contender's node, and returns what is known about the contender.
// The error is ErrNoNode if the node is gone.
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
// read, since the server does not report what happens to that. It returns the node's
// Stat, which is zero if the server does not tell it, or ErrNoNode if the node is gone.
func (o *observer) watchUnreadable(s *zkio.Session, entry queue.Contender) (zkio.Stat, error) {
	//holdfast:reached observer: the holder may not be read
	names, err := o.watchDir(s)
	if err != nil {
		return zkio.Stat{}, err
	}
	if !slices.Contains(names, entry.Name) {
		return zkio.Stat{}, zkio.ErrNoNode
	}
	_, stat, _, err := s.Look(o.l.pathOf(entry.Name))
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
		return !slices.ContainsFunc(names, o.l.isContender), nil
	case !errors.Is(err, zkio.ErrNoNode):
		return false, err
	}
	// There is no directory: only a watch for its creation reports the next contender.
	o.unwatchDir(s)
	if !o.awaitsDir {
		o.awaitsDir = true
		o.l.m.client.Watch(o.l.path, o)
	}
	_, there, err := s.Exists(o.l.path)
	return !there, err
}

// unwatchDir undoes watchDir and watchFree.
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

// unwatch takes all watches back, here and at the server.
func (o *observer) unwatch(s *zkio.Session) {
	if o.node != "" {
		s.UnwatchChildren(o.node, o)
		o.node = ""
	}
	o.unwatchDir(s)
	o.rest = nil
}
