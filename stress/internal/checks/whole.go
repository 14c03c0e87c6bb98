// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
)

// Whole is a check: a history that is read from files has its end, and what each process
// wrote. Otherwise it does not show what happened, however little is wrong with the rest.
// During a run this is not judged: then the history has no end yet.
type Whole struct {
	Check
	On              bool
	writes, answers uint64 // to the register: those of which workers tell, and those of which it tells
}

// startup is how long a process that was started may take until it writes.
const startup = int64(10 * time.Second)

// Event notes which process has written.
func (c *Whole) Event(sc *scene.Scene, e history.Event) {
	if !c.On {
		return
	}
	switch e.Kind {
	case history.Started:
		sc.Process(e).Began = e.At
	case history.Alive, history.Session, history.Request:
		if e.Process >= 0 {
			sc.Process(e).Wrote = true
		}
	case history.Ended:
		c.judge(sc, sc.Process(e), e.At)
	case history.Write:
		c.writes++
	case history.Accepted, history.Stale:
		c.answers++
	}
}

func (c *Whole) judge(sc *scene.Scene, p *scene.Process, at int64) {
	c.Judged++
	if !p.Wrote && p.Began != 0 && at-p.Began > startup {
		c.find(sc, nil, at, "the history lacks what process %d (start %d) wrote, from %s to %s", p.Number, p.Incarnation+1, sc.When(p.Began), sc.When(at))
	}
}

// End judges the end of the history.
func (c *Whole) End(sc *scene.Scene) {
	if !c.On {
		return
	}
	c.Judged++
	if !sc.Stopping {
		c.find(sc, nil, sc.Now, "the history ends at %s, before the workers were told to stop: the run was killed, or the end is missing; what was going on then is not judged", sc.When(sc.Now))
		return
	}
	for _, p := range sc.Processes {
		if p.Began != 0 && !p.Over {
			c.find(sc, nil, sc.Now, "the history ends at %s, before the end of process %d: the run was killed, or the end is missing", sc.When(sc.Now), p.Number)
			return
		}
	}
	if c.writes > 0 && c.answers == 0 {
		c.find(sc, nil, sc.Now, "the history lacks what the register wrote, although workers had %d answers from it", c.writes)
	}
}
