// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
)

// A lostRow is a row of the table of losses: holds that one process lost at once.
type lostRow struct {
	At, Told, Why string
	Late          bool
	Process       int
	Holds         []lostHold
	Active        []active
}

// A lostHold is one of them.
type lostHold struct {
	Row                        int // from 1
	Index                      int // in the data
	Lock, Workers, Held, Token string
	Place                      place
}

// same reports whether two rows may be told as one.
func (r lostRow) same(s lostRow) bool {
	return r.Process == s.Process && r.At == s.At && r.Told == s.Told && r.Why == s.Why && r.Late == s.Late && slices.Equal(r.Active, s.Active)
}

// Losses returns the holds that were lost.
func (v view) Losses() folded[lostRow] {
	var all []lostRow
	for i, l := range v.c.losses.items[:min(len(v.c.losses.items), mostRows)] {
		at := v.c.micro(l.at)
		row := lostRow{At: v.clock(l.at), Process: v.c.processes[l.process], Why: cause(l.text), Active: v.active(i, -1)}
		row.Told, row.Late = v.told(l)
		hold := lostHold{
			Row: i + 1, Index: i, Lock: v.c.locks[l.lock], Workers: numbered("worker", "workers", l.workers), Held: figures.Duration(time.Duration(l.at - l.since)),
			Token: tokenText(l.token, l.turn), Place: place{at - 2_000_000, at + 1_000_000},
		}
		k := slices.IndexFunc(all, row.same) // processes lose locks at the same time as others
		if k < 0 {
			k = len(all)
			all = append(all, row)
		}
		all[k].Holds = append(all[k].Holds, hold)
	}
	return fold(all, openRows)
}

// told says how long before the end of its session a loss was told, and whether that was
// too late.
func (v view) told(l loss) (text string, late bool) {
	ended, ok := v.c.expired[l.session]
	if !ok || l.session == "" {
		return "", false
	}
	margin := time.Duration(ended - l.at)
	switch {
	case int64(margin) > 2*v.c.header.SessionTimeout:
		return "its session lived on, for " + figures.Duration(margin), false
	case margin >= 0:
		return figures.Duration(margin) + " before the leader ended its session", false
	}
	text = figures.Duration(-margin) + " after the leader had ended its session"
	if v.c.stopped(v.c.processes[l.process], ended) {
		return text + ", as soon as it ran again", false
	}
	return text, true
}

// LossesListed returns how many holds the table of losses has.
func (v view) LossesListed() int { return min(len(v.c.losses.items), mostRows) }

// MoreLosses returns how many losses the table leaves out.
func (v view) MoreLosses() int { return max(v.c.losses.total-mostRows, 0) }

// numbered lists the numbers of some things, each once, in their order. Of none it says nothing.
func numbered(one, several string, numbers []int) string {
	const listed = 6
	numbers = slices.Compact(slices.Sorted(slices.Values(numbers)))
	if len(numbers) == 0 {
		return ""
	}
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers[:min(len(numbers), listed)]), " ", ", "), "[]")
	if n := len(numbers) - listed; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	if len(numbers) == 1 {
		return one + " " + text
	}
	return several + " " + text
}
