// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A fault is one that the harness has injected.
type fault struct {
	number  int
	kind    string
	target  string
	process int    // that it hits, or -1
	lock    string // that it is about, if it is about one
	at      int64
	until   int64      // 0 while it lasts
	failed  bool       // it had no effect that is certain
	stays   bool       // workers stayed inside while it lasted
	hit     [over]bool // a hold in that phase
	lost    []string   // locks, and by which process

	// See excuses.
	connected int64                   // when the last of those that it hit had a connection again
	victims   []*process              // the processes that it hits
	grips     map[*lockRecord][]*grip // of its victims, that ended while it lasted or they recovered
}

// stops reports whether the fault stops a process, which then cannot know what it loses.
func (f *fault) stops() bool { return f.kind == "pause-worker" }

// deletes reports whether the fault deletes a contender's node. Then the next in line gets
// the lock at the same time as the contender is told.
func (f *fault) deletes() bool { return strings.HasPrefix(f.kind, "delete-") }

// toldAtEnd reports whether only the end of a fault of that kind tells what it did. It did so
// when it began, or a moment later.
func toldAtEnd(kind string) bool {
	f := fault{kind: kind}
	return f.stops() || f.deletes()
}

// told notes what the end of the fault tells of it.
func (f *fault) told(end history.Event) {
	f.lock = cmp.Or(f.lock, end.Lock)
	f.failed = !end.OK
}

// missed reports whether the fault has stopped no process, or deleted no node, for certain.
func (f *fault) missed() bool { return f.failed && (f.stops() || f.deletes() && f.lock == "") }

// revokes reports whether the fault asks holders to give up the lock.
func (f *fault) revokes() bool { return f.kind == "revoke" }

// disturbs reports whether the locks may be given later than otherwise. A revocation makes
// them come earlier, and a fault that missed what it was to hit makes no difference.
func (f *fault) disturbs() bool { return !f.revokes() && !f.missed() }

// affects reports whether the fault can affect holds of the process.
func (f *fault) affects(p *process) bool { return f.process < 0 || f.process == p.number }

// died notes that p has ended by the fault.
func (f *fault) died(p *process) {
	slices.Sort(p.had)
	for _, name := range p.had {
		f.lose(fmt.Sprintf("lock %q by process %d, which ended", name, p.number))
	}
}

