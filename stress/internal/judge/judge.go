// SPDX-License-Identifier: Apache-2.0

// Package judge judges a history of the stress harness: while the run goes on, or
// afterwards.
package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A Judge judges a history, event by event. Its memory is bounded by what is open, such as
// requests and holds, and by windows of what was. It must not be used concurrently: see
// [Trial].
//
// The scene is the present state, which the Judge keeps. The checks look at each change of it;
// each is in a file of its own.
type Judge struct {
	scene   *scene.Scene
	reading reading
	from    int64  // what came before is not judged: see Rest
	late    uint64 // events that came out of order

	standstills []verdict.Standstill

	grants, requests uint64
	waits, handOvers verdict.Durations
	holds            verdict.Durations

	overlap     overlap
	valid       valid
	tokens      tokens
	register    register
	linear      linear
	decided     decided
	enough      enough
	agree       agree
	patience    patience
	told        told
	revocations revocations
	once        once
	left        left
	failures    failures
	referees    referees
	hits        hits
	whole       whole

	finished bool
}

// New returns a judge of the history with that header.
func New(h history.Header) *Judge {
	j := &Judge{
		scene:   scene.New(h),
		reading: reading{ends: map[int]history.Event{}},
		waits:   verdict.NewDurations(), handOvers: verdict.NewDurations(), holds: verdict.NewDurations(),
	}
	j.scene.Expiry = j.reading.expiry
	j.scene.Forgets = j.forget
	j.overlap.init()
	j.valid.init()
	j.tokens.init()
	j.register.init()
	j.linear.init()
	j.decided.init()
	j.enough.init()
	j.agree.init()
	j.patience.init()
	j.told.init()
	j.revocations.init()
	j.once.init()
	j.left.init()
	j.failures.init()
	j.referees.init()
	j.hits.init(h.Nemesis)
	j.whole.init()
	return j
}

// forget judges what is left of a passing lock, and forgets it.
func (j *Judge) forget(l *scene.Lock) {
	j.linear.last(j.scene, l)
	j.decided.lock(j.scene, &j.linear, l)
	j.linear.forgets(l)
	j.overlap.forgets(l)
	j.register.forgets(l)
}

// checks returns the checks, in the order in which a verdict lists them.
func (j *Judge) checks() []*check {
	all := []*check{
		&j.overlap.check, &j.valid.check, &j.tokens.check, &j.register.check, &j.linear.check, &j.told.check,
		&j.once.check, &j.patience.check, &j.revocations.check, &j.left.check, &j.referees.check, &j.failures.check, &j.hits.check, &j.decided.check, &j.enough.check, &j.agree.check,
	}
	if j.whole.on {
		all = append(all, &j.whole.check)
	}
	return all
}

// event judges the next event.
func (j *Judge) event(e history.Event) {
	j.pass(e.At)
	j.whole.event(j.scene, e)
	switch e.Kind {
	case history.Request:
		j.request(e)
	case history.Granted:
		j.granted(e)
	case history.Refused:
		j.refused(e)
	case history.Changed:
		j.changed(e)
	case history.Valid:
		j.toldValid(e)
	case history.Lost:
		j.lost(e)
	case history.Revoked:
		j.revoked(e)
	case history.Release:
		j.release(e)
	case history.Released:
		j.released(e)
	case history.Write:
		j.register.answered(j.scene, e)
	case history.Accepted:
		j.register.accepted(j.scene, e)
	case history.Stale:
		j.register.stale(j.scene, e)
	case history.Session:
		j.session(e)
	case history.Started:
		j.scene.Process(e)
	case history.Ended:
		j.ended(e)
	case history.FaultBegan:
		j.faultBegan(e)
	case history.FaultEnded:
		j.faultEnded(e)
	case history.Expired:
		j.told.expired(j.scene, e)
	case history.Failure:
		j.failures.failed(j.scene, e)
	case history.Overlap:
		j.referees.saw(j.scene, e)
	case history.Disagreed:
		j.agree.disagreed(j.scene, e)
	case history.Compared:
		j.agree.compared(e)
	case history.TooLittle:
		j.enough.missed(j.scene, e)
	case history.Left:
		j.left.found(j.scene, e)
	case history.StoodStill:
		j.stoodStill(e)
	case history.Stopping:
		j.scene.Stopping = true
	}
}

// pass lets time pass.
func (j *Judge) pass(at int64) {
	if at <= j.scene.Now {
		return
	}
	j.scene.Now = at
	j.overlap.pass(j.scene)
	j.patience.pass(j.scene, j.revocations.oldest(j.scene))
	j.revocations.pass(j.scene)
}

func (j *Judge) request(e history.Event) {
	p := j.scene.Process(e)
	if p.Over {
		return
	}
	h := j.scene.Begin(p, e)
	h.Joins()
	j.requests++
	j.patience.requested(h)
	j.hits.during(j.scene, p, scene.Waiting)
}

