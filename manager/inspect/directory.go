// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/queueio"
	"github.com/holdfast-go/holdfast/zkio"
)

// A directory is what the server says about a node that is, or may be, a lock's directory.
type directory struct {
	path   string
	there  bool  // it exists
	denied error // why this client may not list it
	stat   zkio.Stat
	queue  []queue.Contender // in the order of turns
	others []string          // the names of the other children
	recipe string            // see Lock.Recipe

	described map[string]Contender // by path: the contenders whose nodes were read
	reads     int                  // how many nodes were read just now, with the directory itself
}

// contender returns the contender at place i of the queue.
func (d *directory) contender(i int) Contender {
	c := contenderAt(d.path, d.queue[i])
	if known, ok := d.described[c.Path]; ok {
		known.Holds = c.Holds
		return known
	}
	return c
}

// A selection says which contenders of a queue, which is in the order of turns, are to be
// read: it returns their places.
type selection func(q []queue.Contender) []int

// ends selects the first contender that holds the lock and the first that waits.
func ends(q []queue.Contender) (places []int) {
	if len(q) > 0 {
		places = append(places, 0)
	}
	if i := slices.IndexFunc(q, func(c queue.Contender) bool { return !c.Turn }); i > 0 {
		places = append(places, i)
	}
	return places
}

// first selects the first n contenders, or all of them if n is negative.
func first(n int) selection {
	return func(q []queue.Contender) []int {
		places := make([]int, len(q))
		if n >= 0 && n < len(q) {
			places = places[:n]
		}
		for i := range places {
			places[i] = i
		}
		return places
	}
}

// looksAtOnce is how often one look lists a queue that keeps changing.
const looksAtOnce = 5

// look reads the directories at paths, and those of their contenders that pick selects,
// but for those that are in known, by path.
//
// A selected contender that has gone between the list and the read says nothing about
// those behind it. So look lists that directory again. If the queue changes all the time,
// look leaves out those that are gone, and has the others as they were listed.
func look(s *zkio.Session, paths []string, pick selection, known map[string]Contender) ([]*directory, error) {
	all := make([]*directory, len(paths))
	for i, path := range paths {
		all[i] = &directory{path: path}
	}
	changed := all
	for n := 1; len(changed) > 0; n++ {
		if err := list(s, changed); err != nil {
			return nil, err
		}
		gone, err := read(s, changed, pick, known)
		if err != nil {
			return nil, err
		}
		changed = slices.DeleteFunc(slices.Clone(changed), func(d *directory) bool { return !d.leaveOut(gone) || n == looksAtOnce })
	}
	return all, nil
}

// list lists the directories, in one packet.
func list(s *zkio.Session, all []*directory) error {
	reads := make([]*zkio.Read, len(all))
	for i, d := range all {
		reads[i] = &zkio.Read{Path: d.path, What: zkio.ReadChildren}
	}
	s.Read(reads...)
	var denied []*directory
	for i, d := range all {
		*d = directory{path: d.path, stat: reads[i].Stat, reads: d.reads + 1}
		switch err := reads[i].Err; {
		case err == nil:
			d.there = true
			if err := d.sort(s, reads[i].Names); err != nil {
				return err
			}
		case errors.Is(err, zkio.ErrNoNode):
		case errors.Is(err, zkio.ErrNoAuth):
			d.there, d.denied = true, err
			denied = append(denied, d)
		default:
			return err
		}
	}
	return lookAtDenied(s, denied)
}

// lookAtDenied asks for the Stats of directories that may not be listed, which take no right
// before ZooKeeper 3.8.4 and 3.9.2. A node that is ephemeral has no children, so nothing was refused.
func lookAtDenied(s *zkio.Session, all []*directory) error {
	reads := make([]*zkio.Read, len(all))
	for i, d := range all {
		reads[i] = &zkio.Read{Path: d.path, What: zkio.ReadStat}
	}
	s.Read(reads...)
	for i, d := range all {
		switch err := reads[i].Err; {
		case err == nil:
			d.stat = reads[i].Stat
			if ephemeral(d.stat) {
				d.denied = nil
			}
		case !errors.Is(err, zkio.ErrNoNode) && !errors.Is(err, zkio.ErrNoAuth):
			return err
		}
	}
	return nil
}

// sort makes d's queue of its children's names.
func (d *directory) sort(s *zkio.Session, names []string) error {
	latch := queue.OnlyLatches(names)
	q := queueio.Of(names, d.stat, latch)
	if err := queueio.Number(s, d.path, &q); err != nil {
		return err
	}
	q.Sort()
	d.queue = slices.Clone(q.Contenders)
	q.Free()
	for _, name := range names {
		if c, ok := queue.ParseName(name); !ok || c.Latch != latch {
			d.others = append(d.others, name)
		}
	}
	d.recipe = recipeAmong(d.others)
	return nil
}

// recipeAmong returns the recipe whose nodes are among a directory's children. "locks"
// alone may well be a part of other locks' names.
func recipeAmong(names []string) string {
	for _, name := range names {
		if recipe := queue.Recipe(name); recipe != "" && name != "locks" {
			return recipe
		}
	}
	return ""
}

// read reads the contenders that pick selects in each directory, and returns the paths of
// those that are gone.
func read(s *zkio.Session, all []*directory, pick selection, known map[string]Contender) (gone map[string]bool, err error) {
	var unread []*Contender
	var owners []*directory
	for _, d := range all {
		d.described = make(map[string]Contender)
		for _, i := range pick(d.queue) {
			c := contenderAt(d.path, d.queue[i])
			if old, ok := known[c.Path]; ok && d.queue[i].GUID { // other names can recur
				d.described[c.Path] = old
				continue
			}
			unread, owners = append(unread, &c), append(owners, d)
			d.reads++
		}
	}
	if gone, err = describeAll(s, unread); err != nil {
		return nil, err
	}
	for i, c := range unread {
		if !gone[c.Path] {
			owners[i].described[c.Path] = *c
		}
	}
	return gone, nil
}

// leaveOut removes the contenders that are gone from d's queue, and reports whether there
// were any.
func (d *directory) leaveOut(gone map[string]bool) bool {
	if len(gone) == 0 {
		return false
	}
	n := len(d.queue)
	d.queue = slices.DeleteFunc(d.queue, func(c queue.Contender) bool { return gone[join(d.path, c.Name)] })
	if len(d.queue) == n {
		return false
	}
	queue.Queue{Contenders: d.queue}.Sort()
	return true
}
