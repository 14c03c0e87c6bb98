// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/manager"
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

	// Waiting is how many processes are in line. The first of them may be about to get
	// its permits.
	Waiting int
}

// State asks ZooKeeper about the semaphore, in four requests or so. It blocks until ZooKeeper
// has answered or ctx ends.
func (s *Semaphore) State(ctx context.Context) (State, error) {
	st, err := ask(ctx, s.access, s.readState)
	if err != nil {
		return State{}, &manager.Error{Op: "state", Name: s.name, Err: err}
	}
	line, err := s.locks.Queue(ctx, 0)
	if err != nil {
		return State{}, err
	}
	st.Waiting = len(line)
	return st, nil
}

// readState reads all but the line.
func (s *Semaphore) readState(session *zkio.Session) (st State, err error) {
	number := zkio.Read{Path: s.number, What: zkio.ReadData}
	nodes := zkio.Read{Path: s.leases, What: zkio.ReadChildren}
	session.Read(&number, &nodes)
	for _, r := range []*zkio.Read{&number, &nodes} {
		if r.Err != nil && !errors.Is(r.Err, zkio.ErrNoNode) {
			return st, r.Err
		}
	}
	if number.Err == nil {
		st.Permits = max(0, sizeOf(number.Data, number.Stat.Version).n)
	}
	paths := make([]string, len(nodes.Names))
	for i, name := range nodes.Names {
		paths[i] = s.leases + "/" + name
	}
	for _, r := range session.GetAll(paths...) {
		switch {
		case r.Err == nil:
			st.Leases = append(st.Leases, manager.DescribeNode(r.Path, r.Data, r.Stat))
		case !errors.Is(r.Err, zkio.ErrNoNode):
			return st, r.Err
		}
	}
	slices.SortFunc(st.Leases, func(a, b manager.Contender) int { return cmp.Compare(a.Token, b.Token) })
	return st, nil
}
