// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/own"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Stage is the membership of one caller in one round of a [Double] barrier. All methods may
// be called concurrently.
type Stage struct {
	Round   uint64   // the number of the round, which rises from round to round
	Members []string // what the members say of themselves, in the order in which they came: label@host and process id

	double  *Double
	name    string
	node    *own.Node
	leaving func()        // closes left
	left    chan struct{} // closed when Leave is called
}

func newStage(d *Double, name string, node *own.Node, rec record) *Stage {
	st := &Stage{Round: rec.Round, Members: ids(rec.Members), double: d, name: name, node: node, left: make(chan struct{})}
	st.leaving = sync.OnceFunc(func() { close(st.left) })
	return st
}

func ids(members []member) []string {
	all := make([]string, len(members))
	for i, m := range members {
		all[i] = m.ID
	}
	return all
}

// Lost returns a channel that is closed when this process loses its place inside, although it
// has not left: the lease of its session has ended, another client has deleted its node, or
// the Manager was closed. It stays open once Leave was called.
func (st *Stage) Lost() <-chan struct{} { return st.node.Lost() }

// Err returns nil while this process is inside, and then [ErrLost], or [manager.ErrClosed]. It
// reads the clock, and does not block. Once Leave was called, Err does not change any more.
func (st *Stage) Err() error { return st.double.error("enter", st.node.Err()) }

// Context returns a context for the work of the round. It ends when parent does, when this
// process loses its place, with the reason as its cause, or when done is called.
func (st *Stage) Context(parent context.Context) (ctx context.Context, done context.CancelFunc) {
	return st.node.Context(parent)
}

// Leave says that this member's work is done, and blocks until all other members have left or
// died. It returns
//
//   - nil if all members have left;
//   - a [*BrokenError] if members have died inside. All members get the same;
//   - [ErrLost], or [manager.ErrClosed], if this process has lost its place before, or if
//     ZooKeeper refuses to let it leave: then the error also wraps the refusal, the node is
//     deleted if ZooKeeper allows that, and the others are told that this member has died;
//   - the error of ctx, if that ends while the others are inside, or [manager.ErrClosed], if the
//     Manager is shut down meanwhile. This member has left all the same, and will have left when
//     ZooKeeper can be reached again if it cannot be now. Shutdown of the Manager waits for
//     that. Close does not: if it ends the session first, this member has died. After the end
//     of ctx, Leave may be called again, to wait on;
//   - [manager.ErrUnknownOutcome] if the process was cut off for 16 rounds and more, or another
//     client has deleted the barrier's nodes.
func (st *Stage) Leave(ctx context.Context) error {
	// Before run, which returns at once if ctx has ended.
	if err := st.going(); err != nil {
		return st.double.error("leave", err)
	}
	broken, err := run(ctx, st.double.access, st.double.access.Finish, func() ([]member, error) {
		if err := access.Tell(st.double.access, st.depart); err != nil {
			return nil, err
		}
		return st.await(ctx)
	}, func([]member) {})
	if err == nil && len(broken) > 0 {
		err = &BrokenError{Round: st.Round, Died: ids(broken)}
	}
	return st.double.error("leave", err)
}

// cleanUp runs until the member leaves. If its lease ends and its session lives on, its node
// has to be deleted: the others would wait for it.
func (st *Stage) cleanUp() {
	a := st.double.access
	select {
	case <-st.node.Lost():
		_ = access.Tell(a, st.node.Delete)
	case <-st.left:
	case <-a.Context().Done():
	}
}

// going ends the keeping of the member's place, which depart is to give up. It fails if the
// place is lost.
func (st *Stage) going() error {
	err := st.node.Err()
	if err == nil {
		st.leaving()
		st.node.Forget()
	}
	return err
}

// leave makes the member one that has left.
func (st *Stage) leave() error {
	if err := st.going(); err != nil {
		return err
	}
	return access.Tell(st.double.access, st.depart)
}

// depart is a try to leave. It may be made in a later session than that of the member's node,
// which can be there for a while yet.
func (st *Stage) depart(s *zkio.Session) error {
	err := st.double.leave(s, st.name)
	switch {
	case errors.Is(err, zkio.ErrNoNode), errors.Is(err, zkio.ErrNodeExists):
	case zkio.ClassOf(err) == zkio.Definite:
		return st.die(s, err)
	default:
		return err
	}
	// An earlier try was carried out, or the node has gone in another way.
	v, err := st.look(s)
	if err != nil {
		return err
	}
	o, _, err := st.ended(v)
	if err == nil && contains(o.Died, st.name) {
		err = access.Verdict(fmt.Errorf("%w: its node was gone before it left", ErrLost))
	}
	return err
}

// die deletes the node of a member that ZooKeeper does not let leave, for a reason: the others
// would wait for it until its session ends.
func (st *Stage) die(s *zkio.Session, why error) error {
	if err := st.node.Delete(s); err != nil && zkio.ClassOf(err) != zkio.Definite {
		return err
	}
	return access.Verdict(fmt.Errorf("%w: ZooKeeper does not let it leave: %w", ErrLost, why))
}

// await waits until no member is inside any more, and returns those that have died.
func (st *Stage) await(ctx context.Context) ([]member, error) {
	l := st.double.lookout()
	fresh := true
	var died []member
	err := l.Run(ctx, func(s *zkio.Session) (over bool, err error) {
		died, over, err = st.step(s, l, fresh)
		fresh = fresh && err != nil
		return over, err
	})
	if err != nil {
		return nil, err // a look may be writing to died
	}
	return died, nil
}

// step reports whether the round is over, and who has died in it. If it is not over, l watches
// a member that is inside. Fresh says that the member has just left.
func (st *Stage) step(s *zkio.Session, l *lookout, fresh bool) (died []member, over bool, err error) {
	for {
		v, err := st.look(s)
		if err != nil {
			return nil, false, err
		}
		o, over, err := st.ended(v)
		if err != nil {
			return nil, false, err
		}
		if over {
			// The last that leaves ends the round. If it has died instead, the first by name
			// does. If that one has given up, the round is ended when the next one begins.
			first := slices.IndexFunc(v.left, v.rec.has) == slices.Index(v.left, st.name)
			if v.rec.has(st.name) && (fresh || first && len(o.Died) > 0) {
				err = st.double.change(s, v, v.rec.end(o))
			}
			return o.Died, err == nil, err
		}
		there, err := l.watch(s, v.next(st.name))
		if there || err != nil {
			return nil, false, err
		}
	}
}

// look is [Double.look] for a member, to which a barrier without a record tells nothing.
func (st *Stage) look(s *zkio.Session) (view, error) {
	v, err := st.double.look(s)
	if errors.Is(err, zkio.ErrNoNode) {
		err = access.Verdict(fmt.Errorf("%w: another client has deleted the barrier's nodes: %w", manager.ErrUnknownOutcome, err))
	}
	return v, err
}

// ended reports whether the round is over, and how it ended, or would end now.
func (st *Stage) ended(v view) (o outcome, over bool, err error) {
	if v.rec.Round == st.Round && v.rec.has(st.name) {
		return v.outcome(), len(v.inside) == 0, nil
	}
	o, ok := v.rec.outcomeOf(st.Round)
	if !ok {
		return o, false, access.Verdict(fmt.Errorf("%w: there is no record of how round %d ended", manager.ErrUnknownOutcome, st.Round))
	}
	return o, true, nil
}
