// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// collect reads a history given as lines of
//
//	time process kind operation [text]
//
// in which underscores stand for spaces.
func collect(t *testing.T, lines string) *collector {
	t.Helper()
	c := newCollector(history.Header{Processes: 2, Begin: 1}, verdict.Verdict{})
	for line := range strings.Lines(lines) {
		e := history.Event{Lock: "L", Mode: history.Exclusive, Token: 7, Session: "0x1"}
		var kind string
		switch n, err := fmt.Sscan(line, &e.At, &e.Process, &kind, &e.Op, &e.Text); {
		case n == 0:
			continue
		case n < 4:
			t.Fatalf("%s: %v", line, err)
		}
		e.Kind = history.Kind(strings.ReplaceAll(kind, "_", " "))
		if e.Kind == history.Changed {
			e.Mode = history.Mode(e.Text)
		}
		c.add(e)
	}
	c.finish()
	return c
}

// What becomes of an acquisition.
func TestOutcomes(t *testing.T) {
	for _, tt := range []struct{ name, history, want string }{
		{"released", "1 0 request 1\n 5 0 granted 1\n 9 0 release 1\n 10 0 released 1", "released 1 5 9 10"},
		{"refused", "1 0 request 1\n 5 0 refused 1 held", "refused 1 5 5 5"},
		{"lost", "1 0 request 1\n 5 0 granted 1\n 9 0 lost 1 expired\n 10 0 release 1\n 11 0 released 1", "lost 1 5 9 9"},
		{"lost while it was released", "1 0 request 1\n 5 0 granted 1\n 9 0 release 1\n 10 0 lost 1\n 11 0 released 1", "released 1 5 9 11"},
		{"died holding", "1 0 request 1\n 5 0 granted 1\n 9 0 ended 0", "died holding 1 5 9 9"},
		{"died waiting", "1 0 request 1\n 9 0 ended 0", "died waiting 1 9 9 9"},
		{"died releasing", "1 0 request 1\n 5 0 granted 1\n 6 0 release 1\n 9 0 ended 0", "released 1 5 6 9"},
		{"another process died", "1 0 request 1\n 5 1 ended 0\n 6 0 granted 1\n 7 0 release 1\n 9 0 released 1", "released 1 6 7 9"},
		{"still holding", "1 0 request 1\n 5 0 granted 1\n 9 0 alive 0", "still holding 1 5 9 9"},
		{"still waiting", "1 0 request 1\n 9 0 alive 0", "still waiting 1 9 9 9"},
		{"the begin is missing", "5 0 granted 1\n 9 0 release 1\n 10 0 released 1", "released 5 5 9 10"},
		{"only the end is there", "9 0 release 1\n 10 0 released 1\n 11 0 lost 2\n 12 0 refused 3", ""},
		{"asked twice", "1 0 request 1\n 2 0 request 1\n 3 0 granted 1\n 4 0 release 1\n 5 0 released 1", "still waiting 1 2 2 2; released 2 3 4 5"},
		{"upgraded", "1 0 request 1\n 2 0 granted 1\n 3 0 changed 1 write\n 4 0 release 1\n 5 0 released 1", "released 1 2 4 5, then write"},
		{"two operations", "1 0 request 1\n 2 0 request 2\n 3 0 granted 2\n 4 0 granted 1\n 5 0 release 1\n 6 0 released 1\n 7 0 release 2\n 8 0 released 2", "released 1 4 5 6; released 2 3 7 8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			names := []string{"released", "lost", "refused", "died holding", "died waiting", "still holding", "still waiting"}
			var got []string
			for _, a := range collect(t, tt.history).closed {
				s := fmt.Sprint(names[a.outcome], " ", a.requested, " ", a.granted, " ", a.ended, " ", a.settled)
				if a.last != 0 {
					s += ", then " + string(modes[a.last])
				}
				got = append(got, s)
			}
			if s := strings.Join(got, "; "); s != tt.want {
				t.Errorf("got %s, want %s", s, tt.want)
			}
		})
	}
}

// Workers that share a hold lose it together.
func TestSharedLoss(t *testing.T) {
	c := collect(t, "1 0 request 1\n 1 0 request 2\n 2 0 granted 1\n 3 0 granted 2\n 8 0 lost 1 expired\n 9 0 lost 2 expired\n 10 1 request 1\n 11 1 granted 1\n 12 1 lost 1 expired")
	if n := len(c.losses.items); n != 2 {
		t.Fatalf("%d losses, want one of each process: %+v", n, c.losses.items)
	}
	if l := c.losses.items[0]; len(l.workers) != 2 || l.at != 8 || l.since != 2 || l.text != "expired" {
		t.Errorf("the loss is %+v", l)
	}
}

