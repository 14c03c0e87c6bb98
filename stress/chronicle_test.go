// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// A process that is killed writes on for a moment. What it asks for and is granted then is
// not shown as held and awaited for ever.
func TestLiveViewOfAKilledProcess(t *testing.T) {
	c, err := newChronicle(t.TempDir(), history.Header{}, newReporter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []history.Event{
		{Kind: history.Request, Op: 1}, {Kind: history.Request, Op: 2}, {Kind: history.Granted, Op: 1},
		{Kind: history.Ended},
		{Kind: history.Granted, Op: 2}, {Kind: history.Request, Op: 3},
		{Kind: history.Request, Incarnation: 1, Op: 1},
	} {
		c.note(e)
	}
	if h, w := len(c.live.holding), len(c.live.waiting); h != 0 || w != 1 {
		t.Errorf("%d held, %d awaited, want 0 and 1", h, w)
	}
	if err := c.judge(); err != nil {
		t.Error(err)
	}
	if _, err := c.close(false); err != nil {
		t.Error(err)
	}
}
