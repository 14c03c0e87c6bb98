// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// An edge is a step of a tiny model, whose states are numbers. The run starts in 0.
type edge struct {
	from, to int
	kind     Kind
	violates string
	progress bool
	actor    string // "" stands for the number of from
}

func (e edge) by() string { return cmp.Or(e.actor, fmt.Sprint(e.from)) }

// A graph is a tiny model.
type graph struct {
	edges        []edge
	bad          []int // states that violate the invariant
	ends         []int
	stuck        []int // states that must not be left to a timer
	mustProgress bool
}

const (
	badState = "bad state"
	badStep  = "bad step"
	stuck    = "stuck"
)

func (g graph) model() Model[int] {
	in := func(list []int, why string) func(int) string {
		return func(s int) string {
			if slices.Contains(list, s) {
				return why
			}
			return ""
		}
	}
	return Model[int]{
		Next: func(s int, take func(Step[int])) {
			for _, e := range g.edges {
				if e.from == s {
					take(Step[int]{Actor: e.by(), Action: fmt.Sprint(e.to), To: e.to, Kind: e.kind, Violates: e.violates, Progress: e.progress})
				}
			}
		},
		Invariant:    in(g.bad, badState),
		Idle:         in(g.stuck, stuck),
		Done:         func(s int) bool { return slices.Contains(g.ends, s) },
		Show:         func(s int) string { return fmt.Sprint(s) },
		MustProgress: g.mustProgress,
	}
}

// line returns mandatory steps from each state to the next.
func line(states ...int) (edges []edge) {
	for i := 1; i < len(states); i++ {
		edges = append(edges, edge{from: states[i-1], to: states[i]})
	}
	return edges
}

// path returns the states of a trace.
func path(trace []Event) string {
	var states []string
	for _, e := range trace {
		states = append(states, e.State)
	}
	return strings.Join(states, " ")
}

