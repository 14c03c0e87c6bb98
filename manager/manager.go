// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/oneline"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Manager is one contender for all its locks: one ZooKeeper session at a time,
// one pool of I/O goroutines, and one *Lock per name. A process usually has one;
// two Managers in one process are two contenders that exclude each other. All
// methods may be called concurrently.
type Manager struct {
	cfg    Config
	client *zkio.Client
	start  time.Time // of the manager's own clock

	longTail int // see listAlong; tests shorten it

	patterns map[string][]byte // by kind; see nodeData

	id      string // distinguishes the names of our nodes from any other manager's
	counter atomic.Uint64
	newGUID func() string // m.guid; kept so that the method value is made once

	places    places                  // of Access.Call
	listeners listeners               // besides the manager itself; see Access.Listen
	ctx       context.Context         // ends when Close begins; see Access.Context
	accepting context.Context         // ends when Shutdown or Close begins; see Access.Accepting
	cancel    context.CancelCauseFunc // of ctx
	refuse    context.CancelCauseFunc // of accepting

	stage    atomic.Int32 // open, shuttingDown, closingDown
	closed   atomic.Bool  // the client is closed: nothing more can be sent
	openSeen atomic.Bool  // a lock's directory that every client may delete in was logged
	looks    pacer        // of the first looks behind held locks
	losses   lossReport
	drops    dropReport
	feed     *feed // tells Config.Observer, and those that listen to a lock

	grants, lost, failures atomic.Uint64 // see ManagerStats

	began *zkio.Session // the session, if there is one; used by the dispatcher only, as listener

	observers observers // of who holds which lock
	peers     peers     // what other processes say of themselves
	box       *mailbox  // where other processes ask

	inquiries roster[*inquiry] // those under way
	groups    groups           // those that are not over, which Close ends

	// mu protects what follows. It is held for a few instructions only: never
	// across I/O, a channel operation or a call of user code. No other lock of
	// this package is taken while it is held.
	mu      sync.Mutex
	locks   map[string]entry // by path
	sweepAt int              // remove dead entries when there are this many
	active  []*roundIO       // those that have, or may have, a node; see roundIO.index
	marks   map[*Lock]*mark  // of the locks that report abandonment, which it keeps; nil until there is one
	mutexes mutexes
	ranked  int64 // the transaction in the last group's rank

	closeBegun atomic.Bool
	closeDone  chan struct{}  // closed when Close is done
	closeErr   error          // written before closeDone is closed
	done       chan struct{}  // closed when the manager's own goroutines are to end
	wg         sync.WaitGroup // those goroutines: rotate, and see spawn
	joined     bool           // protected by mu: Close waits for wg, or has
	finishing  finishing      // what Shutdown waits for beside locks
}

// The stages of a Manager, in order.
const (
	open         int32 = iota
	shuttingDown       // newcomers are refused, waiters fail, holders go on
	closingDown        // all rounds end
)

// Open connects to ZooKeeper, waits for the first session, and checks that nodes
// can be created, listed and deleted under cfg.Root, which it creates if need be.
// It returns [ErrBadConfig] at once if cfg cannot work, and [ErrNoChroot] if there is no
// Config.Chroot. If it can reach no
// server, it goes on trying until ctx ends; its error then names the addresses
// that it tried and why each failed. ctx bounds Open only, not what the Manager
// does later.
//
// The Manager's goroutines end with Close or Shutdown.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	m := &Manager{
		cfg:      cfg,
		start:    time.Now(),
		locks:    make(map[string]entry),
		sweepAt:  minSweep,
		longTail: longTail,
		done:     make(chan struct{}),

		closeDone: make(chan struct{}),
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	m.patterns = patterns(host, cfg.Label, cfg.Endpoint)
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	m.id = hex.EncodeToString(id[:])
	m.ctx, m.cancel = context.WithCancelCause(context.Background())
	m.accepting, m.refuse = context.WithCancelCause(m.ctx)
	m.newGUID = m.guid
	m.observers.most = mostCached
	m.places.free = max(1, (cfg.Workers-minWorkers+1)/2)
	m.peers.putLocked(m.id, peer{author: author{host: host, label: cfg.Label, endpoint: cfg.Endpoint, pid: os.Getpid()}}) // no other goroutine knows m
	m.feed = newFeed(m)

	m.client, err = zkio.Open(ctx, zkio.Config{
		Servers:        cfg.Servers,
		SessionTimeout: cfg.SessionTimeout,
		Auth:           cfg.Auth,
		TLS:            cfg.TLS,
		Dialer:         cfg.Dialer,
		Workers:        cfg.Workers,
		LostMargin:     cfg.LostMargin,
		Logger:         cfg.Logger,
		Listener:       (*listener)(m),
		Suspended:      cfg.suspended,
	})
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	m.box = newMailbox(m)
	// The client's calls take no ctx: they end when the client is closed.
	stop := context.AfterFunc(ctx, func() { _ = m.client.Close(ctx) })
	err = m.probe(ctx)
	if !stop() && err == nil {
		err = ctxerr.Of(ctx)
	}
	if err != nil {
		m.stage.Store(closingDown)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.CloseTimeout)
		defer cancel()
		_ = m.client.Close(closing) // the probe's error is the one that helps
		return nil, &Error{Op: "open", Err: err}
	}
	m.wg.Go(m.rotate)
	m.feed.start()
	return m, nil
}

