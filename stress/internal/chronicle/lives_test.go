// SPDX-License-Identifier: Apache-2.0

package chronicle

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// What the chronicle knows of processes does not grow with how many there have been.
func TestLivesAreForgotten(t *testing.T) {
	c := &Chronicle{lives: newLives()}
	c.live.holding, c.live.waiting = map[opKey]bool{}, map[opKey]bool{}
	const second = int64(1_000_000_000)
	n := racing.Fewer(20_000)
	name := func(i int) string { return fmt.Sprintf("0x%x", i) }
	most := 0
	for i := range n {
		at := int64(i+1) * second
		e := history.Event{Process: i % 4, Incarnation: i / 4}
		for _, kind := range []history.Kind{history.Request, history.Granted, history.Session} {
			e.At, e.Kind, e.Op = at, kind, 1
			e.Session, e.Text = name(i), history.SessionBegan
			c.note(e)
		}
		c.lives.killed[e.Process] = e.Incarnation
		e.At, e.Kind = at+second/2, history.Ended
		c.note(e)
		e.Kind, e.Session = history.Session, name(n+i) // which it still wrote
		c.note(e)
		most = max(most, len(c.lives.over)+len(c.lives.killed)+len(c.lives.sessions)+len(c.live.holding)+len(c.live.waiting))
	}
	if bound := int(2*remembered/second) + 100; most > bound {
		t.Errorf("up to %d entries in memory, want %d at most", most, bound)
	}
	if !c.Orphaned(name(n-1)) || !c.Orphaned(name(n-100)) || !c.Orphaned(name(2*n-1)) {
		t.Error("the sessions of processes that were killed lately are forgotten")
	}
	if c.Orphaned(name(0)) {
		t.Error("a session is remembered that ended hours ago")
	}
}

func TestLives(t *testing.T) {
	ls := newLives()
	ls.has(Life{1, 0}, "a", 10)
	ls.ends(Life{1, 0}, 20)
	ls.has(Life{1, 1}, "b", 30)
	ls.killed[1] = 1
	ls.loses("a")
	for _, tt := range []struct {
		is   bool
		want bool
		what string
	}{
		{ls.over.has(Life{1, 0}), true, "the first incarnation is over"},
		{ls.over.has(Life{1, 1}), false, "the second is over"},
		{ls.over.has(Life{0, 0}), false, "another process is over"},
		{ls.killed.has(Life{1, 1}), true, "the second was killed"},
		{ls.killed.has(Life{1, 2}), false, "the third was killed"},
		{ls.killed.has(Life{0, 0}), false, "another process was killed"},
	} {
		if tt.is != tt.want {
			t.Errorf("%s: %v", tt.what, tt.is)
		}
	}
	if _, ok := ls.sessions["a"]; ok {
		t.Error("a session is known that its process has lost")
	}
	if s, ok := ls.sessions["b"]; !ok || s.Life != (Life{1, 1}) {
		t.Errorf("the session belongs to %v, %v", s.Life, ok)
	}
}