func TestSearch(t *testing.T) {
	optional, timer := edge{from: 1, to: 2, kind: Optional}, edge{from: 1, to: 2, kind: Timer}
	tests := []struct {
		name     string
		graph    graph
		violated string
		path     string // of the trace
		states   int
	}{
		{"one state", graph{ends: []int{0}}, "", "", 1},
		{"a line", graph{edges: line(0, 1, 2, 3), ends: []int{3}}, "", "", 4},
		{"two ways", graph{edges: append(line(0, 1, 3), line(0, 2, 3)...), ends: []int{3}}, "", "", 4},
		{"a cycle with a way out", graph{edges: append(line(0, 1, 0), line(1, 2)...), ends: []int{2}}, "", "", 3},
		{"what is not reached does not count", graph{edges: append(line(0, 1), line(2, 3)...), ends: []int{1}, bad: []int{2, 3}}, "", "", 2},

		{"a bad start", graph{ends: []int{0}, bad: []int{0}}, badState, "0", 1},
		{"a bad state, by the shortest way", graph{edges: append(line(0, 1, 2, 3), line(0, 4, 3)...), ends: []int{3}, bad: []int{3}}, badState, "0 4 3", 5},
		{"a bad state after an optional step", graph{edges: []edge{{to: 1, kind: Optional}}, ends: []int{0, 1}, bad: []int{1}}, badState, "0 1", 2},
		{"a bad step", graph{edges: []edge{{to: 1}, {from: 1, to: 0, violates: badStep}}, ends: []int{0, 1}}, badStep, "0 1 0", 2},

		{"a deadlock", graph{edges: line(0, 1, 2), ends: []int{3}}, Deadlock, "0 1 2", 3},
		{"left by an optional step only", graph{edges: append(line(0, 1), optional), ends: []int{2}}, Deadlock, "0 1", 3},
		{"left by a timer", graph{edges: append(line(0, 1), timer), ends: []int{2}}, "", "", 3},
		{"left to itself only", graph{edges: line(0, 1, 1), ends: []int{2}}, Deadlock, "0 1", 2},

		{"a trap", graph{edges: append(line(0, 1, 2, 1), line(0, 3)...), ends: []int{3}}, Trap, "0 1", 4},
		{"a trap with an optional way out", graph{edges: append(line(0, 1, 2, 1), edge{from: 2, to: 3, kind: Optional}), ends: []int{3}}, Trap, "0", 4},
		{"a trap after an optional step", graph{edges: append(line(1, 2, 1), edge{to: 1, kind: Optional}, edge{to: 3}), ends: []int{3}}, Trap, "0 1", 4},

		{"stuck", graph{edges: append(line(0, 1), timer), ends: []int{2}, stuck: []int{1}}, stuck, "0 1", 3},
		{"stuck beside an optional step", graph{edges: append(line(0, 1), timer, optional), ends: []int{2}, stuck: []int{1}}, stuck, "0 1", 3},
		{"not stuck", graph{edges: append(line(0, 1, 3, 2), timer), ends: []int{2}, stuck: []int{1}}, "", "", 4},

		{"a livelock", graph{edges: append(line(0, 1, 2, 1), line(2, 3)...), ends: []int{3}, mustProgress: true}, Livelock, "0 1 2 1", 4},
		{"a livelock of three states", graph{edges: append(line(0, 1, 2, 3, 1), line(3, 4)...), ends: []int{4}, mustProgress: true}, Livelock, "0 1 2 3 1", 5},
		{"a livelock of optional steps", graph{edges: []edge{{to: 1}, {from: 1, to: 1, kind: Optional}}, ends: []int{1}, mustProgress: true}, Livelock, "0 1 1", 2},
		{"a cycle that is not forbidden", graph{edges: append(line(0, 1, 2, 1), line(2, 3)...), ends: []int{3}}, "", "", 4},
		{"a cycle with progress", graph{edges: append(line(0, 1, 2, 3), edge{from: 2, to: 1, progress: true}), ends: []int{3}, mustProgress: true}, "", "", 4},
		{"a shorter cycle without", graph{edges: append(line(0, 1, 2, 3, 2), edge{from: 2, to: 1, progress: true}), ends: []int{3}, mustProgress: true}, Livelock, "0 1 2 3 2", 4},
		{"an actor left out of a cycle", graph{edges: []edge{{to: 1, actor: "a"}, {from: 1, to: 0, actor: "a"}, {to: 2, actor: "b"}, {from: 1, to: 2, actor: "b"}}, ends: []int{2}, mustProgress: true}, "", "", 3},
		{"an actor that need not act", graph{edges: []edge{{to: 1, actor: "a"}, {from: 1, to: 0, actor: "a"}, {from: 1, to: 2, actor: "a"}, {to: 2, actor: "b", kind: Optional}, {from: 1, to: 2, actor: "b", kind: Optional}}, ends: []int{2}, mustProgress: true}, Livelock, "0 1 0", 3},
		{"an actor that cannot always act", graph{edges: []edge{{to: 1, actor: "a"}, {from: 1, to: 0, actor: "a"}, {to: 2, actor: "b"}}, ends: []int{2}, mustProgress: true}, Livelock, "0 1 0", 3},
	}
	for _, tt := range tests {
		r := tt.graph.model().Search(0)
		if r.Violated != tt.violated || path(r.Trace) != tt.path || r.States != tt.states {
			t.Errorf("%s: violated %q by %q in %d states, want %q by %q in %d", tt.name, r.Violated, path(r.Trace), r.States, tt.violated, tt.path, tt.states)
		}
		if r.Violated == "" && !r.Complete {
			t.Errorf("%s: the search is not complete", tt.name)
		}
	}
}

// The events of a trace name the steps that lead to their states.
func TestTrace(t *testing.T) {
	g := graph{edges: []edge{{from: 0, to: 1}, {from: 1, to: 2, violates: badStep}}, ends: []int{2}}
	want := []Event{{"", "start", "0"}, {"0", "1", "1"}, {"1", "2", "2"}}
	if got := g.model().Search(0).Trace; !slices.Equal(got, want) {
		t.Errorf("trace %q, want %q", got, want)
	}
}

// A search that reaches its limit proves nothing.
func TestLimit(t *testing.T) {
	g := graph{edges: line(0, 1, 2, 3), ends: []int{3}}
	for limit, complete := range map[int]bool{2: false, 3: false, 4: true, 5: true} {
		if r := g.model().Search(limit); r.Complete != complete || r.Violated != "" {
			t.Errorf("limit %d of 4 states: complete is %t, violated %q", limit, r.Complete, r.Violated)
		}
	}
}

