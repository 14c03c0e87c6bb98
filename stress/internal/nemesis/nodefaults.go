// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

func deleteHolder(ctx context.Context, f *fault) error {
	return f.deleteNode(ctx, "holds a lock", f.env.Holders, f.env.Waiters)
}

func deleteWaiter(ctx context.Context, f *fault) error {
	return f.deleteNode(ctx, "waits for a lock", f.env.Waiters, f.env.Holders)
}

// deleteNode deletes a node of a process that has one there, if possible of one that has
// another one elsewhere.
func (f *fault) deleteNode(ctx context.Context, does string, there, elsewhere func(context.Context) []Place) error {
	process, err := f.choosePlace(ctx, does, there, elsewhere)
	if err != nil {
		return err
	}
	// The harness may prepare the process for seconds. Who holds what has changed by then.
	f.begin(processTarget(process), "")
	ctx, cancel := context.WithTimeout(ctx, targetPatience)
	defer cancel()
	for {
		// A place may be given up while it is looked at. So another of the same process
		// does, too: the history has that process.
		for _, p := range f.preferred(there(ctx)) {
			if p.Process != process {
				continue
			}
			switch err := f.env.Tree().Delete(p.Node, -1); {
			case err == nil:
				f.lock = p.Lock
				f.ended(true)
				return nil
			case !errors.Is(err, zkio.ErrNoNode):
				// It may have been deleted, or not: the answer is missing.
				f.lock = p.Lock
				f.ended(false)
				return fmt.Errorf("%w: %w", errNoTarget, err)
			}
		}
		if !sleep(ctx, targetPoll) {
			return fmt.Errorf("%w: process %d gave up each of its nodes before it could be deleted", errNoTarget, process)
		}
	}
}

// preferred has the places first at which workers stay inside, if they do for this fault,
// and else the others. To delete the node of a process that keeps a lock while none of its
// workers is inside costs nothing.
func (f *fault) preferred(places []Place) []Place {
	slices.SortStableFunc(places, func(a, b Place) int {
		return compareBool(a.Still != f.in.Stays, b.Still != f.in.Stays)
	})
	return places
}

// compareBool has false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// choosePlace waits for a process that has a node there, and keeps other faults from it.
func (f *fault) choosePlace(ctx context.Context, does string, there, elsewhere func(context.Context) []Place) (process int, err error) {
	ctx, cancel := context.WithTimeout(ctx, targetPatience)
	defer cancel()
	for {
		if process = f.processIn(there(ctx), elsewhere(ctx)); process >= 0 {
			f.keep(process)
			return process, nil
		}
		if !sleep(ctx, targetPoll) {
			return 0, fmt.Errorf("%w: no process %s", errNoTarget, does)
		}
	}
}

// processIn returns a process of one of the places, if possible of those elsewhere as well;
// -1 if there is none. It returns one that another fault hits only if there is no other: a
// process that is stopped, for one, may be first in a queue without knowing, and then has
// nothing to lose.
func (f *fault) processIn(places, elsewhere []Place) int {
	if len(places) == 0 {
		return -1
	}
	f.mu.Lock()
	idle := slices.DeleteFunc(slices.Clone(places), func(p Place) bool { return f.busy[p.Process] })
	f.mu.Unlock()
	if len(idle) > 0 {
		places = idle
	}
	also := processesOf(elsewhere)
	if both := slices.DeleteFunc(slices.Clone(places), func(p Place) bool { return !also[p.Process] }); len(both) > 0 {
		places = both
	}
	return places[f.rng.IntN(len(places))].Process
}

// contendedLock waits for a lock that a process holds and another awaits, or, if there is
// none, one that a process holds. It returns a node of its queue.
func (f *fault) contendedLock(ctx context.Context) (Place, error) {
	ctx, cancel := context.WithTimeout(ctx, targetPatience)
	defer cancel()
	for {
		holders := f.env.Holders(ctx)
		awaited := make(map[string]bool)
		for _, p := range f.env.Waiters(ctx) {
			awaited[p.Lock] = true
		}
		if both := slices.DeleteFunc(slices.Clone(holders), func(p Place) bool { return !awaited[p.Lock] }); len(both) > 0 {
			holders = both
		}
		if len(holders) > 0 {
			return holders[f.rng.IntN(len(holders))], nil
		}
		if !sleep(ctx, targetPoll) {
			return Place{}, fmt.Errorf("%w: no process holds a lock", errNoTarget)
		}
	}
}

// lockTarget is what the history calls a lock that a fault hits.
func lockTarget(lock string) string { return "lock " + lock }

// strangers are names that look like contenders', or belong to other recipes, or to
// people. With "~" in its place comes a mark by which the fault finds its nodes.
var strangers = []string{
	"README-~", "_c_short-~", "lock-~", "LOCK-~-0000000000", "lease-~-0000000001", "qn-~-0000000002", "__READ__~", "~",
}

