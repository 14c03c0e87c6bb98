// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/zkio"
)

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

// ignore is a watcher that ignores events.
type ignore struct{}

func (ignore) PathChanged(string, zkio.Event) {}
