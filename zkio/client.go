// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
)

const (
	// closeGrace is how long Close waits for a connection that is missing.
	closeGrace = time.Second
	// sessionPause is the longest pause before the next session, if sessions
	// end as soon as they have begun.
	sessionPause = 5 * time.Second
	// lossPause is how long no loss of a connection is logged after one that was.
	lossPause = 5 * time.Second
)

// A Client is a client of a ZooKeeper ensemble. Any goroutine may call its
// methods.
type Client struct {
	cfg        Config
	clock      *clock
	hosts      *hosts
	watches    *watches
	dispatcher *dispatcher
	pool       *pool
	delays     *delays
	stats      counters
	basics     basics
	faults     faultLog
	losses     faultLog // of connections, for no fault of the server's
	pulse      *pulse
	pauses     faultLog      // of this process
	leaseBegan chan struct{} // of capacity 1: see watch

	timeoutTold time.Duration // by the servers, and logged; used by run's goroutine

	current atomic.Pointer[Session]

	opened  chan error    // of capacity 1: the first session's outcome
	closing chan struct{} // closed when sessions are to end
	// These bound the end of the session. Written before closing is closed, and
	// read only after.
	closeCtx context.Context
	grace    <-chan struct{}

	closeBegun atomic.Bool
	closed     chan struct{} // closed when Close is done
	closeErr   error         // written before closed is closed

	running sync.WaitGroup // the goroutines of run and watch
}

// Open connects to a server and waits for the first session. ctx bounds Open only.
// If ctx ends first, the configuration is wrong or the credentials are refused,
// Open says so, names each server's failure, and leaves nothing behind.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	cfg, err := cfg.resolve("open")
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg:     cfg,
		clock:   newClock(cfg.Suspended),
		watches: newWatches(),
		opened:  make(chan error, 1),
		closing: make(chan struct{}),
		closed:  make(chan struct{}),
		losses:  faultLog{pause: lossPause},

		leaseBegan: make(chan struct{}, 1),
	}
	c.hosts = newHosts(cfg.Servers, c.clock)
	c.dispatcher = newDispatcher(c.watches, cfg.Listener)
	c.pool = newPool(cfg.Workers)
	c.delays = newDelays(c.pool, c.clock)
	c.pulse = newPulse(c.clock.now, cfg.SessionTimeout, func(d time.Duration) {
		c.dispatcher.push(notice{paused: d})
	})
	c.dispatcher.running.Go(c.dispatcher.run)
	c.running.Go(c.run)

	select {
	case err = <-c.opened:
	case <-ctx.Done():
		err = fmt.Errorf("no session with %s within %v: %s: %w", strings.Join(cfg.Servers, ", "),
			c.clock.now().Round(10*time.Millisecond), c.hosts.why(), ctxerr.Of(ctx))
	}
	if err == nil {
		return c, nil
	}
	now, cancel := context.WithCancel(ctx)
	cancel()
	_ = c.Close(now) // there was no session whose end could be confirmed
	return nil, fmt.Errorf("zkio: open: %w", trimmed{err})
}

// trimmed is an error without the prefix of the package, to be put after it.
type trimmed struct{ error }

func (t trimmed) Error() string { return unprefixed(t.error) }
func (t trimmed) Unwrap() error { return t.error }

// run has one session after the other, until Close.
func (c *Client) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.running.Go(func() { c.watch(ctx) })
	short := 0 // sessions in a row that ended as soon as they had begun
	for epoch := uint64(1); ; epoch++ {
		began := c.clock.now()
		s := newSession(c, epoch)
		if err := s.start(); err != nil {
			// It cannot happen: go-zookeeper refuses an empty list of servers only.
			panic(fmt.Sprintf("zkio: connect: %v", err))
		}
		opened := c.live(s)
		s.closeConn()
		c.watches.forget() // the server's watches went with the session
		if c.isClosing() || !opened {
			return
		}
		if short++; c.clock.now()-began > s.Timeout() {
			short = 1
		}
		if short > 1 && !sleep(Backoff(short-2, firstPause, sessionPause), c.closing) {
			return
		}
	}
}

