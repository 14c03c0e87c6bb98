// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/state/model/internal/checker"
)

// sets has the sets of searches for -set.
var sets = map[string]func() []search{
	"quick": quick,
	"full":  full,
	"long":  full,
}

// full is every search.
func full() []search {
	return slices.Concat(
		of("abandoned", abandonedSearches()),
		of("linger", lingerSearches()),
		of("lockall", lockAllSearches()),
		of("mutex", mutexSearches()),
		of("upgrade", upgradeSearches()),
	)
}

// quick leaves out the searches of many states: what they show is already likely
// from the others, and no wrong reading is among them.
func quick() []search {
	return slices.DeleteFunc(full(), func(s search) bool { return s.isLarge })
}

// A search is a model, and what is expected of it.
type search struct {
	protocol string
	about    string // what is special about the model
	violates string // the invariant that a wrong reading violates; "" if the model is right
	isLarge  bool
	run      func(limit int) checker.Result
}

// holds returns a search of a model that is right.
func holds[S comparable](about string, m checker.Model[S]) search {
	return search{about: about, run: m.Search}
}

// fails returns a search of a wrong reading, which violates the invariant.
func fails[S comparable](about, invariant string, m checker.Model[S]) search {
	return search{about: about, violates: invariant, run: m.Search}
}

// large keeps the search out of the quick set.
func (s search) large() search {
	s.isLarge = true
	return s
}

// of sets the protocol of the searches.
func of(protocol string, searches []search) []search {
	for i := range searches {
		searches[i].protocol = protocol
	}
	return searches
}

func (s search) name() string { return s.protocol + ": " + s.about }

func (s search) expected() string {
	if s.violates != "" {
		return "fails"
	}
	return "holds"
}

// judge says what is wrong with the result of the search, or returns "". A wrong
// reading has to violate the invariant that it is said to, and no other.
func (s search) judge(r checker.Result) string {
	found, _, _ := strings.Cut(r.Violated, ":")
	switch {
	case r.Violated == "" && !r.Complete:
		return "the search was cut off"
	case r.Violated == "" && s.violates != "":
		return "the search found nothing wrong with this wrong reading"
	case found != s.violates && s.violates != "":
		return "found " + found + ", expected " + s.violates
	case found != s.violates:
		return "found " + r.Violated
	}
	return ""
}