// What a process lived through.
func TestLives(t *testing.T) {
	c := collect(t, "1 0 started 0\n 3 0 session 0 suspended\n 5 0 session 0 resumed\n 6 0 session 0 suspended\n 8 0 ended 0 killed\n 9 0 started 0\n 10 0 session 0 suspended\n 12 0 session 0 ended\n 20 0 alive 0")
	if got := fmt.Sprint(c.lives.items); got != "[{0 0 1 8 killed} {0 0 9 20 }]" {
		t.Errorf("lives: %s", got)
	}
	if got := fmt.Sprint(c.outages.items); got != "[{0 3 5 false} {0 6 8 true} {0 10 12 true}]" {
		t.Errorf("outages: %s", got)
	}
}

// Which locks share a lane.
func TestLanes(t *testing.T) {
	many := func(n int, format string) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return all
	}
	for _, tt := range []struct {
		name   string
		listed []string
		others []string
		want   int
	}{
		{"a few", many(8, "L%d"), nil, 8},
		{"numbered, but few", nil, many(8, "L%d"), 8},
		{"made during the run", []string{"L", "queue/*"}, many(5000, "queue/%d"), 2},
		{"very many that are listed", many(1000, "L%d"), nil, 1},
		{"very many unlike names", many(1000, "L%dx"), nil, mostLanes + 1},
		{"more than have names", nil, many(mostLocks+10, "L%dx"), mostLanes + 1},
	} {
		h := history.Header{}
		for _, name := range tt.listed {
			h.Locks = append(h.Locks, history.Lock{Name: name})
		}
		c := newCollector(h, verdict.Verdict{})
		for _, name := range tt.others {
			c.lock(name)
		}
		if len(c.lanes) != tt.want {
			t.Errorf("%s: %d lanes, want %d", tt.name, len(c.lanes), tt.want)
		}
		if len(c.locks) > mostLocks+1 {
			t.Errorf("%s: %d locks", tt.name, len(c.locks))
		}
	}
}

// The script reads the columns as they were written: see unpack in page.js, which this
// repeats.
func TestColumns(t *testing.T) {
	s := generate(small)
	c := newCollector(s.header, s.verdict)
	for _, e := range s.log {
		if e.Kind == history.Granted && e.Op%3 == 0 {
			e.Token, e.Turn = ^uint64(0)-e.Op, e.Op*e.Op*1e12 // any numbers
		}
		c.add(e)
	}
	c.finish()
	d, err := c.pack()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.packSpans(&d, mostSpanBytes); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(d.Spans.Data)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	columns, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	in := bytes.NewReader(columns)
	column := func() (all []int64) {
		for range d.Spans.N {
			x, err := binary.ReadUvarint(in)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, int64(x))
		}
		return all
	}
	requested, waited, held, releasing, owner, lock, flags, text := column(), column(), column(), column(), column(), column(), column(), column()
	rising := func() (all []uint64) {
		last := map[int64]uint64{}
		for i := range d.Spans.N {
			x, err := binary.ReadVarint(in)
			if err != nil {
				t.Fatal(err)
			}
			last[lock[i]] += uint64(x)
			all = append(all, last[lock[i]])
		}
		return all
	}
	tokens, turns := rising(), rising()
	if in.Len() != 0 {
		t.Errorf("%d bytes are left", in.Len())
	}
	at := d.From
	for i, a := range c.closed {
		at += requested[i]
		got := []int64{at, at + waited[i], at + waited[i] + held[i], at + waited[i] + held[i] + releasing[i], owner[i] / int64(c.workers), owner[i] % int64(c.workers), lock[i], flags[i] % 8, flags[i] / 8 % 8, flags[i] / 64, text[i], int64(tokens[i]), int64(turns[i])}
		want := []int64{c.micro(a.requested), c.micro(a.granted), c.micro(a.ended), c.micro(a.settled), int64(a.process), int64(a.worker), int64(a.lock), int64(a.outcome), int64(a.mode), int64(a.last), int64(a.text), int64(a.token), int64(a.turn)}
		if !slices.Equal(got, want) {
			t.Fatalf("acquisition %d is %v, want %v", i, got, want)
		}
	}
}

