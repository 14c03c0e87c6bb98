// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Survey looks at all locks below a place in the tree of names, as often as its owner
// wants. Later looks reuse what earlier ones have read of the contenders that are still
// there. It belongs to one goroutine.
type Survey struct {
	reader *Reader
	prefix string
	known  map[string]Contender // by path: those that the last look has described

	// Rate is how many reads a second the survey may send; 0: as many as the server
	// answers. One look takes a read for each directory, and for the contenders that it
	// does not know yet.
	Rate int

	// Recipes says that the survey looks for recipes, too, which takes some reads more for
	// each: see [View.Recipes].
	Recipes bool
}

// A View is what one look of a Survey has shown. Its parts need not be of the same moment.
type View struct {
	// Locks are the locks that have a contender, or nodes of another kind of lock, sorted
	// by name. A directory without any is no lock's as far as ZooKeeper tells.
	Locks []Lock

	// Recipes are the recipes, sorted by name, if the Survey looks for them. The locks that
	// they consist of are among Locks.
	Recipes []Recipe

	// Denied are the directories that this client may not list, but for those that a Recipe
	// has among Unread.
	Denied []string
	Reads  int // how many nodes this look has read
}

// Survey returns a Survey of the lock called prefix, and of those whose names continue it
// after a slash; of all locks if prefix is empty. It does no I/O.
func (r *Reader) Survey(prefix string) *Survey { return &Survey{reader: r, prefix: prefix} }

// Look reads all directories below the prefix, and the first holder and the first waiter
// of each lock. Besides the errors of every [Reader], it fails with [manager.ErrBadName].
func (s *Survey) Look(ctx context.Context) (View, error) {
	var v View
	known := make(map[string]Contender)
	w := walk{reader: s.reader, rate: s.Rate, pick: ends, known: s.known}
	seen := make(map[string]*directory)
	err := w.all(ctx, s.prefix, func(d *directory) {
		if s.Recipes {
			seen[d.path] = d
		}
		if d.denied != nil {
			v.Denied = append(v.Denied, d.path)
		}
		for path, c := range d.described {
			known[path] = c
		}
		if d.path != s.reader.root && (len(d.queue) > 0 || d.recipe != "") {
			v.Locks = append(v.Locks, s.reader.lock(d))
		}
	})
	if err != nil {
		return View{}, err
	}
	s.known = known
	v.Reads = w.reads
	slices.SortFunc(v.Locks, func(a, b Lock) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(v.Denied)
	if !s.Recipes {
		return v, nil
	}
	if v.Recipes, err = s.reader.recipes(ctx, seen); err != nil {
		return View{}, err
	}
	v.assign()
	return v, nil
}

// recipes finds the recipes in the directories that were seen.
func (r *Reader) recipes(ctx context.Context, seen map[string]*directory) (found []Recipe, err error) {
	var paths, leaves []string
	for path, d := range seen {
		if path != r.root && mayFind(d) {
			paths = append(paths, path)
			if len(d.others) == 0 {
				leaves = append(leaves, path)
			}
		}
	}
	gates := make(map[string]zkio.Read)
	for some := range slices.Chunk(leaves, mostNodes) {
		reads, err := ask(ctx, r, func(s *zkio.Session) ([]zkio.Read, error) {
			reads := s.GetAll(some...)
			for _, read := range reads {
				if zkio.ClassOf(read.Err) != zkio.Definite && read.Err != nil {
					return nil, read.Err
				}
			}
			return reads, nil
		})
		if err != nil {
			return nil, err
		}
		for _, read := range reads {
			gates[read.Path] = read
		}
	}
	slices.Sort(paths) // what is within another recipe comes behind it
	parts := make(map[string]string)
	for _, path := range paths {
		if partOf(parts, path) != "" {
			continue
		}
		one, err := ask(ctx, r, func(s *zkio.Session) (one *Recipe, err error) {
			roster, is, err := (&finder{reader: r, session: s, seen: seen, gates: gates}).find(seen[path])
			if is && err == nil {
				one = &roster.Recipe
			}
			return one, err
		})
		if err != nil {
			return nil, err
		}
		if one != nil {
			found = append(found, *one)
			for _, part := range one.parts {
				parts[join(one.Path, part)] = one.Name
			}
		}
	}
	slices.SortFunc(found, func(a, b Recipe) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// partOf returns the recipe that has path among its parts, or below one; "" if none has.
func partOf(parts map[string]string, path string) string {
	for ; path != ""; path = path[:strings.LastIndexByte(path, '/')] {
		if name, is := parts[path]; is {
			return name
		}
	}
	return ""
}

// assign sets PartOf of the locks that belong to recipes, and leaves to the recipes what could
// not be read of them. What has no holder and is in a
// recipe's own directory shows because of the recipe's nodes.
func (v *View) assign() {
	parts, own := make(map[string]string), make(map[string]string)
	for i := range v.Recipes {
		r := &v.Recipes[i]
		own[r.Path] = r.Name
		for _, part := range r.parts {
			parts[join(r.Path, part)] = r.Name
		}
	}
	v.Denied = slices.DeleteFunc(v.Denied, func(path string) bool {
		return slices.ContainsFunc(v.Recipes, func(r Recipe) bool { return slices.Contains(r.Unread, path) })
	})
	for i := range v.Locks {
		l := &v.Locks[i]
		if l.PartOf = partOf(parts, l.Path); l.Holder == nil && l.PartOf == "" {
			l.PartOf = own[l.Path]
		}
	}
}

// A walk reads directory after directory.
type walk struct {
	reader *Reader
	rate   int // reads a second; 0: without bound
	pick   selection
	known  map[string]Contender

	reads int // so far
}

// mostLists is how many directories are listed together.
const mostLists = 200

// all calls fn for the directory of the lock called name and for each below it.
func (w *walk) all(ctx context.Context, name string, fn func(*directory)) error {
	path, err := w.reader.path(name)
	if err != nil {
		return err
	}
	for todo := []string{path}; len(todo) > 0; {
		n := min(len(todo), mostLists)
		some, err := w.look(ctx, todo[:n])
		if err != nil {
			return err
		}
		todo = todo[n:]
		for _, d := range some {
			fn(d)
			todo = append(todo, w.below(d)...)
		}
	}
	return nil
}

// look reads some directories, and takes the time that its rate demands.
func (w *walk) look(ctx context.Context, paths []string) (some []*directory, err error) {
	began := time.Now()
	some, err = ask(ctx, w.reader, func(s *zkio.Session) ([]*directory, error) {
		return look(s, paths, w.pick, w.known)
	})
	if err != nil {
		return nil, err
	}
	reads := 0
	for _, d := range some {
		reads += d.reads
	}
	w.reads += reads
	if w.rate <= 0 {
		return some, nil
	}
	due := time.NewTimer(time.Duration(reads)*time.Second/time.Duration(w.rate) - time.Since(began))
	defer due.Stop()
	select {
	case <-due.C:
		return some, nil
	case <-ctx.Done():
		return nil, ctxerr.Of(ctx)
	}
}

// below returns the paths of the directories in d that can be locks'. What is reserved is
// not, nor are the nodes of another kind of lock.
func (w *walk) below(d *directory) (paths []string) {
	for _, name := range d.others {
		path := join(d.path, name)
		foreign := d.recipe != "" && queue.Recipe(name) != ""
		if _, err := manager.LockPath(w.reader.root, w.reader.nameOf(path)); err == nil && !foreign {
			paths = append(paths, path)
		}
	}
	return paths
}
