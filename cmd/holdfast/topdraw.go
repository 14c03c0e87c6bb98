// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/manager/inspect"
)

// The lines of the screen: the first four, the table, and the last three.
const (
	topLines    = 4
	bottomLines = 3
)

// A topColumn is a column of a table on the screen.
type topColumn struct {
	title string
	width int // 0: an equal part of what the others leave
	right bool
}

// draw draws everything.
func (t *topScreen) draw(now time.Time) {
	t.screen.Clear()
	width, height := t.screen.Size()
	t.sides(0, t.about(), now.Format(time.TimeOnly), bold)
	t.line(1, t.state(), t.stateStyle())
	rows := max(0, height-topLines-bottomLines)
	if t.opened != "" {
		t.drawQueue(width, rows, now)
	} else {
		t.drawList(width, rows, now)
	}
	t.screen.Show()
}

var (
	plain   = tcell.StyleDefault
	bold    = plain.Bold(true)
	reverse = plain.Reverse(true)
)

// colored returns style with a colour, if colours are wanted.
func (t *topScreen) colored(style tcell.Style, c tcell.Color) tcell.Style {
	if t.color {
		return style.Foreground(c)
	}
	return style
}

// about says what is shown of which ensemble, in which session.
func (t *topScreen) about() string {
	text := fmt.Sprintf("%s at %s", under(t.root, t.prefix), safe(t.servers))
	if t.client != nil {
		s := t.client.Session()
		text += fmt.Sprintf(", session %s, %s", sessionText(s.ID()), s.Timeout())
	}
	return text
}

// state sums the locks up, or says what is wrong.
func (t *topScreen) state() string {
	if err := t.trouble(); err != nil {
		return safeLine(err.Error())
	}
	if t.view == nil {
		return "looking …"
	}
	waiting, contended := 0, 0
	for i := range t.view.Locks {
		if n := t.view.Locks[i].Waiting; n > 0 {
			waiting, contended = waiting+n, contended+1
		}
	}
	text := fmt.Sprintf("%s, %s with waiters, %s waiting; %s in %s", count(len(t.view.Locks), "lock", "locks"), figures.Number(contended),
		figures.Number(waiting), count(t.view.Reads, "read", "reads"), t.took.Round(10*time.Millisecond))
	if n := len(t.view.Denied); n > 0 {
		text += fmt.Sprintf("; may not list %s", count(n, "directory", "directories"))
	}
	return text
}

func (t *topScreen) stateStyle() tcell.Style {
	if t.trouble() != nil {
		return t.colored(bold, tcell.ColorRed)
	}
	return plain
}

// trouble returns why what is shown may be out of date; nil if it is not.
func (t *topScreen) trouble() error {
	if t.client != nil {
		if err := t.client.Outage(); err != nil {
			return err
		}
	}
	return t.err
}

// drawList draws the table of locks.
func (t *topScreen) drawList(width, rows int, now time.Time) {
	switch {
	case t.typing:
		t.line(2, "filter: "+safeLine(t.filter)+"_", bold)
	case t.filter != "":
		t.line(2, fmt.Sprintf("filter: %s (%s)", safeLine(t.filter), count(len(t.rows), "lock", "locks")), bold)
	}
	columns := []topColumn{{"LOCK", 0, false}, {"WAITING", 8, true}, {"LONGEST", 8, true}, {"HELD", 8, true}, {"/S", 7, true}, {"HELD BY", 0, false}}
	titles := map[topSort]int{byName: 0, byWaiting: 1, byLongest: 2, byHeld: 3, byRate: 4}
	columns[titles[t.sort]].title += "▼"
	wide := width >= 110
	if wide {
		columns = append(columns, topColumn{"KIND", 10, false}, topColumn{"PID", 8, true})
	}
	columns = narrowed(columns, width)
	share(columns, width)
	t.row(3, columns, titlesOf(columns), reverse)

	at := t.at()
	t.list.show(at, len(t.rows), rows)
	for y := range min(rows, len(t.rows)-t.list.top) {
		i := t.list.top + y
		style := t.urgency(&t.rows[i], now)
		if i == at {
			style = style.Reverse(true)
		}
		t.row(topLines+y, columns, narrowed(cellsOf(&t.rows[i], now, wide), width), style)
	}
	switch {
	case len(t.rows) > 0:
		l := t.rows[at].lock
		t.detail(safe(l.Name), l.Holder)
	case t.view != nil && t.filter != "":
		t.line(topLines, "no lock matches the filter", plain)
	case t.view != nil:
		t.line(topLines, "no locks under "+under(t.root, t.prefix), plain)
	}
	keys := "↑↓ move  enter queue  / filter  s,S sort  q quit"
	if t.typing {
		keys = "type a part of a name  enter keep the filter  esc end it"
	}
	t.keys(keys, at, len(t.rows))
}