// probe checks that this process may do under the root what a lock needs, so that
// a missing permission is found now and not at the first release.
func (m *Manager) probe(ctx context.Context) error {
	node := zkio.NewNode(m.cfg.Root, "probe-", m.newGUID, m.nodeData(probeKind), m.cfg.ACL, ignore{})
	steps := []struct {
		what string
		do   func(*zkio.Session) error
	}{
		{"find the chroot above", m.checkChroot},
		{"create the root", func(s *zkio.Session) error { return s.EnsureDir(m.cfg.Root, m.cfg.ACL) }},
		{"create a node under the root", func(s *zkio.Session) error { return node.Create(s) }},
		{"list the root", func(s *zkio.Session) error { _, _, err := s.Children(m.cfg.Root); return err }},
		{"read the ACL of the root", m.checkRoot},
		{"read a node under the root", func(s *zkio.Session) error { return s.Prove(node.Path()) }}, // as every lease must
		{"delete a node under the root", func(s *zkio.Session) error { return node.Delete(s) }},
	}
	var failed errand.Tries
	for i := 0; i < len(steps); {
		err := steps[i].do(m.client.Session())
		if err == nil {
			i, failed = i+1, 0
			continue
		}
		missing := errors.Is(err, zkio.ErrNoNode)
		class := zkio.ClassOf(err)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("cannot %s %s: %w: %w", steps[i].what, m.cfg.Root, ctxerr.Of(ctx), err)
		case errors.Is(err, ErrNoChroot):
			return fmt.Errorf("%w: there is no %s: is it mistyped? Create it, if this process is the first to use it", err, m.cfg.Chroot)
		case !missing && (class == zkio.Definite || class == zkio.Closed):
			return fmt.Errorf("cannot %s %s: %w (%s)", steps[i].what, m.cfg.Root, err, m.hint(err))
		}
		if missing {
			i = 0 // the server removes an empty container sooner or later
		}
		select {
		case <-ctx.Done():
		case <-time.After(failed.Wait()):
		}
	}
	return nil
}

// checkChroot fails with ErrNoChroot if there is no Config.Chroot.
func (m *Manager) checkChroot(s *zkio.Session) error {
	if m.cfg.Chroot == "" {
		return nil
	}
	_, there, err := s.Exists(m.cfg.Chroot)
	if err == nil && !there {
		err = ErrNoChroot
	}
	return err
}

// hint says what to do about an error that trying again does not mend.
func (m *Manager) hint(err error) string {
	switch {
	case !errors.Is(err, zkio.ErrNoAuth):
		return "check Config.Root, Config.ACL and Config.Auth"
	case len(m.cfg.Auth) == 0:
		return "Config.Auth is empty, so this process has only the rights that every client has: give it credentials that the ACL there names, or use another Config.Root"
	}
	return "the ACL there gives the identities in Config.Auth no such right: check them; " +
		"ZooKeeper accepts any user and password of scheme digest, so nothing else shows that the user or password is wrong"
}

