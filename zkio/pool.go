// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"sync"
	"sync/atomic"
)

// A Queue is one of the pool's three.
type Queue int

const (
	// Fetches are tasks that acquire something that a caller has just asked for, or
	// whose turn has come. Eight workers never take one, so that releases are served
	// while fetches wait for a slow server.
	Fetches Queue = iota
	// Releases are tasks that delete and clean up. They are served first.
	Releases
	// Refetches are fetches that can wait: they queue again for what has waited for
	// long, or try again. There may be a hundred thousand of them at once, after a
	// session has ended. They share the workers with Fetches, which are served
	// before them, but for every fourth turn, and they leave a third of those
	// workers to Fetches, so that few requests are in flight ahead of a new one.
	Refetches

	queueCount
)

// A Task is work for the pool. One of the client's workers calls Run once, with
// the present session, in whose calls it may block. Once Close has begun, the
// session may be over. A Task must not call [Client.Close], which waits for it.
type Task interface{ Run(s *Session) }

// A Voidable is a [Task] that [Client.SubmitAfter] drops, without a worker, if Void
// returns true when its time has come. Void must not block.
type Voidable interface {
	Task
	Void() bool
}

// reservedWorkers is the number of workers that take no fetches.
const reservedWorkers = 8

// refetchTurn is how many fetches in a row are taken while refetches wait.
const refetchTurn = 3

// A poolStage says what the workers may take from the queues.
type poolStage int

const (
	poolServes   poolStage = iota // everything, while there is a connected session
	poolReleases                  // Close has begun: releases only, while there is a connected session
	poolParked                    // the session is being closed: nothing
	poolEnds                      // what is left, with the session that is over; then the workers end
)

// A pool is the fixed set of goroutines that perform every call to ZooKeeper
// but the heartbeats. finish joins them.
//
// While there is no connected session, tasks wait in their queues, where they
// cost nothing, and not on workers.
type pool struct {
	workers    int
	fetchers   int // the largest number of fetches and refetches that run at a time
	refetchers int // the largest number of refetches among them
	group      sync.WaitGroup

	mu      sync.Mutex // protects what follows
	work    *sync.Cond // of mu; the workers wait on it
	queues  [queueCount]fifo[Task]
	running [queueCount]int
	ahead   int // fetches taken in a row while refetches were waiting
	stage   poolStage
	session *Session      // what tasks are run with; nil until the first session
	open    bool          // the session is connected
	changed chan struct{} // closed, if not nil, when open changes or the last release ends

	// Whether tasks wait because as many run as may: see backlog. Written with mu held.
	releasesWait, fetchesWait atomic.Bool
}

func newPool(workers int) *pool {
	fetchers := workers - reservedWorkers
	p := &pool{workers: workers, fetchers: fetchers, refetchers: max(1, fetchers*2/3)}
	p.work = sync.NewCond(&p.mu)
	for range workers {
		p.group.Go(p.serve)
	}
	return p
}

// submit queues t, and reports whether it did.
func (p *pool) submit(q Queue, t Task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.acceptsLocked(q) {
		return false
	}
	p.pushLocked(q, t)
	return true
}

// accepts reports whether the pool takes new tasks for queue q.
func (p *pool) accepts(q Queue) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acceptsLocked(q)
}

func (p *pool) acceptsLocked(q Queue) bool {
	switch p.stage {
	case poolServes:
		return true
	case poolReleases, poolParked:
		return q == Releases
	default:
		return false
	}
}

// push queues a task that was accepted before finish.
func (p *pool) push(q Queue, t Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pushLocked(q, t)
}

func (p *pool) pushLocked(q Queue, t Task) {
	p.queues[q].push(t)
	p.noteBacklogLocked()
	// One task wakes one worker. If none waits, the next to end its task looks at
	// the queues before it waits.
	p.work.Signal()
}

