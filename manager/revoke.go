// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Revocation is that another process asks for a lock which this process holds: see
// [Hold.Revoked].
type Revocation struct {
	// From is the process that asks. Its Session and Since are what the server says;
	// the rest it says of itself, and nothing proves it. It is empty if the lock was
	// revoked by Apache Curator's Revoker, which does not say who asks.
	From Contender

	// Reason is what the other process has given as its reason.
	Reason string

	// Until is when the other process gives up waiting; zero if it did not say so.
	Until time.Time
}

// revocation returns why the round is revoked, and whether it is.
func (t *roundIO) revocation() (Revocation, bool) {
	if s := t.signalled.Load(); s != nil {
		r, _, ok := s.revoked.Future().Poll()
		return r, ok
	}
	return Revocation{}, false
}

// revoke closes the round's gate and tells its holders. The first revocation counts. Of
// a round that waits, only a step calls it.
func (t *roundIO) revoke(r Revocation) {
	// Before the holders learn of it: none of them may see a newcomer enter then. The
	// grant closes the gate of a round that waits: callers that come until then are in
	// line with it, and a TryLock in a later round would not learn what is ahead.
	if t.round.word.Load().Phase() != state.Fetching {
		t.round.flags.Set(state.GateClosed)
	}
	if t.signals().revoked.Settle(r, nil) {
		//holdfast:reached hold: revoked
		l := t.round.lock
		l.m.cfg.Logger.Info("holdfast: another process asks for the lock; its holders are told",
			"lock", l.Name(), "from", r.From.String(), "reason", fmt.Sprintf("%q", cut(r.Reason)))
	}
}

// Revoked returns a channel that closes when another process asks for the lock by
// [Lock.Revoke], or by Apache Curator's Revoker. From then on newcomers wait for the
// next grant, behind the processes that wait. The holders keep the lock, and decide
// themselves whether to release it, and when: [Hold.Revocation] says who asks, and
// until when. Nothing ends by itself, neither Lost nor a context. The channel is
// shared by all holders of this process that share the grant; that of the zero Hold
// is nil. Revoked does not block.
func (h Hold) Revoked() <-chan struct{} {
	if h.round == nil {
		return nil
	}
	return h.round.io().signals().revoked.Future().Done()
}

// Revocation returns what Revoked reports, and false if the lock was not revoked. It
// does not block.
func (h Hold) Revocation() (Revocation, bool) {
	if h.round == nil {
		return Revocation{}, false
	}
	return h.round.io().revocation()
}

// Revoke asks the process that holds the lock to give it up, and waits until it has:
// nil says that its node is gone. Of several readers that are in the way of a writer
// each is asked; if none is in the way, Revoke returns at once. Newcomers there have
// to wait from then on, and the holders are told by [Hold.Revoked], with the reason
// and the time at which ctx ends. They decide: there is no way to force a process.
//
// Revoke takes the lock for no process. Acquire it first, without waiting for the
// grant, and then revoke: otherwise the process that gave it up, or any other, may
// have it next.
//
// A contender that uses Apache Curator is told as Curator's Revoker does, if its
// lock is revocable: if makeRevocable was called before it was acquired.
//
// Revoke blocks until the lock was given up or ctx ends. The error is [ErrNoAnswer],
// at once, if a process in the way cannot be told: it belongs to another client or an
// older version. If ctx ends, the error wraps ctx's. It wraps ErrNoAnswer as well if
// it is not known that the process was told; otherwise it says how many holders were
// inside when it was. A reason of more than 64 KiB is refused with [ErrTooLarge].
//
// It takes the right to create nodes under Config.Root, and for Curator's contenders
// to write their nodes. Who revokes is unproved.
func (l *Lock) Revoke(ctx context.Context, reason string) error {
	const op = "revoke"
	if err := l.mayAsk(ctx, op, len(reason)); err != nil {
		return err
	}
	var paths []string
	err := l.m.call(ctx, op, l.Name(), func(s *zkio.Session) (err error) {
		paths, err = l.inTheWay(s)
		return err
	})
	if err != nil {
		return err
	}
	inside, cancel := context.WithCancel(ctx)
	defer cancel() // if one cannot be told, the questions to the others are taken back
	all := make([]*inquiry, len(paths))
	gone := make([]*futures.Future[Answer], len(paths))
	for i, path := range paths {
		all[i] = l.newInquiry(revokeKind, []byte(reason), path)
		gone[i] = all[i].result.Future()
		all[i].begin(inside)
	}
	_, err = futures.All(gone...).Wait(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		err = stillThere(ctx, all)
	}
	return &Error{Op: op, Name: l.Name(), Err: err}
}