// Meters account for all time, however often their cells got wider.
func TestMeters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := newMeters(100, rapid.SampledFrom([]int{1, 10_000}).Draw(t, "rows"))
		r := row{}
		at, waiting, holding := int64(100), 0, 0
		var waited, held, grants int64
		for range rapid.IntRange(1, 50).Draw(t, "changes") {
			step := rapid.Int64Range(0, 40_000_000_000).Draw(t, "step")
			waited += step * int64(waiting)
			if holding > 0 {
				held += step
			}
			at += step
			w, h := rapid.IntRange(-min(waiting, 1), 1).Draw(t, "waiting"), rapid.IntRange(-min(holding, 1), 1).Draw(t, "holding")
			waiting, holding, grants = waiting+w, holding+h, grants+int64(max(h, 0))
			ms.note(r, at, w, h)
		}
		ms.finish(at)
		var sum cell
		for _, c := range ms.all[r].cells {
			sum.held += c.held
			sum.waited += c.waited
			sum.grants += c.grants
			if c.held > ms.width {
				t.Errorf("a cell of %d was held for %d", ms.width, c.held)
			}
		}
		if sum.held != held || sum.waited != waited || int64(sum.grants) != grants {
			t.Errorf("the cells have %+v, want held %d, waited %d, grants %d", sum, held, waited, grants)
		}
		if len(ms.all[r].cells) > ms.most {
			t.Errorf("%d cells, want at most %d", len(ms.all[r].cells), ms.most)
		}
	})
}

// What is not marked as gone is complete, what is important stays, and the budget is kept.
func TestThin(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4))
	for round := range 60 {
		var all []acquisition
		for i := range 5000 {
			a := acquisition{requested: 1000 + chance.Int64N(600*second), worker: i}
			a.granted = a.requested + chance.Int64N(200*milli)
			a.ended = a.granted + chance.Int64N(50*milli)
			a.settled = a.ended + chance.Int64N(2*milli)
			if chance.IntN(100) == 0 {
				a.settled += 20 * second
			}
			if chance.IntN(500) == 0 {
				a.outcome = lost
			}
			all = append(all, a)
		}
		finding := window{300 * second, 304 * second, atFinding}
		th := thinner{origin: 1000, windows: []window{finding, {100 * second, 140 * second, atFault}}}
		end := 1000 + 620*second
		const budget = 1500
		kept := th.thin(slices.Clone(all), end, budget)
		if round%2 == 1 { // as during a long run
			kept = th.thin(kept, end, budget/2)
		}
		if len(kept) > budget || len(kept) < budget/4 {
			t.Errorf("%d of %d are kept", len(kept), len(all))
		}
		is := map[int]bool{}
		for _, a := range kept {
			is[a.worker] = true
		}
		complete := func(a acquisition) bool { // it touches a time that is not gone
			at := a.requested
			for _, g := range th.gone {
				if g.from > at {
					break
				}
				at = max(at, g.until)
			}
			return at <= a.settled
		}
		for _, a := range all {
			if !is[a.worker] && complete(a) {
				t.Fatalf("an acquisition from %d to %d is missing, but its time is not gone", a.requested, a.settled)
			}
			if !is[a.worker] && a.outcome == lost {
				t.Error("a lost hold is missing")
			}
		}
		for _, a := range kept {
			if a.outcome != lost && !complete(a) {
				t.Fatalf("an acquisition from %d to %d takes room, but its time is gone", a.requested, a.settled)
			}
		}
		for _, g := range th.gone {
			if g.from <= finding.until && finding.from <= g.until {
				t.Errorf("from %d to %d is gone, at the finding", g.from, g.until)
			}
		}
	}
}

// Lost holds remain, but not if they are too many for a page.
func TestThinLosses(t *testing.T) {
	for _, tt := range []struct{ losses, want int }{{400, 400}, {3000, 0}} {
		var all []acquisition
		for i := range 5000 {
			a := acquisition{requested: int64(i) * second}
			a.granted, a.ended, a.settled = a.requested, a.requested, a.requested
			if i < tt.losses {
				a.outcome = lost
			}
			all = append(all, a)
		}
		th := thinner{windows: []window{{4000 * second, 5000 * second, atFinding}}}
		kept := th.thin(all, 5000*second, 1000)
		n := 0
		for _, a := range kept {
			if a.outcome == lost {
				n++
			}
		}
		if n != tt.want || len(kept) > 1000 {
			t.Errorf("of %d lost holds %d are kept, of %d, want %d", tt.losses, n, len(kept), tt.want)
		}
	}
}

// A text shows all of itself.
func TestClean(t *testing.T) {
	for _, tt := range []struct {
		text string
		most int
		want string
	}{
		{"lock L3, été, 錠, 🔒", 100, "lock L3, été, 錠, 🔒"},
		{"a\tb\nc", 100, "a b\nc"},
		{"a\x00\x1b[31m\x7f", 100, `a\u{0}\u{1b}[31m\u{7f}`},
		{"\u202eabc\u2066\u200b\u2028", 100, `\u{202e}abc\u{2066}\u{200b}\u{2028}`},
		{"a\xffb", 100, "a\uFFFDb"},
		{"abcdef", 3, "abc… (3 more characters)"},
		{"abc", 3, "abc"},
		{"", 3, ""},
	} {
		if got := clean(tt.text, tt.most); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}
