// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// A laterWatches is a session's nodes that are to be watched a moment later: by one
// request for all that are due, instead of one each. A process that takes 100,000
// locks would have 100,000 nodes to read otherwise, only for the watch.
//
// The request is the one that sets watches again after a reconnect. The server takes
// the paths of a thousand nodes at a time, and tells at once of those that are gone.
type laterWatches struct {
	session *Session

	mu     sync.Mutex // protects what follows; the pool's and that of the delays are taken while it is held
	paths  fifo[laterWatch]
	queued bool // the task is on its way: there are paths, and it will take the first when it is due
}

// watchesTogether is how much earlier than due a watch is set with others.
const watchesTogether = 20 * time.Millisecond

// A laterWatch is a node to be watched.
type laterWatch struct {
	path string
	at   time.Duration // when, on the client's clock
}

// WatchLater has the server keep a watch for the node at path, which the session was
// told is there, from the time d from now on, or a little earlier. A watcher must be
// registered for path. It is told at once if the node is gone by then. If no watcher
// is registered when the time has come, nothing is sent. After a reconnect the watch
// is set again, as any other. WatchLater does no I/O and does not block.
func (s *Session) WatchLater(path string, d time.Duration) {
	l := &s.later
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paths.push(laterWatch{path, s.client.clock.now() + d})
	if !l.queued {
		l.queueLocked()
	}
}

// queueLocked has the task run when the first path is due. It does nothing, for good,
// if the client is closed: there is nothing to watch any more.
func (l *laterWatches) queueLocked() {
	c := l.session.client
	// The queue of releases is short, and eight workers serve nothing else: behind
	// the fetches of many locks these watches would come late.
	l.queued = c.SubmitAfter(max(1, l.paths.at(0).at-c.clock.now()), Releases, l)
}

// Run is called by the pool.
func (l *laterWatches) Run(*Session) {
	s := l.session
	if paths := l.take(); s.client.basics.on.Load() {
		s.watchEach(paths)
	} else if paths = s.client.watches.claim(paths); len(paths) > 0 {
		s.setWatches(paths)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued = false
	if l.paths.len() > 0 && s.Err() == nil {
		l.queueLocked()
	}
}

// take takes the paths that are due now or soon.
func (l *laterWatches) take() (paths []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for now := l.session.client.clock.now(); l.paths.len() > 0 && l.paths.at(0).at-now <= watchesTogether; {
		paths = append(paths, l.paths.pop().path)
	}
	return paths
}

// watchEach does what setWatches does by reading the nodes.
func (s *Session) watchEach(paths []string) {
	for together := range slices.Chunk(paths, getsInPacket) {
		reads := make([]*Read, 0, len(together))
		for _, path := range together {
			if s.client.watches.armed(path, jute.OpGetData) {
				reads = append(reads, &Read{Path: path, What: ReadData})
			}
		}
		s.Read(reads...)
		for _, r := range reads {
			switch {
			case errors.Is(r.Err, ErrNoNode):
				s.NotifyDeleted(r.Path)
			case r.Err != nil:
				s.tell(r.Path, NodeDataChanged) // the watcher looks, and tries again if that fails, too
			}
		}
	}
}

// setWatches asks the server to watch the nodes at paths, which are noted as watched.
// It waits until the requests are written, and not for the answers: the watches of a
// connection that ends before are set on the next one. If the present connection was
// made before they were noted, the requests are sent on it.
func (s *Session) setWatches(paths []string) {
	each := func(fn func(path string, k watchKind)) {
		for _, path := range paths {
			fn(path, dataWatch)
		}
	}
	for {
		w := s.await(context.Background(), nil)
		if w == nil {
			return // the session is over, and the nodes go with it
		}
		if w.acquire() != nil {
			continue
		}
		// rearm gives the turn back.
		if w.rearm(watchCalls(each, s.zxid.Load())) {
			return
		}
	}
}