func (f *fault) lose(what string) {
	if !slices.Contains(f.lost, what) && len(f.lost) < verdict.MaxFindings {
		f.lost = append(f.lost, what)
	}
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// faults are those that were injected.
type faults struct {
	all    []*fault                  // in the order of their beginnings, but for those that were forgotten
	older  map[string]*verdict.Fault // what those that were forgotten have hit, by kind
	recent []*fault                  // those that last, or ended not long ago
}

func newFaults() faults { return faults{older: map[string]*verdict.Fault{}} }

// began notes a fault.
func (fs *faults) began(e history.Event) *fault {
	f := &fault{number: e.Fault, kind: e.Text, target: e.Target, process: -1, lock: e.Lock, at: e.At, stays: e.Stays}
	if _, err := fmt.Sscanf(e.Target, "process %d", &f.process); err != nil {
		f.process = -1
	}
	fs.all = append(fs.all, f)
	fs.recent = append(fs.recent, f)
	fs.forget()
	return f
}

// manyFaults is how many faults a verdict lists. The page of a run has no more, either.
const manyFaults = 5000

// forget forgets faults if they are too many: those first that cost nothing, and then the
// oldest. What becomes of recent ones is not known yet. Their kinds count them all.
func (fs *faults) forget() {
	if len(fs.all) < manyFaults+manyFaults/8 { // seldom, because it looks at all
		return
	}
	surplus := len(fs.all) - manyFaults
	for _, costly := range []bool{false, true} {
		fs.all = slices.DeleteFunc(fs.all, func(f *fault) bool {
			if surplus == 0 || !costly && len(f.lost) > 0 || slices.Contains(fs.recent, f) {
				return false
			}
			surplus--
			k := fs.older[f.kind]
			if k == nil {
				k = &verdict.Fault{Kind: f.kind}
				fs.older[f.kind] = k
			}
			f.count(k)
			return true
		})
	}
}

// count adds the fault to what is known of its kind.
func (f *fault) count(k *verdict.Fault) {
	k.N++
	if !f.failed { // else it had no effect
		k.Held += number(f.hit[inside])
		k.Waiting += number(f.hit[waiting])
		k.Releasing += number(f.hit[releasing])
	}
	k.Lost += len(f.lost)
}

// ended notes the end of a fault, from which the locks need that long to recover. It
// returns nil if no such fault lasts.
func (fs *faults) ended(e history.Event, recovery int64) *fault {
	i := slices.IndexFunc(fs.recent, func(f *fault) bool { return f.number == e.Fault && f.until == 0 })
	if i < 0 {
		return nil
	}
	f := fs.recent[i]
	f.until = e.At
	f.told(e)
	fs.recent = slices.DeleteFunc(fs.recent, func(f *fault) bool {
		return f.until != 0 && f.until+recovery+10*reaction < e.At
	})
	return f
}

// during returns the faults that were active at that time, or had ended less than after
// before.
func (fs *faults) during(at, after int64) (all []*fault) {
	for _, f := range fs.recent {
		if f.at <= at && (f.until == 0 || at <= f.until+after) {
			all = append(all, f)
		}
	}
	return all
}

// near returns the numbers of the faults that may have to do with what happened then.
func (fs *faults) near(at int64) (numbers []int) {
	const enough = 10
	for _, f := range fs.during(at, 5*reaction) {
		numbers = append(numbers, f.number)
	}
	return numbers[max(0, len(numbers)-enough):]
}

// excused reports whether the holder could not know at that time that it had lost the
// lock, and since when that may have been so: because its process was stopped, or because an
// administrator had just deleted its node, also if the process was stopped then.
func (sc *scene) excused(h *hold, at int64) (since int64, ok bool) {
	since = never
	told := at
	if hiding := h.process.stops.hiding(h.asked, at); len(hiding) > 0 {
		told = hiding[0].began
		for _, s := range hiding {
			since = min(since, s.loses(h))
		}
	}
	if deleted, ok := sc.deleted(h, told, at); ok {
		since = min(since, deleted)
	}
	return since, since <= at
}

// unaware reports whether the holder of h could not know at that time that it had lost the
// lock, which another process was told at the time given that it has. What a process had lost
// before it was stopped, it knew before: a stop that came later is no excuse. Nor is one of
// which its session cannot have ended by then.
func (sc *scene) unaware(h *hold, given, at int64) bool {
	since, ok := sc.excused(h, at)
	return ok && since <= given
}

// deleted reports whether the node of h may have been deleted by a fault until the time at,
// and so shortly before the time told, since when the holder was told nothing, that it was
// not told of this either.
func (sc *scene) deleted(h *hold, told, at int64) (since int64, ok bool) {
	for _, f := range sc.faults.recent {
		if f.deletes() && f.affects(h.process) && f.lock == h.lock.Name &&
			f.at <= at && (f.until == 0 || told <= f.until+sc.header.SessionTimeout && h.asked <= f.until) {
			return f.at, true
		}
	}
	return 0, false
}

// targets returns the processes that f hits and that have not ended.
func (sc *scene) targets(f *fault) (all []*process) {
	for _, p := range sc.processes {
		if !p.over && f.process == p.number {
			all = append(all, p)
		}
	}
	return all
}

// given returns when h may have been given its mode at the earliest. A holder that was
// stopped is told later.
func (sc *scene) given(h *hold) int64 {
	if since, ok := sc.excused(h, h.since); ok {
		return since
	}
	return h.since
}

// sure returns the last time until that time at which the process could know whether it
// held h.
func (sc *scene) sure(h *hold, at int64) int64 {
	if since, ok := sc.excused(h, at); ok {
		return since
	}
	return at
}
