// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/holdfast-go/holdfast/internal/figures"
)

// safe returns a text from elsewhere so that it can be shown: unchanged if it is one word
// of printable characters, and quoted otherwise. A terminal never gets a control
// character that another process has written.
func safe(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return r == '"' || r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsGraphic(r)
	}) {
		return strconv.QuoteToGraphic(s)
	}
	return s
}

// writeJSON writes v as one line of JSON. Like safe, it writes no control character, nor one that
// changes the direction of a text, but encoding/json leaves those from U+007F on as they are:
// they are escaped here.
func writeJSON(w io.Writer, v any) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	var clean bytes.Buffer
	for _, r := range line.String() {
		if r < 0x7f || unicode.IsGraphic(r) {
			clean.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) { // it is in a string: the rest is ASCII
			fmt.Fprintf(&clean, `\u%04x`, unit)
		}
	}
	_, err := w.Write(clean.Bytes())
	return err
}

// A writer is standard output. It remembers the first error, so that what prints need not
// look at each: the command ends with it.
type writer struct {
	w   io.Writer
	err error
}

// Write writes p, unless a write has failed already.
func (w *writer) Write(p []byte) (n int, err error) {
	if w.err == nil {
		n, w.err = w.w.Write(p)
	}
	return n, w.err
}

// failed returns err, what a verb ends with, or the error of the output if all else went well.
func (w *writer) failed(err error) error {
	if w.err == nil || exitCode(err) != exitOK {
		return err
	}
	return fmt.Errorf("cannot write to standard output: %w", w.err)
}

// fit returns s, which is safe, with at most width columns of a terminal.
func fit(s string, width int) string {
	if uniseg.StringWidth(s) <= width {
		return s
	}
	end, used := 0, 0
	for g := uniseg.NewGraphemes(s); g.Next() && used+g.Width() < width; used += g.Width() {
		_, end = g.Positions()
	}
	return s[:end] + "…"
}

// fitEnd is fit for the name of a lock, whose end tells more than its beginning.
func fitEnd(s string, width int) string {
	left := uniseg.StringWidth(s)
	if left <= width {
		return s
	}
	begin := 0
	for g := uniseg.NewGraphemes(s); left >= width && g.Next(); left -= g.Width() {
		_, begin = g.Positions()
	}
	return "…" + s[begin:]
}

// age returns a time for a person, with two units at most.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	d = max(0, d)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < 100*day:
		return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// ageOf returns for how long something has lasted; "-" if it is not known since when.
func ageOf(since, now time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return age(now.Sub(since))
}

// count returns a number with what it counts: "1 lock", "2,013 locks".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return figures.Number(n) + " " + many
}

// orDash returns s, or a dash if it is empty.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// A table is text in columns. A heading that begins with ">" has its column aligned to
// the right.
type table struct{ rows [][]string }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write writes the table, with two spaces between columns.
func (t *table) write(w io.Writer) {
	var widths []int
	var right []bool
	for n, row := range t.rows {
		for i, cell := range row {
			if n == 0 {
				cell, right = strings.TrimPrefix(cell, ">"), append(right, strings.HasPrefix(cell, ">"))
				row[i] = cell
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(cell))
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-uniseg.StringWidth(cell))
			if right[i] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
			line.WriteString("  ")
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}
