// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// No history of locks that work is found to be wrong.
func TestGoodHistories(t *testing.T) {
	for seed := range uint64(100) {
		h, events := generate(seed, 20+100*int(seed%30))
		v := judged(h, events)
		if v.Outcome != verdict.OK {
			t.Errorf("seed %d: %v: %+v", seed, v.Outcome, v.Findings[:min(3, len(v.Findings))])
		}
	}
}

// A mistake makes a good history wrong.
type mistake struct {
	name string
	at   history.Kind                             // of the event at which it may be made
	make func(events []history.Event, i int) bool // makes it at event i, or reports false if it does not fit there
	by   string                                   // the check that must notice
}

var mistakes = []mistake{
	{"release after the next grant", history.Release, func(events []history.Event, i int) bool {
		next := successor(events, i)
		if next >= 0 {
			// Whatever was told under the next token must not be told to a process that is
			// excused: so only if the holder was not stopped at that time.
			move(events, i, events[next].At+ms)
		}
		return next >= 0
	}, verdict.Overlap},
	{"tokens exchanged", history.Granted, func(events []history.Event, i int) bool {
		next := successor(events, i)
		if next >= 0 {
			events[i].Token, events[next].Token = events[next].Token, events[i].Token
			events[i].Turn, events[next].Turn = events[next].Turn, events[i].Turn
		}
		return next >= 0
	}, verdict.Tokens},
	{"token repeated", history.Granted, func(events []history.Event, i int) bool {
		next := successor(events, i)
		if next >= 0 {
			events[next].Token, events[next].Turn = events[i].Token, events[i].Turn
		}
		return next >= 0
	}, verdict.Tokens},
	{"request without an end", history.Granted, func(events []history.Event, i int) bool {
		e := events[i]
		for k, f := range events {
			if f.Process == e.Process && f.Op == e.Op && f.Kind != history.Request {
				events[k].Kind = history.Alive
			}
		}
		return true
	}, verdict.Patience},
	{"old write accepted", history.Accepted, func(events []history.Event, i int) bool {
		next := following(events, i, func(f history.Event) bool {
			return f.Kind == history.Accepted && f.Lock == events[i].Lock
		})
		if next >= 0 {
			events[i].Token, events[next].Token = events[next].Token, events[i].Token
		}
		return next >= 0
	}, verdict.Register},
	{"loss told after the expiry", history.Lost, func(events []history.Event, i int) bool {
		e := events[i]
		expiry := slices.IndexFunc(events, func(f history.Event) bool {
			return f.Kind == history.Expired && f.Session == e.Session && f.At > e.At // not one that was stopped
		})
		if expiry >= 0 {
			move(events, i, events[expiry].At+5*ms)
		}
		return expiry >= 0
	}, verdict.Told},
	{"called valid by a loser", history.Lost, func(events []history.Event, i int) bool {
		e := events[i]
		granted := slices.IndexFunc(events, func(f history.Event) bool {
			return f.Kind == history.Granted && f.Lock == e.Lock && f.Token > e.Token && f.Process != e.Process
		})
		if granted < 0 || events[granted].At+1 >= e.At {
			return false
		}
		e.Kind, e.At = history.Valid, e.At-1
		events[0] = e // the first one is a request, whose grant then comes unasked
		return true
	}, verdict.Valid},
	{"too many permits", history.Granted, func(events []history.Event, i int) bool {
		permit := events[i].Mode == history.Permit
		if permit {
			events[i].Permits += 3
		}
		return permit
	}, verdict.Overlap},
}

// somewhere makes the mistake at one event of many, or reports false if the history has no place for it.
func (m mistake) somewhere(r *rand.Rand, events []history.Event) bool {
	var all []int
	for i, e := range events {
		if e.Kind == m.at {
			all = append(all, i)
		}
	}
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	made := slices.ContainsFunc(all, func(i int) bool { return m.make(events, i) })
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	return made
}

// following returns the index of the first event after i that is like that, or -1.
func following(events []history.Event, i int, like func(history.Event) bool) int {
	if k := slices.IndexFunc(events[i+1:], like); k >= 0 {
		return i + 1 + k
	}
	return -1
}

// successor returns the index of the first grant after event i, which is about a hold, to another
// process that may not share the lock with that hold, or -1.
func successor(events []history.Event, i int) int {
	e := events[i]
	return following(events, i, func(f history.Event) bool {
		return f.Kind == history.Granted && f.Lock == e.Lock && f.Process != e.Process && !scene.Together(e.Mode, f.Mode) && e.Mode != history.Permit
	})
}

// move moves event i to that time, and the later ones of its operation behind it.
func move(events []history.Event, i int, at int64) {
	for k := i + 1; k < len(events); k++ {
		if e := &events[k]; e.Process == events[i].Process && e.Op == events[i].Op {
			e.At = max(e.At, at+ms)
		}
	}
	events[i].At = at
}

// Each mistake in a good history is noticed, by the check that is there for it.
func TestMistakes(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			made, most := 0, max(racing.Fewer(40), 10)
			for seed := range uint64(most) {
				h, events := generate(seed, 1500)
				if !m.somewhere(rand.New(rand.NewPCG(seed, 2)), events) {
					continue
				}
				made++
				v := judged(h, events)
				if v.Outcome == verdict.OK || v.Outcome == verdict.Void {
					t.Errorf("seed %d: the outcome is %v", seed, v.Outcome)
				}
				if checkOf(v, m.by).Found == 0 {
					t.Errorf("seed %d: not noticed: %+v", seed, v.Findings)
				}
			}
			if made < most/4 {
				t.Errorf("the mistake was made %d times only", made)
			}
		})
	}
}
