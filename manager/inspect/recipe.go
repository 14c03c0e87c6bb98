// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// A RecipeKind says what a recipe is for.
type RecipeKind string

// The kinds of recipes: those of the packages below recipes, and what other clients have in
// the same nodes.
const (
	KindElection  RecipeKind = "election"
	KindCron      RecipeKind = "cron"      // a job at planned times
	KindMembers   RecipeKind = "members"   // also Curator's GroupMember
	KindShards    RecipeKind = "shards"    //
	KindSemaphore RecipeKind = "semaphore" // also Curator's InterProcessSemaphoreV2 and InterProcessSemaphoreMutex
	KindQueue     RecipeKind = "queue"     // also ZooKeeper's DistributedQueue and Curator's SimpleDistributedQueue
	KindBarrier   RecipeKind = "barrier"
	KindGate      RecipeKind = "gate" // a barrier that is shut; also Curator's DistributedBarrier
)

// A Recipe is what processes build on locks, as its directory shows it: an election, a group,
// a queue and so on. Curator's LeaderLatch and LeaderSelector are a [Lock].
//
// The parts of a Recipe are not read at the same moment.
type Recipe struct {
	Name string // as the recipe's New takes it
	Path string
	Kind RecipeKind

	// Foreign is another client's recipe that has this layout, if it is not that of package
	// recipes: "ZooKeeper's DistributedQueue".
	Foreign string

	// Holders is how many have something of the recipe: leaders; processes that run a cron job at its
	// planned times; members of a group; shards
	// that are owned; permits in use; elements that are taken; members of the barrier's round
	// that are inside.
	Holders int

	// Of is how many can: shards, permits, or the members of a round. It is 0 if there is no
	// such number, or if it is not known.
	Of int

	// Waiting is how many candidates wait to lead, processes to run a cron job, for shards or in line for
	// permits, elements to be taken, and processes to enter a barrier.
	Waiting int

	Members int // of those among which shards are divided; consumers of a queue
	Buried  int // elements of a queue
	Round   uint64

	// Holder is the leader, the process that runs a cron job, whose permits are the oldest, or that has shut a gate;
	// nil if there is none, or it is not known.
	Holder *Contender

	// Since is when the oldest of what there is was created: the node of the Holder, a member,
	// a shard's owner, a permit, an element. For a barrier it is when its round began. Zero if
	// there is none.
	Since time.Time

	Leader *Leader // what the leader of an election says in its record; nil if there is none
	Run    *Run    // what the record of a cron job says; nil if it cannot be read

	// Unread are the nodes that this client may not read. What they would have told is 0.
	Unread []string

	parts []string // directories whose locks are the recipe's
}

// A Leader is what the record of an election says.
type Leader struct {
	Token   uint64
	ID      string
	Data    []byte
	Present bool // the record is of the process that leads now
}

// A Run is what the record of a cron job says of the newest planned time that was run: see
// package recipes/cron.
type Run struct {
	Planned time.Time
	State   string // "new", "begun" or "done"
	Token   uint64
	Attempt int
	ID      string
}

// A Roster is a recipe with those that take part in it.
type Roster struct {
	Recipe

	// Entries are in their order: those that have something, and behind them those that wait,
	// in the order of turns; members by their ids; shards by their numbers; elements by theirs.
	Entries []Entry
	More    int // how many others there are, which were not read
}

// An Entry is one of those that take part in a recipe, or a thing that it is about.
type Entry struct {
	// Contender is the process, as far as its node tells. Path, Since and Token are those of
	// the node that is in the list: that of an element or a lock's contender.
	Contender

	// State is "leads" or "waits" in an election; "runs" or "waits" for a cron job; "member"; "owned" or "free" for a shard;
	// "holds" or "waits" for permits; "taken" or "waits" for an element; "inside", "waits",
	// "left" or "died" at a barrier; "shut".
	State string

	// ID is the leader's, the member's or the element's, or the number of a shard.
	ID string

	Data     []byte // of a member
	Bytes    int    // of an element
	Attempts int    // how often an element was taken
	Waiting  int    // how many processes wait for a shard
}

// Recipe returns the recipe called name, with the first most entries, or all of them if most
// is negative. found is false if there is none, and if contenders of a lock queue in its
// directory: then name is, or may be, a lock's. Besides the errors
// of every [Reader], it fails with [manager.ErrBadName], and with [zkio.ErrNoAuth] if this
// client may not list the directory.
func (r *Reader) Recipe(ctx context.Context, name string, most int) (roster Roster, found bool, err error) {
	path, err := manager.LockPath(r.root, name)
	if err != nil {
		return roster, false, err
	}
	type answer struct {
		roster Roster
		found  bool
	}
	a, err := ask(ctx, r, func(s *zkio.Session) (a answer, err error) {
		all, err := look(s, []string{path}, first(0), nil)
		if err != nil {
			return a, err
		}
		d := all[0]
		if d.denied != nil {
			return a, fmt.Errorf("this client may not see the queue: %w", d.denied)
		}
		if len(d.queue) > 0 {
			return a, nil
		}
		a.roster, a.found, err = (&finder{reader: r, session: s, most: most}).find(d)
		return a, err
	})
	return a.roster, a.found, err
}
