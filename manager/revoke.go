// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// Revoke asks the process that holds the lock to give it up, and waits until it has. It
// returns nil when that process's node is gone. If several processes hold the read lock
// of a pair, [RWLock.Writer]'s Revoke asks each of them. For a reader, an
// upgradable holder is in the way while it is upgraded, or waits to be. If no process is in
// the way, as of a reader among readers, Revoke returns nil at once. To miss none that held
// the lock when Revoke was called, it has the server catch up first, as [Manager.Sync] does.
//
// The holders in that process hear of it by [Hold.Revoked], with the reason and the time
// at which ctx ends, and its newcomers wait from then on. Whether the holders release
// the lock is up to them: no process can be forced to. If this process itself holds the
// lock, Revoke asks its own holders.
//
// Revoke acquires nothing. Call [Lock.Acquire] first, do not wait for the grant, and then
// revoke: then this process is in line. Otherwise any process may get the lock next,
// even the one that gave it up.
//
// If the holder uses Apache Curator, Revoke does what Curator's Revoker does. That works
// only if the holder called makeRevocable before it acquired the lock.
//
// Revoke blocks until the lock was given up or ctx ends: give it a ctx with a deadline.
// The errors are
//
//   - [ErrNoAnswer], at once, if a process in the way cannot be told, because it belongs
//     to another client or an older version;
//   - ctx.Err() and context.Cause(ctx) if ctx ends. The text names each process that
//     still holds the lock, and says how many holders were inside when it was told. If ctx
//     ends before ZooKeeper has answered, it names the holder that this process knows of. If a
//     process did not confirm that it was told, the error wraps ErrNoAnswer as well;
//   - [ErrTooLarge], before anything is sent, if reason has more than 64 KiB;
//   - [ErrClosed] if this Manager is closed.
//
// Revoke needs the right to create nodes under Config.Root, and for a holder that uses
// Curator the right to write its node. Nothing proves to the holder who revokes.
func (l *Lock) Revoke(ctx context.Context, reason string) error {
	const op = "revoke"
	if err := l.mayAsk(ctx, op, "reason", len(reason)); err != nil {
		return err
	}
	var paths []string
	err := l.m.call(ctx, op, l.Name(), func(s *zkio.Session) (err error) {
		paths, err = l.inTheWay(s)
		return err
	})
	switch {
	case err == nil:
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return l.errorAbout(op, ctxerr.Of(ctx))
	default:
		return err
	}
	inside, cancel := context.WithCancel(ctx)
	defer cancel() // if one cannot be told, the questions to the others are taken back
	all := make([]*inquiry, len(paths))
	gone := make([]*futures.Future[Answer], len(paths))
	for i, path := range paths {
		all[i] = newInquiry(l, revokeKind, []byte(reason), path)
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
	return &Error{Op: op, Name: l.Name(), Err: err, Outage: l.m.outage()}
}

// inTheWay returns the paths of the contenders that hold the lock and exclude l.
func (l *line) inTheWay(s *zkio.Session) (paths []string, err error) {
	// The server may lag behind the one that has granted the lock.
	if err := s.Sync(l.path); err != nil {
		return nil, err
	}
	q, err := l.list(s)
	if err != nil || len(q.Contenders) == 0 {
		return nil, err
	}
	defer q.Free()
	q.Sort()
	for _, c := range q.Contenders {
		path := l.pathOf(c.Name)
		if !c.Turn || !queue.Excludes(c.Kind, l.kind) && !upgrades(q, c) {
			continue
		}
		if l.m.owns(c.Name) {
			own := l.m.holdingAt(path)
			if own.round == nil || own.waits() && l.m.shares(c.Name) || !queue.Excludes(c.Kind, l.kind) {
				continue // our own, whose turn has come, or beside which our readers enter
			}
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// upgrades reports whether c, which holds the lock, is upgradable, and its process has a
// writer's node too: then it excludes readers, or is about to.
func upgrades(q queue.Queue, c queue.Contender) bool {
	return c.Kind == queue.Upgradable && slices.ContainsFunc(q.Contenders, func(w queue.Contender) bool {
		return w.Kind == queue.Write && makerOf(w.Name) == makerOf(c.Name)
	})
}

// stillThere returns the error of a revocation whose ctx has ended: it names the
// contenders that still hold the lock.
func stillThere(ctx context.Context, all []*inquiry) error {
	var told, untold []string
	for _, q := range all {
		if q.result.Settled() {
			continue
		}
		c := q.asked.Load()
		switch a := q.told.Load(); {
		case a != nil && a.Phase == state.Retained:
			inside := "1 holder"
			if a.Holders != 1 {
				inside = fmt.Sprintf("%d holders", a.Holders)
			}
			told = append(told, fmt.Sprintf("told %s (%s inside)", c, inside))
		case a != nil:
			told = append(told, fmt.Sprintf("told %s", c))
		default:
			untold = append(untold, cmp.Or(strings.TrimPrefix(q.addressee(), ": "), "could not ask "+q.target))
		}
	}
	switch {
	case len(untold) > 0:
		return fmt.Errorf("%w: %s: %w", ErrNoAnswer, strings.Join(append(untold, told...), "; "), ctxerr.Of(ctx))
	case len(told) > 0:
		return fmt.Errorf("not given up: %s: %w", strings.Join(told, "; "), ctxerr.Of(ctx))
	}
	return ctxerr.Of(ctx)
}

// revocable reports whether the contender called name uses Apache Curator and watches
// for a revocation. Curator gives a revocable node empty data, and any other its
// client's address.
func revocable(name string, data []byte) bool {
	return queue.OfCurator(name) && (len(data) == 0 || string(data) == curatorRevokes)
}

// revokeCurator revokes a contender that uses Apache Curator, as Curator's own Revoker
// does. Its node was read: it has the given data.
func (q *inquiry) revokeCurator(s *zkio.Session, c *Contender, data []byte, stat zkio.Stat) error {
	if len(data) == 0 {
		_, err := s.Set(c.Path, []byte(curatorRevokes), stat.Version)
		switch {
		case errors.Is(err, zkio.ErrBadVersion):
			return q.look(s, c.Path)
		case errors.Is(err, zkio.ErrNoAuth):
			q.noAnswer("this process may not write the node of the holder, which uses Apache Curator: %w: %s", err, c)
			return nil
		case err != nil:
			return err
		}
	}
	q.told.Store(&Answer{From: *c})
	return nil
}