// ignore is a watcher that ignores events.
type ignore struct{}

func (ignore) PathChanged(string, zkio.Event) {}

// Exclusive returns the exclusive lock called name: a slash-separated path under
// Config.Root, of which one leading slash is ignored. It does no I/O and does not
// block. As long as a *Lock is busy or referenced, the same name gives the same
// *Lock.
//
// The errors are [ErrBadName] (see [Escape] for names from elsewhere), [ErrKind]
// if this process uses the name for a read/write lock or a mutex, and [ErrClosed].
func (m *Manager) Exclusive(name string) (*Lock, error) {
	e, err := m.open("exclusive", name, func(e *locks, path string) bool {
		if *e == (locks{}) {
			e.lock = newLock(m, path, queue.Exclusive)
		}
		return e.lock != nil && !e.lock.latch
	})
	return e.lock, err
}

// ReadWrite returns the read/write lock called name. It relates to Exclusive as
// an RWMutex does to a Mutex, and is like it in all other respects.
func (m *Manager) ReadWrite(name string) (*RWLock, error) {
	e, err := m.open("readwrite", name, func(e *locks, path string) bool {
		if *e == (locks{}) {
			e.rw = newRWLock(m, path)
		}
		return e.rw != nil
	})
	return e.rw, err
}

// locks is what is open under one name: one of them, or none.
type locks struct {
	lock  *Lock
	rw    *RWLock
	mutex *Mutex
}

// entry is a name's entry in the registry: its exclusive lock, or the reader of
// its read/write lock, which lives as long as the other two do. It does not keep
// the lock alive: its users do, and its present round while that is not FREE.
type entry struct{ weak.Pointer[Lock] }

func (e entry) locks() locks {
	switch l := e.Value(); {
	case l == nil:
		return locks{}
	case l.rw != nil:
		return locks{rw: l.rw}
	default:
		return locks{lock: l}
	}
}

func (o locks) entry() entry {
	if o.rw != nil {
		return entry{weak.Make(&o.rw.reader)}
	}
	return entry{weak.Make(o.lock)}
}

// open finds what is open under name and has make add what is missing. It returns
// ErrKind if make reports false.
func (m *Manager) open(op, name string, make func(e *locks, path string) bool) (locks, error) {
	path, err := lockPath(m.cfg.Root, name)
	if err == nil && m.closing() {
		err = ErrClosed
	}
	if err != nil {
		return locks{}, &Error{Op: op, Name: name, Err: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.openLocked(path)
	now := old
	if !make(&now, path) {
		return locks{}, &Error{Op: op, Name: name, Err: ErrKind}
	}
	switch {
	case now == old:
	case now.mutex != nil:
		m.mutexes.add(path, now.mutex)
	default:
		if len(m.locks) >= m.sweepAt {
			m.sweepLocked()
		}
		m.locks[path] = now.entry()
	}
	return now, nil
}

// openLocked returns what is open at path.
func (m *Manager) openLocked(path string) locks {
	if o := m.locks[path].locks(); o != (locks{}) {
		return o
	}
	return locks{mutex: m.mutexes.at[path].Value()}
}

const minSweep = 64

// sweepLocked removes the entries of locks that have been collected. It runs when
// the map has doubled since the last time: a constant cost per entry.
func (m *Manager) sweepLocked() {
	for path, e := range m.locks {
		if e.locks() == (locks{}) {
			delete(m.locks, path)
		}
	}
	m.sweepAt = max(minSweep, 2*len(m.locks))
}

// Shutdown closes the manager in good order. It refuses newcomers, fails waiting callers with
// [ErrClosed], gives up the locks that linger, and waits until all holders have released their
// locks or ctx ends. Meanwhile other processes can still ask these holders, and revoke their
// locks. It then waits until ZooKeeper knows what callers of recipes have given up, such as a
// place in a barrier: until ctx ends, and for at most Config.CloseTimeout. Then Shutdown calls
// Close and returns its error, joined to one that says what it could not wait for.
func (m *Manager) Shutdown(ctx context.Context) error {
	m.stage.CompareAndSwap(open, shuttingDown)
	m.refuse(ErrClosed)
	m.failWaiters()
	var left error
	for left == nil {
		t := m.anyActive()
		if t == nil {
			break
		}
		select {
		case <-t.released.Future().Done():
			// A round leaves the active ones before its release settles. If it is
			// still there, its deletion was refused: only the session's end
			// removes the node.
			if m.isActive(t) {
				left = t.round.error("shutdown", errors.New("its node cannot be deleted; closing the session instead"))
			}
		case <-ctx.Done():
			left = &Error{Op: "shutdown", Name: t.round.lock.Name(), Err: fmt.Errorf("still held: %w", ctxerr.Of(ctx))}
		}
	}
	return oneline.Join(left, m.finish(ctx), m.Close())
}

// finish waits for what [Access.Finish] runs.
func (m *Manager) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CloseTimeout)
	defer cancel()
	if m.finishing.wait(ctx) {
		return nil
	}
	return &Error{Op: "shutdown", Outage: m.outage(), Err: fmt.Errorf(
		"what recipes gave up was not confirmed in time; closing the session instead, which deletes their nodes: %w", ctxerr.Of(ctx))}
}