// inTheWay returns the paths of the contenders that hold the lock and exclude l.
func (l *Lock) inTheWay(s *zkio.Session) (paths []string, err error) {
	q, err := l.list(s)
	if err != nil || len(q.Contenders) == 0 {
		return nil, err
	}
	defer q.Free()
	for _, c := range q.Contenders[:q.Sort()] {
		path := l.path + "/" + c.Name
		if !queue.Excludes(c.Kind, l.kind) {
			continue
		}
		if l.m.owns(c.Name) && l.m.grantAt(path).round == nil {
			continue // our own, whose turn has come
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// stillThere returns the error of a revocation whose ctx has ended.
func stillThere(ctx context.Context, all []*inquiry) error {
	var told, untold []string
	for _, q := range all {
		if q.result.Settled() {
			continue
		}
		c := q.asked.Load()
		switch a := q.told.Load(); {
		case a != nil && a.Phase == state.Retained:
			told = append(told, fmt.Sprintf("%s was told, %d holders inside", c, a.Holders))
		case a != nil:
			told = append(told, fmt.Sprintf("%s was told", c))
		default:
			untold = append(untold, strings.TrimPrefix(q.whom(), ": "))
		}
	}
	switch {
	case len(untold) > 0:
		return fmt.Errorf("%w: %s: %w", ErrNoAnswer, strings.Join(append(untold, told...), "; "), ctxerr.Of(ctx))
	case len(told) > 0:
		return fmt.Errorf("%s: %w", strings.Join(told, "; "), ctxerr.Of(ctx))
	}
	return ctxerr.Of(ctx)
}

// revokeOwn tells this process's own holders.
func (q *inquiry) revokeOwn(c *Contender) {
	m := q.lock.m
	g := m.grantAt(c.Path)
	if g.round == nil {
		q.settle(Answer{}) // it has just been given up
		return
	}
	from := *c
	from.Path, from.Token = "", 0
	g.round.io().revoke(Revocation{From: from, Reason: string(q.text), Until: q.until})
	report := m.report(g, c.Path)
	a := report.answer(*c)
	q.told.Store(&a)
}

// curatorRevokes is what Apache Curator's Revoker writes into the node of a holder.
const curatorRevokes = "__REVOKE__"

// revocable reports whether the contender called name uses Apache Curator and looks
// whether its node is revoked: its data are empty then, which those of Curator's
// other contenders are not.
func revocable(name string, data []byte) bool {
	return usesCurator(name) && (len(data) == 0 || string(data) == curatorRevokes)
}

// usesCurator reports whether the contender called name uses Apache Curator: of the
// clients whose names have a guid, only Curator puts dashes into it.
func usesCurator(name string) bool {
	guid, ok := strings.CutPrefix(name, "_c_")
	guid, _, _ = strings.Cut(guid, "-lock-")
	guid, _, _ = strings.Cut(guid, "-__")
	return ok && strings.Count(guid, "-") == 4
}

// revokeCurator tells a contender that uses Apache Curator, whose node has the given
// data.
func (q *inquiry) revokeCurator(s *zkio.Session, c *Contender, data []byte, stat zkio.Stat) error {
	if len(data) == 0 {
		_, err := s.Set(c.Path, []byte(curatorRevokes), stat.Version)
		switch {
		case errors.Is(err, zkio.ErrBadVersion):
			return q.look(s, c.Path)
		case errors.Is(err, zkio.ErrNoAuth):
			q.noAnswer("%s cannot be told: %w", c, err)
			return nil
		case err != nil:
			return err
		}
	}
	q.told.Store(&Answer{From: *c})
	return nil
}

// revokedByCurator deals with the data of the own node: if they are what Curator's
// Revoker writes, the round is revoked, and what the node said is restored. Other
// processes would not learn from it who holds the lock, otherwise.
func (t *roundIO) revokedByCurator(s *zkio.Session, data []byte, stat zkio.Stat) error {
	if string(data) != curatorRevokes {
		return nil
	}
	l := t.round.lock
	t.revoke(Revocation{Reason: "revoked by Apache Curator's Revoker"})
	_, err := s.Set(t.node.Path(), l.m.nodeDataAt(l.kind.String(), time.Unix(0, stat.Ctime*int64(time.Millisecond))), stat.Version)
	if class := zkio.ClassOf(err); err == nil || class == zkio.Definite {
		return nil // it may not be written, or has changed again, which the watch tells
	}
	return err
}
