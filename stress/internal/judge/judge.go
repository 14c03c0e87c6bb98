// SPDX-License-Identifier: Apache-2.0

// Package judge judges a history of the stress harness: while the run goes on, or
// afterwards.
package judge

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/checks"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A Judge judges a history, event by event. Its memory is bounded by what is open, such as
// requests and holds, and by windows of what was. It must not be used concurrently: see
// [Trial].
//
// The scene is the present state, which the Judge keeps. The checks look at each change of it.
type Judge struct {
	scene   *scene.Scene
	reading reading
	from    int64 // what came before is not judged: see Rest

	standstills []verdict.Standstill

	grants, requests uint64
	waits, handOvers verdict.Durations
	holds            verdict.Durations

	overlap     checks.Overlap
	valid       checks.Valid
	tokens      checks.Tokens
	register    checks.Register
	linear      checks.Linear
	decided     checks.Decided
	enough      checks.Seen
	agree       checks.Agree
	patience    checks.Patience
	told        checks.Told
	revocations checks.Revocations
	once        checks.Once
	left        checks.Seen
	failures    checks.Seen
	referees    checks.Referees
	hits        checks.Hits
	whole       checks.Whole
	made        []check // all of them, in the order in which a verdict lists them

	finished bool
}

// A check is one of package checks.
type check interface {
	Base() *checks.Check
	End(*scene.Scene)
	Explain(*scene.Scene)
	Forgets(*scene.Lock)
}

// New returns a judge of the history with that header.
func New(h history.Header) *Judge {
	j := &Judge{
		scene:   scene.New(h),
		reading: reading{ends: map[int]history.Event{}},
		waits:   verdict.NewDurations(), handOvers: verdict.NewDurations(), holds: verdict.NewDurations(),

		overlap:     checks.NewOverlap(),
		valid:       checks.Valid{Check: checks.New(verdict.Valid)},
		tokens:      checks.Tokens{Check: checks.New(verdict.Tokens)},
		register:    checks.NewRegister(),
		linear:      checks.NewLinear(),
		decided:     checks.Decided{Check: checks.New(verdict.Decided)},
		enough:      checks.Seen{Check: checks.New(verdict.Enough)},
		agree:       checks.Agree{Check: checks.New(verdict.Agree)},
		patience:    checks.NewPatience(),
		told:        checks.NewTold(),
		revocations: checks.Revocations{Check: checks.New(verdict.Revocations)},
		once:        checks.NewOnce(),
		left:        checks.Seen{Check: checks.New(verdict.Left)},
		failures:    checks.Seen{Check: checks.New(verdict.Failures)},
		referees:    checks.Referees{Seen: checks.Seen{Check: checks.New(verdict.Referees)}},
		hits:        checks.NewHits(h.Nemesis),
		whole:       checks.Whole{Check: checks.New(verdict.Whole)},
	}
	j.decided.Of = &j.linear
	j.made = []check{
		&j.overlap, &j.valid, &j.tokens, &j.register, &j.linear, &j.told, &j.once, &j.patience, &j.revocations,
		&j.left, &j.referees, &j.failures, &j.hits, &j.decided, &j.enough, &j.agree, &j.whole,
	}
	j.scene.Expiry = j.reading.expiry
	j.scene.Forgets = j.forget
	return j
}

// forget judges what is left of a passing lock, and forgets it.
func (j *Judge) forget(l *scene.Lock) {
	j.linear.Last(j.scene, l)
	j.decided.Lock(j.scene, l)
	for _, c := range j.made {
		c.Forgets(l)
	}
}

// checks returns what the checks have counted and found.
func (j *Judge) checks() (all []*checks.Check) {
	for _, c := range j.made {
		if c != check(&j.whole) || j.whole.On {
			all = append(all, c.Base())
		}
	}
	return all
}

