// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// The check whole: a history that is read from files has its end, and what each process
// wrote. Otherwise it does not show what happened, however little is wrong with the rest.
// During a run this is not judged: then the history has no end yet.
type whole struct {
	check
	on              bool
	writes, answers uint64 // to the register: those of which workers tell, and those of which it tells
}

// startup is how long a process that was started may take until it writes.
const startup = int64(10 * time.Second)

func (c *whole) init() {
	c.check = newCheck(verdict.Whole)
}

// event notes which process has written.
func (c *whole) event(sc *scene.Scene, e history.Event) {
	if !c.on {
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

// judge judges a process that has ended.
func (c *whole) judge(sc *scene.Scene, p *scene.Process, at int64) {
	c.Judged++
	if !p.Wrote && p.Began != 0 && at-p.Began > startup {
		c.find(sc, nil, at, "the history lacks what process %d (start %d) wrote, from %s to %s", p.Number, p.Incarnation+1, sc.When(p.Began), sc.When(at))
	}
}

// end judges the end of the history.
func (c *whole) end(sc *scene.Scene) {
	if !c.on {
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