// Close ends everything now. All locks that are held or waited for are over:
// [Hold.Lost] closes, with the cause [ErrClosed], and the nodes are deleted with
// the session. The contexts of Config.OnAsk end, and loops over [Lock.WatchHolder] end
// with ErrClosed. All goroutines of the manager have ended when Close returns.
//
// Close blocks for at most Config.CloseTimeout, give or take a moment, and until all
// calls of Config.OnAsk have returned, and Config.Observer and all Listeners have been told
// of what happened. If ZooKeeper could not be told, the error says so: the locks are then free
// when the session times out there. A second Close waits for the first and returns the
// same error.
func (m *Manager) Close() error {
	if !m.closeBegun.CompareAndSwap(false, true) {
		<-m.closeDone
		return m.closeErr
	}
	defer close(m.closeDone)
	m.stage.Store(closingDown)
	m.cancel(ErrClosed)
	m.failAll()
	m.observers.close()
	m.box.stop(ErrClosed)
	ctx, cancel := context.WithTimeout(context.Background(), m.cfg.CloseTimeout)
	defer cancel()
	err := m.client.Close(ctx)
	m.closed.Store(true)
	close(m.done)
	m.mu.Lock()
	m.joined = true
	m.mu.Unlock()
	m.wg.Wait()
	m.feed.close()
	if err != nil {
		m.closeErr = &Error{Op: "close", Err: err}
	}
	return m.closeErr
}

// spawn runs fn on a goroutine that Close joins; once Close has joined them, on
// the caller's.
func (m *Manager) spawn(fn func()) {
	m.mu.Lock()
	joined := m.joined
	if !joined {
		m.wg.Add(1)
	}
	m.mu.Unlock()
	if joined {
		fn()
		return
	}
	go func() {
		defer m.wg.Done()
		fn()
	}()
}

// closing reports whether newcomers are refused.
func (m *Manager) closing() bool { return m.stage.Load() != open }

// failWaiters ends every round that has not been granted, or is idle.
func (m *Manager) failWaiters() {
	m.eachShare(func(s *share) {
		s.failPending(s.error("shutdown", ErrClosed))
		s.endIdle()
	})
}

// failAll ends every round.
func (m *Manager) failAll() {
	m.eachShare(func(s *share) { s.fail(s.error("close", ErrClosed)) })
}

// eachShare calls fn for every share that has holders or waiters: for those of the rounds of
// all locks, and of the turns of all mutexes. A round that begins while eachShare runs is found
// by its own fetch, which looks at the stage before anything else.
func (m *Manager) eachShare(fn func(*share)) {
	m.mu.Lock()
	mutexes := m.mutexes.all()
	all := make([]*Lock, 0, len(m.locks)+len(mutexes))
	for _, e := range m.locks {
		switch open := e.locks(); {
		case open.lock != nil:
			all = append(all, open.lock)
		case open.rw != nil:
			all = slices.AppendSeq(all, open.rw.locks())
		}
	}
	m.mu.Unlock()
	for _, x := range mutexes {
		all = append(all, x.lock)
		for _, s := range x.shares() {
			fn(s)
		}
	}
	for _, l := range all {
		l.live()(func(r *round) bool { fn(&r.share); return true })
	}
}

