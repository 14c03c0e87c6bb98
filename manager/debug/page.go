// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"slices"
	"strconv"
	"time"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"css":      func() template.CSS { return template.CSS(pageCSS) }, //nolint:gosec // it is ours
	"js":       func() template.JS { return template.JS(pageJS) },    //nolint:gosec // it is ours
	"duration": durationText,
	"tenths":   func(s seconds) string { return strconv.FormatFloat(time.Duration(s).Seconds(), 'f', 1, 64) + " s" },
	"clock":    func(t time.Time) string { return t.Format("Jan 2 15:04:05") },
	"exact":    func(t time.Time) string { return t.Format(time.RFC3339) },
	"half":     func(s seconds) seconds { return s / 2 },
}).Parse(pageHTML))

// contentSecurityPolicy lets a browser run the page's own script and apply its own style,
// which it knows by their hashes, and fetch the page again. It forbids all else.
var contentSecurityPolicy = "default-src 'none'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; " +
	"style-src " + hashOf(pageCSS) + "; script-src " + hashOf(pageJS)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// A view is what the template of the page gets.
type view struct {
	report
	query query
}

// A tab is a link to the locks in one state.
type tab struct {
	Show, Link string
	Count      int
	Current    bool
}

// Tabs returns the links above the table.
func (v view) Tabs() []tab {
	t := v.Totals
	busy := t.Waiting + t.Held + t.Releasing
	counts := map[string]int{
		"busy": busy, "waiting": t.Waiting, "held": t.Held, "releasing": t.Releasing, "stuck": t.Stuck,
	}
	if v.Manager != nil {
		counts["free"] = max(v.Manager.Locks-busy, 0)
	}
	var tabs []tab
	for _, show := range shows {
		q := v.query
		q.show, q.page = show, 1
		tabs = append(tabs, tab{show, linkTo(q), counts[show], show == v.query.show})
	}
	return tabs
}

// Past returns what has happened to the session and to locks, newest first: the one explains
// the other.
func (v view) Past() []record {
	past := slices.Concat(v.Troubles, v.History)
	slices.SortStableFunc(past, func(a, b record) int { return b.Time.Compare(a.Time) })
	return past
}

// Orders returns the values of the parameter sort.
func (v view) Orders() []string { return orders }

// Order, Show, Text and Limit return the parameters of the same meaning.
func (v view) Order() string { return v.query.order }
func (v view) Show() string  { return v.query.show }
func (v view) Text() string  { return v.query.text }
func (v view) Limit() int    { return v.query.limit }

// First and Last return which of the matching locks are on this page, counted from 1.
func (v view) First() int { return min((v.Page-1)*v.query.limit+1, v.Matching) }
func (v view) Last() int  { return min(v.Page*v.query.limit, v.Matching) }

// Previous and Next return links to the pages beside this one, or "".
func (v view) Previous() string { return v.linkToPage(v.Page - 1) }
func (v view) Next() string     { return v.linkToPage(v.Page + 1) }

func (v view) linkToPage(page int) string {
	if page < 1 || page > v.Pages {
		return ""
	}
	q := v.query
	q.page = page
	return linkTo(q)
}

// JSON returns a link to the same locks as JSON.
func (v view) JSON() string {
	q := v.query
	q.json, q.limit, q.page = true, 0, 1
	return linkTo(q)
}

func linkTo(q query) string { return "?" + q.String() }

// durationText returns a duration with two or three significant digits.
func durationText(s seconds) string {
	d := time.Duration(s)
	two := func(n time.Duration, unit string, rest time.Duration, restUnit string) string {
		return strconv.Itoa(int(n)) + unit + " " + strconv.Itoa(int(rest)) + restUnit
	}
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return strconv.Itoa(int(d.Milliseconds())) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return two(d/time.Minute, "m", d%time.Minute/time.Second, "s")
	case d < day:
		return two(d/time.Hour, "h", d%time.Hour/time.Minute, "m")
	}
	return two(d/day, "d", d%day/time.Hour, "h")
}
