// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// manyStandstills is how many are remembered.
const manyStandstills = 1000

// stoodStill notes that the machine stood still.
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
