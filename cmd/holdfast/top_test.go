// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/inspect"
)

var updateTop = flag.Bool("update-top", false, "write testdata/top, after a look at it")

// topNow is the time in the tests of top's screens.
var topNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)

// topContender returns a contender that has been in its queue for some time.
func topContender(label string, queued time.Duration, holds bool) *inspect.Contender {
	return &inspect.Contender{Client: "holdfast", Contender: manager.Contender{
		Path: "/holdfast/l/_c_00112233445566778899aabbccddeeff-lock-0000000042", Kind: manager.KindExclusive,
		Label: label, Host: "db7.example.org", PID: 4711, Endpoint: "db7.example.org:8080",
		Since: topNow.Add(-queued), Session: 0x100a8f2c3d40007, Token: 8589934597, Holds: holds,
	}}
}

// topView has n locks, of which number stuck has a holder that hangs, and a few that are
// hard to show.
func topView(n, stuck int) *inspect.View {
	v := &inspect.View{Reads: 3 * n}
	for i := range n {
		l := inspect.Lock{Name: fmt.Sprintf("jobs/%03d/nightly-%d", i/100, i), Kind: "exclusive", Holders: 1, Gone: int64(10 * i)}
		l.Holder = topContender(fmt.Sprintf("worker%d", i%7), time.Duration(i%900)*10*time.Millisecond, true)
		l.Holder.Path += fmt.Sprint(i)
		if i%3 == 0 {
			l.Waiting, l.Next = i%5+1, topContender("waiter", time.Duration(i%400)*10*time.Millisecond, false)
		}
		if i == stuck {
			l.Holder = topContender("billing", 2*time.Hour, true)
			l.Waiting, l.Next = 12, topContender("waiter", 110*time.Minute, false)
		}
		v.Locks = append(v.Locks, l)
	}
	long := inspect.Lock{Name: "a/very/long/name/of/a/lock/whose/end/tells/more/than/its/beginning/日本語", Kind: "mixed", Holders: 3, Waiting: 1234}
	long.Holder, long.Next = topContender("\x1b[31mhostile\n", 400*24*time.Hour, true), topContender("w", 30*time.Second, false)
	v.Locks = append(v.Locks, long, inspect.Lock{Name: "leader", Strangers: 2, Recipe: "Curator's LeaderLatch"})
	return v
}

func topQueue(n int) *inspect.Queue {
	q := &inspect.Queue{Lock: inspect.Lock{Name: "jobs/007/nightly-700", Kind: "exclusive", Holders: 1, Waiting: n - 1}}
	for i := range n {
		c := *topContender(fmt.Sprintf("worker%d", i), time.Duration(n-i)*time.Minute, i == 0)
		q.Contenders = append(q.Contenders, c)
	}
	return q
}

// newTop returns a screen without a terminal.
func newTop(t *testing.T, width, height int) (*topScreen, tcell.SimulationScreen) {
	t.Helper()
	sim := tcell.NewSimulationScreen("UTF-8")
	must(t, sim.Init())
	t.Cleanup(sim.Fini)
	sim.SetSize(width, height)
	return &topScreen{screen: sim, servers: "zk1:2181,zk2:2181,zk3:2181", root: "/holdfast"}, sim
}

// linesOf returns what a screen shows.
func linesOf(sim tcell.SimulationScreen) []string {
	cells, width, height := sim.GetContents()
	lines := make([]string, height)
	for y := range height {
		var line strings.Builder
		for x := 0; x < width; x++ {
			cell := cells[y*width+x].Bytes
			line.Write(cell)
			if r, _ := utf8.DecodeRune(cell); r >= 0x1100 && r != '…' && r > 0x2fff {
				x++ // a wide character takes two cells
			}
		}
		lines[y] = strings.TrimRight(line.String(), " ")
	}
	return lines
}

// press sends keys to a screen: runes, or names of keys between brackets.
func press(top *topScreen, keys string) {
	named := map[string]tcell.Key{"enter": tcell.KeyEnter, "esc": tcell.KeyEscape, "down": tcell.KeyDown, "up": tcell.KeyUp,
		"pgdn": tcell.KeyPgDn, "pgup": tcell.KeyPgUp, "home": tcell.KeyHome, "end": tcell.KeyEnd, "back": tcell.KeyBackspace2, "left": tcell.KeyLeft}
	for _, key := range strings.Fields(keys) {
		if k, ok := named[key]; ok {
			top.key(tcell.NewEventKey(k, 0, 0))
			continue
		}
		for _, r := range key {
			top.key(tcell.NewEventKey(tcell.KeyRune, r, 0))
		}
	}
}

