// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A scriptLock is a Lock or a Mutex.
type scriptLock interface {
	acquirer
	Path() string
	State() (state.Phase, int)
	Stats() Stats
	Holder(context.Context) (*Contender, error)
	CachedHolder(context.Context) (*Contender, error)
	WatchHolder(context.Context) iter.Seq2[*Contender, error]
	Ask(context.Context, []byte) (Answer, error)
	Revoke(context.Context, string) error
}

// A scriptLoop is a loop of WatchHolder.
type scriptLoop struct {
	*loop
	name string
	over bool // and printed
}

// changes prints what the loop was told.
func (f *scriptLoop) changes(s *script) {
	told, err := f.take()
	for _, holder := range told {
		s.print("%s: told %s", f.name, s.nameOf(holder))
	}
	if isClosed(f.done) && !f.over {
		f.over = true
		s.said = cmp.Or(err, s.said)
		s.print("%s: over, %s", f.name, s.explain(err))
	}
}

// nameOf names a holder, with the number of its token, as the states of holds have it.
func (s *script) nameOf(holder *Contender) string {
	text := strings.ReplaceAll(nameOfHolder(holder), hex32, "GUID")
	if holder == nil {
		return text
	}
	if holder.Kind != KindExclusive {
		text += ", " + holder.Kind.String()
	}
	if holder.Token > 0 {
		text += fmt.Sprintf(" #%d", s.numberOf(holder.Token))
	}
	if holder.Own {
		text += ", own"
	}
	if !holder.Holds {
		text += ", waits"
	}
	return text
}

func (s *script) runFollow(a scriptArgs) {
	l := s.lockOf(s.process(a.words[1]), a, a.words[2:])
	s.loops = append(s.loops, &scriptLoop{loop: s.followTimes(l, a.number(s.t, "times")), name: a.words[0]})
}

func (s *script) runUnfollow(a scriptArgs) {
	for _, f := range s.loops {
		if f.name == a.words[0] && !f.over {
			f.cancel(errGaveUp)
			return
		}
	}
	s.t.Fatalf("no loop is called %s", a.words[0])
}

func (s *script) runHolder(a scriptArgs) {
	l := s.lockOf(s.process(a.words[0]), a, a.words[1:])
	ask := l.Holder
	if a.command == "cached" {
		ask = l.CachedHolder
	}
	d := a.duration(s.t, "timeout", time.Hour)
	var holder *Contender
	s.call(a.String(), func() (err error) {
		ctx, cancel := context.WithTimeout(s.t.Context(), d)
		defer cancel()
		holder, err = ask(ctx)
		return err
	}, nil).answer = func() string { return s.nameOf(holder) }
}

func (s *script) runRevoke(a scriptArgs) {
	l := s.lockOf(s.process(a.words[0]), a, a.words[1:])
	d := a.duration(s.t, "within", time.Minute)
	s.call(a.String(), func() error {
		ctx, cancel := context.WithTimeout(s.t.Context(), d)
		defer cancel()
		return l.Revoke(ctx, a.options["reason"])
	}, nil)
}

// toldOf is what a revocation tells.
func toldOf(r Revocation) string {
	by := cmp.Or(r.From.Label, "another client")
	if r.From.Own {
		by = "its own process"
	}
	if !r.Until.IsZero() {
		by += fmt.Sprintf(" for %v", time.Until(r.Until))
	}
	return "by " + by + ": " + r.Reason
}

func (s *script) runQuestion(a scriptArgs) {
	l := s.lockOf(s.process(a.words[0]), a, a.words[1:])
	var got Answer
	s.call(a.String(), func() (err error) {
		got, err = l.Ask(s.t.Context(), nil)
		return err
	}, nil).answer = func() string {
		text := fmt.Sprintf("%v, %d hold it, %d wait", got.Phase, got.Holders, got.Waiting)
		if got.Yielding {
			text += ", yielding"
		}
		if got.Revoked {
			text += ", revoked"
		}
		return text
	}
}

func (s *script) runLag(a scriptArgs) { s.srv.Faults().Lag(-1, s.sessionOf(s.process(a.words[0]))) }

func (s *script) runReady(a scriptArgs) {
	f := s.hold(a.words[0]).h.Ready()
	s.call(a.String(), func() error { _, err := f.Wait(s.t.Context()); return err }, nil)
}

func (s *script) runContended(a scriptArgs) {
	h := s.hold(a.words[0])
	now := h.h.Contended()
	if h.contended == nil {
		h.contended = now
	}
	s.print("%s: %t", a, isClosed(h.contended))
	if isClosed(now) != isClosed(h.contended) {
		s.print("THE CHANNEL THAT WAS ASKED FOR FIRST SAYS ANOTHER THING THAN ONE NOW")
	}
}

func (s *script) runSays(a scriptArgs) {
	text := strings.Join(a.words, " ")
	if said := strings.Contains(fmt.Sprint(s.said), text); said != (a.command == "says") {
		s.print("IT SAYS %v", s.said)
	}
}

func (s *script) runLogged(a scriptArgs) {
	s.print("logged %d times", len(s.log.with(strings.Join(a.words, " "))))
}

func (s *script) runHeard(a scriptArgs) {
	p := s.process(a.words[0])
	now := p.m.client.Stats().WatchEvents
	s.print("%s: %d notifications", p.name, now-p.heard)
	p.heard = now
}

func (s *script) runWatches(scriptArgs) {
	n := s.srv.AllWatches()
	s.print("the server has %d watches", n.Data+n.Child)
}

func (s *script) runDeaf(a scriptArgs) {
	p := s.process(a.words[0])
	s.block(*p.slow)
	p.deaf = true
}

func (s *script) runHear(a scriptArgs) {
	p := s.process(a.words[0])
	close(p.slow.resume)
	p.deaf = false
}

// A slowWatcher blocks the client's dispatcher when its path changes.
type slowWatcher struct{ blocked, resume chan struct{} }

func (w slowWatcher) PathChanged(string, zkio.Event) {
	close(w.blocked)
	<-w.resume
}

const slowPath = "/slow"

// watchSlowly has m watch a node with a slow watcher.
func (c *cluster) watchSlowly(m *Manager) slowWatcher {
	c.t.Helper()
	w := slowWatcher{make(chan struct{}), make(chan struct{})}
	wantErr(c.t, "create", c.srv.CreateAll(slowPath, nil), nil)
	m.client.Watch(slowPath, w)
	_, _, err := m.client.Session().Get(slowPath)
	wantErr(c.t, "get", err, nil)
	return w
}

// block blocks the dispatcher that w belongs to, until w.resume is closed.
func (c *cluster) block(w slowWatcher) {
	c.t.Helper()
	wantErr(c.t, "set", c.srv.Set(slowPath, []byte("changed")), nil)
	<-w.blocked
}
