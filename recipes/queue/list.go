// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

const (
	prefix     = "qn-" // of an element's name, as ZooKeeper's own recipe has it
	highNumber = 1 << 30

	listLasts = time.Second // a list is not used any longer, nor than an eighth of the session timeout
	window    = 16          // elements for each consumer of the queue, among which they divide
	looksAt   = 100         // elements that are looked at together
	lingers   = 2 * time.Second
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

// A seat is the consumer's ephemeral node, which says that this process consumes, and by
// its end that the process's claims have gone.
type seat struct {
	session *zkio.Session
	path    string
	former  string // that of the session before, which may be there yet
	leaving bool   // a task is on its way that deletes the node if it is not needed
}

// numberOf returns the number of the element at path.
func numberOf(path string) (int, bool) {
	digits, ok := strings.CutPrefix(path[strings.LastIndexByte(path, '/')+1:], prefix)
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}

// inOrder returns the elements among names, the first one first.
func inOrder(names []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool {
		_, ok := numberOf(name)
		return !ok
	})
	slices.Sort(names) // all have ten digits
	return names
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
func (q *Queue) refresh(ctx context.Context, how manner) (bool, error) {
	var found bool
	err := q.access.Call(ctx, func(s *zkio.Session) (err error) {
		found, err = q.relistAll(s, how)
		return err
	}, nil)
	return err == nil && found, err // after an error a worker may be writing to found
}

func (q *Queue) relistAll(s *zkio.Session, how manner) (found bool, err error) {
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
		return false, unless(items.Err, zkio.ErrNoNode)
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
func (q *Queue) sift(of version, names []string, asleep map[string]bool) (_, stale []string, takes int) {
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

// sit makes sure that this process is among the consumers, once, and returns its node and its
// rank.
func (q *Queue) sit(s *zkio.Session, consumers *zkio.Read) (path string, rank int, err error) {
	path, former := q.seatIn(s)
	name := path[len(q.dirs.consumers)+1:]
	for ; consumers.Err != nil || !slices.Contains(consumers.Names, name); s.Read(consumers) {
		if errors.Is(consumers.Err, zkio.ErrNoNode) {
			err = q.makeDirs(s)
		} else {
			err = consumers.Err
		}
		if err == nil {
			err = unless(s.CreateEphemeral(path, q.access.Describe("consumer"), q.access.ACL()), zkio.ErrNodeExists)
		}
		if err != nil {
			return "", 0, err
		}
	}
	consumers.Names = slices.DeleteFunc(consumers.Names, func(n string) bool { return q.dirs.consumers+"/"+n == former })
	slices.Sort(consumers.Names)
	return path, slices.Index(consumers.Names, name), nil
}

// A look finds out which elements have no claim.
type look struct {
	names  []string // to look at, in this order
	listed int64    // a transaction up to which the delayed ones are known, which are not among names; 0: none

	free    []string
	taken   map[string]bool
	orphans []string // they have a persistent claim, and are not delayed
}

// run looks at the elements in dir until enough of them are free.
func (l *look) run(s *zkio.Session, dir string, enough int) error {
	if l.taken == nil {
		l.taken = make(map[string]bool)
	}
	for some := range slices.Chunk(l.names, looksAt) {
		claims := make([]*zkio.Read, len(some))
		for i, name := range some {
			claims[i] = &zkio.Read{Path: dir + "/" + name + claimName, What: zkio.ReadStat}
		}
		s.Read(claims...)
		for i, r := range claims {
			switch name := some[i]; {
			case errors.Is(r.Err, zkio.ErrNoNode):
				l.free = append(l.free, name) // or the element is gone
			case r.Err != nil:
				return r.Err
			case l.orphan(r.Stat):
				l.orphans = append(l.orphans, name)
			default:
				l.taken[name] = true
			}
		}
		if len(l.free) >= enough {
			break
		}
	}
	return nil
}

// orphan reports whether a claim is of no consumer and of no entry among the delayed ones. One
// that was made after these were listed may have an entry.
func (l *look) orphan(claim zkio.Stat) bool {
	return claim.EphemeralOwner == 0 && claim.Czxid <= l.listed
}

// barren reports whether nothing was claimed from the present list.
func (q *Queue) barren() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.list.barren
}

// fruitful notes that an element was claimed.
func (q *Queue) fruitful() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list.barren = false
}

// pick returns the next element to try, which is this process's to try from then on, until
// drop is called. It reports false if the list has no more, or is old.
func (q *Queue) pick() (name string, ok bool) {
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
func (q *Queue) more() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.moreLocked()
}

func (q *Queue) moreLocked() bool {
	if q.list.session != nil && time.Since(q.list.at) > min(listLasts, q.list.session.Timeout()/8) {
		q.list.names = nil
	}
	for len(q.list.names) > 0 && q.mine[q.list.names[0]] {
		q.list.names = q.list.names[1:]
	}
	return len(q.list.names) > 0
}

// drop undoes pick.
func (q *Queue) drop(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.mine, name)
}

// relist is called after drop if the element may be free: this process has returned or lost
// it, or not claimed it after all. It is put back where it was in the list. A goroutine that
// waits, and has overlooked it while it was this process's, looks again.
func (q *Queue) relist(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at, there := slices.BinarySearch(q.list.names, name); !there && len(q.list.names) > 0 {
		q.list.names = slices.Insert(q.list.names, at, name)
	}
	if q.waits != nil {
		q.waits.wake()
	}
}

// seated reports whether the list was made in s, so that the others hear of it when s ends
// and what was claimed is free.
func (q *Queue) seated(s *zkio.Session) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.list.session == s
}

// seatIn returns the path of the consumer's node in s, and that of the one before.
func (q *Queue) seatIn(s *zkio.Session) (path, former string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.seat.session != s {
		q.seat.former = q.seat.path
		q.seat.session, q.seat.path = s, q.dirs.consumers+"/"+q.access.GUID()
	}
	return q.seat.path, q.seat.former
}

// use and unuse count what needs the consumer's node.
func (q *Queue) use() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.using++
}

func (q *Queue) unuse() {
	q.mu.Lock()
	q.using--
	q.used = time.Now()
	leave := q.using == 0 && !q.seat.leaving
	q.seat.leaving = q.seat.leaving || leave
	q.mu.Unlock()
	if leave {
		q.access.SubmitAfter(lingers, zkio.Releases, (*leaver)(q))
	}
}

// A leaver is the task that deletes the consumer's node when it was not needed for a while.
type leaver Queue

// Run is called by the pool.
func (l *leaver) Run(s *zkio.Session) {
	q := (*Queue)(l)
	q.mu.Lock()
	path := q.seat.path
	wait := lingers - time.Since(q.used)
	stay := q.using > 0 || q.seat.session != s
	leave := !stay && wait <= 0
	q.seat.leaving = !stay && !leave
	if leave {
		// A caller that comes just now makes another node, and a list.
		q.seat, q.list.session = seat{}, nil
	}
	q.mu.Unlock()
	switch {
	case leave:
		(&departure{q, s, path}).Run(s)
	case !stay:
		q.access.SubmitAfter(wait, zkio.Releases, l)
	}
}

// A departure is the task that deletes a consumer's node, which is not used any more.
type departure struct {
	q       *Queue
	session *zkio.Session
	path    string
}

// Run is called by the pool.
func (d *departure) Run(s *zkio.Session) {
	if s != d.session {
		return // it has gone with its session
	}
	if err := s.Delete(d.path, -1); err != nil && zkio.ClassOf(err) != zkio.Definite {
		d.q.access.SubmitAfter(lingers, zkio.Releases, d)
	}
}
