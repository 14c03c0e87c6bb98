// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The values of the parameters show and sort; the first is the default.
var (
	shows  = []string{"busy", "waiting", "held", "releasing", "stuck", "free"}
	orders = []string{"stuck", "age", "holders", "lease", "name"}
)

const (
	usualLimit = 100
	maxLimit   = 1000
)

// A query is what a request asks for.
type query struct {
	text  string
	show  string
	order string
	limit int // 0: no bound
	page  int
	json  bool
}

// parseQuery reads a URL's query. The error says which parameter is wrong, and what
// it can be.
func parseQuery(raw string) (query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, fmt.Errorf("bad query: %w", err)
	}
	q := query{text: strings.TrimSpace(values.Get("q"))}
	if q.show, err = oneOf(values, "show", shows); err != nil {
		return query{}, err
	}
	if q.order, err = oneOf(values, "sort", orders); err != nil {
		return query{}, err
	}
	format, err := oneOf(values, "format", []string{"html", "json"})
	if err != nil {
		return query{}, err
	}
	q.json = format == "json"
	usual := usualLimit
	if q.json {
		usual = 0
	}
	if q.limit, err = number(values, "limit", usual, maxLimit); err != nil {
		return query{}, err
	}
	if q.page, err = number(values, "page", 1, 1<<30); err != nil {
		return query{}, err
	}
	return q, nil
}

func oneOf(values url.Values, name string, allowed []string) (string, error) {
	switch v := values.Get(name); {
	case v == "":
		return allowed[0], nil
	case slices.Contains(allowed, v):
		return v, nil
	default:
		return "", fmt.Errorf("%s=%q: it can be %s", name, v, strings.Join(allowed, ", "))
	}
}

func number(values url.Values, name string, usual, most int) (int, error) {
	v := values.Get(name)
	if v == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s=%q: it must be a number from 1 to %d", name, v, most)
	}
	return n, nil
}

// String returns the query in the form that parseQuery reads, without defaults.
func (q query) String() string {
	values := url.Values{}
	set := func(name, value, usual string) {
		if value != usual {
			values.Set(name, value)
		}
	}
	set("q", q.text, "")
	set("show", q.show, shows[0])
	set("sort", q.order, orders[0])
	switch {
	case q.json:
		values.Set("format", "json")
		set("limit", strconv.Itoa(q.limit), "0")
	default:
		set("limit", strconv.Itoa(q.limit), strconv.Itoa(usualLimit))
	}
	set("page", strconv.Itoa(q.page), "1")
	return values.Encode()
}
