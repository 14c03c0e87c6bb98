// SPDX-License-Identifier: Apache-2.0

package election

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/bell"
	"github.com/holdfast-go/holdfast/recipes/internal/look"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Leader is what an observer learns of the process that leads. The zero Leader means
// that there is none.
type Leader struct {
	Token uint64 // of its term
	ID    string // its Options.ID
	Data  []byte // what it has proclaimed; shared, and not to be modified
	Path  string // its node in the lock's queue

	// Err is nil but in the last Leader, if the observation ends before its ctx: then it
	// is [manager.ErrClosed] or what ZooKeeper refused, and the rest is zero.
	Err error
}

// Observe follows the leaders of all processes, whether this process stands or not. It
// returns a channel, at once, and sends to it the present leader, or the zero Leader if there
// is none, and again each time that the leader or what it has proclaimed has changed. A reader
// that is slow gets the latest, and not all in between. Each call of Observe has a channel of
// its own, which is for one reader.
//
// The channel is closed when ctx ends. If the Manager closes, or ZooKeeper refuses to show the
// leader, a last Leader with that error comes first. During an outage nothing is sent, and the
// observation goes on after it, in another session if need be.
//
// A leader is told when its record is there, which is before its Campaign returns. So none is
// told between two terms, if the reader is quick. A leader that uses another ZooKeeper client
// has no record. It is told as soon as its turn has come, and its ID is what its node
// says. While the record of a leader is missing because another client has deleted it, none is
// told; the leader's next Proclaim makes it again.
//
// What the channel tells can be out of date at any moment, as [manager.Lock.Holder] says: the
// leader may have lost its term already. A leader must ask [Leadership.Err] before it acts.
// Reads that this process sends later, in the same session, see at least what ZooKeeper had
// committed before that record.
func (e *Election) Observe(ctx context.Context) <-chan Leader {
	o := &observation{e: e, leaders: make(chan Leader, 1), news: bell.New()}
	e.access.Go(func() { o.run(ctx) })
	return o.leaders
}

// An observation follows the first contender, whose token says which record counts, and
// the record. One goroutine tells the leaders, and one follows each of the two.
type observation struct {
	e       *Election
	leaders chan Leader // has the latest, until the reader takes it
	news    bell.Bell   // rung when there may be another leader

	mu     sync.Mutex // protects what follows; held for a few instructions
	known  bool       // the contender is known
	first  *manager.Contender
	read   bool   // the record was read
	record record // as last read; zero if there is none
	failed error  // why one of the two is not followed any more
}

// run tells the leaders until ctx ends.
func (o *observation) run(ctx context.Context) {
	defer close(o.leaders)
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { o.follow(ctx) })
	// Not waited for: its request, which must be answered before it can take its watch back,
	// can take as long as an outage.
	o.e.access.Go(func() { o.followRecord(ctx) })

	var latest *Leader
	for {
		now, known, err := o.leader()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			o.tell(Leader{Err: err})
			return
		case known && (latest == nil || !now.same(*latest)):
			o.tell(now)
			latest = &now
		}
		select {
		case <-o.news:
		case <-ctx.Done():
			return
		}
	}
}

// tell replaces what the reader has not taken yet. It never blocks, because only run sends.
func (o *observation) tell(l Leader) {
	select {
	case <-o.leaders:
	default:
	}
	o.leaders <- l
}

// follow keeps o informed of the first contender.
func (o *observation) follow(ctx context.Context) {
	for first, err := range o.e.lock.WatchHolder(ctx) {
		o.note(func() { o.known, o.first, o.failed = true, first, cmp.Or(o.failed, err) })
	}
}

// followRecord keeps o informed of the record.
func (o *observation) followRecord(ctx context.Context) {
	l := look.New(o.e.access, o.e.access.Context())
	l.Watch(o.e.record)
	err := l.Run(ctx, func(s *zkio.Session) (over bool, err error) {
		if ctx.Err() != nil {
			return true, nil //nolint:nilerr // the wait is over
		}
		return false, o.readRecord(s)
	})
	o.note(func() { o.failed = cmp.Or(o.failed, err) })
}

// readRecord reads the record, and leaves a watch. It is run by an I/O goroutine.
func (o *observation) readRecord(s *zkio.Session) error {
	data, _, err := s.Get(o.e.record)
	if errors.Is(err, zkio.ErrNoNode) {
		var there bool
		if _, there, err = s.Exists(o.e.record); there { // else the watch tells when it is made
			err = fmt.Errorf("%w: the record was made just now", zkio.ErrNotSent)
		}
	}
	if err != nil {
		return err
	}
	var r record
	if json.Unmarshal(data, &r) != nil {
		r = record{} // no candidate has written it
	}
	o.note(func() { o.read, o.record = true, r })
	return nil
}

// leader returns the leader, and whether it is known by now.
func (o *observation) leader() (leader Leader, known bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known = o.known && o.read
	switch first := o.first; {
	case o.failed != nil:
		return Leader{}, false, o.failed
	case first == nil:
		return Leader{}, known, nil
	case first.Token == o.record.Token:
		return Leader{Token: first.Token, ID: o.record.ID, Data: o.record.Data, Path: first.Path}, known, nil
	case first.PID == 0 && first.Host == "": // another client's
		return Leader{Token: first.Token, ID: first.Identity, Path: first.Path}, known, nil
	}
	return Leader{}, known, nil // it has not begun, or its record was deleted
}

// note changes what mu protects, and has run look at it.
func (o *observation) note(change func()) {
	o.mu.Lock()
	change()
	o.mu.Unlock()
	o.news.Ring()
}

// same reports whether two Leaders say the same.
func (l Leader) same(other Leader) bool {
	return l.Token == other.Token && l.ID == other.ID && bytes.Equal(l.Data, other.Data)
}