func (j *Judge) granted(e history.Event) {
	p := j.scene.Process(e)
	j.grants++
	l := j.scene.Lock(e.Lock, e.Mode)
	if p.Over { // it was killed a moment after Ended was written
		j.register.granted(l, scene.Fence{Token: e.Token, Turn: e.Turn})
		j.told.inside(j.scene, p, e.Session, e.At)
		return
	}
	h := p.Holds[e.Op]
	if h == nil { // a second handle, which was not asked for
		h = j.scene.Begin(p, e)
	} else if h.Phase != scene.Waiting {
		return // it is told twice
	}
	j.scene.Grant(h, e)
	j.waits.Add(h.Granted - h.Requested)
	if l.By != nil && l.By != p && h.Requested < l.Free && l.Free <= h.Granted && len(l.Inside) == 0 {
		j.handOvers.Add(h.Granted - l.Free)
	}
	j.overlap.granted(j.scene, h) // before h is among those inside
	h.Enters()
	j.tokens.granted(j.scene, h)
	j.register.granted(l, h.Fence)
	j.linear.granted(j.scene, h)
	j.patience.granted(j.scene, h)
	j.once.granted(j.scene, h)
	j.told.granted(h)
	j.hits.during(j.scene, p, scene.Inside)
}

func (j *Judge) refused(e history.Event) {
	if h := j.scene.Hold(e); h != nil {
		j.scene.Drop(h)
	}
}

func (j *Judge) changed(e history.Event) {
	h := j.scene.Hold(e)
	if h == nil || h.Phase != scene.Inside || e.Mode == "" || e.Mode == h.Mode {
		return
	}
	before := h.Mode
	h.Mode, h.Since = e.Mode, e.At
	h.Upgraded = before == history.Upgradable && h.Mode == history.WriteMode
	j.overlap.changed(j.scene, h, before, e.At)
	j.linear.changed(h, e.At)
	h.Known = e.At
}

func (j *Judge) toldValid(e history.Event) {
	h := j.scene.Hold(e)
	if h == nil || h.Phase != scene.Inside {
		return
	}
	j.valid.told(j.scene, h, e.At)
	h.Known = max(h.Known, e.At)
	j.told.alive(h, e.At)
}

func (j *Judge) lost(e history.Event) {
	p := j.scene.Process(e)
	h := j.scene.Hold(e)
	if h == nil {
		return
	}
	if e.Session != "" {
		h.Session = e.Session
	}
	if h.Phase == scene.Inside {
		j.told.lost(j.scene, h, e.At)
		j.hits.lost(j.scene, h, e.At)
		j.leave(h, e.At)
		j.linear.lost(j.scene, h, e.At)
	}
	if h.Phase != scene.Waiting || p.Over {
		j.scene.Drop(h)
	}
}

func (j *Judge) revoked(e history.Event) {
	if h := j.scene.Hold(e); h != nil && h.Phase == scene.Inside {
		j.revocations.told(h, e.At)
	}
}

func (j *Judge) release(e history.Event) {
	h := j.scene.Hold(e)
	if h == nil || h.Phase != scene.Inside {
		return
	}
	p := h.Process
	j.told.inside(j.scene, p, h.Session, e.At)
	h.Release(e.At)
	j.leave(h, e.At)
	h.Lock.By, h.Lock.Free = p, e.At
	j.linear.left(j.scene, h, e.At)
	j.hits.during(j.scene, p, scene.Releasing)
}

func (j *Judge) released(e history.Event) {
	h := j.scene.Hold(e)
	if h == nil {
		return
	}
	if h.Phase == scene.Inside { // the event Release is missing
		j.release(e)
	}
	h.Settled = e.Text == ""
	h.Lock.Gone(h)
	j.once.settled(h, h.Settled)
	j.scene.Drop(h)
}

// leave ends that h is inside.
func (j *Judge) leave(h *scene.Hold, at int64) {
	h.Leave(at)
	j.holds.Add(at - h.Granted)
	if j.patience.judges(j.scene, h.Lock) {
		h.Lock.Left(h, j.patience.oldest)
	}
	j.overlap.left(j.scene, h)
	j.revocations.left(j.scene, h)
}

func (j *Judge) session(e history.Event) {
	p := j.scene.Process(e)
	j.scene.Excuses.Session(j.scene, p, e.Text, e.At)
	if e.Text == history.SessionBegan {
		p.Session, p.Since = e.Session, e.At
	}
}

// ended ends the process, and all that it has.
func (j *Judge) ended(e history.Event) {
	p := j.scene.Process(e)
	if p.Over {
		return
	}
	p.Over, p.End, p.AtEnd = true, e.At, p.Counts
	all := make([]*scene.Hold, 0, len(p.Holds))
	for _, h := range p.Holds {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *scene.Hold) int { return cmp.Compare(a.Op, b.Op) })
	for _, h := range all {
		if h.Phase == scene.Inside {
			j.told.inside(j.scene, p, h.Session, e.At)
			p.Died(h.Lock)
			j.leave(h, e.At)
			j.linear.left(j.scene, h, e.At)
		}
		if h.Phase == scene.Waiting && e.OK {
			j.patience.unanswered(j.scene, h)
		}
		j.scene.Drop(h)
	}
	j.scene.Excuses.Died(j.scene, p, e.At)
	j.hits.died(j.scene, p)
}

