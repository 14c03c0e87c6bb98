// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A hit is a fault with what it cost.
type hit struct {
	verdict.Hit
	Number int // on the page
	At     string
	For    string
	Place  place
	Lost   []cost
}

// A cost is holds that were lost together while a fault was active, or shortly after.
type cost struct {
	Locks []string
	By    string // which process, and whether it ended
	Row   int    // of the first of them in the table of lost holds, from 1; or 0
	At    string // when they were lost, if the history tells; and likewise what follows
	When  string // during the fault, or how long after
	Or    []active
	Why   string
}

// same reports whether two costs may be told as one.
func (c cost) same(d cost) bool {
	return c.By == d.By && c.At == d.At && c.When == d.When && c.Why == d.Why && slices.Equal(c.Or, d.Or)
}

// An active fault is one that may have to do with something.
type active struct {
	Fault int // its number on the page
	Kind  string
	When  string // of a loss: during it, or how long after
}

// Costly and Harmless return the faults that cost locks, and the others, each in the order
// of time. If all are too many for a table, the others are left out first.
func (v view) Costly() folded[hit] { return fold(v.hits(true), openRows) }
func (v view) Harmless() []hit     { return v.hits(false) }

func (v view) hits(costly bool) (all []hit) {
	room := mostLostBytes
	for _, i := range v.c.faults(mostRows) {
		h := v.c.hits[i]
		if len(h.Lost) > 0 != costly {
			continue
		}
		from, until := v.c.micro(h.Began), v.c.micro(v.c.endOf(h))
		one := hit{Hit: h, Number: i + 1, At: v.clock(h.Began), For: "a moment", Lost: v.costs(i, &room)}
		if until-from >= 1000 {
			one.For = figures.Duration(time.Duration(v.c.endOf(h) - h.Began))
		}
		margin := max((until-from)/4, 1_000_000)
		one.Place = place{from - margin, until + max(margin, v.c.header.SessionTimeout/1000)}
		all = append(all, one)
	}
	return all
}

// costs returns what a fault cost: what the verdict says, with what the history tells of it.
func (v view) costs(at int, room *int) (all []cost) {
	add := func(c cost) {
		if i := slices.IndexFunc(all, c.same); i >= 0 && len(c.Locks) > 0 {
			all[i].Locks = append(all[i].Locks, c.Locks...)
		} else {
			all = append(all, c)
		}
	}
	told := map[string][]int{} // losses, by what the verdict says of them
	for _, i := range v.c.lossesOf[at] {
		l := v.c.losses.items[i]
		text := fmt.Sprintf("lock %q by process %d", v.c.locks[l.lock], v.c.processes[l.process])
		told[text] = append(told[text], i)
	}
	h := v.c.hits[at]
	lost, times, more := listed(h.Lost, room)
	for _, text := range lost {
		one := costOf(text)
		one.By += often(times[text])
		if len(told[text]) == 0 {
			add(one)
		}
		for _, i := range told[text] {
			l := v.c.losses.items[i]
			c := one
			c.At, c.When, c.Why, c.Or = v.clock(l.at), v.whether(h, l), cause(l.text), v.active(i, at)
			if i < mostRows {
				c.Row = i + 1
			}
			add(c)
			*room -= len(c.Why) + 10*len(c.Or)
		}
	}
	if more > 0 {
		add(cost{By: fmt.Sprintf("and %s more", figures.Number(more))})
	}
	return all
}

var costText = regexp.MustCompile(`^lock ("(?:[^"\\]|\\.)*") (by process \d+)(, which ended)?$`)

// costOf returns what the verdict says of a hold that was lost.
func costOf(text string) cost {
	if m := costText.FindStringSubmatch(text); m != nil {
		if lock, err := strconv.Unquote(m[1]); err == nil {
			return cost{Locks: []string{lock}, By: m[2] + m[3]}
		}
	}
	return cost{By: text}
}

