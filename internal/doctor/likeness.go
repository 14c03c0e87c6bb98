// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A likeness is what the servers do otherwise than ZooKeeper.
type likeness struct {
	basic        bool // they do not know all requests of ZooKeeper 3.5
	endsSessions bool // they do not resume sessions
	dropsWatches bool // after a reconnect there are no watches of children
	countsWrites bool // a node's Cversion counts changes of its children's data
	hidesDeletes bool // a node's Pzxid does not show that a child was deleted
	err          error
}

// compare finds out how like ZooKeeper the servers are, in the directory dir, which has a child.
func (t *trial) compare(ctx context.Context, s *zkio.Session, cfg Config, dir string) {
	l := &t.likeness
	l.basic = s.Client().Stats().Basic
	kept, gone := path.Join(dir, "kept"), path.Join(dir, "gone")
	var before, written, made, deleted zkio.Stat
	for _, step := range []func() error{
		func() error { return s.CreateEphemeral(gone, nil, nil) },
		func() (err error) { before, _, err = s.Exists(dir); return err },
		func() error { _, err := s.Set(kept, nil, -1); return err },
		func() (err error) { written, _, err = s.Exists(dir); return err },
		func() error { made = written; return s.Delete(gone, -1) },
		func() (err error) { deleted, _, err = s.Exists(dir); return err },
	} {
		if l.err = step(); l.err != nil {
			return
		}
	}
	l.countsWrites, l.hidesDeletes = written.Cversion != before.Cversion, deleted.Pzxid == made.Pzxid
	l.err = l.reconnect(ctx, s.Timeout(), cfg, dir)
}

// reconnect finds out what becomes of a session and its watches when its connection is lost.
func (l *likeness) reconnect(ctx context.Context, timeout time.Duration, cfg Config, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, max(patience, timeout))
	defer cancel()
	var mu sync.Mutex // protects last
	var last net.Conn
	c, err := zkio.Open(ctx, zkio.Config{
		Servers: cfg.Servers, SessionTimeout: timeout, TLS: cfg.TLS, Workers: 9, Logger: slog.New(slog.DiscardHandler),
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := cfg.Dialer(ctx, network, address)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				last = conn
			}
			return conn, err
		},
	})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }() // the server forgets a session of its own accord
	s := c.Session()
	c.WatchChildren(dir, deafWatcher{})
	if _, _, err := s.Children(dir); err != nil {
		return err
	}
	mu.Lock()
	_ = last.Close() // that is what is tried
	mu.Unlock()
	for {
		err := s.Sync(dir)
		switch {
		case err == nil && c.Stats().Reconnects > 0:
			l.dropsWatches = c.Stats().Basic
			return nil
		case errors.Is(err, zkio.ErrSessionOver):
			l.endsSessions = !s.Gone()
			return nil
		case !until(ctx, time.Now().Add(10*time.Millisecond)):
			return ctx.Err()
		}
	}
}

// deafWatcher is a watcher that does nothing.
type deafWatcher struct{}

func (deafWatcher) PathChanged(string, zkio.Event) {}

// ensureDir makes the directory dir. A server that does not know containers may close the
// connection, and end the session with it; then ensureDir tries again, and returns the session
// that there is in the end.
func ensureDir(ctx context.Context, s *zkio.Session, dir string) (*zkio.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, max(patience, 4*s.Timeout()))
	defer cancel()
	for {
		err := s.EnsureDir(dir, nil)
		if class := zkio.ClassOf(err); err == nil || class == zkio.Definite || class == zkio.Closed || !until(ctx, time.Now().Add(10*time.Millisecond)) {
			return s, err
		}
		s = s.Client().Session()
	}
}

// product returns the name and the version of the program that s is, if that is not ZooKeeper.
func (s server) product() string {
	for key, value := range s.srvr {
		if name, ok := strings.CutSuffix(key, " version"); ok && !strings.EqualFold(name, "Zookeeper") {
			version, _, _ := strings.Cut(value, ",")
			return name + " " + version
		}
	}
	return ""
}

// checkLikeness judges servers that speak ZooKeeper's protocol, and behave in another way.
func checkLikeness(f *facts) (out []Finding) {
	const page = "docs/zookeeper.md, Servers that are like ZooKeeper, says what each difference means"
	for _, s := range f.serving() {
		if product := s.product(); product != "" {
			out = append(out, Finding{
				Level: Note, Where: s.addr, Found: "it is no ZooKeeper, but " + product,
				Why:    "Holdfast is tested with ZooKeeper, and with servers that imitate what is known of such programs",
				Change: page + ": test your program with this release of it",
			})
		}
	}
	l := &f.trial.likeness
	for _, difference := range []struct {
		is                 bool
		level              Level
		found, why, change string
	}{
		{l.endsSessions, Warn, "the servers do not resume a session after a lost connection",
			"every lost connection costs a process its locks, and nothing can free those of a killed process before the session timeout",
			"use ZooKeeper if locks must survive a lost connection"},
		{l.dropsWatches, Note, "the servers forget watches of children when a session is resumed",
			"processes notice, and look again: a hand-over takes one request more", "upgrade the servers"},
		{l.basic, Note, "the servers do not know all requests of ZooKeeper 3.5",
			"processes make do with what every server knows: a hand-over takes one request more, and so does a reconnect for each watch",
			"upgrade the servers"},
		{l.countsWrites || l.hidesDeletes, Note, "the servers count changes of a directory in another way than ZooKeeper (Cversion, Pzxid)",
			"locks do not depend on it, but queues count attempts too high, and tools the nodes that a directory has had",
			"do not depend on these numbers in programs of your own"},
		{l.err != nil, Note, "whether the servers resume sessions is not known: " + text(l.err),
			"a server that does not costs a process its locks with every lost connection", "run doctor again"},
	} {
		if difference.is {
			out = append(out, Finding{Level: difference.level, Found: difference.found, Why: difference.why, Change: difference.change})
		}
	}
	if f.trial.reads == nil && len(out) == 0 {
		return nil // there was no trial: see checkPermissions
	}
	return orFine(out, "the servers behave as ZooKeeper does")
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