// narrowed leaves HELD and /S out of the columns of a narrow screen.
func narrowed[T any](columns []T, width int) []T {
	if width < 70 {
		return slices.Delete(columns, 3, 5)
	}
	return columns
}

// cellsOf returns the cells of a lock's row.
func cellsOf(r *topRow, now time.Time, wide bool) []string {
	l := r.lock
	cells := []string{safe(l.Name), dashIfZero(l.Waiting), ageOf(r.waitsSince(), now), r.heldText(now), rateText(r.rate), "(" + l.Recipe + ")"}
	kind, pid := "-", "-"
	if l.Holder != nil {
		cells[5] = holdersText(l)
		kind, pid = kindText(l), pidText(l.Holder.PID)
	}
	if wide {
		cells = append(cells, kind, pid)
	}
	return cells
}

// heldText says for how long the lock has been held. Of a holder that was there before top
// was, only the time in the queue is known, which includes its wait.
func (r *topRow) heldText(now time.Time) string {
	text := ageOf(r.since, now)
	if r.before && !r.since.IsZero() {
		return "≤" + text
	}
	return text
}

func dashIfZero(n int) string {
	if n == 0 {
		return "-"
	}
	return figures.Number(n)
}

func rateText(rate float64) string {
	switch {
	case rate == 0:
		return "-"
	case rate < 9.95:
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return figures.Number(int(rate + 0.5))
}

// urgency returns the style of a row: red if the first waiter has waited for a minute.
func (t *topScreen) urgency(r *topRow, now time.Time) tcell.Style {
	since := r.waitsSince()
	switch waited := now.Sub(since); {
	case since.IsZero() || waited < 10*time.Second:
		return plain
	case waited < time.Minute:
		return t.colored(plain, tcell.ColorYellow)
	}
	return t.colored(bold, tcell.ColorRed)
}

// drawQueue draws the queue of the lock that is open.
func (t *topScreen) drawQueue(width, rows int, now time.Time) {
	q := t.queue
	if q == nil {
		t.line(2, safe(t.opened)+": looking …", bold)
		t.keys("esc back  q quit", 0, 0)
		return
	}
	title := fmt.Sprintf("%s: %s, %s", safe(q.Name), holdsText(q.Holders), waitsText(q.Waiting))
	if len(q.Contenders) == 0 {
		title = safe(q.Name) + " is free: no process holds it or waits for it"
	}
	t.line(2, title, bold)
	columns := []topColumn{{"#", 6, true}, {"STATE", 5, false}, {"KIND", 10, false}, {"SINCE", 7, true}, {"PID", 8, true}, {"WHO", 0, false}}
	wide := width >= 110
	if wide {
		columns = append(columns, topColumn{"ENDPOINT", 0, false}, topColumn{"SESSION", 19, false})
	}
	share(columns, width)
	t.row(3, columns, titlesOf(columns), reverse)
	at := max(0, min(t.inside.at, len(q.Contenders)-1))
	t.inside.at = at
	t.inside.show(at, len(q.Contenders), rows)
	for y := range min(rows, len(q.Contenders)-t.inside.top) {
		i := t.inside.top + y
		c := &q.Contenders[i]
		cells := []string{strconv.Itoa(i + 1), stateText(c), c.Kind.String(), ageOf(c.Since, now), pidText(c.PID), who(c)}
		if wide {
			cells = append(cells, orDash(safe(c.Endpoint)), orDash(sessionText(c.Session)))
		}
		style := plain
		if c.Holds {
			style = bold
		}
		if i == at {
			style = style.Reverse(true)
		}
		t.row(topLines+y, columns, cells, style)
	}
	if len(q.Contenders) > 0 {
		c := &q.Contenders[at]
		t.detail(c.Path[strings.LastIndexByte(c.Path, '/')+1:], c)
	}
	t.keys("↑↓ move  esc back  q quit", at, len(q.Contenders))
}

// share gives the columns without a width what the others leave.
func share(columns []topColumn, width int) {
	left, flexible := width-(len(columns)-1), 0
	for _, c := range columns {
		left -= c.width
		if c.width == 0 {
			flexible++
		}
	}
	for i := range columns {
		if columns[i].width == 0 {
			columns[i].width = max(1, left/flexible)
			left -= columns[i].width
			flexible--
		}
	}
}

func titlesOf(columns []topColumn) (titles []string) {
	for _, c := range columns {
		titles = append(titles, c.title)
	}
	return titles
}

// row draws the cells of a row.
func (t *topScreen) row(y int, columns []topColumn, cells []string, style tcell.Style) {
	var line strings.Builder
	for i, c := range columns {
		cell := cells[i]
		if c.title == "LOCK" || c.title == "LOCK▼" {
			cell = fitEnd(cell, c.width)
		} else {
			cell = fit(cell, c.width)
		}
		pad := strings.Repeat(" ", c.width-uniseg.StringWidth(cell))
		if c.right {
			cell = pad + cell
		} else {
			cell += pad
		}
		line.WriteString(cell)
		if i < len(columns)-1 {
			line.WriteByte(' ')
		}
	}
	t.line(y, line.String(), style)
}

// detail shows what may be cut in the selected row.
func (t *topScreen) detail(name string, c *inspect.Contender) {
	width, height := t.screen.Size()
	y := height - bottomLines
	if c == nil {
		t.line(y, name, bold)
		return
	}
	text := whoLong(c)
	session := fmt.Sprintf("session %s, token %d", cmp.Or(sessionText(c.Session), "none"), c.Token)
	if uniseg.StringWidth(name)+2+len(session) <= width {
		t.sides(y, name, session, bold)
	} else {
		t.line(y, name, bold)
		text += ", " + session
	}
	t.line(y+1, text, plain)
}

// keys shows the keys, and where in the table the selected row is.
func (t *topScreen) keys(keys string, at, n int) {
	_, height := t.screen.Size()
	where := ""
	if n > 0 {
		where = fmt.Sprintf("%s of %s", figures.Number(at+1), figures.Number(n))
	}
	t.sides(height-1, keys, where, reverse)
}

// sides draws a line with one text at each side.
func (t *topScreen) sides(y int, left, right string, style tcell.Style) {
	width, _ := t.screen.Size()
	room := max(0, width-uniseg.StringWidth(right)-1)
	left = fit(left, room)
	t.line(y, left+strings.Repeat(" ", max(0, room-uniseg.StringWidth(left)+1))+right, style)
}

// line draws a line.
func (t *topScreen) line(y int, text string, style tcell.Style) {
	width, height := t.screen.Size()
	if y < 0 || y >= height {
		return
	}
	t.screen.PutStrStyled(0, y, fit(text, width), style)
}

// safeLine is safe for a text of several words.
func safeLine(s string) string {
	words := strings.Split(s, " ")
	for i, word := range words {
		words[i] = safe(word)
	}
	return strings.Join(words, " ")
}