func (j *Judge) faultBegan(e history.Event) {
	f := j.scene.Faults.Began(e)
	if end, ok := j.reading.ends[e.Fault]; ok && scene.ToldAtEnd(f.Kind) {
		f.Told(end)
	}
	if f.Stops() && !f.Missed() {
		for _, p := range j.scene.Targets(f) {
			p.Stops.Began(j.scene.Stop(p, f))
		}
	}
	j.scene.Excuses.Began(j.scene, f)
	j.revocations.began(j.scene, f)
	j.hits.began(j.scene, f)
}

func (j *Judge) faultEnded(e history.Event) {
	f := j.scene.Faults.Ended(e, 2*j.scene.Header.SessionTimeout)
	if f != nil && f.Revokes() && f.Failed {
		j.revocations.failed(f)
	}
	if f != nil && f.Stops() {
		for _, p := range j.scene.Targets(f) {
			p.Stops.Ended(e.At)
		}
	}
}

// Interim returns what the events so far have shown.
func (j *Judge) Interim() verdict.Verdict { return j.sum() }

// Finish returns the verdict. Afterwards only what the harness has seen may be added, such as
// [history.Failure].
func (j *Judge) Finish() verdict.Verdict {
	if !j.finished {
		j.finished = true
		j.reading.over = true
		j.advance()
		j.patience.end(j.scene)
		j.revocations.end(j.scene)
		j.told.end(j.scene)
		j.linear.end(j.scene)
		j.decided.end(j.scene, &j.linear)
		j.left.look(j.scene)
		j.referees.look(j.scene)
		j.failures.look(j.scene)
		j.enough.look(j.scene)
		j.hits.end(j.scene)
		j.whole.end(j.scene)
	}
	return j.sum()
}

// Pictures returns, for histories of a lock that are not linearizable, pages in HTML that
// show why, by file names. They are the checker's own.
func (j *Judge) Pictures() map[string][]byte { return j.linear.pictures }

// A history of that length or a longer one, with fewer grants, shows nothing.
const (
	long = int64(10 * time.Second)
	few  = 100
)

// sum returns the verdict on all that was judged.
func (j *Judge) sum() verdict.Verdict {
	v := verdict.Verdict{
		Outcome:        verdict.OK,
		Findings:       []verdict.Finding{},
		Grants:         j.grants,
		Requests:       j.requests,
		LostHolds:      j.told.losses,
		LossesJudged:   j.told.fates[weighed],
		ToldLate:       j.told.late,
		StaleAttempts:  j.register.refused,
		PausedOverlaps: j.overlap.paused,
		Waits:          j.waits.Sum(),
		HandOvers:      j.handOvers.Sum(),
		Holds:          j.holds.Sum(),
	}
	v.MarginLeast, v.MarginMedian, v.Margins = j.told.margins()
	v.Faults, v.Injected = j.hits.sum(j.scene)
	j.overlap.explain(j.late)
	j.linear.explain()
	j.tokens.explain()
	j.register.explain()
	j.patience.explain(j.scene)
	j.revocations.explain(j.scene)
	j.told.explain()
	j.once.explain()
	j.referees.explain()
	j.hits.explain(j.scene)
	j.agree.explain()
	found := map[verdict.Outcome]bool{}
	for _, c := range j.checks() {
		v.Checks = append(v.Checks, c.Check)
		v.Found += int(c.Found)
		outcome := verdict.OutcomeOf(c.Name)
		found[outcome] = found[outcome] || c.Found > 0
	}
	for _, outcome := range []verdict.Outcome{verdict.Violation, verdict.Failed, verdict.Void} {
		for _, c := range j.checks() {
			if verdict.OutcomeOf(c.Name) == outcome {
				v.Findings = append(v.Findings, c.findings...)
			}
		}
		if found[outcome] && v.Outcome == verdict.OK {
			v.Outcome = outcome
		}
	}
	if v.Outcome != verdict.OK && j.agree.excuses(v.Findings) {
		v.Outcome, v.Diverged = verdict.Void, j.agree.text
	}
	if v.Outcome == verdict.OK && (j.grants == 0 || j.finished && j.grants < few && j.scene.Header.Planned >= long && j.scene.Now-j.scene.Header.Begin >= long) {
		v.Outcome = verdict.Void
	}
	slices.SortStableFunc(v.Findings, func(a, b verdict.Finding) int {
		return cmp.Or(cmp.Compare(a.Gravity(), b.Gravity()), cmp.Compare(a.At, b.At))
	})
	v.Findings = v.Findings[:min(len(v.Findings), verdict.MaxFindings)]
	for i, f := range v.Findings {
		v.Findings[i] = j.explained(f)
	}
	v.Standstills = slices.Clone(j.standstills)
	return v
}
