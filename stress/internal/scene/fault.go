// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A Fault is one that the harness has injected.
type Fault struct {
	Number  int
	Kind    string
	Target  string
	Process int    // that it hits, or -1
	Lock    string // that it is about, if it is about one
	At      int64
	Until   int64      // 0 while it lasts
	Failed  bool       // it had no effect that is certain
	stays   bool       // workers stayed inside while it lasted
	Hit     [over]bool // a hold in that phase
	Lost    []string   // locks, and by which process

	// See excuses.
	connected int64             // when the last of those that it hit had a connection again
	victims   []*Process        // the processes that it hits
	Grips     map[*Lock][]*grip // of its victims, that ended while it lasted or they recovered
}

// Stops reports whether the fault stops a process, which then cannot know what it loses.
func (f *Fault) Stops() bool { return f.Kind == "pause-worker" }

// deletes reports whether the fault deletes a contender's node. Then the next in line gets
// the lock at the same time as the contender is told.
func (f *Fault) deletes() bool { return strings.HasPrefix(f.Kind, "delete-") }

// ToldAtEnd reports whether only the end of a fault of that kind tells what it did. It did so
// when it began, or a moment later.
func ToldAtEnd(kind string) bool {
	f := Fault{Kind: kind}
	return f.Stops() || f.deletes()
}

// Told notes what the end of the fault tells of it.
func (f *Fault) Told(end history.Event) {
	f.Lock = cmp.Or(f.Lock, end.Lock)
	f.Failed = !end.OK
}

// Missed reports whether the fault has stopped no process, or deleted no node, for certain.
func (f *Fault) Missed() bool { return f.Failed && (f.Stops() || f.deletes() && f.Lock == "") }

// Revokes reports whether the fault asks holders to give up the lock.
func (f *Fault) Revokes() bool { return f.Kind == "revoke" }

// Disturbs reports whether the locks may be given later than otherwise. A revocation makes
// them come earlier, and a fault that missed what it was to hit makes no difference.
func (f *Fault) Disturbs() bool { return !f.Revokes() && !f.Missed() }

// Affects reports whether the fault can affect holds of the process.
func (f *Fault) Affects(p *Process) bool { return f.Process < 0 || f.Process == p.Number }

// Died notes that p has ended by the fault.
func (f *Fault) Died(p *Process) {
	slices.Sort(p.had)
	for _, name := range p.had {
		f.Lose(fmt.Sprintf("lock %q by process %d, which ended", name, p.Number))
	}
}