func foreignChildren(ctx context.Context, f *fault) error {
	at, err := f.contendedLock(ctx)
	if err != nil {
		return err
	}
	dir, mark := path.Dir(at.Node), f.mark()
	f.begin(lockTarget(at.Lock), at.Lock)
	made := 0
	for _, name := range strangers {
		if err = f.env.Tree().Create(dir+"/"+strings.ReplaceAll(name, "~", mark), []byte("not a lock's"), nil); err == nil {
			made++
		}
	}
	if made > 0 {
		err = nil // the others may stand there already
		f.last(ctx)
	}
	err = f.removeMarked(ctx, dir, mark, err)
	f.ended(made > 0)
	return err
}

// foreignContenders queues as Apache Curator and kazoo do: as clients that hold the lock when
// their turn comes, and know nothing of Holdfast. Their nodes belong to the session of the
// harness.
func foreignContenders(ctx context.Context, f *fault) error {
	at, err := f.contendedLock(ctx)
	if err != nil {
		return err
	}
	dir, mark := path.Dir(at.Node), f.mark()
	// Curator's names have a UUID with dashes, kazoo's 32 digits without. The mark, of 16
	// digits, ends both.
	uuid := fmt.Sprintf("_c_%08x-0000-4000-%s-%s", f.rng.Uint32(), mark[:4], mark[4:])
	kazoo := fmt.Sprintf("%016x%s", f.rng.Uint64(), mark)
	var names []string
	switch own := path.Base(at.Node); {
	case strings.Contains(own, "__READ__"), strings.Contains(own, "__WRIT__"):
		names = []string{uuid + "-__READ__", uuid + "-__WRIT__", kazoo + "__rlock__"}
	case strings.Contains(own, "latch-"):
		names = []string{uuid + "-latch-"}
	default:
		names = []string{uuid + "-lock-", kazoo + "__lock__"}
	}
	f.begin(lockTarget(at.Lock), at.Lock)
	ops := make([]zkio.Op, 0, len(names))
	for _, name := range names {
		ops = append(ops, zkio.CreateOp(dir+"/"+name, []byte("127.0.0.1"), nil).Ephemeral().Sequential())
	}
	_, err = f.env.Tree().Multi(ops...)
	made := err == nil
	if made {
		f.last(ctx)
	}
	err = f.removeMarked(ctx, dir, mark, err)
	f.ended(made)
	return err
}

// mark returns 16 hexadecimal digits that no other fault uses.
func (f *fault) mark() string {
	return fmt.Sprintf("%012x%04x", f.rng.Uint64()>>16, f.in.Number&0xffff)
}

// removeMarked removes the nodes in dir with the mark, also those of which the fault does
// not know because an answer is missing. It returns an error if that fails, or one that
// wraps errNoTarget if making them has failed with the error made.
func (f *fault) removeMarked(ctx context.Context, dir, mark string, made error) error {
	ctx, cancel := undoing(ctx)
	defer cancel()
	// Curator's mark is cut in two.
	curators := mark[:4] + "-" + mark[4:]
	for {
		err := f.tryRemove(dir, func(name string) bool { return strings.Contains(name, mark) || strings.Contains(name, curators) })
		switch {
		case err == nil && made != nil && errors.Is(made, zkio.ErrNoNode):
			return fmt.Errorf("%w: the lock's directory has just gone", errNoTarget)
		case err == nil && made != nil:
			return fmt.Errorf("%w: %w", errNoTarget, made)
		case err == nil:
			return nil
		case zkio.ClassOf(err) == zkio.Definite, zkio.ClassOf(err) == zkio.Closed:
			return fmt.Errorf("removing the nodes with %s in their names from %s, which you may have to do: %w", mark, dir, err)
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return fmt.Errorf("removing the nodes with %s in their names from %s, which you may have to do: %w: %w", mark, dir, ctx.Err(), err)
		}
	}
}

// tryRemove removes the nodes in dir for which is returns true.
func (f *fault) tryRemove(dir string, is func(name string) bool) error {
	t := f.env.Tree()
	children, _, err := t.Children(dir)
	if errors.Is(err, zkio.ErrNoNode) {
		return nil
	}
	for _, name := range children {
		if err == nil && is(name) {
			if err = t.Delete(dir+"/"+name, -1); errors.Is(err, zkio.ErrNoNode) {
				err = nil // it was ephemeral, or the answer to an earlier request was missing
			}
		}
	}
	return err
}

// revoke asks for a lock for as long as its holders may take to give it up. Whether they
// do is their business.
func revoke(ctx context.Context, f *fault) error {
	at, err := f.contendedLock(ctx)
	if err != nil {
		return err
	}
	f.begin(lockTarget(at.Lock), at.Lock)
	ctx, cancel := context.WithTimeout(ctx, targetPatience)
	defer cancel()
	err = f.env.Revoke(ctx, at.Lock)
	f.ended(err == nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoTarget, err)
	}
	return nil
}