// A model whose answer is known: n philosophers, each of which takes one fork, then
// another, eats, and puts both back.
type table struct {
	has  [5]uint8 // forks
	fork [5]bool  // taken
}

func philosophers(n int, second func(p int) (fork int), first func(p int) (fork int)) Model[table] {
	return Model[table]{
		Next: func(s table, take func(Step[table])) {
			for p := range n {
				s := s
				forks := [...]int{first(p), second(p)}
				if s.has[p] == 2 {
					s.has[p] = 0
					s.fork[forks[0]], s.fork[forks[1]] = false, false
				} else if next := forks[s.has[p]]; !s.fork[next] {
					s.fork[next] = true
					s.has[p]++
				} else {
					continue
				}
				take(Step[table]{Actor: fmt.Sprint("philosopher ", p), Action: "goes on", To: s})
			}
		},
		Invariant: func(s table) string {
			for p := range n {
				if s.has[p] == 2 && s.has[(p+1)%n] == 2 {
					return "neighbours eat"
				}
			}
			return ""
		},
		Done: func(s table) bool { return s == table{} },
		Show: func(s table) string { return fmt.Sprint(s.has[:n]) },
	}
}

func TestPhilosophers(t *testing.T) {
	left := func(p int) int { return p }
	right := func(p int) int { return (p + 1) % 5 }
	r := philosophers(5, right, left).Search(0)
	if last := r.Trace[len(r.Trace)-1].State; r.Violated != Deadlock || last != "[1 1 1 1 1]" || len(r.Trace) != 6 {
		t.Errorf("all take the left fork first: %q in %s after %d steps, want a deadlock in [1 1 1 1 1] after 5", r.Violated, last, len(r.Trace)-1)
	}
	low := func(p int) int { return min(left(p), right(p)) }
	high := func(p int) int { return max(left(p), right(p)) }
	if r := philosophers(5, high, low).Search(0); r.Violated != "" || !r.Complete {
		t.Errorf("all take the lower fork first: %q", r.Violated)
	}
}

// Random graphs are judged by an oracle that knows all distances.
func TestSearchAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "states")
		state := rapid.IntRange(0, n-1)
		g := graph{
			edges: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) edge {
				return edge{
					from: state.Draw(t, "from"), to: state.Draw(t, "to"),
					kind:     rapid.SampledFrom([]Kind{Mandatory, Mandatory, Optional, Timer}).Draw(t, "kind"),
					violates: rapid.SampledFrom([]string{"", "", "", "", "", "", badStep}).Draw(t, "violates"),
					progress: rapid.Bool().Draw(t, "progress"),
					actor:    rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "actor"),
				}
			}), 0, 14).Draw(t, "edges"),
			bad:          rapid.SliceOfN(state, 0, 1).Draw(t, "bad"),
			ends:         rapid.SliceOfN(state, 0, 3).Draw(t, "ends"),
			stuck:        rapid.SliceOfN(state, 0, 1).Draw(t, "stuck"),
			mustProgress: rapid.Bool().Draw(t, "mustProgress"),
		}
		oracle := newOracle(g, n)
		r := g.model().Search(0)
		if !slices.Contains(oracle.expected(), r.Violated) {
			t.Fatalf("found %q by %s, want one of %q", r.Violated, path(r.Trace), oracle.expected())
		}
		if r.Violated != "" {
			oracle.checkTrace(t, r)
		} else if r.States != len(oracle.reached) {
			t.Fatalf("%d states, want %d", r.States, len(oracle.reached))
		}
	})
}

// An oracle judges a tiny model by the paths between all its states.
type oracle struct {
	graph
	far     []int // the distance of each state from 0; -1 if it is not reached
	reached []int
	sure    [][]bool // by how many steps that are sure to happen: any, none included
	vain    [][]bool // by steps without progress: at least one
}

func newOracle(g graph, n int) oracle {
	o := oracle{graph: g, far: slices.Repeat([]int{-1}, n), reached: []int{0}}
	o.far[0] = 0
	for i := 0; i < len(o.reached); i++ {
		for _, e := range g.edges {
			if e.from == o.reached[i] && o.far[e.to] < 0 {
				o.far[e.to] = o.far[e.from] + 1
				o.reached = append(o.reached, e.to)
			}
		}
	}
	o.sure = closure(g.edges, n, func(e edge) bool { return e.kind != Optional })
	for i := range n {
		o.sure[i][i] = true
	}
	o.vain = closure(g.edges, n, func(e edge) bool { return !e.progress })
	return o
}

