// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/token"
	"math/rand/v2"
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
// Smyth, made better by an iterated local search (Lourenço, Martin and Stützle), whose chance is
// the same each time. Of equal files it takes the first by name.
func (refs references) order(files []string) (row []string) {
	files = slices.Sorted(slices.Values(files))
	g := make(graph, len(files))
	for i, from := range files {
		g[i] = make([]int, len(files))
		for j, to := range files {
			g[i][j] = min(1, len(refs[pair{from, to}]))
		}
	}
	best := g.settle(g.greedy())
	least := g.back(best)
	now, chance := best, rand.New(rand.NewPCG(1, 2))
	for range 12 * len(files) { // of 90 files, five times as many change nothing
		next := slices.Clone(now)
		for range 4 { // so few that most of the order stays
			at := chance.IntN(len(next))
			f := next[at]
			next = slices.Insert(slices.Delete(next, at, at+1), chance.IntN(len(next)), f)
		}
		next = g.settle(next)
		switch n := g.back(next); {
		case n < least:
			best, now, least = next, next, n
		case n == least: // from where the search may come further
			now = next
		}
	}
	for _, f := range best {
		row = append(row, files[f])
	}
	return row
}

// A graph has 1 at [i][j] if file i refers to file j, else 0.
type graph [][]int

// back counts the references to a file above.
func (g graph) back(row []int) (n int) {
	for i, from := range row {
		for _, above := range row[:i] {
			n += g[from][above]
		}
	}
	return n
}

// greedy takes next a file that the ones left do not use, or else the one that uses most of
// them, less those that use it.
func (g graph) greedy() (row []int) {
	var left []int
	for f := range g {
		left = append(left, f)
	}
	for len(left) > 0 {
		best, most := 0, -len(g)
		for i, f := range left {
			uses, used := 0, 0
			for _, other := range left {
				uses += g[f][other]
				used += g[other][f]
			}
			score := uses - used
			if used == 0 {
				score += len(g)
			}
			if score > most {
				best, most = i, score
			}
		}
		row = append(row, left[best])
		left = slices.Delete(left, best, best+1)
	}
	return row
}

// settle moves single files as long as that helps.
func (g graph) settle(row []int) []int {
	for moved := true; moved; {
		moved = false
		for f := range g {
			at := slices.Index(row, f)
			others := slices.Delete(slices.Clone(row), at, at+1)
			// costs[i] is the number of references back that f has a part in if it
			// comes before others[i]: from those below to f, and from f to those above.
			costs := []int{0}
			for _, other := range others {
				costs[0] += g[other][f]
			}
			for i, other := range others {
				costs = append(costs, costs[i]-g[other][f]+g[f][other])
			}
			if best := slices.Index(costs, slices.Min(costs)); costs[best] < costs[at] {
				row = slices.Insert(others, best, f)
				moved = true
			}
		}
	}
	return row
}
