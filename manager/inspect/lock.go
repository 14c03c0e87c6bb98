// SPDX-License-Identifier: Apache-2.0

package inspect

// A Lock is what a lock's directory shows.
type Lock struct {
	Name string // as Manager.Exclusive takes it
	Path string // of its directory

	// Missing says that the lock has no directory. No process has asked for it under this
	// name and root, or none has lately: servers remove a directory some time after it has
	// become empty. So the lock is free, or its name is a mistake: see [Reader.Near].
	Missing bool

	// Kind is "exclusive" or "read/write", as the contenders' kinds are, or "latch" if they
	// are those of Curator's LeaderLatch or of a lock that queues with them, or "selector" if
	// they look like those of Curator's LeaderSelector: its nodes are those of a mutex, and say
	// the id that was set instead of an address. It is "mixed"
	// if mutexes and read/write locks contend in one directory, which is a mistake, and
	// empty if there is no contender.
	Kind string

	Holders int // how many contenders have their turn: several if they read
	Waiting int // how many do not

	// Holder is the contender that holds the lock, and the first of them if several
	// processes read; nil if the lock is free. It may hold the lock, and not have
	// noticed yet.
	Holder *Contender

	// Next is the first contender that waits, which has waited for the longest; nil if
	// none does.
	Next *Contender

	// Gone is how many children the directory has had that are gone. Nearly all of them
	// held the lock, so the difference between two looks tells how often it has changed
	// hands. It begins anew when the server has removed the empty directory.
	Gone int64

	// Strangers is how many children are not contenders; locks whose names continue this
	// one's are among them.
	Strangers int

	// Recipe names another kind of lock whose nodes are in the directory, such as
	// "a queue, ZooKeeper's DistributedQueue"; empty if there is none. Both kinds are granted at the same
	// time.
	Recipe string

	// PartOf is the name of the recipe that the lock belongs to, if a [Survey] looks for
	// recipes; empty otherwise.
	PartOf string
}

// lock returns what d shows. described has the contenders that were read, by path.
func (r *Reader) lock(d *directory) Lock {
	l := Lock{
		Name: r.nameOf(d.path), Path: d.path, Missing: !d.there, Kind: d.kind(), Strangers: len(d.others), Recipe: d.recipe,
		Gone: int64(uint32(d.stat.Cversion-d.stat.NumChildren) / 2),
	}
	for _, c := range d.queue {
		if c.Turn {
			l.Holders++
		} else {
			l.Waiting++
		}
	}
	for _, i := range ends(d.queue) {
		c := d.contender(i)
		if c.Holds {
			l.Holder = &c
		} else {
			l.Next = &c
		}
	}
	if l.Kind == "exclusive" && isSelector(l.Holder) && (l.Next == nil || isSelector(l.Next)) {
		l.Kind = "selector"
	}
	return l
}

// kind returns the Kind of the lock in d.
func (d *directory) kind() (kind string) {
	for _, c := range d.queue {
		is := c.Kind.Family()
		if c.Latch {
			is = "latch"
		}
		if kind != "" && kind != is {
			return "mixed"
		}
		kind = is
	}
	return kind
}
