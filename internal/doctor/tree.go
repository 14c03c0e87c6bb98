// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"errors"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

const (
	maxNodes = 20_000 // how many nodes are listed
	maxACLs  = 1_000  // of how many directories the ACL is read
	together = 100    // how many reads one packet has
)

// A tree is what there is below the root.
type tree struct {
	missing bool        // there is no root
	dirs    []directory // the root, which comes first, and all nodes that are no contenders
	denied  []string    // directories that this client may not list
	more    bool        // there is more than is looked at
	err     error       // why the search ended early
}

// A directory is where a lock's contenders queue, or directories of locks are.
type directory struct {
	path    string
	next    int64    // the number of the next sequential node
	kinds   []string // which kinds of contenders there are, of kindMutex and so on
	recipes []string // which other recipes use it, and a node of each
	acl     []zkio.ACL

	contenders []string // the children that queue for the lock
	persistent []string // those of them that belong to no session
	strange    []string // children that look like contenders of no known client
}

// walk searches the tree. It asks for many lists at a time: a root can have thousands of
// locks.
func walk(ctx context.Context, s *zkio.Session, root string) tree {
	var t tree
	pending := []string{root}
	places := make(map[string]int) // of directories in t.dirs, by path
	for seen := 0; len(pending) > 0; {
		if err := ctx.Err(); err != nil {
			t.err = err
			break
		}
		if seen >= maxNodes {
			t.more = true
			break
		}
		reads := make([]*zkio.Read, min(len(pending), together))
		for i := range reads {
			reads[i] = &zkio.Read{Path: pending[i], What: zkio.ReadChildren}
		}
		s.Read(reads...)
		pending = pending[len(reads):]
		seen += len(reads)
		for _, r := range reads {
			switch {
			case errors.Is(r.Err, zkio.ErrNoNode):
				t.missing = t.missing || r.Path == root
			case errors.Is(r.Err, zkio.ErrNoAuth):
				t.denied = append(t.denied, r.Path)
			case r.Err != nil:
				t.err = r.Err
				return t
			default:
				d, below := look(r)
				if numbered.MatchString(r.Path) && r.Path != root && r.Stat.NumChildren == 0 && r.Stat.EphemeralOwner != containerOwner {
					above := &t.dirs[places[parent(r.Path)]] // which came before
					above.strange = append(above.strange, path.Base(r.Path))
				}
				places[r.Path] = len(t.dirs)
				t.dirs = append(t.dirs, d)
				for _, name := range below {
					if r.Path != root || name != "_asks_" && name != "_held_" && name != "_taken_" { // the library's own
						pending = append(pending, path.Join(r.Path, name))
					}
				}
			}
		}
	}
	for i := range t.dirs {
		if i == maxACLs {
			t.more = true
			break
		}
		// An ACL that this client may not read is not judged.
		t.dirs[i].acl, _ = s.ACL(t.dirs[i].path)
	}
	t.findPersistent(ctx, s)
	return t
}

// findPersistent finds the contenders that belong to no session, among the first of each
// directory: these hold the lock, or will soon. One packet asks for all of a directory.
func (t *tree) findPersistent(ctx context.Context, s *zkio.Session) {
	for i := range t.dirs[:min(len(t.dirs), maxACLs)] {
		if err := ctx.Err(); err != nil {
			t.err = err
			return
		}
		d := &t.dirs[i]
		slices.SortFunc(d.contenders, func(a, b string) int { return cmp.Compare(a[len(a)-10:], b[len(b)-10:]) })
		reads := make([]*zkio.Read, min(len(d.contenders), together))
		for j := range reads {
			reads[j] = &zkio.Read{Path: path.Join(d.path, d.contenders[j]), What: zkio.ReadStat}
		}
		if len(reads) > 0 {
			s.Read(reads...)
		}
		for j, r := range reads {
			if r.Err == nil && r.Stat.EphemeralOwner == 0 { // one that has gone meanwhile is not judged
				d.persistent = append(d.persistent, d.contenders[j])
			}
		}
	}
}

// containerOwner is the EphemeralOwner of containers, as locks' directories are.
const containerOwner = math.MinInt64

// numbered matches what ends in a number that ZooKeeper has appended. It asks for a zero
// first, as in the first billion of a directory, so that it takes no end of an id for one.
var numbered = regexp.MustCompile(`[^0-9]0[0-9]{9}$`)

// look says what there is in a directory, and which children may have children of their
// own.
func look(r *zkio.Read) (d directory, below []string) {
	d = directory{
		path: r.Path,
		// Servers count the children created, in 32 bits, and tell clients twice that
		// number less those that are left.
		next: (int64(uint32(r.Stat.Cversion)) + int64(r.Stat.NumChildren)) / 2,
	}
	semaphore := slices.Contains(r.Names, "leases") && slices.Contains(r.Names, "locks")
	if semaphore {
		d.recipes = append(d.recipes, "Curator's InterProcessSemaphoreMutex or InterProcessSemaphoreV2 (leases, locks)")
	}
	kinds, recipes := make(map[string]bool), make(map[string]bool)
	for _, name := range r.Names {
		switch kind, recipe := kindOf(name), recipeOf(name); {
		case kind != "":
			d.contenders = append(d.contenders, name)
			if !kinds[kind] {
				kinds[kind] = true
				d.kinds = append(d.kinds, kind)
			}
		case recipe != "":
			if !recipes[recipe] {
				recipes[recipe] = true
				d.recipes = append(d.recipes, recipe+" ("+name+")")
			}
		case semaphore && (name == "leases" || name == "locks"):
		default:
			below = append(below, name)
		}
	}
	slices.Sort(d.kinds)
	return d, below
}

// The kinds of contenders. Those of one kind exclude each other, whatever client they are
// of.
const (
	kindMutex     = "exclusive locks"
	kindReadWrite = "read/write locks"
	kindKazoo     = "kazoo's locks"
)

// kindOf returns the kind of the contender of this name; "" if it is none.
func kindOf(name string) string {
	switch c, ok := queue.ParseName(name); {
	case !ok || c.Latch:
		return ""
	case strings.Contains(name, "lock__"):
		return kindKazoo
	case c.Kind == queue.Exclusive:
		return kindMutex
	default:
		return kindReadWrite
	}
}

// number is what ZooKeeper appends to the name of a sequential node.
const number = `(\d{10}|-\d{9,10})$`

// recipes are those whose nodes do not exclude Holdfast's locks.
var recipes = []struct {
	name   *regexp.Regexp
	recipe string
}{
	{regexp.MustCompile(`^(_c_[0-9a-fA-F-]+-)?latch-` + number), "Curator's LeaderLatch"},
	{regexp.MustCompile(`^(_c_[0-9a-fA-F-]+-)?lease-` + number), "Curator's InterProcessSemaphoreV2"},
	{regexp.MustCompile(`^qn-` + number), "a queue of ZooKeeper's recipes"},
}

// recipeOf returns the recipe that makes nodes of this name; "" if none is known.
func recipeOf(name string) string {
	for _, r := range recipes {
		if r.name.MatchString(name) {
			return r.recipe
		}
	}
	return ""
}

// worldDeletes returns the entry of the ACL that lets every client delete children, or
// give itself the right to; "" if there is none.
func worldDeletes(acl []zkio.ACL) string {
	for _, a := range acl {
		if a.Scheme == "world" && a.Perms&(zkio.PermDelete|zkio.PermAdmin) != 0 {
			return a.String()
		}
	}
	return ""
}

// parent returns the path of the node above p.
func parent(p string) string { return path.Dir(strings.TrimSuffix(p, "/")) }