// live tells users when s begins and when it is over, and returns then. It
// reports false if Open failed because of it.
func (c *Client) live(s *Session) bool {
	log := c.cfg.Logger
	select {
	case <-s.established:
		if !c.begin(s) {
			return false
		}
	case <-s.over:
	case <-c.closing:
	}
	select {
	case <-s.over:
	case <-c.closing:
		s.shut(c.closeCtx, c.grace)
	}
	err := s.Err()
	if c.Session() == s {
		c.dispatcher.push(notice{ended: s, cause: err})
		if !errors.Is(err, ErrClosed) {
			args := []any{"session", sessionID(s), "epoch", s.epoch, "cause", err}
			if d := s.Paused(); d > 0 {
				args = append(args, "because", pausedError(d))
			}
			log.Warn("zookeeper session is over", args...)
		}
		return true
	}
	if errors.Is(err, ErrAuthFailed) {
		if c.Session() == nil {
			c.opened <- err
			return false
		}
		// Users who wait for the next session must learn that it does not come.
		c.dispatcher.push(notice{ended: s, cause: err})
		log.Error("zookeeper refuses the client's credentials; trying again", "cause", err)
	}
	return true
}

// begin makes s the client's session. It reports false if Open fails instead.
func (c *Client) begin(s *Session) bool {
	if margin, most := c.cfg.LostMargin, s.Timeout()/4; margin >= most {
		err := fmt.Errorf("%w: the servers grant a session timeout of %v, so LostMargin must be less than %v; it is %v: lower it, or raise the servers' maxSessionTimeout",
			ErrBadArguments, s.Timeout(), most, margin)
		if c.Session() == nil {
			c.opened <- err
			ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
			s.shut(ctx, ctx.Done())
			cancel()
			return false
		}
		c.cfg.Logger.Error("no lease can be had in this zookeeper session", "cause", err)
	}
	first := c.Session() == nil
	c.stats.sessions.Add(1)
	c.current.Store(s)
	c.dispatcher.push(notice{started: s})
	s.group.Go(s.heartbeat)
	s.publish()
	c.warnOfTimeout(s.Timeout())
	c.cfg.Logger.Info("zookeeper session begins", "session", sessionID(s), "epoch", s.epoch, "timeout", s.Timeout())
	if first {
		c.opened <- nil
	}
	return true
}

// warnOfTimeout logs that the servers have changed the session timeout, unless that
// was logged before.
func (c *Client) warnOfTimeout(granted time.Duration) {
	asked := c.cfg.SessionTimeout
	if granted == asked || granted == c.timeoutTold {
		return
	}
	c.timeoutTold = granted
	bound := "minSessionTimeout (by default 2 × tickTime)"
	if granted < asked {
		bound = "maxSessionTimeout (by default 20 × tickTime)"
	}
	c.cfg.Logger.Warn("the zookeeper servers changed the session timeout: set SessionTimeout to what they grant, or change their bound",
		"asked", asked, "granted", granted, "bound", bound)
}

func sessionID(s *Session) string { return fmt.Sprintf("%#x", s.ID()) }

// isClosing reports whether Close has got as far as ending the session.
func (c *Client) isClosing() bool { return isClosed(c.closing) }

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// sleep waits for d, and reports false as soon as stop is closed.
func sleep(d time.Duration, stop <-chan struct{}) bool {
	if d <= 0 {
		return !isClosed(stop)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	}
}

// Close ends the client. It refuses new Fetches and Refetches, waits for queued
// and running Releases, closes the session, runs the remaining tasks with that
// session, which is over, and joins every goroutine. ctx bounds the wait for the releases and
// for the server's answer; Close waits for a missing connection for a second at
// most. It always waits until running tasks have returned, so a Task, a Listener
// or a Watcher must not call it.
//
// It returns an error if no server confirmed the end of the session, so that
// ephemeral nodes may remain until the session times out. A second Close waits
// for the first and returns the same.
func (c *Client) Close(ctx context.Context) error {
	if !c.closeBegun.CompareAndSwap(false, true) {
		<-c.closed
		return c.closeErr
	}
	defer close(c.closed)
	// All of Close waits for a missing connection for this long, and no longer.
	grace := make(chan struct{})
	timer := time.AfterFunc(closeGrace, func() { close(grace) })
	defer timer.Stop()

	// A release that hangs must leave time to ask the server for the end of the
	// session, which deletes all its nodes at once.
	draining, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		draining, cancel = context.WithTimeout(ctx, time.Until(end)/2)
	}
	c.pool.drain(draining, grace)
	cancel()
	c.closeCtx, c.grace = ctx, grace
	close(c.closing)
	// run ends the session and returns. Calls that were waiting fail.
	c.running.Wait()
	c.delays.close()
	c.pool.finish()
	c.dispatcher.close()

	if s := c.Session(); s != nil && !s.Gone() {
		c.closeErr = &opError{op: "close", kind: ErrUnknown, why: fmt.Errorf(
			"the end of session %#x was not confirmed by a server; its nodes may remain for up to %v", s.ID(), s.Timeout())}
	}
	return c.closeErr
}

