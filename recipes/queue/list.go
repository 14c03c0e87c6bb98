// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

const (
	listLasts = time.Second // a list is not used any longer, nor than an eighth of the session timeout
	window    = 16          // elements for each consumer of the queue, among which they divide
)

// A list is what this process knows about the elements.
type list struct {
	session *zkio.Session // in which this process is among the consumers; nil: it is not
	at      time.Time
	names   []string  // those to try, in this order
	barren  bool      // none of them could be claimed so far
	due     time.Time // when an element is due that was returned with a delay; zero: there is none
}

// What looks have shown is known until an element that was taken may be free: then the data of
// the directory change, or the list of consumers. But a node may have been deleted that would have
// told of a consumer's death. So it is forgotten after an eighth of the session timeout. Then
// this process also looks at those of the first elements that were there the last time. If they
// are free, it takes them, whose share they may be: that consumer may be dead, and ZooKeeper
// takes it for alive.
type known struct {
	of    version
	since time.Time
	taken map[string]bool
	front []string // the first that were not known to be taken, at since
}

// A version of the directories is one in which no element that was taken has become free.
type version struct {
	session   *zkio.Session
	items     int64 // the transaction that has created the directory
	changes   int32 // of its data
	consumers int64 // the transaction that has changed their list last
}

// share returns those of names, which are in order, that the consumer of this rank is to try.
// Several consumers divide the first elements among them, so that they do not all try the same.
// Half of the elements may be others' already.
func share(names []string, rank, consumers, takes int) []string {
	if consumers < 2 {
		return names
	}
	var own []string
	for _, name := range names[:min(len(names), 2*max(window, takes)*consumers)] {
		if n, _ := numberOf(name); n%consumers == rank {
			own = append(own, name)
		}
	}
	return own
}

// A manner says how a list is made.
type manner int

const (
	plainly  manner = iota
	synced          // it has every element that was there before
	watching        // the registered watcher is told what changes later
)

// refresh makes a new list, and reports whether it has elements. It blocks until ZooKeeper has
// answered or ctx ends.
func (q *consumer) refresh(ctx context.Context, how manner) (bool, error) {
	return access.Ask(ctx, q.access, func(s *zkio.Session) (bool, error) { return q.relistAll(s, how) })
}

func (q *consumer) relistAll(s *zkio.Session, how manner) (found bool, err error) {
	listed := s.Zxid()
	if how == synced {
		if err := s.Sync(q.dirs.queue); err != nil {
			return false, err
		}
	}
	consumers := zkio.Read{Path: q.dirs.consumers, What: zkio.ReadChildren}
	items := zkio.Read{Path: q.dirs.items, What: zkio.ReadChildren}
	delayed := zkio.Read{Path: q.dirs.delayed, What: zkio.ReadChildren}
	reads := []*zkio.Read{&consumers, &items, &delayed}
	if how == watching {
		reads = append(reads, &zkio.Read{Path: q.dirs.items, What: zkio.ReadStat}) // for the watch of the node itself
	}
	s.Read(reads...)
	seat, rank, err := q.sit(s, &consumers)
	if err != nil {
		return false, err
	}
	if items.Err != nil {
		return false, access.Unless(items.Err, zkio.ErrNoNode)
	}
	if delayed.Err != nil && !errors.Is(delayed.Err, zkio.ErrNoNode) {
		return false, delayed.Err
	}
	asleep, due, err := q.wake(s, seat, delayed.Names)
	if err != nil {
		return false, err
	}
	of := version{s, items.Stat.Czxid, items.Stat.Version, consumers.Stat.Pzxid}
	names, stale, takes := q.sift(of, inOrder(items.Names), asleep)
	l := look{names: stale, listed: listed}
	own := share(names, rank, len(consumers.Names), takes)
	if len(stale) > 0 {
		err = l.run(s, q.dirs.items, len(stale))
		own = merge(own, &l)
	}
	switch {
	case err != nil:
		return false, err
	case len(own) > 0 && !q.barren(): // a claim finds out whether an element is free
		l.free = own
	default:
		l.names, l.free = own, nil
		err = l.run(s, q.dirs.items, 1)
		if err == nil && len(l.free) == 0 { // then it takes what there is
			l.names = slices.DeleteFunc(names, func(name string) bool { return l.taken[name] })
			err = l.run(s, q.dirs.items, 1)
		}
	}
	if err == nil {
		err = q.wakeOrphans(s, l.orphans)
	}
	if err != nil {
		return false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known.of == of {
		maps.Copy(q.known.taken, l.taken)
	}
	found = len(l.free) > 0
	// What other goroutines of this process have begun to claim since is no share of this one.
	l.free = slices.DeleteFunc(l.free, func(name string) bool { return q.mine[name] })
	q.list = list{session: s, at: time.Now(), names: l.free, barren: true, due: due}
	return found, nil
}

// sift returns those of names that may be free as far as this process knows, those of them that
// were among the first for a while, and how many elements this process takes at a time.
func (q *consumer) sift(of version, names []string, asleep map[string]bool) (_, stale []string, takes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	anew := time.Since(q.known.since) > of.session.Timeout()/8
	if anew || q.known.of != of {
		q.known.of, q.known.taken = of, make(map[string]bool)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return q.mine[name] || asleep[name] || q.known.taken[name]
	})
	if anew {
		front := slices.Clone(names[:min(len(names), looksAt)])
		for _, name := range front {
			if _, there := slices.BinarySearch(q.known.front, name); there {
				stale = append(stale, name)
			}
		}
		q.known.since, q.known.front = time.Now(), front
	}
	return names, stale, q.using
}

// merge returns those of own that were not found taken, and what was found free, in order.
func merge(own []string, l *look) []string {
	names := slices.Clone(l.free)
	for _, name := range own {
		if !l.taken[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// barren reports whether nothing was claimed from the present list.
func (q *consumer) barren() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.list.barren
}

// fruitful notes that an element was claimed.
func (q *consumer) fruitful() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list.barren = false
}

// pick returns the next element to try, which is this process's to try from then on, until
// drop is called. It reports false if the list has no more, or is old.
func (q *consumer) pick() (name string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.moreLocked() {
		return "", false
	}
	name, q.list.names = q.list.names[0], q.list.names[1:]
	q.mine[name] = true
	return name, true
}

// more reports whether pick would return an element.
func (q *consumer) more() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.moreLocked()
}

func (q *consumer) moreLocked() bool {
	if q.list.session != nil && time.Since(q.list.at) > min(listLasts, q.list.session.Timeout()/8) {
		q.list.names = nil
	}
	for len(q.list.names) > 0 && q.mine[q.list.names[0]] {
		q.list.names = q.list.names[1:]
	}
	return len(q.list.names) > 0
}

// drop undoes pick.
func (q *consumer) drop(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.mine, name)
}

// relist is called after drop if the element may be free: this process has returned or lost
// it, or not claimed it after all. It is put back where it was in the list. A goroutine that
// waits, and has overlooked it while it was this process's, looks again.
func (q *consumer) relist(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at, there := slices.BinarySearch(q.list.names, name); !there && len(q.list.names) > 0 {
		q.list.names = slices.Insert(q.list.names, at, name)
	}
	q.waits.Ring()
}
