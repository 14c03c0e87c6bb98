// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

// lingers is for how long a consumer's node stays that is not needed.
const lingers = 2 * time.Second

// A seat is the consumer's ephemeral node, which says that this process consumes, and by
// its end that the process's claims have gone.
type seat struct {
	session *zkio.Session
	path    string
	former  string // that of the session before, which may be there yet
	leaving bool   // a task is on its way that deletes the node if it is not needed
}

// sit makes sure that this process is among the consumers, once, and returns its node and its
// rank.
func (q *consumer) sit(s *zkio.Session, consumers *zkio.Read) (path string, rank int, err error) {
	path, former := q.seatIn(s)
	name := path[len(q.dirs.consumers)+1:]
	for ; consumers.Err != nil || !slices.Contains(consumers.Names, name); s.Read(consumers) {
		if errors.Is(consumers.Err, zkio.ErrNoNode) {
			err = q.makeDirs(s)
		} else {
			err = consumers.Err
		}
		if err == nil {
			// The next look tells whether the directory has gone again.
			err = access.Unless(s.CreateEphemeral(path, q.access.Describe("consumer"), q.access.ACL()), zkio.ErrNodeExists, zkio.ErrNoNode)
		}
		if err != nil {
			return "", 0, err
		}
	}
	consumers.Names = slices.DeleteFunc(consumers.Names, func(n string) bool { return q.dirs.consumers+"/"+n == former })
	slices.Sort(consumers.Names)
	return path, slices.Index(consumers.Names, name), nil
}

// seated reports whether the list was made in s, so that the others hear of it when s ends
// and what was claimed is free.
func (q *consumer) seated(s *zkio.Session) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.list.session == s
}

// seatIn returns the path of the consumer's node in s, and that of the one before.
func (q *consumer) seatIn(s *zkio.Session) (path, former string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.seat.session != s {
		q.seat.former = q.seat.path
		q.seat.session, q.seat.path = s, q.dirs.consumers+"/"+q.access.GUID()
	}
	return q.seat.path, q.seat.former
}

// use and unuse count what needs the consumer's node.
func (q *consumer) use() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.using++
}

func (q *consumer) unuse() {
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
type leaver consumer

// Run is called by the pool.
func (l *leaver) Run(s *zkio.Session) {
	q := (*consumer)(l)
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
	q       *consumer
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
