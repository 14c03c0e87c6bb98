// SPDX-License-Identifier: Apache-2.0

package election

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
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

// Observe returns a channel of the leaders: the present one, perhaps none, and then
// another each time that it or what it has proclaimed has changed. A reader that is slow
// gets the latest, and not all in between. The channel is closed when ctx ends or the
// Manager closes. Outages change nothing.
//
// A leader is told when its record is there, before its Campaign returns. So none is told
// between two terms, if the reader is quick. A leader that uses another ZooKeeper client
// has no record. It is told as soon as its turn has come, and its ID is what its node
// says.
//
// The channel is for one reader. What it tells can be out of date at any moment, as
// [manager.Lock.Holder] says; a leader must ask [Leadership.Err] before it acts. Observe does
// not block.
func (e *Election) Observe(ctx context.Context) <-chan Leader {
	o := &observation{e: e, leaders: make(chan Leader, 1), woken: make(chan struct{}, 1), stale: true}
	e.access.Go(func() { o.run(ctx) })
	return o.leaders
}

// An observation follows the first contender, whose token says which record counts, and
// reads the record when it has changed.
type observation struct {
	e       *Election
	leaders chan Leader   // has the latest, until the reader takes it
	woken   chan struct{} // has a value if something has changed

	record record // as last read; belongs to run, or to the task that it waits for

	mu     sync.Mutex // protects what follows; held for a few instructions
	known  bool       // the contender is known
	first  *manager.Contender
	failed error // why it is not followed any more
	stale  bool  // the record may have changed since it was last read
}

// run tells the leaders until ctx ends.
func (o *observation) run(ctx context.Context) {
	a := o.e.access
	defer a.Call(a.Context(), o.unwatch, nil) //nolint:errcheck // without a session there is no watch
	defer close(o.leaders)
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { o.follow(ctx) })
	a.Watch(o.e.record, o)
	defer a.Listen(o)()

	var latest *Leader
	for {
		now, known, err := o.look(ctx)
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
		case <-o.woken:
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
		o.note(func() { o.known, o.first, o.failed = true, first, err })
	}
}

// look returns the leader, and whether it is known by now.
func (o *observation) look(ctx context.Context) (leader Leader, known bool, err error) {
	o.mu.Lock()
	stale := o.stale
	o.stale = false
	o.mu.Unlock()
	if stale {
		if err := o.e.access.Call(ctx, o.read, o.unwatch); err != nil {
			return Leader{}, false, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch first := o.first; {
	case o.failed != nil:
		return Leader{}, false, o.failed
	case first == nil:
		return Leader{}, o.known, nil
	case first.Token == o.record.Token:
		return Leader{Token: first.Token, ID: o.record.ID, Data: o.record.Data, Path: first.Path}, true, nil
	case first.PID == 0 && first.Host == "": // another client's
		return Leader{Token: first.Token, ID: first.Identity, Path: first.Path}, true, nil
	}
	return Leader{}, true, nil // it has not begun
}

// read reads the record, and leaves a watch. It is run by an I/O goroutine.
func (o *observation) read(s *zkio.Session) error {
	data, _, err := s.Get(o.e.record)
	if errors.Is(err, zkio.ErrNoNode) {
		if _, there, err := s.Exists(o.e.record); err != nil || !there {
			return err // nil: the watch tells when it is created
		}
		data, _, err = s.Get(o.e.record)
	}
	if err != nil {
		return err
	}
	var r record
	if json.Unmarshal(data, &r) == nil {
		o.record = r
	}
	return nil
}

func (o *observation) unwatch(s *zkio.Session) error {
	s.Unwatch(o.e.record, o)
	return nil
}

// same reports whether two Leaders say the same.
func (l Leader) same(other Leader) bool {
	return l.Token == other.Token && l.ID == other.ID && bytes.Equal(l.Data, other.Data)
}

// note changes what mu protects, and wakes run.
func (o *observation) note(change func()) {
	o.mu.Lock()
	change()
	o.mu.Unlock()
	select {
	case o.woken <- struct{}{}:
	default:
	}
}

// reread has the record read again.
func (o *observation) reread() { o.note(func() { o.stale = true }) }

// PathChanged is called by the dispatcher when something happened to the record.
func (o *observation) PathChanged(string, zkio.Event) { o.reread() }

// SessionStarted is called by the dispatcher. The watch has ended with the last session.
func (o *observation) SessionStarted(*zkio.Session) { o.reread() }

// SessionOver is called by the dispatcher.
func (o *observation) SessionOver(*zkio.Session, error) {}

// ConnectionLost is called by the dispatcher.
func (o *observation) ConnectionLost(*zkio.Session, error) {}

// ConnectionResumed is called by the dispatcher.
func (o *observation) ConnectionResumed(*zkio.Session, time.Duration) {}

// LeaseLapsed is called by the dispatcher.
func (o *observation) LeaseLapsed(*zkio.Lease) {}
