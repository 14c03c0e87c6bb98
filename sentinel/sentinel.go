// SPDX-License-Identifier: Apache-2.0

package sentinel

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/zkio"
)

// ErrNoMain is returned by Start if Main was not called: the helper would be this program, started
// once more to do its work once more.
var ErrNoMain = errors.New("call sentinel.Main first in main: the helper is this program, started once more")

var errClosed = errors.New("sentinel: closed")

// A Config configures a Sentinel. The zero value works.
type Config struct {
	// Delay is how long the helper waits after the end of the process before it closes the
	// session, so that what the process has sent elsewhere arrives before the next grant. A
	// fencing token is better where the resource can compare one. More than the session timeout
	// has no effect: ZooKeeper ends the session then.
	// Defaults to 0.
	Delay time.Duration

	// Agent is the path of the Unix socket of an agent, which is the helper of many processes:
	// "holdfast agent", or a program that calls Serve, on the host of a container or in a
	// container beside it. The agent has its own addresses of the servers, and its own settings
	// for TLS. The credentials come from this process.
	// Defaults to none: the helper is a child of this process.
	Agent string

	// Logger gets a warning when the helper has ended or does not start, and a line when there
	// is one again. Defaults to slog.Default().
	Logger *slog.Logger
}

const (
	// firstPause and mostPause bound the pause before another helper is started.
	firstPause = 100 * time.Millisecond
	mostPause  = 30 * time.Second
	// readyTime is how long a helper may take until it says that it is there.
	readyTime = 10 * time.Second
	// calmTime is how long a helper must have lived before its end is logged again.
	calmTime = time.Minute
)

// A Sentinel is this process's connection to its helper. A process needs one, however many
// Managers it has. All methods may be called concurrently, and none blocks but Close.
type Sentinel struct {
	cfg  Config
	id   string // see hello
	self *self

	links uint64 // so far; used by Start, and then by run's goroutine

	stopping chan struct{}  // closed by Close
	running  sync.WaitGroup // run's goroutine

	mu       sync.Mutex // protects what follows. Messages to link are sent under it, which does not wait
	sessions map[any]session
	count    uint64 // of keys and versions
	link     *link  // of a helper that knows all sessions; nil while there is none, and once closed
	newcomer *link  // of a helper that is being told
	err      error  // why there is no helper
	closed   bool
}

// A Note is what a helper leaves in ZooKeeper when it has closed a session, for the next holders of
// the locks and for people: which process had the session, and how long it took. The notes are
// nodes in <Root>/_taken_, which has the last 64 of them.
type Note struct {
	Root string     // of the locks, as Config.Root of a Manager; "": no note is left
	ACL  []zkio.ACL // of the nodes; empty: every client may do everything

	// Process is JSON that describes the process, as [manager.Access.Describe] returns it.
	//
	// [manager.Access.Describe]: https://pkg.go.dev/github.com/holdfast-go/holdfast/manager#Access.Describe
	Process json.RawMessage
}

// A session is what the helper has to know of one client.
type session struct {
	key     uint64 // of the client, among this process's
	version uint64 // of order, among all that were told
	order   takeover.Order
}

// A message is what a process tells its helper. One field but Key is set.
type message struct {
	Hello  *hello          `json:",omitempty"` // the first; the process's pidfd and lifeline come with it
	Key    uint64          `json:",omitempty"` // of the client that Order or Forget is about
	Order  *takeover.Order `json:",omitempty"` // replaces the client's last
	Forget bool            `json:",omitempty"` // the client's session is closed
}

// hello says what the process is.
type hello struct {
	Version int    // of the messages
	ID      string // of the Sentinel
	Link    uint64 // which of its connections this is: it replaces those before
	PID     int    // for people: of the process, in its own namespace
	Name    string
	Delay   time.Duration
}

const version = 1

// ready is what a helper answers to a hello; anything else says why it refuses.
const ready = "ready"