// activate adds t to the rounds that may have a node. What ends sessions or
// leases looks for them there.
func (m *Manager) activate(t *roundIO) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.index == 0 {
		m.active = append(m.active, t)
		t.index = int32(len(m.active))
	}
}

func (m *Manager) deactivate(t *roundIO) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.index == 0 {
		return
	}
	end := len(m.active) - 1
	last := m.active[end]
	m.active[t.index-1], last.index = last, t.index
	m.active[end], t.index = nil, 0
	m.active = m.active[:end]
	if cap(m.active) > 1024 && end < cap(m.active)/4 {
		m.active = slices.Clip(slices.Clone(m.active)) // there were many once
	}
}

func (m *Manager) isActive(t *roundIO) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return t.index != 0
}

// anyActive returns an active round; nil if there is none.
func (m *Manager) anyActive() *roundIO {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.active) == 0 {
		return nil
	}
	return m.active[0]
}

func (m *Manager) activeRounds() []*roundIO {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.active)
}

// listener is the Manager as zkio's Listener. Its methods run on the client's
// dispatcher, one at a time; none blocks.
type listener Manager

// SessionStarted has nothing to wake: tasks that waited for a session are in the
// pool's queues, and SessionOver has woken the parked rounds.
func (m *listener) SessionStarted(s *zkio.Session) {
	m.began = s
	m.feed.session(s, Event{Kind: EventSessionBegan})
	m.listeners.each(func(l zkio.Listener) { l.SessionStarted(s) })
}

// ConnectionLost has nothing to end: the lease decides.
func (m *listener) ConnectionLost(s *zkio.Session, cause error) {
	m.feed.session(s, Event{Kind: EventConnectionLost, Err: cause})
	m.listeners.each(func(l zkio.Listener) { l.ConnectionLost(s, cause) })
}

// ConnectionResumed has nothing to do but to tell.
func (m *listener) ConnectionResumed(s *zkio.Session, after time.Duration) {
	m.feed.session(s, Event{Kind: EventConnectionResumed, Waited: after})
	m.listeners.each(func(l zkio.Listener) { l.ConnectionResumed(s, after) })
}

// ProcessPaused has nothing to do but to tell: what the pause has cost is told by itself.
func (m *listener) ProcessPaused(lasted time.Duration) {
	m.feed.session(m.began, Event{Kind: EventPaused, Paused: lasted})
	m.listeners.each(func(l zkio.Listener) { l.ProcessPaused(lasted) })
}

// LeaseLapsed ends the rounds that were granted under the lease. A granter that
// is between its CAS and its own look at the lease finds it lapsed.
func (m *listener) LeaseLapsed(l *zkio.Lease) {
	for _, t := range (*Manager)(m).activeRounds() {
		if t.round.word.Load().Phase() == state.Retained && t.tenure.lease == l {
			//holdfast:reached hold: the lease ended
			t.round.fail(t.round.lost("hold", leaseOver))
		}
	}
	m.listeners.each(func(other zkio.Listener) { other.LeaseLapsed(l) })
}

// SessionOver ends the rounds that were granted in the session, and wakes the
// others: those that wait queue again, and those that are being released find
// their nodes gone.
//
// It is also called for a session that never began because the servers refused
// the credentials. Waiters then fail with that: the client goes on trying, but
// the credentials have to be mended by hand.
func (m *listener) SessionOver(s *zkio.Session, cause error) {
	if s == m.began {
		m.feed.session(s, Event{Kind: EventSessionOver, Err: cause, Paused: s.Paused()})
		m.began = nil
	}
	if errors.Is(cause, zkio.ErrAuthFailed) {
		(*Manager)(m).eachShare(func(s *share) { s.failPending(s.error("acquire", cause)) })
	}
	m.observers.sessionOver(cause)
	for _, t := range (*Manager)(m).activeRounds() {
		switch {
		case t.round.word.Load().Phase() == state.Retained && t.tenure.lease.Lapsed():
			t.round.fail(t.round.lost("hold", leaseOver)) // LeaseLapsed has done so before; to be sure
		case t.position.Load() != nil:
			t.wakeLater() // it has waited, and goes on waiting
		default:
			t.wake()
		}
	}
	(*Manager)(m).wakeInquiries()
	m.listeners.each(func(l zkio.Listener) { l.SessionOver(s, cause) })
}

