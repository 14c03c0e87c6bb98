// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// A Schedule is which faults come when. It depends only on what [NewSchedule] was given.
type Schedule struct {
	Injections []Injection   // in the order of After
	End        time.Duration // when all are over; no fault begins that would last longer
}

// An Injection is a fault that is to come.
type Injection struct {
	Number int    // from 1
	Kind   string // of Kinds
	// After is when it begins, from when the faults begin. It comes later if the ensemble is
	// not settled then, or the one before has been late.
	After time.Duration
	Lasts time.Duration // 0: it is a moment, or as long as what it does takes
	Pick  uint64        // decides what of several it hits
	// Stays says that before the fault begins workers stay inside with locks, until it is
	// over, so that it hits locks that are held and awaited. Without it the locks go on
	// changing hands, and the fault hits what happens then.
	Stays bool
}

// Two sequences of faults go on at the same time: those of servers, one after the other,
// and all others.
const (
	// What lies between the beginnings of two faults, on average, in a long run.
	serverPitch, otherPitch = 14 * time.Second, 7500 * time.Millisecond
	// The least of that in a short one.
	leastPitch = 700 * time.Millisecond
	// How long an ensemble may take, as a rule, until it has settled.
	settling = 3 * time.Second
	// How many faults that do not hit servers are active at most.
	atOnce = 3
)

// Of so many faults of a kind, one leaves the locks alone: the second. By then the first has
// hit a held lock and an awaited one, without which a run shows nothing of the kind. Since
// every kind comes up before one comes up again, the same is true of all kinds at about the
// same time: then no other fault has workers stay inside.
const oneOf = 3

// NewSchedule returns the schedule of a run of that duration. Every kind comes up before
// one comes up again; in a run that is too short for all, by chance some do not.
func NewSchedule(seed uint64, kinds []string, duration, sessionTimeout time.Duration) Schedule {
	s := Schedule{End: duration - min(5*time.Second, duration/8)}
	begin := min(2*time.Second, duration/10)
	var servers, others []Kind
	for _, name := range kinds {
		if k, ok := kindNamed(name); ok && k.server {
			servers = append(servers, k)
		} else if ok {
			others = append(others, k)
		}
	}
	for i, lane := range []lane{
		{kinds: servers, pitch: serverPitch, atOnce: 1, pause: settling},
		{kinds: others, pitch: otherPitch, atOnce: atOnce},
	} {
		lane.rng = rand.New(rand.NewPCG(seed, uint64(i)))
		lane.timeout = sessionTimeout
		s.Injections = append(s.Injections, lane.plan(begin, s.End)...)
	}
	slices.SortStableFunc(s.Injections, func(a, b Injection) int { return cmp.Compare(a.After, b.After) })
	before := make(map[string]int) // faults of each kind
	for i := range s.Injections {
		in := &s.Injections[i]
		in.Number = i + 1
		in.Stays = before[in.Kind]%oneOf != 1
		before[in.Kind]++
	}
	return s
}

// Kinds returns the kinds that come up, in the order of [Kinds].
func (s Schedule) Kinds() []string {
	return slices.DeleteFunc(allNames(), func(name string) bool {
		return !slices.ContainsFunc(s.Injections, func(in Injection) bool { return in.Kind == name })
	})
}

// A lane is a sequence of faults.
type lane struct {
	kinds   []Kind
	pitch   time.Duration // between the beginnings of two faults, on average, if there is time
	atOnce  int           // how many may be active
	pause   time.Duration // after each
	timeout time.Duration // of sessions
	rng     *rand.Rand
}

// plan returns the faults from begin until end. In a short run they come so close, and are
// so short, that all kinds fit, if pauses and timeouts allow.
func (l lane) plan(begin, end time.Duration) (all []Injection) {
	if len(l.kinds) == 0 {
		return nil
	}
	room := (end - begin) / time.Duration(len(l.kinds))
	crowded := room < l.pitch
	pitch := max(leastPitch, min(l.pitch, room))
	free := make([]time.Duration, l.atOnce) // when those that may be active are over
	deck := l.shuffled("")
	if crowded && l.atOnce > 1 {
		slices.SortStableFunc(deck, func(a, b Kind) int { return cmp.Compare(l.least(b), l.least(a)) })
	}
	for at := begin; ; at += l.between(pitch*3/5, pitch*7/5) {
		slices.Sort(free)
		at = max(at, free[0])
		// Near the end, shorter ones fit when longer ones do not.
		i := slices.IndexFunc(deck, func(k Kind) bool { return at+l.least(k) <= end })
		if i < 0 {
			return all
		}
		k := deck[i]
		in := Injection{Kind: k.Name, After: at, Lasts: l.duration(k, crowded, end-at), Pick: l.rng.Uint64()}
		all = append(all, in)
		free[0] = at + in.Lasts + l.pause
		if deck = slices.Delete(deck, i, i+1); len(deck) == 0 {
			deck = l.shuffled(k.Name)
		}
	}
}

// shuffled returns the kinds in an order by chance, but the one called last is not the
// first, unless there is no other.
func (l lane) shuffled(last string) []Kind {
	deck := slices.Clone(l.kinds)
	l.rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	if deck[0].Name == last {
		deck[0], deck[len(deck)-1] = deck[len(deck)-1], deck[0]
	}
	return deck
}

// least returns how long a fault of that kind lasts at least.
func (l lane) least(k Kind) time.Duration {
	if k.lasts == nil {
		return 0
	}
	least, _ := k.lasts(l.timeout)
	return least
}

// duration returns how long a fault of that kind lasts that fits into the time that is left.
func (l lane) duration(k Kind, crowded bool, left time.Duration) time.Duration {
	if k.lasts == nil {
		return 0
	}
	least, most := k.lasts(l.timeout)
	if crowded {
		most = least + (most-least)/4
	}
	return l.between(least, min(most, left))
}

// between returns a duration of at least a and at most b, by chance, in whole
// milliseconds.
func (l lane) between(a, b time.Duration) time.Duration {
	return (a + time.Duration(l.rng.Int64N(int64(b-a)+1))).Truncate(time.Millisecond)
}
