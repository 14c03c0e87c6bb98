// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/judge"
)

// A check that was not made once does not look as if it had found nothing, nor do losses of
// which it is not known whether they were told in time.
func TestVerdictSaysWhatIsNotJudged(t *testing.T) {
	var text strings.Builder
	printVerdict(&text, judge.Verdict{
		Checks:    []judge.Check{{Name: "made", Judged: 7}, {Name: "not made"}, {Name: "sees at once", Found: 1}},
		LostHolds: 3, LossesJudged: 1,
	})
	for _, line := range []string{
		`(?m)^  made +7 +0$`,
		`(?m)^  not made +0 not judged$`,
		`(?m)^  sees at once +0 +1$`,
		`lost locks +3 by processes; of 1 it could be judged whether they were told in time, and 0 were told too late`,
	} {
		if !regexp.MustCompile(line).MatchString(text.String()) {
			t.Errorf("%s is missing in\n%s", line, text.String())
		}
	}
}
