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

// A mistake makes a good history wrong. It returns nil if the history has no place for it.
type mistake struct {
	name string
	make func(r *rand.Rand, events []history.Event) []history.Event
	by   string // the check that must notice
}

var mistakes = []mistake{
	{"release after the next grant", func(r *rand.Rand, events []history.Event) []history.Event {
		return pick(r, events, history.Release, func(i int) bool {
			e := events[i]
			if scene.Kind(e.Mode) == scene.Semaphore {
				return false
			}
			next := following(events, i, func(f history.Event) bool {
				return f.Kind == history.Granted && f.Lock == e.Lock && f.Process != e.Process && !scene.Together(e.Mode, f.Mode)
			})
			if next < 0 {
				return false
			}
			// Whatever was told under the next token must not be told to a process that is
			// excused: so only if the holder was not stopped at that time.
			move(events, i, events[next].At+ms)
			return true
		})
	}, verdict.Overlap},
	{"tokens exchanged", func(r *rand.Rand, events []history.Event) []history.Event {
		return pick(r, events, history.Granted, func(i int) bool {
			e := events[i]
			next := following(events, i, func(f history.Event) bool {
				return f.Kind == history.Granted && f.Lock == e.Lock && f.Process != e.Process && !scene.Together(e.Mode, f.Mode) && scene.Kind(e.Mode) != scene.Semaphore
			})
			if next < 0 {
				return false
			}
			events[i].Token, events[next].Token = events[next].Token, e.Token
			events[i].Turn, events[next].Turn = events[next].Turn, e.Turn
			return true
		})
	}, verdict.Tokens},
	{"token repeated", func(r *rand.Rand, events []history.Event) []history.Event {
		return pick(r, events, history.Granted, func(i int) bool {
			e := events[i]
			next := following(events, i, func(f history.Event) bool {
				return f.Kind == history.Granted && f.Lock == e.Lock && f.Process != e.Process && !scene.Together(e.Mode, f.Mode) && scene.Kind(e.Mode) != scene.Semaphore
			})
			if next < 0 {
				return false
			}
			events[next].Token, events[next].Turn = e.Token, e.Turn
			return true
		})
	}, verdict.Tokens},
	{"request without an end", func(r *rand.Rand, events []history.Event) []history.Event {
		return pick(r, events, history.Granted, func(i int) bool {
			e := events[i]
			for k := len(events) - 1; k >= 0; k-- {
				if f := events[k]; f.Process == e.Process && f.Op == e.Op && f.Kind != history.Request {
					events[k].Kind = history.Alive
				}
			}
			return true
		})
	}, verdict.Patience},
	{"old write accepted", func(r *rand.Rand, events []history.Event) []history.Event {
		return pick(r, events, history.Accepted, func(i int) bool {
			next := following(events, i, func(f history.Event) bool {
				return f.Kind == history.Accepted && f.Lock == events[i].Lock
			})
			if next >= 0 {
				events[i].Token, events[next].Token = events[next].Token, events[i].Token
			}
			return next >= 0
		})
	}, verdict.Register},
	{"loss told after the expiry", func(r *rand.Rand, events []history.Event) []history.Event {
		return pick(r, events, history.Lost, func(i int) bool {
			e := events[i]
			for _, f := range events {
				if f.Kind == history.Expired && f.Session == e.Session && f.At > e.At { // not one that was stopped
					move(events, i, f.At+5*ms)
					return true
				}
			}
			return false
		})
	}, verdict.Told},
	{"called valid by a loser", func(r *rand.Rand, events []history.Event) []history.Event {
		return pick(r, events, history.Lost, func(i int) bool {
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
		})
	}, verdict.Valid},
	{"too many permits", func(r *rand.Rand, events []history.Event) []history.Event {
		return pick(r, events, history.Granted, func(i int) bool {
			if events[i].Mode != history.Permit {
				return false
			}
			events[i].Permits += 3
			return true
		})
	}, verdict.Overlap},
}

// pick tries the mistake on events of that kind, in a random order, until it fits.
func pick(r *rand.Rand, events []history.Event, kind history.Kind, try func(i int) bool) []history.Event {
	var all []int
	for i, e := range events {
		if e.Kind == kind {
			all = append(all, i)
		}
	}
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for _, i := range all {
		if try(i) {
			slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
			return events
		}
	}
	return nil
}

// following returns the index of the first event after i that is like that, or -1.
func following(events []history.Event, i int, like func(history.Event) bool) int {
	k := slices.IndexFunc(events[i+1:], like)
	if k < 0 {
		return -1
	}
	return i + 1 + k
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
				events = m.make(rand.New(rand.NewPCG(seed, 2)), events)
				if events == nil {
					continue
				}
				made++
				v := judged(h, events)
				if v.Outcome == verdict.OK || v.Outcome == verdict.Void {
					t.Errorf("seed %d: the outcome is %v", seed, v.Outcome)
				}
				for _, c := range v.Checks {
					if c.Name == m.by && c.Found == 0 {
						t.Errorf("seed %d: not noticed: %+v", seed, v.Findings)
					}
				}
			}
			if made < most/4 {
				t.Errorf("the mistake was made %d times only", made)
			}
		})
	}
}
