// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"fmt"
	"slices"
	"strings"
)

// Parse reads which kinds of faults are wanted, as a list with commas:
//
//	all                  every kind that the run has facilities for
//	kill-worker,revoke   these
//	all,-pause-worker    those without this one
//	-pause               the same without all kinds whose names begin with pause-
//	none                 none, as does an empty text
//
// It returns their names in the order of [Kinds], and those that it left out of all because
// of what the run does not have, each with that. It refuses a name that it does not know,
// and a kind that is named but not possible.
func Parse(text string, f Facilities) (names, lacking []string, err error) {
	wanted := make(map[string]bool)
	for i, word := range strings.Split(text, ",") {
		word = strings.TrimSpace(word)
		name, without := strings.CutPrefix(word, "-")
		if without && i == 0 { // all is understood
			lacking = addAll(wanted, f)
		}
		switch {
		case word == "all":
			lacking = addAll(wanted, f)
			continue
		case word == "none" || word == "" && text == "":
			clear(wanted)
			continue
		}
		named := namesOf(name)
		if len(named) == 0 {
			return nil, nil, fmt.Errorf("%q is no kind of fault: it must be all, none, or one of %s; -NAME leaves one out", name, strings.Join(allNames(), ", "))
		}
		possible := 0
		for _, name := range named {
			if k, _ := kindNamed(name); without || k.Lacks(f) == "" {
				possible++
				wanted[name] = !without
			}
		}
		if possible == 0 {
			k, _ := kindNamed(named[0])
			return nil, nil, fmt.Errorf("faults of kind %s need %s", strings.Join(named, ", "), k.Lacks(f))
		}
	}
	for _, k := range Kinds {
		if wanted[k.Name] {
			names = append(names, k.Name)
		}
	}
	return names, lacking, nil
}

// addAll adds all kinds that are possible, and returns the others, each with what it needs.
func addAll(wanted map[string]bool, f Facilities) (lacking []string) {
	for _, k := range Kinds {
		if lacks := k.Lacks(f); lacks != "" {
			lacking = append(lacking, k.Name+" needs "+lacks)
		} else {
			wanted[k.Name] = true
		}
	}
	return lacking
}

// namesOf returns the kinds that a word names: one, or all that begin with it.
func namesOf(word string) []string {
	names := allNames()
	if slices.Contains(names, word) {
		return []string{word}
	}
	return slices.DeleteFunc(names, func(name string) bool {
		first, _, _ := strings.Cut(name, "-")
		return first != word
	})
}

func allNames() []string {
	names := make([]string, 0, len(Kinds))
	for _, k := range Kinds {
		names = append(names, k.Name)
	}
	return names
}