// closure says which states lead to which by edges that count.
func closure(edges []edge, n int, counts func(edge) bool) [][]bool {
	m := make([][]bool, n)
	for i := range m {
		m[i] = make([]bool, n)
	}
	for _, e := range edges {
		m[e.from][e.to] = m[e.from][e.to] || counts(e)
	}
	for k := range n {
		for i := range n {
			for j := range n {
				m[i][j] = m[i][j] || m[i][k] && m[k][j]
			}
		}
	}
	return m
}

// faults returns what is wrong with state i, as it can be seen from there.
func (o oracle) faults(i int) (faults []string) {
	if slices.Contains(o.bad, i) {
		return []string{badState}
	}
	idle, leaves := true, false
	for _, e := range o.edges {
		if e.from != i {
			continue
		}
		if e.violates != "" {
			return []string{badStep}
		}
		if e.to != i {
			idle = idle && e.kind != Mandatory
			leaves = leaves || e.kind != Optional
		}
	}
	if idle && slices.Contains(o.stuck, i) {
		return []string{stuck}
	}
	if !leaves && !slices.Contains(o.ends, i) {
		return []string{Deadlock}
	}
	return nil
}

// nearest returns the distance of the nearest state with faults, or -1.
func (o oracle) nearest() int {
	for _, i := range o.reached {
		if len(o.faults(i)) > 0 {
			return o.far[i]
		}
	}
	return -1
}

// expected returns what the checker may find.
func (o oracle) expected() (found []string) {
	if nearest := o.nearest(); nearest >= 0 {
		for _, i := range o.reached {
			if o.far[i] == nearest {
				found = append(found, o.faults(i)...)
			}
		}
		return found
	}
	for _, i := range o.reached {
		if !slices.ContainsFunc(o.ends, func(end int) bool { return o.sure[i][end] }) {
			return []string{Trap}
		}
	}
	for _, i := range o.reached {
		if o.mustProgress && o.vain[i][i] && o.fair(i) {
			return []string{Livelock}
		}
	}
	return []string{""}
}

// fair reports whether no actor has to be left out of a run that comes back to state
// i for ever, without progress, by all states that it can come by.
func (o oracle) fair(i int) bool {
	in := func(j int) bool { return o.vain[i][j] && o.vain[j][i] }
	for _, actor := range []string{"a", "b", "c"} {
		acts, unable := false, false
		for j := range o.vain {
			if !in(j) {
				continue
			}
			able := false
			for _, e := range o.edges {
				if e.from == j && e.actor == actor {
					able = able || e.kind != Optional
					acts = acts || !e.progress && in(e.to)
				}
			}
			unable = unable || !able
		}
		if !acts && !unable {
			return false
		}
	}
	return true
}

// checkTrace checks that a trace is a shortest way to what was found.
func (o oracle) checkTrace(t *rapid.T, r Result) {
	var states []int
	for _, e := range r.Trace {
		var s int
		if _, err := fmt.Sscan(e.State, &s); err != nil {
			t.Fatal(err)
		}
		states = append(states, s)
	}
	for i := 1; i < len(states); i++ {
		if !slices.ContainsFunc(o.edges, func(e edge) bool { return e.from == states[i-1] && e.to == states[i] }) {
			t.Fatalf("there is no step from %d to %d in %v", states[i-1], states[i], states)
		}
	}
	last := len(states) - 1
	switch r.Violated {
	case badStep:
		last--
	case Livelock:
		if states[last] != states[slices.Index(states, states[last])] || slices.Index(states, states[last]) == last {
			t.Fatalf("%v does not end in a cycle", states)
		}
		return
	case Trap:
		if slices.ContainsFunc(o.ends, func(end int) bool { return o.sure[states[last]][end] }) {
			t.Fatalf("%v does not end in a trap", states)
		}
	default:
		if !slices.Contains(o.faults(states[last]), r.Violated) {
			t.Fatalf("%v does not end in %s", states, r.Violated)
		}
	}
	if o.far[states[last]] != last {
		t.Fatalf("%v is not a shortest way", states)
	}
}
