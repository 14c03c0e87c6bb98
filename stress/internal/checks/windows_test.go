// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
)

// If more windows are not judged than are, the verdict is void, although one of each lock is.
func TestMostWindowsAreNotJudged(t *testing.T) {
	for _, tt := range []struct {
		judged, unjudged uint64
		want             uint64
	}{{2, 2, 0}, {2, 3, 1}} {
		var all Linear
		c := Decided{Of: &all}
		all.Judged, all.unjudged = tt.judged, tt.unjudged
		if c.End(scene.New(history.Header{})); c.Found != tt.want {
			t.Errorf("%d judged, %d not: %d findings, want %d", tt.judged, tt.unjudged, c.Found, tt.want)
		}
	}
}
