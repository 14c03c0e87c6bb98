// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

const (
	mostNear   = 5  // names that Near returns at most
	mostTrails = 20 // directories of one depth that Near goes on from
)

// A trail is a path on which Near goes down the tree.
type trail struct {
	path string
	cost int // how far it is from the path that was asked for
}

// Near returns names that are like name and have a node below the root: at most five, the most
// alike first. If name itself has a node, it is the first. [Lock.Missing] says that a lock
// has no directory, and Near which name may have been meant.
//
// A path that begins with the root is taken for the name in it, too. Near compares the names
// segment by segment. It does not say whether a lock, a recipe or nothing is in the
// directories that it names. In a directory that this client may not list, it finds no other
// name than the one asked for.
//
// Near lists up to twenty directories for each segment of name, in one packet, and sends one
// packet more. Besides the errors of every [Reader], it fails with [manager.ErrBadName].
func (r *Reader) Near(ctx context.Context, name string) ([]string, error) {
	path, err := manager.LockPath(r.root, name)
	if err != nil {
		return nil, err
	}
	found, err := r.trails(ctx, r.nameOf(path), 0)
	if err != nil {
		return nil, err
	}
	if within, is := strings.CutPrefix(r.nameOf(path), r.root[1:]+"/"); is && r.root != "/" {
		more, err := r.trails(ctx, within, 1)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	var names []string
	for _, t := range nearest(found, mostNear) {
		names = append(names, r.nameOf(t.path))
	}
	return names, nil
}

// trails returns the paths of nodes whose names are like name. cost is that of a way on which
// each segment is found.
func (r *Reader) trails(ctx context.Context, name string, cost int) ([]trail, error) {
	trails := []trail{{r.root, cost}}
	for segment := range strings.SplitSeq(name, "/") {
		all, err := r.list(ctx, trails)
		if err != nil {
			return nil, err
		}
		var next []trail
		for i, d := range all {
			children := d.others
			if d.denied != nil {
				children = []string{segment} // which may be there all the same
			}
			for _, child := range children {
				path := join(d.path, child)
				n, alike := distance(child, segment)
				if _, err := manager.LockPath(r.root, r.nameOf(path)); err == nil && alike {
					next = append(next, trail{path, trails[i].cost + n})
				}
			}
		}
		trails = nearest(next, mostTrails)
	}
	all, err := r.list(ctx, trails)
	if err != nil {
		return nil, err
	}
	var found []trail
	for i, d := range all {
		if d.there {
			found = append(found, trails[i])
		}
	}
	return found, nil
}

// list lists the directories at the ends of the trails.
func (r *Reader) list(ctx context.Context, trails []trail) ([]*directory, error) {
	paths := make([]string, len(trails))
	for i, t := range trails {
		paths[i] = t.path
	}
	return ask(ctx, r, func(s *zkio.Session) ([]*directory, error) { return look(s, paths, first(0), nil) })
}

// nearest returns the first n trails by their costs.
func nearest(all []trail, n int) []trail {
	slices.SortFunc(all, func(a, b trail) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), strings.Compare(a.path, b.path))
	})
	all = slices.CompactFunc(all, func(a, b trail) bool { return a.path == b.path })
	return all[:min(n, len(all))]
}

// distance returns how many letters have to be put in, left out, changed, or swapped with the
// next one to make b of a. Names that differ in case alone are 1 apart. alike is false if they
// differ in more than a third of b.
func distance(a, b string) (n int, alike bool) {
	if a == b {
		return 0, true
	}
	x, y := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	most := (len(y) + 1) / 3
	if len(x)-len(y) > most || len(y)-len(x) > most {
		return 0, false
	}
	// Row i has the distances of x[:i] to each y[:j].
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		row[0] = i + 1
		for j := range y {
			changed := last[j]
			if x[i] != y[j] {
				changed++
			}
			row[j+1] = min(changed, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	n = max(last[len(y)], 1)
	return n, n <= most || len(x) == len(y) && n == 1 && strings.EqualFold(a, b)
}
