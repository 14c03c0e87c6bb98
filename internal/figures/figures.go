// SPDX-License-Identifier: Apache-2.0

// Package figures writes numbers and durations for people, everywhere in one way.
package figures

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Number returns a number with separators between thousands.
func Number[T int | int64 | uint64](n T) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// NumberOf is Number for templates, which know no type parameters.
func NumberOf(n any) string {
	v := reflect.ValueOf(n)
	if v.CanUint() {
		return Number(v.Uint())
	}
	return Number(v.Int())
}

// Count returns a number and what is counted, in the plural if that is not 1: 2 processes.
func Count(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"), strings.HasSuffix(what, "x"):
		what += "es"
	case strings.HasSuffix(what, "ry"):
		what = strings.TrimSuffix(what, "y") + "ies"
	default:
		what += "s"
	}
	return Number(n) + " " + what
}

// Times returns how often: "never", "once", or "1,000 times".
func Times[T int | int64 | uint64](n T) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return Number(n) + " times"
}

// Duration returns a duration in the unit that fits it: with three digits below a minute,
// such as 41.2 s; else in two units, such as 3 h 25 min. What is exactly a number of one unit
// has no further digits: 4 s. The page's script has the same rules.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "−" + Duration(-max(d, -math.MaxInt64))
	case d == 0:
		return "0"
	}
	step := time.Duration(1)
	for d/1000 >= step {
		step *= 10
	}
	switch near := d.Round(step); {
	case near < time.Microsecond:
		return digits(d, near, time.Nanosecond, "ns")
	case near < time.Millisecond:
		return digits(d, near, time.Microsecond, "µs")
	case near < time.Second:
		return digits(d, near, time.Millisecond, "ms")
	case near < time.Minute:
		return digits(d, near, time.Second, "s")
	}
	if near := d.Round(time.Second); near < time.Hour {
		return two(near, time.Minute, "min", time.Second, "s")
	}
	return two(d.Round(time.Minute), time.Hour, "h", time.Minute, "min")
}

// digits returns near, which is d with three digits, in one unit.
func digits(d, near, unit time.Duration, name string) string {
	x, places := float64(near)/float64(unit), 0
	switch {
	case d%unit == 0:
	case x < 10:
		places = 2
	case x < 100:
		places = 1
	}
	return strconv.FormatFloat(x, 'f', places, 64) + " " + name
}

// two returns d in two units.
func two(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := Number(int64(d/large)) + " " + largeName
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return text
}