// Start starts the helper, which takes some milliseconds. If the helper cannot be started, or
// ends, the Sentinel logs that once, and tries again and again, with growing pauses of 30 s at
// most. The process goes on meanwhile: if it is killed then, its locks stay for the session timeout.
//
// Start fails with ErrNoMain if Main was not called, unless there is an agent, and with
// [errors.ErrUnsupported] if the system cannot tell for certain when a process has ended: other
// systems than Linux, and Linux before 5.3. A program that runs elsewhere, too, goes on without a
// Sentinel then.
//
// The caller calls Close, after the Managers that use the Sentinel are closed.
func Start(cfg Config) (*Sentinel, error) {
	switch {
	case cfg.Agent == "" && !mainCalled.Load():
		return nil, fmt.Errorf("sentinel: start: %w", ErrNoMain)
	case cfg.Delay < 0:
		return nil, fmt.Errorf("sentinel: start: Delay is %v: it must not be negative", cfg.Delay)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	own, err := newSelf()
	if err != nil {
		return nil, fmt.Errorf("sentinel: start: %w", err)
	}
	s := &Sentinel{cfg: cfg, id: rand.Text(), self: own, sessions: make(map[any]session), stopping: make(chan struct{})}
	l := s.connect()
	s.running.Go(func() { s.run(l) })
	return s, nil
}

// run has one helper after the other, until Close. The first is l, or nil.
func (s *Sentinel) run(l *link) {
	told := false // that there is no helper
	for fails := 0; ; fails++ {
		if l != nil {
			began := time.Now()
			err := l.wait(func() {
				if told {
					s.cfg.Logger.Info("the sentinel runs again: if this process is killed, its locks are free at once")
				}
			})
			if s.lost(l, err) {
				return
			}
			l = nil
			if time.Since(began) > calmTime {
				fails, told = 0, false
			}
		}
		if s.isClosed() {
			s.leaveLast()
			return
		}
		if !told {
			told = true
			s.cfg.Logger.Warn("the sentinel does not run, so if this process is killed, its locks stay until the session times out; starting it again", "cause", s.Err())
		}
		pause := time.NewTimer(zkio.Backoff(fails, firstPause, mostPause))
		select {
		case <-pause.C:
		case <-s.stopping:
		}
		pause.Stop()
		if !s.isClosed() {
			l = s.connect()
		}
	}
}

// connect starts a helper and tells it of the sessions. It returns nil if that failed.
func (s *Sentinel) connect() *link {
	l, err := s.newLink()
	if err == nil {
		if err = s.brief(l); err == nil {
			return l
		}
		l.end()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newcomer, s.err = nil, err
	return nil
}

// newLink starts a helper, which knows no session yet.
func (s *Sentinel) newLink() (*link, error) {
	l, err := newLink(s.cfg.Agent)
	if err != nil {
		return nil, err
	}
	s.links++
	h := message{Hello: &hello{Version: version, ID: s.id, Link: s.links, PID: os.Getpid(), Name: programName(), Delay: s.cfg.Delay}}
	if err := l.send(h, s.self.fds()...); err != nil {
		l.end()
		return nil, err
	}
	return l, nil
}

// brief tells a helper of the sessions. There may be more than the system keeps for a helper that is
// just starting, so this waits for it, and not under mu. When nothing is left to tell, the helper
// is the one that Tell and Forget send to.
func (s *Sentinel) brief(l *link) error {
	known := make(map[any]session)
	for {
		s.mu.Lock()
		s.newcomer = l
		var news []message
		for client, c := range s.sessions {
			if known[client].version != c.version {
				known[client] = c
				news = append(news, message{Key: c.key, Order: &c.order})
			}
		}
		for client, c := range known {
			if _, present := s.sessions[client]; !present {
				delete(known, client)
				news = append(news, message{Key: c.key, Forget: true})
			}
		}
		closed := s.closed
		if len(news) == 0 && !closed {
			s.link, s.newcomer, s.err = l, nil, nil
		}
		s.mu.Unlock()
		switch {
		case closed:
			return errClosed
		case len(news) == 0:
			return nil
		}
		for _, m := range news {
			if err := l.sendWithin(readyTime, m); err != nil {
				return err
			}
		}
	}
}

// lost notes that a helper has ended, or is of no use. It reports whether the helper was left alone to
// close what is left when this process has ended.
func (s *Sentinel) lost(l *link, err error) (left bool) {
	s.mu.Lock()
	if !s.closed {
		s.link, s.err = nil, err
	}
	left = s.closed && len(s.sessions) > 0 && errors.Is(err, errClosed)
	s.mu.Unlock()
	if left {
		l.leave()
	} else {
		l.end()
	}
	return left
}

// leaveLast starts a helper for the sessions that are left when s is closed while there was none.
func (s *Sentinel) leaveLast() {
	s.mu.Lock()
	sessions := slices.Collect(maps.Values(s.sessions)) // nothing changes any more
	s.mu.Unlock()
	if len(sessions) == 0 {
		return
	}
	l, err := s.newLink()
	for _, c := range sessions {
		if err == nil {
			err = l.sendWithin(readyTime, message{Key: c.key, Order: &c.order})
		}
	}
	if err != nil {
		s.cfg.Logger.Warn("no sentinel could be left behind, so this process's locks stay until the session times out", "cause", err)
		if l != nil {
			l.end()
		}
		return
	}
	l.leave()
}

// sendLocked sends a message to the helper, if there is one. One that does not read what it is sent
// is replaced.
func (s *Sentinel) sendLocked(m message) {
	if s.link == nil {
		return
	}
	if err := s.link.send(m); err != nil {
		s.link.fail(err)
	}
}

// Tell says that t is the present session of a client of ZooKeeper in this process, which the helper
// is to close when the process has ended. It replaces the client's session before. A Manager with
// this Sentinel calls it; a program that has a zkio.Client of its own calls it from Established of
// its zkio.Config. client stands for the client: a pointer, or another value that can be the key of a
// map. Tell uses Servers and Auth of cfg. n says what the helper notes in ZooKeeper when it has closed
// the session; its zero value, that it notes nothing.
//
// When Tell returns and there is a helper, the kernel has the message: the helper gets it even if
// this process is killed at once.
func (s *Sentinel) Tell(client any, cfg zkio.Config, t zkio.Ticket, n Note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	c := s.sessions[client]
	s.count++
	if c.version = s.count; c.key == 0 {
		c.key = s.count
	}
	if !json.Valid(n.Process) {
		n.Process = nil // else the helper could not be told of the session
	}
	c.order = takeover.New(cfg, t, takeover.Note(n))
	s.sessions[client] = c
	s.sendLocked(message{Key: c.key, Order: &c.order})
}

// Forget says that the client's session is closed, as a server has confirmed, or that it had
// none.
func (s *Sentinel) Forget(client any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, known := s.sessions[client]
	if !known || s.closed {
		return
	}
	delete(s.sessions, client)
	s.sendLocked(message{Key: c.key, Forget: true})
}

// Keep makes the helper also wait for the end of a command, which works on what the locks of this
// process protect, and may survive it. Call it before cmd.Start. The command inherits an open file,
// the last of cmd.ExtraFiles, and with it each descendant that does not close it: the helper waits
// for all of them. A command that closes all files, as sudo does, is not kept.
//
// Keep does not extend the session: ZooKeeper ends it when it has not heard of this process for the
// session timeout, even while a kept command lives. So the command must have ended by then.
//
// After Close, Keep returns an error and does nothing.
func (s *Sentinel) Keep(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if err := s.self.keep(cmd); err != nil {
		return fmt.Errorf("sentinel: keep %s: %w", cmd.Path, err)
	}
	return nil
}

// Err returns nil if the helper runs, as far as this process knows, and otherwise why not. After
// Close it returns an error.
func (s *Sentinel) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	return s.err
}

// Close ends the helper. If there are sessions that no server has confirmed to be closed, a helper
// stays and closes them when this process has ended. Close blocks for as long as Config.Logger does,
// and for some milliseconds.
func (s *Sentinel) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.running.Wait()
		return
	}
	s.closed = true
	links := []*link{s.link, s.newcomer}
	s.link = nil
	close(s.stopping)
	s.mu.Unlock()
	for _, l := range links {
		if l != nil {
			l.fail(errClosed)
		}
	}
	s.running.Wait()
	s.self.close()
}

func (s *Sentinel) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
