// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

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
}

// A journal has the Manager log what goes wrong, and not too often.
type journal struct {
	losses   lossReport
	drops    dropReport
	openSeen atomic.Bool // a lock's directory that every client may delete in was logged
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

// outage returns why ZooKeeper cannot be reached, and nil if it can.
func (m *Manager) outage() error {
	if m.client == nil {
		return nil
	}
	return m.client.Outage()
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
