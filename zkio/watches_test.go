// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/holdfast-go/holdfast/internal/jute"
)

func TestWatchers(t *testing.T) {
	ws := newWatches()
	a, b, c := &recorder{}, &recorder{}, &recorder{}
	all := []*recorder{a, b, c}
	told := func() []int {
		ws.tell("/p", Event{What: NodeDeleted})
		var who []int
		for i, r := range all {
			if len(r.lines()) > 0 {
				who = append(who, i)
				r.log = nil
			}
		}
		return who
	}
	for _, step := range []struct {
		name string
		do   func()
		want []int
	}{
		{"none", func() {}, nil},
		{"add a", func() { ws.add("/p", a) }, []int{0}},
		{"add a again", func() { ws.add("/p", a) }, []int{0}},
		{"add b", func() { ws.add("/p", b) }, []int{0, 1}},
		{"add b again", func() { ws.add("/p", b) }, []int{0, 1}},
		{"add c", func() { ws.add("/p", c) }, []int{0, 1, 2}},
		{"remove a", func() { ws.remove("/p", a) }, []int{1, 2}},
		{"remove a again", func() { ws.remove("/p", a) }, []int{1, 2}},
		{"add a back", func() { ws.add("/p", a) }, []int{0, 1, 2}},
		{"remove c", func() { ws.remove("/p", c) }, []int{0, 1}},
		{"remove b", func() { ws.remove("/p", b) }, []int{0}},
		{"remove a for good", func() { ws.remove("/p", a) }, nil},
		{"remove from nothing", func() { ws.remove("/p", a) }, nil},
	} {
		step.do()
		if got := told(); !slices.Equal(got, step.want) {
			t.Errorf("%s: told %v, want %v", step.name, got, step.want)
		}
		if armed := ws.armed("/p", jute.OpGetData); armed != (len(step.want) > 0) {
			t.Errorf("%s: armed %v", step.name, armed)
		}
	}
}

// TestWatchBookkeeping: what the server has is what was set and has not fired.
func TestWatchBookkeeping(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(ws *watches)
		want watchKind
	}{
		{"nothing", func(*watches) {}, 0},
		{"set", func(ws *watches) { ws.note("/p", dataWatch); ws.note("/p", childWatch); ws.note("/p", dataWatch) }, dataWatch | childWatch},
		{"deleted", func(ws *watches) {
			ws.note("/p", dataWatch)
			ws.note("/p", childWatch)
			ws.fired([]byte("/p"), NodeDeleted)
		}, 0},
		{"changed", func(ws *watches) {
			ws.note("/p", dataWatch)
			ws.note("/p", childWatch)
			ws.fired([]byte("/p"), NodeDataChanged)
		}, childWatch},
		{"children", func(ws *watches) {
			ws.note("/p", dataWatch)
			ws.note("/p", childWatch)
			ws.fired([]byte("/p"), NodeChildrenChanged)
		}, dataWatch},
		{"created", func(ws *watches) { ws.note("/p", existWatch); ws.fired([]byte("/p"), NodeCreated) }, 0},
		{"unarmed", func(ws *watches) { ws.remove("/p", nil); ws.note("/q", dataWatch); ws.fired([]byte("/q"), NodeDeleted) }, 0},
		{"new session", func(ws *watches) { ws.note("/p", dataWatch); ws.forget() }, 0},
	} {
		ws := newWatches()
		ws.add("/p", &recorder{})
		tt.do(ws)
		var got watchKind
		ws.each(func(path string, k watchKind) { got |= k })
		if got != tt.want {
			t.Errorf("%s: %03b, want %03b", tt.name, got, tt.want)
		}
	}
}

// TestWatchKeepsOnePath: of the copies of a path that come with requests and
// events none is kept.
func TestWatchKeepsOnePath(t *testing.T) {
	ws := newWatches()
	path := strings.Clone("/p")
	ws.add(path, &recorder{})
	ws.note(strings.Clone(path), dataWatch)
	ws.fired([]byte(path), NodeDeleted)
	ws.note(strings.Clone(path), dataWatch)
	ws.add(strings.Clone(path), &recorder{})
	ws.each(func(kept string, _ watchKind) {
		if unsafe.StringData(kept) != unsafe.StringData(path) {
			t.Error("the watcher's path is there, and another one, too")
		}
	})
}

// TestWatchMemory: a map that was large is given back when it is empty.
func TestWatchMemory(t *testing.T) {
	ws := newWatches()
	r := &recorder{}
	paths := make([]string, 10*mapKeep)
	for i := range paths {
		paths[i] = string(rune(i + 0x10000))
		ws.add(paths[i], r)
	}
	for _, p := range paths {
		ws.remove(p, r)
	}
	if ws.most != 0 || ws.len() != 0 {
		t.Errorf("%d paths, the map of %d is kept", ws.len(), ws.most)
	}
}
