// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

const (
	prefix     = "qn-" // of an element's name, as ZooKeeper's own recipe has it
	highNumber = 1 << 30

	listLasts = time.Second // a list is not used any longer
	window    = 16          // elements for each consumer of the queue, among which they divide
	looksAt   = 100         // elements at most that are looked at before they are claimed
	lingers   = 2 * time.Second
)

// A list is what this process knows about the elements.
type list struct {
	session *zkio.Session // in which this process is among the consumers; nil: it is not
	at      time.Time
	names   []string // those to try, in this order
	barren  bool     // none of them could be claimed so far
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

// share returns those of names, which are in order, that the consumer of this rank is to
// try. Several consumers divide the first elements among them, so that they do not all try
// the same. Who finds none of its own takes what there is.
func share(names []string, rank, consumers int) []string {
	if consumers < 2 {
		return names
	}
	names = names[:min(len(names), window*consumers)]
	var own []string
	for _, name := range names {
		if n, _ := numberOf(name); n%consumers == rank {
			own = append(own, name)
		}
	}
	if len(own) == 0 {
		return names
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

// refresh makes a new list. It blocks until ZooKeeper has answered or ctx ends.
func (q *Queue) refresh(ctx context.Context, how manner) error {
	return q.access.Call(ctx, func(s *zkio.Session) error {
		if how == synced {
			if err := s.Sync(q.dirs.queue); err != nil {
				return err
			}
		}
		consumers := zkio.Read{Path: q.dirs.consumers, What: zkio.ReadChildren}
		items := zkio.Read{Path: q.dirs.items, What: zkio.ReadChildren}
		reads := []*zkio.Read{&consumers, &items}
		if how == watching {
			reads = append(reads, &zkio.Read{Path: q.dirs.items, What: zkio.ReadStat}) // for the watch of the node itself
		}
		s.Read(reads...)
		rank, err := q.sit(s, &consumers)
		if err != nil {
			return err
		}
		if items.Err != nil {
			return unless(items.Err, zkio.ErrNoNode)
		}
		names := inOrder(items.Names)
		// Of many elements most are free, and a claim finds out. Where that has failed, look.
		if len(names) <= looksAt || how == watching || q.barren() {
			if names, err = q.unclaimed(s, names); err != nil {
				return err
			}
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		// What other goroutines of this process try to claim is no share of this one.
		names = slices.DeleteFunc(names, func(name string) bool { return q.mine[name] })
		q.list = list{session: s, at: time.Now(), names: share(names, rank, len(consumers.Names)), barren: true}
		return nil
	}, nil)
}

// sit makes sure that this process is among the consumers, once, and returns its rank.
func (q *Queue) sit(s *zkio.Session, consumers *zkio.Read) (rank int, err error) {
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
			return 0, err
		}
	}
	consumers.Names = slices.DeleteFunc(consumers.Names, func(n string) bool { return q.dirs.consumers+"/"+n == former })
	slices.Sort(consumers.Names)
	return slices.Index(consumers.Names, name), nil
}

// unclaimed returns the first of names that have no claim: not all of them, if there are
// many, but some if there is one.
func (q *Queue) unclaimed(s *zkio.Session, names []string) (free []string, err error) {
	for some := range slices.Chunk(names, looksAt) {
		looks := make([]*zkio.Read, len(some))
		for i, name := range some {
			looks[i] = &zkio.Read{Path: q.dirs.items + "/" + name, What: zkio.ReadStat}
		}
		s.Read(looks...)
		for i, r := range looks {
			switch {
			case errors.Is(r.Err, zkio.ErrNoNode):
			case r.Err != nil:
				return nil, r.Err
			case r.Stat.NumChildren == 0:
				free = append(free, some[i])
			}
		}
		if len(free) > 0 {
			break
		}
	}
	return free, nil
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
	if time.Since(q.list.at) > listLasts {
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
