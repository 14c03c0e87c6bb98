// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/oneline"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/sentinel"
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

	identity
	life
	registry
	stopwatch

	active activeSet // the rounds that have, or may have, a node
	marks  marks     // of the locks that report abandonment
	groups groups    // those that are not over, which Close ends

	places    places    // of Access.Call
	listeners listeners // besides the manager itself; see Access.Listen

	observers observers        // of who holds which lock
	peers     peers            // what other processes say of themselves
	takeovers takeovers        // from processes that were killed
	box       *mailbox         // where other processes ask
	inquiries roster[*inquiry] // those under way
	feed      *feed            // tells Config.Observer, and those that listen to a lock

	looks pacer // of the first looks behind held locks

	journal journal // of what goes wrong, in the log
	totals  totals  // of all locks

	began *zkio.Session // the session, if there is one; used by the dispatcher only, as listener
}

// A journal has the Manager log what goes wrong, and not too often.
type journal struct {
	losses   lossReport
	drops    dropReport
	openSeen atomic.Bool // a lock's directory that every client may delete in was logged
}

// Open connects to ZooKeeper, waits for the first session, and checks that nodes
// can be created, listed and deleted under cfg.Root, which it creates if need be.
// It returns [ErrBadConfig] at once if cfg cannot work, and [ErrNoChroot] if there is no
// Config.Chroot. If it can reach no
// server, it goes on trying until ctx ends; its error then names the addresses
// that it tried and why each failed. ctx bounds Open only, not what the Manager
// does later. If ctx ends when there is a session, Open closes that before it returns, which
// takes as long as Close may take.
//
// The Manager's goroutines end with Close or Shutdown.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	m := &Manager{
		cfg:       cfg,
		registry:  registry{locks: make(map[string]entry), sweepAt: minSweep},
		stopwatch: stopwatch{time.Now()},
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	if err := m.identity.init(host, cfg.Label, cfg.Endpoint, cfg.Sentinel != nil || takeover.Guarded()); err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	m.begin()
	m.observers.most = mostCached
	m.places.free = max(1, (cfg.Workers-minWorkers+1)/2)
	m.peers.putLocked(m.id, peer{author: author{host: host, label: cfg.Label, endpoint: cfg.Endpoint, pid: os.Getpid()}}) // no other goroutine knows m
	m.feed = newFeed(m)

	connecting := zkio.Config{
		Servers:        cfg.Servers,
		SessionTimeout: cfg.SessionTimeout,
		Auth:           cfg.Auth,
		TLS:            cfg.TLS,
		Dialer:         cfg.Dialer,
		Workers:        cfg.Workers,
		LostMargin:     cfg.LostMargin,
		MaxPathBytes:   cfg.MaxPathBytes,
		Logger:         cfg.Logger,
		Listener:       (*listener)(m),
		Suspended:      cfg.suspended,
	}
	if helper := cfg.Sentinel; helper != nil {
		note := sentinel.Note{Root: cfg.Root, ACL: cfg.ACL, Process: Access{m}.Describe(takeover.Kind)}
		connecting.Established = func(c zkio.Config, t zkio.Ticket) { helper.Tell(m.id, c, t, note) }
	}
	if m.client, err = zkio.Open(ctx, connecting); err != nil {
		m.ended(nil)
		return nil, &Error{Op: "open", Err: err}
	}
	m.box = newMailbox(m)
	m.takeovers.init(m)
	// The end of ctx does not bound this: the server may have made the probe's node, which goes
	// with the session.
	giveUp := func() error {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.CloseTimeout)
		defer cancel()
		return m.client.Close(closing)
	}
	// The client's calls take no ctx: they end when the client is closed.
	stop := context.AfterFunc(ctx, func() { _ = giveUp() })
	err = m.probe(ctx)
	if !stop() && err == nil {
		err = ctxerr.Of(ctx)
	}
	if err != nil {
		m.stage.Store(closingDown)
		m.ended(giveUp()) // waits for the first; the probe's error is the one that helps
		return nil, &Error{Op: "open", Err: err}
	}
	m.wg.Go((*rotation)(m).rotate)
	m.feed.start()
	managers.Store(m.id, nil)
	return m, nil
}