// Lose notes what the fault has cost.
func (f *Fault) Lose(what string) {
	if !slices.Contains(f.Lost, what) && len(f.Lost) < verdict.MaxFindings {
		f.Lost = append(f.Lost, what)
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
	All    []*Fault                  // in the order of their beginnings, but for those that were forgotten
	Older  map[string]*verdict.Fault // what those that were forgotten have hit, by kind
	Recent []*Fault                  // those that last, or ended not long ago
}

// Began notes a fault.
func (fs *faults) Began(e history.Event) *Fault {
	f := &Fault{Number: e.Fault, Kind: e.Text, Target: e.Target, Process: history.TargetProcess(e.Target), Lock: e.Lock, At: e.At, stays: e.Stays}
	fs.All = append(fs.All, f)
	fs.Recent = append(fs.Recent, f)
	fs.forget()
	return f
}

// ManyFaults is how many faults a verdict lists. The page of a run has no more, either.
const ManyFaults = 5000

// forget forgets faults if they are too many: those first that cost nothing, and then the
// oldest. What becomes of recent ones is not known yet. Their kinds count them all.
func (fs *faults) forget() {
	if len(fs.All) < ManyFaults+ManyFaults/8 { // seldom, because it looks at all
		return
	}
	surplus := len(fs.All) - ManyFaults
	for _, costly := range []bool{false, true} {
		fs.All = slices.DeleteFunc(fs.All, func(f *Fault) bool {
			if surplus == 0 || !costly && len(f.Lost) > 0 || slices.Contains(fs.Recent, f) {
				return false
			}
			surplus--
			k := fs.Older[f.Kind]
			if k == nil {
				k = &verdict.Fault{Kind: f.Kind}
				fs.Older[f.Kind] = k
			}
			f.Count(k)
			return true
		})
	}
}

// Count adds the fault to what is known of its kind.
func (f *Fault) Count(k *verdict.Fault) {
	k.N++
	if !f.Failed { // else it had no effect
		k.Held += number(f.Hit[Inside])
		k.Waiting += number(f.Hit[Waiting])
		k.Releasing += number(f.Hit[Releasing])
	}
	k.Lost += len(f.Lost)
}

// Ended notes the end of a fault, from which the locks need that long to recover. It
// returns nil if no such fault lasts.
func (fs *faults) Ended(e history.Event, recovery int64) *Fault {
	i := slices.IndexFunc(fs.Recent, func(f *Fault) bool { return f.Number == e.Fault && f.Until == 0 })
	if i < 0 {
		return nil
	}
	f := fs.Recent[i]
	f.Until = e.At
	f.Told(e)
	fs.Recent = slices.DeleteFunc(fs.Recent, func(f *Fault) bool {
		return f.Until != 0 && f.Until+recovery+10*Reaction < e.At
	})
	return f
}

// During returns the faults that were active at that time, or had ended less than after
// before.
func (fs *faults) During(at, after int64) (all []*Fault) {
	for _, f := range fs.Recent {
		if f.At <= at && (f.Until == 0 || at <= f.Until+after) {
			all = append(all, f)
		}
	}
	return all
}

// Near returns the numbers of the faults that may have to do with what happened then.
func (fs *faults) Near(at int64) (numbers []int) {
	const enough = 10
	for _, f := range fs.During(at, 5*Reaction) {
		numbers = append(numbers, f.Number)
	}
	return numbers[max(0, len(numbers)-enough):]
}

// Excused reports whether the holder could not know at that time that it had lost the
// lock, and since when that may have been so: because its process was stopped, or because an
// administrator had just deleted its node, also if the process was stopped then.
func (sc *Scene) Excused(h *Hold, at int64) (since int64, ok bool) {
	since = never
	told := at
	if hiding := h.Process.Stops.hiding(h.Asked, at); len(hiding) > 0 {
		told = hiding[0].began
		for _, s := range hiding {
			since = min(since, s.loses(h))
		}
	}
	if deleted, ok := sc.Deleted(h, told, at); ok {
		since = min(since, deleted)
	}
	return since, since <= at
}

// Unaware reports whether the holder of h could not know at that time that it had lost the
// lock, which another process was told at the time given that it has. What a process had lost
// before it was stopped, it knew before: a stop that came later is no excuse. Nor is one of
// which its session cannot have ended by then.
func (sc *Scene) Unaware(h *Hold, given, at int64) bool {
	since, ok := sc.Excused(h, at)
	return ok && since <= given
}

// Deleted reports whether the node of h may have been deleted by a fault until the time at,
// and so shortly before the time told, since when the holder was told nothing, that it was
// not told of this either.
func (sc *Scene) Deleted(h *Hold, told, at int64) (since int64, ok bool) {
	for _, f := range sc.Faults.Recent {
		if f.deletes() && f.Affects(h.Process) && f.Lock == h.Lock.Name &&
			f.At <= at && (f.Until == 0 || told <= f.Until+sc.Header.SessionTimeout && h.Asked <= f.Until) {
			return f.At, true
		}
	}
	return 0, false
}

// Targets returns the processes that f hits and that have not ended.
func (sc *Scene) Targets(f *Fault) (all []*Process) {
	for _, p := range sc.Processes {
		if !p.Over && f.Process == p.Number {
			all = append(all, p)
		}
	}
	return all
}

// Sure returns the last time until that time at which the process could know whether it
// held h.
func (sc *Scene) Sure(h *Hold, at int64) int64 {
	if since, ok := sc.Excused(h, at); ok {
		return since
	}
	return at
}