// backlog reports whether releases, or tasks of the other queues, wait because as many run as
// may. A task that an idle worker is about to take does not count: its requests need not wait
// for those of others.
func (p *pool) backlog(releases bool) bool {
	if releases {
		return p.releasesWait.Load()
	}
	return p.fetchesWait.Load()
}

func (p *pool) noteBacklogLocked() {
	fetching := p.running[Fetches] + p.running[Refetches]
	all := fetching+p.running[Releases] == p.workers
	most := all || fetching >= p.fetchers
	p.releasesWait.Store(all && p.queues[Releases].len() > 0)
	p.fetchesWait.Store(most && p.queues[Fetches].len() > 0 ||
		(most || p.running[Refetches] >= p.refetchers) && p.queues[Refetches].len() > 0)
}

// load returns how many tasks are queued, and how many are running.
func (p *pool) load() (fetches, releases, busy int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queues[Fetches].len() + p.queues[Refetches].len(), p.queues[Releases].len(),
		p.running[Fetches] + p.running[Refetches] + p.running[Releases]
}

// gate sets the session for tasks, and whether it is connected.
func (p *pool) gate(s *Session, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.open = s, open
	p.changedLocked()
	if open {
		p.work.Broadcast()
	}
}

func (p *pool) changedLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// serve is what a worker runs.
func (p *pool) serve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		t, q, ok := p.takeLocked()
		if !ok {
			if p.stage == poolEnds {
				return
			}
			p.noteBacklogLocked()
			p.work.Wait()
			continue
		}
		p.runLocked(t, q)
	}
}

// takeLocked takes the next task that may run now.
func (p *pool) takeLocked() (Task, Queue, bool) {
	ends := p.stage == poolEnds
	if !ends && (!p.open || p.stage == poolParked) {
		return nil, 0, false
	}
	if p.queues[Releases].len() > 0 {
		return p.queues[Releases].pop(), Releases, true
	}
	// At the end every call fails at once, so there is nothing to reserve
	// workers for.
	if !ends && (p.stage != poolServes || p.running[Fetches]+p.running[Refetches] >= p.fetchers) {
		return nil, 0, false
	}
	fetch := p.queues[Fetches].len() > 0
	refetch := p.queues[Refetches].len() > 0 && (ends || p.running[Refetches] < p.refetchers)
	switch {
	case refetch && (!fetch || p.ahead >= refetchTurn):
		p.ahead = 0
		return p.queues[Refetches].pop(), Refetches, true
	case fetch:
		if refetch {
			p.ahead++
		}
		return p.queues[Fetches].pop(), Fetches, true
	}
	return nil, 0, false
}

// runLocked runs t with mu unlocked.
func (p *pool) runLocked(t Task, q Queue) {
	s := p.session
	p.running[q]++
	p.noteBacklogLocked()
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.running[q]--
		if q == Releases && p.releasesIdleLocked() {
			p.changedLocked()
		}
	}()
	t.Run(s)
}

func (p *pool) releasesIdleLocked() bool {
	return p.queues[Releases].len() == 0 && p.running[Releases] == 0
}

// drain refuses fetches from now on, and waits until no release is queued or
// running, until ctx ends, or until the session is not connected at the time
// that the grace ends. It runs nothing after that.
func (p *pool) drain(ctx context.Context, grace <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stage = poolReleases
	for !p.releasesIdleLocked() && p.drainStepLocked(ctx, grace) {
	}
	p.stage = poolParked
}

// drainStepLocked waits, with mu unlocked, for something to change. It reports
// whether there is reason to go on waiting.
func (p *pool) drainStepLocked(ctx context.Context, grace <-chan struct{}) bool {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	changed := p.changed
	if p.open {
		grace = nil // it limits the waiting for a connection only
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
		return true
	case <-grace:
		return false
	case <-ctx.Done():
		return false
	}
}

// finish runs what is left in the queues, and joins the workers.
func (p *pool) finish() {
	p.mu.Lock()
	p.stage = poolEnds
	p.work.Broadcast()
	p.mu.Unlock()
	p.group.Wait()
}
