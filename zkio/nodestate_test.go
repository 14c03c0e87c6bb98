// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"slices"
	"testing"
)

// TestNodeTransitions compares the table with what the states and events mean: a
// state is what is known of the node at path and of the others of its name.
func TestNodeTransitions(t *testing.T) {
	type meaning struct {
		path   bool // one was found, and not found to be gone since
		doubt  bool // … but a delete of ours may have taken it
		others bool // there may be others
	}
	states := [nodeStates]meaning{
		nodeAbsent:        {},
		nodeMaybe:         {others: true},
		nodeThere:         {path: true},
		nodeThereAndMaybe: {path: true, others: true},
		nodeDeleting:      {path: true, doubt: true},
	}
	events := [nodeEvents]struct {
		from []nodeState // where it can come
		do   func(*meaning)
	}{
		createSent: {[]nodeState{nodeAbsent}, func(m *meaning) { m.others = true }},
		created:    {[]nodeState{nodeMaybe}, func(m *meaning) { m.path, m.others = true, false }},
		notCreated: {[]nodeState{nodeMaybe}, func(m *meaning) { m.others = false }},
		createLost: {[]nodeState{nodeMaybe}, func(*meaning) {}},
		adopted:    {[]nodeState{nodeMaybe}, func(m *meaning) { m.path = true }},
		settled:    {[]nodeState{nodeMaybe, nodeThereAndMaybe}, func(m *meaning) { m.others = false }},
		vanished:   {[]nodeState{nodeThere}, func(m *meaning) { m.path = false }},
		deleteLost: {[]nodeState{nodeMaybe, nodeThere, nodeThereAndMaybe, nodeDeleting}, func(m *meaning) {
			m.doubt = m.path && !m.others // where there may be others, the next Remove looks at all of them
		}},
	}
	for st := nodeAbsent; st < nodeStates; st++ {
		for ev := range nodeEvents {
			want := never
			for _, from := range events[ev].from {
				if from != st {
					continue
				}
				m := states[st]
				events[ev].do(&m)
				want = nodeState(slices.Index(states[nodeAbsent:], m)) + nodeAbsent
				if want == never {
					t.Fatalf("event %d in state %d leads to %+v, which is no state", ev, st, m)
				}
			}
			if got := transitions[st][ev]; got != want {
				t.Errorf("event %d leads from state %d to %d, want %d", ev, st, got, want)
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an event that cannot come is accepted")
		}
	}()
	nodeAbsent.after(vanished)
}

// TestErrorsOfACreate: what each class of error leaves open.
func TestErrorsOfACreate(t *testing.T) {
	for err, want := range map[error]nodeEvent{
		nil: created, ErrNotSent: notCreated, ErrNoNode: notCreated, ErrNoAuth: notCreated,
		ErrUnknown: createLost, ErrSessionOver: createLost, ErrClosed: createLost,
	} {
		if got := createEvent(err); got != want {
			t.Errorf("%v is event %d, want %d", err, got, want)
		}
	}
}