// Every parked round looks again once in a while, in case a watch event was lost.
// Held rounds that have had no look behind take it. The pause bounds the looks of all
// rounds of the process together.
const (
	rotationPause   = 10 * time.Millisecond // a look is a list and two reads at most: 300 requests a second
	rotationTimeout = 10 * time.Second      // a round is due this long after its last look
)

// rotate wakes parked rounds that have not looked for long, and held ones that have
// not looked behind. It runs until done.
func (m *Manager) rotate() {
	tick := time.NewTicker(rotationTimeout / 2)
	defer tick.Stop()
	for {
		select {
		case <-m.done:
			return
		case <-tick.C:
		}
		all := m.activeRounds()
		m.lookAgain(all)
		m.lookBehind(all)
	}
}

// lookAgain wakes those of all that are parked and have not looked for long.
func (m *Manager) lookAgain(all []*roundIO) {
	for _, t := range all {
		if t.round.word.Load().Phase() == state.Retained {
			if u := t.raised(); u != nil && u.recheck() && !m.pause(rotationPause) {
				return
			}
			if t.incumbent().recheckGate() && !m.pause(rotationPause) {
				return
			}
			continue
		}
		p := t.position.Load()
		if p == nil || m.now()-p.at < int64(rotationTimeout) || t.round.word.Load().Phase() != state.Fetching {
			continue
		}
		t.raiseLater(state.OwnDue | state.QueueDue)
		if !m.pause(rotationPause) {
			return
		}
	}
}

// lookBehind wakes those of all that are held and have not looked behind for long, until
// the parked ones are to be seen to again. Those that looked longest ago come first, so
// that each has its turn however many there are.
func (m *Manager) lookBehind(all []*roundIO) {
	end := m.now() + int64(rotationTimeout/2)
	var due []*roundIO
	looked := make(map[*roundIO]int64)
	for _, t := range all {
		if at, ok := t.incumbent().lookOverdue(); ok {
			due, looked[t] = append(due, t), at
		}
	}
	slices.SortStableFunc(due, func(a, b *roundIO) int { return cmp.Compare(looked[a], looked[b]) })
	for _, t := range due {
		if t.incumbent().firstLook(0) || t.incumbent().lookIdleAgain() {
			if !m.pause(time.Duration(lookPause)) || m.now() >= end {
				return
			}
		}
	}
}

// pause waits for d, and reports false as soon as the manager is done.
func (m *Manager) pause(d time.Duration) bool {
	select {
	case <-m.done:
		return false
	case <-time.After(d):
		return true
	}
}

// now is the manager's clock: nanoseconds since Open, monotonic, never 0.
func (m *Manager) now() int64 { return int64(time.Since(m.start)) + 1 }

// clock is what now returned, or would have, at the time at.
func (m *Manager) clock(at time.Time) int64 { return int64(at.Sub(m.start)) + 1 }

// graceEnd returns the time until which the node of a round that ended with err
// must stay. Lost closes LostMargin before the lease's end so that holders have
// time to stop, and deleting the node earlier would let another process in.
func (m *Manager) graceEnd(err error) int64 {
	if m.cfg.LostMargin == 0 || !errors.Is(err, errLeaseEnded) {
		return 0
	}
	return m.now() + int64(m.cfg.LostMargin)
}

// firstLook returns how long after its grant a round has its own node watched, which
// has no watch yet if one request both created and granted it, and takes its first
// look at the queue behind it. The watch must not be late, whatever Tenure is.
func (m *Manager) firstLook() time.Duration {
	if m.cfg.Tenure < 0 || m.cfg.Tenure > defaultTenure {
		return defaultTenure
	}
	// A waiter enters if it has listed the queue no longer ago than this, so it
	// takes more than the time between two instructions.
	return max(m.cfg.Tenure, defaultTenure/10)
}

