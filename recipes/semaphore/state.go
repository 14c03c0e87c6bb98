// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"cmp"
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

// A State is what ZooKeeper has about a semaphore. The fields need not be of the same
// moment.
type State struct {
	// Permits is how many permits the semaphore has; 0 if none was ever set.
	Permits int

	// Leases describes one node for each permit in use, the oldest first. If they are more
	// than Permits, the last ones belong to the process at the head of the line, which
	// waits until they are not, or the number was lowered.
	Leases []manager.Contender

	// Waiting is how many processes wait for permits: those in line, without a first one that
	// has nothing to wait for. That one is about to get its permits or to leave the line, or
	// keeps its place for later since its Manager's locks linger: see manager.Config.Linger.
	Waiting int
}

// State asks ZooKeeper about the semaphore, in four requests or so. It blocks until ZooKeeper
// has answered or ctx ends.
func (s *Semaphore) State(ctx context.Context) (State, error) {
	st, err := access.Ask(ctx, s.access, s.readState)
	if err != nil {
		return State{}, s.error("state", err)
	}
	line, err := s.locks.Queue(ctx, 1)
	if err != nil {
		return State{}, err
	}
	if st.Waiting = len(line); st.Waiting > 0 && !st.awaits(line[0]) {
		st.Waiting--
	}
	return st, nil
}

// awaits reports whether the first in line waits for its permits: then it has made their nodes,
// which are more than there may be. A process whose node cannot be read is taken for one that
// waits.
func (st *State) awaits(first manager.Contender) bool {
	return first.Session == 0 || slices.ContainsFunc(st.Leases[min(st.Permits, len(st.Leases)):], func(l manager.Contender) bool {
		return l.Session == first.Session
	})
}

// readState reads all but the line.
func (s *Semaphore) readState(session *zkio.Session) (st State, err error) {
	number := zkio.Read{Path: s.number, What: zkio.ReadData}
	nodes := zkio.Read{Path: s.leases, What: zkio.ReadChildren}
	session.Read(&number, &nodes)
	if err := cmp.Or(access.Unless(number.Err, zkio.ErrNoNode), access.Unless(nodes.Err, zkio.ErrNoNode)); err != nil {
		return st, err
	}
	if number.Err == nil {
		st.Permits = max(0, sizeOf(number.Data, number.Stat.Version).n)
	}
	path := func(name string) string { return s.leases + "/" + name }
	err = access.Each(session, nodes.Names, path, func(_ string, r *zkio.Read) {
		st.Leases = append(st.Leases, manager.DescribeNode(r.Path, r.Data, r.Stat))
	})
	slices.SortFunc(st.Leases, func(a, b manager.Contender) int { return cmp.Compare(a.Token, b.Token) })
	return st, err
}