// TestTopScreens compares what top shows with testdata/top, at several sizes.
func TestTopScreens(t *testing.T) {
	for _, test := range []struct {
		name          string
		width, height int
		view          *inspect.View
		keys          string
		queue         *inspect.Queue
		err           error
	}{
		{"looking", 80, 24, nil, "", nil, nil},
		{"empty", 80, 24, &inspect.View{Reads: 1, Denied: []string{"/holdfast/secret"}}, "", nil, nil},
		{"stuck", 80, 24, topView(1000, 700), "", nil, nil},
		{"stuck-wide", 200, 50, topView(1000, 700), "", nil, nil},
		{"by-waiting", 80, 24, topView(1000, 700), "s", nil, nil},
		{"by-name-end", 80, 24, topView(1000, 700), "S end", nil, nil},
		{"filter", 80, 24, topView(1000, 700), "/ LIGHT back back back back back -70", nil, nil},
		{"filtered", 80, 24, topView(1000, 700), "/ 70 enter down", nil, nil},
		{"no-match", 80, 24, topView(10, 7), "/ zzz", nil, nil},
		{"outage", 80, 24, topView(10, 7), "", nil, errors.New("no connection for 2s: zk1:2181: connection refused")},
		{"opening", 80, 24, topView(1000, 700), "enter", nil, nil},
		{"queue", 80, 24, topView(1000, 700), "enter", topQueue(13), nil},
		{"queue-wide-end", 200, 50, topView(1000, 700), "enter", topQueue(1000), nil},
		{"queue-free", 80, 24, topView(1000, 700), "enter", topQueue(0), nil},
		{"small", 40, 10, topView(1000, 700), "", nil, nil},
		{"tiny", 10, 3, topView(1000, 700), "", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			top, sim := newTop(t, test.width, test.height)
			if test.view != nil {
				top.take(topNews{at: topNow, took: 120 * time.Millisecond, view: test.view})
			}
			press(top, test.keys)
			if test.queue != nil {
				top.take(topNews{at: topNow, queue: test.queue})
			}
			if strings.HasSuffix(test.name, "-end") && test.queue != nil {
				top.draw(topNow)
				press(top, "end")
			}
			if test.err != nil {
				top.take(topNews{at: topNow, err: test.err})
			}
			top.draw(topNow)
			got := strings.Join(linesOf(sim), "\n") + "\n"
			file := filepath.Join("testdata", "top", test.name+".txt")
			if *updateTop {
				must(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			must(t, err)
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// The rows follow what changes between two looks.
func TestTopLearns(t *testing.T) {
	top, _ := newTop(t, 80, 24)
	look := func(after time.Duration, holder string, gone int64) topRow {
		c := topContender("a", time.Hour, true)
		c.Path = holder
		top.take(topNews{at: topNow.Add(after), view: &inspect.View{Locks: []inspect.Lock{{Name: "l", Holders: 1, Holder: c, Gone: gone}}}})
		return top.rows[0]
	}
	for _, test := range []struct {
		after  time.Duration
		holder string
		gone   int64
		held   string
		rate   float64
	}{
		{0, "/1", 10, "≤1h00m", 0}, // only its time in the queue is known
		{time.Second, "/1", 10, "≤1h00m", 0},
		{2 * time.Second, "/2", 15, "0s", 5}, // it has changed hands
		{4 * time.Second, "/2", 15, "2s", 0},
		{5 * time.Second, "/3", 2, "0s", 0}, // the directory was made anew
	} {
		r := look(test.after, test.holder, test.gone)
		if held := r.heldText(topNow.Add(test.after)); held != test.held || r.rate != test.rate {
			t.Errorf("after %v: held %s, %v a second; want %s, %v", test.after, held, r.rate, test.held, test.rate)
		}
	}
}

// The selection stays on its lock while the rows move.
func TestTopSelectionFollows(t *testing.T) {
	top, _ := newTop(t, 80, 24)
	view := func(waits ...time.Duration) topNews {
		v := &inspect.View{}
		for i, w := range waits {
			v.Locks = append(v.Locks, inspect.Lock{Name: string(rune('a' + i)), Holder: topContender("h", 0, true), Next: topContender("w", w, false), Waiting: 1})
		}
		return topNews{at: topNow, view: v}
	}
	top.take(view(3*time.Second, 2*time.Second, time.Second))
	if press(top, "down"); top.at() != 1 || top.selected != "b" {
		t.Fatalf("row %d, lock %q is selected, want row 1, lock b", top.at(), top.selected)
	}
	top.take(view(time.Second, 2*time.Second, 3*time.Second, 4*time.Second))
	if top.at() != 2 || top.rows[2].lock.Name != "b" {
		t.Errorf("row %d, lock %q is selected; want lock b", top.at(), top.rows[top.at()].lock.Name)
	}
	if press(top, "enter"); top.opened != "b" {
		t.Errorf("lock %q is open", top.opened)
	}
	if press(top, "esc"); top.opened != "" || top.selected != "b" {
		t.Errorf("lock %q is open, %q is selected", top.opened, top.selected)
	}
	top.take(view())
	press(top, "down up end pgdn enter s S / esc")
	if top.at() != 0 || top.opened != "" {
		t.Errorf("without rows, %d is selected and %q open", top.at(), top.opened)
	}
}

// Each key moves the selection: in the list of locks, and in the queue of one.
func TestTopMoves(t *testing.T) {
	top, _ := newTop(t, 80, 24)
	top.take(topNews{at: topNow, view: topView(1000, 700)})
	top.draw(topNow)
	walk := func(where string, page, last int, at func() int) {
		for _, step := range []struct {
			key  *tcell.EventKey
			want int
		}{
			{tcell.NewEventKey(tcell.KeyDown, 0, 0), 1},
			{tcell.NewEventKey(tcell.KeyRune, 'j', 0), 2},
			{tcell.NewEventKey(tcell.KeyUp, 0, 0), 1},
			{tcell.NewEventKey(tcell.KeyRune, 'k', 0), 0},
			{tcell.NewEventKey(tcell.KeyPgDn, 0, 0), page},
			{tcell.NewEventKey(tcell.KeyRune, ' ', 0), 2 * page},
			{tcell.NewEventKey(tcell.KeyPgUp, 0, 0), page},
			{tcell.NewEventKey(tcell.KeyEnd, 0, 0), last},
			{tcell.NewEventKey(tcell.KeyHome, 0, 0), 0},
			{tcell.NewEventKey(tcell.KeyRune, 'G', 0), last},
			{tcell.NewEventKey(tcell.KeyRune, 'g', 0), 0},
		} {
			if top.key(step.key); at() != step.want {
				t.Errorf("%s: %s leads to %d, want %d", where, step.key.Name(), at(), step.want)
			}
		}
	}
	walk("locks", top.list.height-1, len(top.rows)-1, top.at)
	press(top, "enter")
	top.take(topNews{at: topNow, queue: topQueue(100)})
	top.draw(topNow)
	walk("queue", top.inside.height-1, 99, func() int { return top.inside.at })
}

// Colours are used only if they are wanted.
func TestTopColors(t *testing.T) {
	for _, color := range []bool{false, true} {
		top, sim := newTop(t, 80, 24)
		top.color = color
		top.take(topNews{at: topNow, view: topView(10, 7)})
		press(top, "down")
		top.draw(topNow)
		cells, _, _ := sim.GetContents()
		colored := false
		for _, cell := range cells {
			fg, bg, _ := cell.Style.Decompose()
			colored = colored || fg != tcell.ColorDefault || bg != tcell.ColorDefault
		}
		if colored != color {
			t.Errorf("colours wanted: %t, used: %t", color, colored)
		}
	}
}

// top shows what is in ZooKeeper, opens a queue and quits, and leaves no goroutine.
func TestTopRuns(t *testing.T) {
	e := startEnsemble(t)
	for i := range 50 {
		e.hold(t, fmt.Sprintf("l%d", i), "lock-", 1, "holder")
	}
	e.hold(t, "l7", "lock-", 2, "waiter")
	top, sim := newTop(t, 80, 24)
	r, err := inspect.NewReader(e.owner, "/holdfast")
	must(t, err)
	reads := &topReads{source: &source{Reader: r, client: e.owner}, survey: r.Survey(""), interval: 10 * time.Millisecond, rate: 100_000}
	drawn := make(chan string, 1)
	top.screen = drawnScreen{sim, drawn}
	done := make(chan error, 1)
	go func() { done <- new(topCmd).show(t.Context(), top, reads) }()

	until := func(what string) {
		t.Helper()
		deadline := time.After(time.Minute)
		for shown := ""; !strings.Contains(shown, what); {
			select {
			case shown = <-drawn:
			case <-deadline:
				t.Fatalf("%q does not show:\n%s", what, shown)
			}
		}
	}
	until("50 locks, 1 with waiters, 1 waiting")
	sim.InjectKey(tcell.KeyEnter, 0, 0)
	until("l7: 1 process holds it, 1 waits")
	sim.SetSize(120, 30)
	until("ENDPOINT")
	sim.InjectKey(tcell.KeyEscape, 0, 0)
	until("1 of 50")
	sim.InjectKey(tcell.KeyRune, 'q', 0)
	must(t, <-done)

	// It also ends with its context.
	top, _ = newTop(t, 80, 24)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, new(topCmd).show(ctx, top, reads))
}

// A drawnScreen tells what was drawn last.
type drawnScreen struct {
	tcell.SimulationScreen
	drawn chan string // holds one at most; Show is the only sender
}

func (s drawnScreen) Show() {
	s.SimulationScreen.Show()
	select {
	case <-s.drawn:
	default:
	}
	s.drawn <- strings.Join(linesOf(s.SimulationScreen), "\n")
}
