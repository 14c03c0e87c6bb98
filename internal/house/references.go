// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/token"
	"slices"
)

// A pair of files: the first uses what the second declares.
type pair struct{ from, to string }

// references has the names that files use of others, by where these are declared.
type references map[pair]map[token.Pos]bool

func (r *room) references() references {
	refs := references{}
	for ident, object := range r.TypesInfo.Uses {
		// The name of an imported package is declared in the file that uses it.
		if object.Pkg() != r.Types || !object.Pos().IsValid() {
			continue
		}
		p := pair{r.file(ident.Pos()), r.file(object.Pos())}
		if p.from == p.to {
			continue
		}
		if refs[p] == nil {
			refs[p] = map[token.Pos]bool{}
		}
		refs[p][object.Pos()] = true
	}
	return refs
}

func (r *room) printReferences(t table, list bool) {
	refs := r.references()
	var files []string
	for _, f := range r.Syntax {
		files = append(files, r.file(f.Pos()))
	}
	back := refs.back(refs.order(files))
	t.add(r.name, "references between files", len(refs))
	t.add(r.name, "of them back", len(back))
	if list {
		for _, p := range back {
			t.add(r.name, fmt.Sprintf("names that %s uses of %s, above", p.from, p.to), len(refs[p]))
		}
	}
}

// back returns the references to a file above, in a given order of all files.
func (refs references) back(files []string) (found []pair) {
	for i, from := range files {
		for _, above := range files[:i] {
			if p := (pair{from, above}); refs[p] != nil {
				found = append(found, p)
			}
		}
	}
	return found
}

// order puts files in a row with few references back: the greedy way of Eades, Lin and
// Smyth, after which single files move as long as that helps. Of equal files it takes the
// first by name.
func (refs references) order(files []string) (row []string) {
	arrow := func(from, to string) int { return min(1, len(refs[pair{from, to}])) }
	left := slices.Sorted(slices.Values(files))
	for len(left) > 0 {
		// Next comes a file that the ones left do not use, or else the one that uses
		// most of them, less those that use it.
		best, most := 0, -len(files)
		for i, f := range left {
			uses, used := 0, 0
			for _, g := range left {
				uses += arrow(f, g)
				used += arrow(g, f)
			}
			score := uses - used
			if used == 0 {
				score += len(files)
			}
			if score > most {
				best, most = i, score
			}
		}
		row = append(row, left[best])
		left = slices.Delete(left, best, best+1)
	}
	for moved := true; moved; {
		moved = false
		for _, f := range slices.Sorted(slices.Values(files)) {
			at := slices.Index(row, f)
			others := slices.Delete(slices.Clone(row), at, at+1)
			// costs[i] is the number of references back that f has a part in if it
			// comes before others[i]: from those below to f, and from f to those above.
			costs := []int{0}
			for _, g := range others {
				costs[0] += arrow(g, f)
			}
			for i, g := range others {
				costs = append(costs, costs[i]-arrow(g, f)+arrow(f, g))
			}
			if best := slices.Index(costs, slices.Min(costs)); costs[best] < costs[at] {
				row = slices.Insert(others, best, f)
				moved = true
			}
		}
	}
	return row
}