// outage returns why ZooKeeper cannot be reached, and nil if it can.
func (m *Manager) outage() error {
	if m.client == nil {
		return nil
	}
	return m.client.Outage()
}

// debugs reports whether lines about single locks are logged.
func (m *Manager) debugs() bool {
	return m.cfg.Logger.Enabled(context.Background(), slog.LevelDebug)
}

// guid makes a name that no other node has ever had: 64 random bits of this
// manager and a counter.
func (m *Manager) guid() string { return fmt.Sprintf("%s%016x", m.id, m.counter.Add(1)) }

// owns reports whether the contender called name is one of this manager's nodes.
func (m *Manager) owns(name string) bool {
	rest, ok := strings.CutPrefix(name, "_c_")
	return ok && strings.HasPrefix(rest, m.id)
}

// groupMark is the digit behind the manager's id in the names of groups' nodes. The
// counter of guid does not get that far.
const groupMark = "f"

// rank returns the rank of a new group. Of two groups the one with the lower rank began to
// wait first, by ZooKeeper's transactions as far as their processes had heard of them.
//
//	digits of a group's node   0 … 16         16          17 … 28             28 … 32
//	                           manager's id   groupMark   last transaction    the group's counter
func (m *Manager) rank() string {
	zxid := m.client.Session().Zxid()
	m.mu.Lock()
	m.ranked = max(m.ranked+1, zxid)
	zxid = m.ranked
	m.mu.Unlock()
	return lastDigits(zxid, rankLength) + m.id
}

// rankLength is how many digits of a transaction's id a rank has. With 11, ranks begin
// again after 4096 elections of a leader. Then some groups have too high a rank or too low
// a one, and wait for longer.
const rankLength = 11

// lastDigits returns the last n hexadecimal digits of v.
func lastDigits(v int64, n int) string {
	s := fmt.Sprintf("%016x", v)
	return s[len(s)-n:]
}

// rankOf returns the rank of the group whose node is called name, or "" if it is no
// group's. Other clients' names can look like one; those wait for longer, too.
func rankOf(name string) string {
	id := makerOf(name)
	if id == "" {
		return ""
	}
	rank, ok := strings.CutPrefix(name[len("_c_")+len(id):], groupMark)
	if !ok {
		return ""
	}
	return rank[:rankLength] + id
}

// shares reports whether the contender called name is one of this manager's nodes that
// goroutines share: not a group's.
func (m *Manager) shares(name string) bool {
	return m.owns(name) && !strings.HasPrefix(name, "_c_"+m.id+groupMark)
}

// nodeData returns what our nodes tell a person who looks at them. Only the time
// differs between nodes of a kind: see patterns.
func (m *Manager) nodeData(kind string) []byte { return m.nodeDataAt(kind, time.Now()) }

// nodeDataAt is nodeData of a node that was made at that time.
func (m *Manager) nodeDataAt(kind string, at time.Time) []byte {
	return dated(m.patterns[kind], at)
}

// dated returns data of a node with that time in place of noTime.
func dated(pattern []byte, at time.Time) []byte {
	now := at.UTC().Truncate(time.Millisecond).AppendFormat(nil, time.RFC3339Nano)
	return bytes.Replace(pattern, []byte(noTime), now, 1)
}

// noTime is the zero time in JSON.
const noTime = "0001-01-01T00:00:00Z"

// probeKind is the kind of the node with which Open tries its permissions.
const probeKind = "probe"

// patterns returns the data of nodes of each kind, with noTime for the time.
func patterns(host, label, endpoint string) map[string][]byte {
	p := make(map[string][]byte)
	for _, kind := range []string{probeKind, queue.Exclusive.String(), queue.Read.String(), queue.Write.String(), queue.Upgradable.String()} {
		data, err := json.Marshal(nodeData{Host: host, PID: os.Getpid(), Label: label, Endpoint: endpoint, Kind: kind, Asks: 1})
		if err != nil {
			panic("manager: a node's data cannot be encoded: " + err.Error())
		}
		p[kind] = data
	}
	return p
}

// nameOf returns the part of a lock's path that is its name.
func (m *Manager) nameOf(path string) string {
	if m.cfg.Root == "/" {
		return path[1:]
	}
	return path[len(m.cfg.Root)+1:]
}