func (j *Judge) event(e history.Event) {
	j.pass(e.At)
	j.whole.Event(j.scene, e)
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
		j.register.Answered(j.scene, e)
	case history.Accepted:
		j.register.Accepted(j.scene, e)
	case history.Stale:
		j.register.Stale(j.scene, e)
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
		j.told.Expired(j.scene, e)
	case history.Failure:
		j.failures.See(j.scene, e)
	case history.Overlap:
		j.referees.Saw(j.scene, e)
	case history.Disagreed:
		j.agree.Disagreed(j.scene, e)
	case history.Compared:
		j.agree.Compared(e)
	case history.TooLittle:
		j.enough.See(j.scene, e)
	case history.Left:
		j.left.See(j.scene, e)
	case history.StoodStill:
		j.stoodStill(e)
	case history.Stopping:
		j.scene.Stopping = true
	}
}

func (j *Judge) pass(at int64) {
	if at <= j.scene.Now {
		return
	}
	j.scene.Now = at
	j.overlap.Pass(j.scene)
	j.patience.Pass(j.scene, j.revocations.Oldest(j.scene))
	j.revocations.Pass(j.scene)
}

func (j *Judge) request(e history.Event) {
	p := j.scene.Process(e)
	if p.Over {
		return
	}
	h := j.scene.Begin(p, e)
	h.Joins()
	j.requests++
	j.patience.Requested(h)
	j.hits.During(j.scene, p, scene.Waiting)
}

