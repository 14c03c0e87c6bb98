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

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
	"github.com/holdfast-go/holdfast/zkio"
)

// A view returns the places at which a fault may delete a node, and the others.
type view func(holders, waiters []Place) (there, elsewhere []Place)

func deleteHolder(ctx context.Context, f *fault) error {
	return f.deleteNode(ctx, "no process holds a lock", func(h, w []Place) (there, elsewhere []Place) { return h, w })
}

func deleteWaiter(ctx context.Context, f *fault) error {
	return f.deleteNode(ctx, "no process waits for a lock", func(h, w []Place) (there, elsewhere []Place) { return w, h })
}

// deleteNode deletes a node of a process that has one there, if possible of one that has
// another one elsewhere.
func (f *fault) deleteNode(ctx context.Context, none string, of view) error {
	var process int
	err := f.seek(ctx, none, func() bool {
		process = f.processIn(of(f.env.Look()))
		return process >= 0
	})
	if err != nil {
		return err
	}
	f.keep(process)
	// The harness may prepare the process for seconds. Who holds what has changed by then.
	f.begin(history.ProcessTarget(process), "")
	var unsure error
	err = f.seek(ctx, fmt.Sprintf("process %d gave up each of its nodes before it could be deleted", process), func() bool {
		there, _ := of(f.env.Look())
		// A place may be given up while it is looked at. So another of the same process
		// does, too: the history has that process.
		for _, p := range f.preferred(there) {
			if p.Process != process {
				continue
			}
			switch err := f.env.Tree().Delete(p.Node, -1); {
			case err == nil:
				f.lock = p.Lock
				return true
			case !errors.Is(err, zkio.ErrNoNode):
				// It may have been deleted, or not: the answer is missing.
				f.lock, unsure = p.Lock, fmt.Errorf("%w: %w", errNoTarget, err)
				return true
			}
		}
		return false
	})
	f.ended(err == nil && unsure == nil)
	return errors.Join(err, unsure)
}

// preferred has the places first at which workers stay inside, if they do for this fault,
// and else the others. To delete the node of a process that keeps a lock while none of its
// workers is inside costs nothing.
func (f *fault) preferred(places []Place) []Place {
	wanted := func(p Place) bool { return p.Still == f.in.Stays }
	return append(those(places, wanted), those(places, func(p Place) bool { return !wanted(p) })...)
}

func those(places []Place, is func(Place) bool) []Place {
	return slices.DeleteFunc(slices.Clone(places), func(p Place) bool { return !is(p) })
}

// rather is those, or all if there are none.
func rather(places []Place, is func(Place) bool) []Place {
	if some := those(places, is); len(some) > 0 {
		return some
	}
	return places
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
	places = rather(places, func(p Place) bool { return !f.busy[p.Process] })
	f.mu.Unlock()
	also := processesOf(elsewhere)
	places = rather(places, func(p Place) bool { return also[p.Process] })
	return places[f.rng.IntN(len(places))].Process
}

// contendedLock waits for a lock that a process holds and another awaits, or, if there is
// none, one that a process holds. It returns a node of its queue.
func (f *fault) contendedLock(ctx context.Context) (at Place, err error) {
	err = f.seek(ctx, "no process holds a lock", func() bool {
		holders, waiters := f.env.Look()
		holders = rather(holders, func(p Place) bool {
			return slices.ContainsFunc(waiters, func(w Place) bool { return w.Lock == p.Lock })
		})
		if len(holders) == 0 {
			return false
		}
		at = holders[f.rng.IntN(len(holders))]
		return true
	})
	return at, err
}

// lockTarget is what the history calls a lock that a fault hits.
func lockTarget(lock string) string { return "lock " + lock }

// strangers are names that look like contenders', or belong to other recipes, or to
// people. With "~" in its place comes a mark by which the fault finds its nodes.
var strangers = []string{
	"README-~", "_c_short-~", "lock-~", "LOCK-~-0000000000", "lease-~-0000000001", "qn-~-0000000002", "__READ__~", "~",
}

func foreignChildren(ctx context.Context, f *fault) error {
	return f.plant(ctx, func(_ Place, dir, mark string) error {
		var errs []error
		for _, name := range strangers {
			errs = append(errs, f.env.Tree().Create(dir+"/"+strings.ReplaceAll(name, "~", mark), []byte("not a lock's"), nil))
		}
		if slices.Contains(errs, nil) {
			return nil // the others may stand there already
		}
		return errs[len(errs)-1]
	})
}

// foreignContenders queues as Apache Curator and kazoo do: as clients that hold the lock when
// their turn comes, and know nothing of Holdfast. Their nodes belong to the session of the
// harness.
func foreignContenders(ctx context.Context, f *fault) error {
	return f.plant(ctx, func(at Place, dir, mark string) error {
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
		ops := make([]zkio.Op, 0, len(names))
		for _, name := range names {
			ops = append(ops, zkio.CreateOp(dir+"/"+name, []byte("127.0.0.1"), nil).Ephemeral().Sequential())
		}
		_, err := f.env.Tree().Multi(ops...)
		return err
	})
}

// plant has nodes stand in the directory of a lock for as long as the fault lasts. Create
// creates them; their names have the mark.
func (f *fault) plant(ctx context.Context, create func(at Place, dir, mark string) error) error {
	at, err := f.contendedLock(ctx)
	if err != nil {
		return err
	}
	dir, mark := path.Dir(at.Node), f.mark()
	f.begin(lockTarget(at.Lock), at.Lock)
	made := create(at, dir, mark)
	if made == nil {
		f.last(ctx)
	}
	err = f.removeMarked(ctx, dir, mark, made)
	f.ended(made == nil)
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
		if !pause.For(ctx, 100*time.Millisecond, nil) {
			return fmt.Errorf("removing the nodes with %s in their names from %s, which you may have to do: %w: %w", mark, dir, ctx.Err(), err)
		}
	}
}

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
	err = f.hit(ctx, lockTarget(at.Lock), at.Lock, func() error {
		ctx, cancel := context.WithTimeout(ctx, targetPatience)
		defer cancel()
		return f.env.Revoke(ctx, at.Lock)
	}, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoTarget, err)
	}
	return nil
}