// Submit has a worker run t when one is free and the session is connected. It
// never blocks. It reports false, and t is not run, if the client is closed or,
// for Fetches and Refetches, being closed.
func (c *Client) Submit(q Queue, t Task) bool { return c.pool.submit(q, t) }

// SubmitAfter is Submit after d. If the client is closed meanwhile, t is run at
// once, with the session that is over. A [Voidable] task may not be run at all.
func (c *Client) SubmitAfter(d time.Duration, q Queue, t Task) bool {
	return c.delays.add(nil, d, q, t)
}

// SubmitAfterFor is SubmitAfter for a task that Drop of owner forgets, if its time has not
// come by then. Owner is a pointer. A [Voidable] task that is void already is not kept.
func (c *Client) SubmitAfterFor(owner any, d time.Duration, q Queue, t Task) bool {
	return c.delays.add(owner, d, q, t)
}

// Drop forgets what was put off for owner by SubmitAfterFor. It does not block.
func (c *Client) Drop(owner any) { c.delays.drop(owner) }

// Session returns the client's present session. It may be over, if the next is
// not there yet. It is never nil after Open.
func (c *Client) Session() *Session { return c.current.Load() }

// Outage returns nil while the client's session has a connection on which the server
// answers. Otherwise it returns an error that says for how long there has been no
// answer, and why:
//
//	no connection for 2s: zk1:2181: connection refused
//	no session for 12s: zk1:2181: no answer within 3.333s
//	no answer for 4.2s: zk1:2181
//
// The third form means that a request has been pending for more than a sixth of the
// session timeout, and that this process did run meanwhile. After Close it returns nil. Outage does
// no I/O and does not block.
func (c *Client) Outage() error {
	s := c.Session()
	if c.closeBegun.Load() {
		return nil
	}
	s.mu.Lock()
	w := s.link.wire
	s.mu.Unlock()
	if w != nil {
		if oldest, age := w.oldest(); oldest != nil && age > s.Timeout()/6 && c.pulse.since(c.clock.now()-age) == 0 {
			return fmt.Errorf("no answer for %v: %s", roundly(age), w.addr)
		}
		return nil
	}
	lasts, down := c.hosts.outage()
	switch {
	case s.Err() != nil:
		return fmt.Errorf("no session for %v: %s", roundly(lasts), c.hosts.why())
	case down:
		return fmt.Errorf("no connection for %v: %s", roundly(lasts), c.hosts.why())
	}
	return nil // it is coming back just now
}

// roundly rounds a time for a person.
func roundly(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// Watch registers w for path: [Session.Get], [Session.Exists] and
// [Session.Children] set a watch if a watcher is registered when they are called.
// A path can have any number of watchers; the same one counts once. Only Unwatch
// ends a registration. Watch does no I/O and does not block.
//
// A watch fires once: after an event, the next read of the path sets it again.
// It survives reconnects within a session, and ends with the session.
func (c *Client) Watch(path string, w Watcher) { c.watches.add(path, w) }

// Unwatch undoes Watch, as is due even when the node was deleted. An event that is
// on its way may still arrive.
func (c *Client) Unwatch(path string, w Watcher) { c.watches.remove(path, w) }

// WatchChildren registers w for path as Watch does, but w hears only of changes of the
// node's children and of its deletion, and only [Session.Children] sets a watch for it.
// If the node has no children, that watch fires only when the node is deleted.
// [Session.UnwatchChildren] ends the registration.
func (c *Client) WatchChildren(path string, w Watcher) { c.watches.add(path, childrenOnly{w}) }