// probe checks that this process may do under the root what a lock needs, so that
// a missing permission is found now and not at the first release.
func (m *Manager) probe(ctx context.Context) error {
	made := m.cfg.Root
	if made == "/" {
		// It is there, and so is this in ZooKeeper. But what a server answers to a request for a
		// directory tells whether it is ZooKeeper at all.
		made = "/zookeeper"
	}
	node := zkio.NewNode(m.cfg.Root, "probe-", m.newGUID, m.nodeData(probeKind), m.cfg.ACL, ignore{})
	steps := []struct {
		what string
		do   func(*zkio.Session) error
	}{
		{"find the chroot above", m.checkChroot},
		{"create the root", func(s *zkio.Session) error { return s.EnsureDir(made, m.cfg.ACL) }},
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
			what := steps[i].what
			if strings.HasPrefix(what, "create a node") && node.Path() != "" { // it was made, and then looked at
				what = "read a node under the root"
			}
			return fmt.Errorf("cannot %s %s: %w (%s)", what, m.cfg.Root, err, m.hint(err))
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
	there, err := s.There(m.cfg.Chroot)
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
	now, ok := m.enter(path, make)
	if !ok {
		return locks{}, &Error{Op: op, Name: name, Err: fmt.Errorf("%w: %s", ErrKind, now.what())}
	}
	return now, nil
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
		t := m.active.any()
		if t == nil {
			break
		}
		select {
		case <-t.released.Future().Done():
			// A round leaves the active ones before its release settles. If it is
			// still there, its deletion was refused: only the session's end
			// removes the node.
			if m.active.has(t) {
				left = t.round.error("shutdown", errors.New("its node cannot be deleted; closing the session instead"))
			}
		case <-ctx.Done():
			left = &Error{Op: "shutdown", Name: t.round.lock.Name(), Err: fmt.Errorf("still held: %w", ctxerr.Of(ctx))}
		}
	}
	return oneline.Join(left, m.finish(ctx), m.close(errShutdownHeld))
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
func (m *Manager) Close() error { return m.close(errClosedHeld) }

// close is Close. Cut is what the holders are told whose locks end by it.
func (m *Manager) close(cut error) error {
	if !m.closeBegun.CompareAndSwap(false, true) {
		<-m.closeDone
		return m.closeErr
	}
	defer close(m.closeDone)
	managers.Delete(m.id)
	m.cut = cut
	m.stage.Store(closingDown)
	m.cancel(ErrClosed)
	m.failAll()
	m.observers.close()
	m.box.stop(ErrClosed)
	ctx, cancel := context.WithTimeout(context.Background(), m.cfg.CloseTimeout)
	defer cancel()
	err := m.client.Close(ctx)
	m.ended(err)
	m.closed.Store(true)
	m.join()
	m.feed.close()
	if err != nil {
		m.closeErr = &Error{Op: "close", Err: err}
	}
	return m.closeErr
}

// ended tells the sentinel that there is nothing left to close, unless no server has confirmed the
// end of the session.
func (m *Manager) ended(unconfirmed error) {
	if m.cfg.Sentinel != nil && unconfirmed == nil {
		m.cfg.Sentinel.Forget(m.id)
	}
}

// sentinelErr is ManagerStats.SentinelErr.
func (m *Manager) sentinelErr() error {
	if m.cfg.Sentinel == nil {
		return nil
	}
	return m.cfg.Sentinel.Err()
}

// failWaiters ends every round that has not been granted, or is idle.
func (m *Manager) failWaiters() {
	m.eachShare(func(s *share) {
		s.failPending(s.error("shutdown", ErrClosed))
		s.endIdle()
	})
}

// failAll ends every round.
func (m *Manager) failAll() {
	m.eachShare(func(s *share) {
		why := ErrClosed
		if s.word.Load().Phase() == state.Retained {
			why = m.cut
		}
		s.fail(s.error("close", why))
	})
}

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

// nameOf returns the part of a lock's path that is its name.
func (m *Manager) nameOf(path string) string {
	if m.cfg.Root == "/" {
		return path[1:]
	}
	return path[len(m.cfg.Root)+1:]
}

// eachShare calls fn for every share that has holders or waiters: for those of the rounds of
// all locks, and of the turns of all mutexes. A round that begins while eachShare runs is found
// by its own fetch, which looks at the stage before anything else.
func (m *Manager) eachShare(fn func(*share)) {
	rounds := func(l *Lock) {
		l.own().live()(func(r *round) bool { fn(&r.share); return true })
	}
	for open := range m.registry.each() {
		switch {
		case open.lock != nil:
			rounds(open.lock)
		case open.rw != nil:
			open.rw.locks()(func(l *Lock) bool { rounds(l); return true })
		default:
			for _, s := range open.mutex.shares() {
				fn(s)
			}
			rounds(open.mutex.lock)
		}
	}
}
