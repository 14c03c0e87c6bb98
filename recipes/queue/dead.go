// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Buried is an element in the directory dead/.
type Buried struct {
	Name  string    // of its node, which is another than that of the element in the queue
	Data  []byte    // the caller owns it
	Since time.Time // by ZooKeeper's clock
}

// Dead returns an iterator over the elements that are buried, those first that were buried
// first. It reads some at a time: what is buried meanwhile may be left out, and so is what is
// requeued or dropped. An error is the last that it yields: one of ctx, [manager.ErrClosed], or a
// refusal of ZooKeeper's. The loop blocks until ZooKeeper has answered.
func (q *Queue) Dead(ctx context.Context) iter.Seq2[Buried, error] {
	return func(yield func(Buried, error) bool) {
		names, err := access.Ask(ctx, q.access, func(s *zkio.Session) (names []string, err error) {
			if err = s.Sync(q.dirs.dead); err == nil {
				names, _, err = s.Children(q.dirs.dead)
			}
			return names, access.Unless(err, zkio.ErrNoNode)
		})
		if err != nil {
			yield(Buried{}, q.error("list the dead of", err))
			return
		}
		for some := range slices.Chunk(inOrder(names), 10) { // they may have 512 KiB each
			dead, err := access.Ask(ctx, q.access, func(s *zkio.Session) ([]Buried, error) { return q.exhume(s, some) })
			if err != nil {
				yield(Buried{}, q.error("list the dead of", err))
				return
			}
			for _, b := range dead {
				if !yield(b, nil) {
					return
				}
			}
		}
	}
}

// exhume reads the dead of these names.
func (q *Queue) exhume(s *zkio.Session, names []string) (dead []Buried, err error) {
	reads := make([]*zkio.Read, len(names))
	for i, name := range names {
		reads[i] = &zkio.Read{Path: q.dirs.dead + "/" + name, What: zkio.ReadData}
	}
	s.Read(reads...)
	for i, r := range reads {
		switch {
		case errors.Is(r.Err, zkio.ErrNoNode):
		case r.Err != nil:
			return nil, r.Err
		default:
			dead = append(dead, Buried{names[i], r.Data, time.UnixMilli(r.Stat.Ctime)})
		}
	}
	return dead, nil
}

// Requeue puts the buried element of this name, as [Queue.Dead] gives it, at the end of the
// queue, with no attempts behind it. It blocks until that is done or ctx ends, which may be too
// late to prevent it.
//
// The errors are [ErrNotDead], [ErrFull], [ErrSequenceExhausted], those of ctx,
// [manager.ErrClosed] and refusals of ZooKeeper's. After one of ctx the element is in the queue or
// in dead/.
func (q *Queue) Requeue(ctx context.Context, name string) error {
	return q.error("requeue an element of", q.dispose(ctx, name, func(s *zkio.Session, path string) ([]zkio.Op, error) {
		data, _, err := s.Get(path)
		if err != nil {
			return nil, err
		}
		stat, there, err := s.Exists(q.dirs.items)
		switch {
		case err != nil:
			return nil, err
		case !there:
			if err := q.makeDirs(s); err != nil {
				return nil, err
			}
		case int(stat.NumChildren) >= q.options.MaxLength:
			return nil, access.Verdict(fmt.Errorf("%w: it has %d elements, at most %d are allowed", ErrFull, stat.NumChildren, q.options.MaxLength))
		}
		return []zkio.Op{zkio.CreateOp(q.dirs.items+"/"+prefix, data, q.access.ACL()).Sequential()}, nil
	}))
}

// Drop deletes the buried element of this name, as [Queue.Dead] gives it, for ever. It blocks
// until that is done or ctx ends, which may be too late to prevent it. The errors are
// [ErrNotDead], those of ctx, [manager.ErrClosed] and refusals of ZooKeeper's.
func (q *Queue) Drop(ctx context.Context, name string) error {
	return q.error("drop an element of", q.dispose(ctx, name, func(*zkio.Session, string) ([]zkio.Op, error) { return nil, nil }))
}

// dispose deletes the buried element of this name, in a transaction with the operations. If an
// answer is lost, whether the element is there says what has become of the transaction; or
// another process has disposed of the element in the same moment.
func (q *Queue) dispose(ctx context.Context, name string, also func(s *zkio.Session, path string) ([]zkio.Op, error)) error {
	path := q.dirs.dead + "/" + name
	if _, ok := numberOf(name); !ok || strings.Contains(name, "/") {
		return fmt.Errorf("%w: %q", ErrNotDead, name)
	}
	doubt := false
	return access.Do(ctx, q.access, func(s *zkio.Session) error {
		if err := s.Sync(path); err != nil {
			return err
		}
		ops, err := also(s, path)
		if err == nil {
			var results []zkio.OpResult
			results, err = s.Multi(append(ops, zkio.DeleteOp(path, -1))...)
			doubt = doubt || errors.Is(err, zkio.ErrUnknown)
			if errors.Is(err, zkio.ErrNoNode) && failed(results) < len(ops) {
				return errHindered // the directory of elements was deleted just now
			}
		}
		switch {
		case errors.Is(err, zkio.ErrNoNode) && doubt:
			return nil
		case errors.Is(err, zkio.ErrNoNode):
			return access.Verdict(fmt.Errorf("%w: %q", ErrNotDead, name))
		case errors.Is(err, zkio.ErrNodeExists):
			return access.Verdict(ErrSequenceExhausted)
		}
		return err
	})
}