func (j *Judge) granted(e history.Event) {
	p := j.scene.Process(e)
	j.grants++
	l := j.scene.Lock(e.Lock, e.Mode)
	if p.Over { // it was killed a moment after Ended was written
		j.register.Granted(l, e.Fence())
		j.told.Inside(j.scene, p, e.Session, e.At)
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
	j.overlap.Granted(j.scene, h) // before h is among those inside
	h.Lock.Inside = append(h.Lock.Inside, h)
	j.tokens.Granted(j.scene, h)
	j.register.Granted(l, h.Fence)
	j.linear.Granted(j.scene, h)
	j.patience.Granted(j.scene, h)
	j.once.Granted(j.scene, h)
	j.told.Alive(h, h.Granted)
	j.hits.During(j.scene, p, scene.Inside)
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
	j.overlap.Changed(j.scene, h, before, e.At)
	j.linear.Changed(h, e.At)
	h.Known = e.At
}

func (j *Judge) toldValid(e history.Event) {
	h := j.scene.Hold(e)
	if h == nil || h.Phase != scene.Inside {
		return
	}
	j.valid.Told(j.scene, h, e.At)
	h.Known = max(h.Known, e.At)
	j.told.Alive(h, e.At)
}

func (j *Judge) lost(e history.Event) {
	p := j.scene.Process(e)
	h := j.scene.Hold(e)
	if h == nil {
		return
	}
	h.Session = cmp.Or(e.Session, h.Session)
	if h.Phase == scene.Inside {
		j.told.Lost(j.scene, h, e.At)
		j.hits.Lost(j.scene, h, e.At)
		j.leave(h, e.At)
		j.linear.Lost(j.scene, h, e.At)
	}
	if h.Phase != scene.Waiting || p.Over {
		j.scene.Drop(h)
	}
}

func (j *Judge) revoked(e history.Event) {
	if h := j.scene.Hold(e); h != nil && h.Phase == scene.Inside {
		j.revocations.Told(h, e.At)
	}
}

func (j *Judge) release(e history.Event) {
	h := j.scene.Hold(e)
	if h == nil || h.Phase != scene.Inside {
		return
	}
	p := h.Process
	j.told.Inside(j.scene, p, h.Session, e.At)
	h.Release(e.At)
	j.leave(h, e.At)
	h.Lock.By, h.Lock.Free = p, e.At
	j.linear.Left(j.scene, h, e.At)
	j.hits.During(j.scene, p, scene.Releasing)
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
	j.once.Settled(h, h.Settled)
	j.scene.Drop(h)
}

func (j *Judge) leave(h *scene.Hold, at int64) {
	h.Leave(at)
	j.holds.Add(at - h.Granted)
	if j.patience.Judges(j.scene, h.Lock) {
		h.Lock.Left(h, j.patience.Oldest)
	}
	j.overlap.Left(j.scene, h)
	j.revocations.Left(j.scene, h)
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
	for _, h := range slices.SortedFunc(maps.Values(p.Holds), func(a, b *scene.Hold) int { return cmp.Compare(a.Op, b.Op) }) {
		if h.Phase == scene.Inside {
			j.told.Inside(j.scene, p, h.Session, e.At)
			p.Died(h.Lock)
			j.leave(h, e.At)
			j.linear.Left(j.scene, h, e.At)
		}
		if h.Phase == scene.Waiting && e.OK {
			j.patience.Unanswered(j.scene, h)
		}
		j.scene.Drop(h)
	}
	j.scene.Excuses.Died(j.scene, p, e.At)
	j.hits.Died(j.scene, p)
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
	j.revocations.Began(j.scene, f)
	j.hits.Began(j.scene, f)
}

func (j *Judge) faultEnded(e history.Event) {
	f := j.scene.Faults.Ended(e, 2*j.scene.Header.SessionTimeout)
	if f != nil && f.Revokes() && f.Failed {
		j.revocations.Failed(f)
	}
	if f != nil && f.Stops() {
		for _, p := range j.scene.Targets(f) {
			p.Stops.Ended(e.At)
		}
	}
}

// Finish returns the verdict. Afterwards only what the harness has seen may be added, such as
// [history.Failure].
func (j *Judge) Finish() verdict.Verdict {
	if !j.finished {
		j.finished = true
		j.reading.over = true
		j.advance()
		for _, c := range j.made {
			c.End(j.scene)
		}
	}
	return j.Interim()
}

// WritePictures writes, for histories of a lock that are not linearizable, pages in HTML into
// the directory that show why. They are the checker's own.
func (j *Judge) WritePictures(dir string) error {
	for name, page := range j.linear.Pictures {
		if err := os.WriteFile(filepath.Join(dir, name), page, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// A history of that length or a longer one, with fewer grants, shows nothing.
const (
	long = int64(10 * time.Second)
	few  = 100
)

// Interim returns what the events so far have shown.
func (j *Judge) Interim() verdict.Verdict {
	v := verdict.Verdict{
		Outcome:        verdict.OK,
		Findings:       []verdict.Finding{},
		Grants:         j.grants,
		Requests:       j.requests,
		LostHolds:      j.told.Losses,
		LossesJudged:   j.told.LossesJudged(),
		ToldLate:       j.told.Late,
		NeverTold:      j.told.Never,
		StaleAttempts:  j.register.Refused,
		PausedOverlaps: j.overlap.Paused,
		Waits:          j.waits.Sum(),
		HandOvers:      j.handOvers.Sum(),
		Holds:          j.holds.Sum(),
	}
	v.MarginLeast, v.MarginMedian, v.Margins = j.told.Margins()
	v.Faults, v.Injected = j.hits.Sum(j.scene)
	for _, c := range j.made {
		c.Explain(j.scene)
	}
	for _, c := range j.checks() {
		v.Checks = append(v.Checks, c.Check)
		v.Found += int(c.Found)
		v.Findings = append(v.Findings, c.Findings...)
		if c.Found > 0 {
			v.Outcome = verdict.Worse(v.Outcome, verdict.OutcomeOf(c.Name))
		}
	}
	if v.Outcome != verdict.OK && j.agree.Excuses(v.Findings) {
		v.Outcome, v.Diverged = verdict.Void, j.agree.Text
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

// manyStandstills is how many are remembered.
const manyStandstills = 1000

func (j *Judge) stoodStill(e history.Event) {
	if len(j.standstills) < manyStandstills {
		text := fmt.Sprintf("at %s %s", j.scene.When(e.At-e.Lasted), e.Text)
		j.standstills = append(j.standstills, verdict.Standstill{At: e.At, For: e.Lasted, Text: text})
	}
}

// explained returns f, and says in it if the machine stood still so shortly before that this
// may be the cause: sessions end, and what waits for that waits as long again.
func (j *Judge) explained(f verdict.Finding) verdict.Finding {
	for i := len(j.standstills) - 1; i >= 0; i-- {
		s := j.standstills[i]
		if s.At-s.For <= f.At && f.At <= s.At+2*j.scene.Header.SessionTimeout+scene.Slack {
			f.Text = fmt.Sprintf("(%s, which may be why) %s", s.Text, f.Text)
			break
		}
	}
	return f
}