// listed returns what a fault cost, equal texts once with how often each is there, as far as
// there is room for so many bytes; and how many further texts there are.
func listed(texts []string, room *int) (once []string, times map[string]int, more int) {
	times = map[string]int{}
	for _, text := range texts {
		if times[text]++; times[text] == 1 {
			once = append(once, text)
		}
	}
	for i, text := range once {
		if i == mostLost || len(text) > *room {
			return once[:i], times, len(once) - i
		}
		*room -= len(text)
	}
	return once, times, 0
}

// often says how often there is what is there more than once.
func often(n int) string {
	if n > 1 {
		return fmt.Sprintf(" (%d times)", n)
	}
	return ""
}

// active returns the faults that may have cost a hold, but for that one.
func (v view) active(loss, but int) (all []active) {
	l := v.c.losses.items[loss]
	for _, i := range v.c.hitsOf[loss] {
		if h := v.c.hits[i]; i != but && len(all) < mostActive {
			all = append(all, active{i + 1, h.Kind, v.whether(h, l)})
		}
	}
	return all
}

// cause returns the end of the error of a lost hold. The row says what the begin does.
func cause(text string) string {
	if _, why, ok := strings.Cut(text, "lock was lost: "); ok {
		return why
	}
	return text
}

// whether says whether a hold was lost during a fault, or how long after.
func (v view) whether(h verdict.Hit, l loss) string {
	if after := l.at - v.c.endOf(h); after > 0 {
		return figures.Duration(time.Duration(after)) + " after it"
	}
	return "during it"
}

// HitsLeftOut returns how many faults are not in the table, and how many of those cost
// something.
func (v view) HitsLeftOut() (left struct{ All, Costly int }) {
	table := v.c.faults(mostRows)
	left.All = v.c.verdict.FaultCount() - len(table)
	for i, h := range v.c.hits {
		if _, found := slices.BinarySearch(table, i); !found && len(h.Lost) > 0 {
			left.Costly++
		}
	}
	return left
}

// Renumbered reports whether the page numbers a fault otherwise than the history.
func (v view) Renumbered() bool {
	for i, h := range v.Hits {
		if h.Fault != i+1 {
			return true
		}
	}
	return false
}

// lostTexts returns what a fault cost, equal texts once, as far as there is room for so
// many bytes.
func lostTexts(h verdict.Hit, room *int) []string {
	all := make([]string, len(h.Lost))
	for i, l := range h.Lost {
		all[i] = clean(l, longText)
	}
	once, times, more := listed(all, room)
	lost := []string{}
	for _, l := range once {
		lost = append(lost, l+often(times[l]))
	}
	if more > 0 {
		lost = append(lost, fmt.Sprintf("and %s more", figures.Number(more)))
	}
	return lost
}

// faults returns the indexes of the faults, in the order of time. If there are more than most,
// those that cost nothing are left out first, and then the last.
func (c *collector) faults(most int) []int {
	all := make([]int, len(c.hits))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int {
		return cmp.Compare(min(len(c.hits[b].Lost), 1), min(len(c.hits[a].Lost), 1))
	})
	all = all[:min(len(all), most)]
	slices.Sort(all)
	return all
}

// blame finds for each fault the losses that it may have cost, and the reverse.
func (c *collector) blame() {
	c.lossesOf, c.hitsOf = make([][]int, len(c.hits)), make([][]int, len(c.losses.items))
	for i, h := range c.hits {
		from, _ := slices.BinarySearchFunc(c.losses.items, h.Began, func(l loss, at int64) int { return cmp.Compare(l.at, at) })
		for k := from; k < len(c.losses.items) && c.losses.items[k].at <= c.endOf(h)+2*c.header.SessionTimeout; k++ {
			if c.mayCost(h, c.losses.items[k]) {
				c.lossesOf[i] = append(c.lossesOf[i], k)
				c.hitsOf[k] = append(c.hitsOf[k], i)
			}
		}
	}
}
