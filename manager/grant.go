// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"fmt"
)

// A Grant is what a process gets from ZooKeeper with a lock. All holders of the
// lock in the process share it. Each holder of a [Mutex] has its own.
type Grant struct {
	// Token is the fencing token: the id of the ZooKeeper transaction that
	// created the lock's node. The tokens of an exclusive or write lock's grants strictly
	// increase, over sessions, processes and the re-creation of the lock's directory. Send
	// the token with every write to the resource that the lock protects, and have
	// the resource refuse a token lower than the highest it has seen. Nothing
	// else stops a process that was paused while it held the lock.
	//
	// The token of a read lock is above those of all earlier writers and below those of
	// all later ones, with one exception: an upgraded Hold ([Hold.Upgrade]) writes with
	// the token that it reads with, and readers that were beside it may have higher ones.
	// So have the resource compare the tokens of writers only. A read beside this
	// process's own write lock or upgraded Hold has the token of that.
	//
	// Compare the tokens of one lock only. Locks for which a process queues at the same time may
	// have the same token, since one transaction can create the nodes of several.
	Token uint64
	// Path is the lock's node.
	Path string
	// Session is the id of the ZooKeeper session that owns the node.
	Session int64
	// Turn distinguishes the holders of a [Mutex] that follow each other in one process
	// under the same Token: it is 1 for the first of them, and rises by one. The pairs
	// (Token, Turn) of a mutex strictly increase: a resource must compare both, the Token
	// first. Turn is 0 for other locks.
	Turn uint64
	// Abandoned says that the holder before was interrupted, so that what the lock
	// protects may be half changed. It is false unless this process has called
	// [Lock.ReportAbandoned] for the lock, which says more.
	Abandoned bool
}

// String describes the grant for a person: its token, its node and its session, as the log and
// ZooKeeper's own logs have them. Of the zero Grant it is "none".
func (g Grant) String() string {
	if g == (Grant{}) {
		return "none"
	}
	text := fmt.Sprintf("token %d", g.Token)
	if g.Turn != 0 {
		text += fmt.Sprintf(", turn %d", g.Turn)
	}
	text += fmt.Sprintf(", node %s, session %#x", g.Path, uint64(g.Session))
	if g.Abandoned {
		text += ", abandoned by the holder before"
	}
	return text
}

// Compare compares the pairs (Token, Turn) of two grants of one lock. It returns -1 if g
// was granted before other, +1 if after, and 0 if they are the same grant.
func (g Grant) Compare(other Grant) int {
	return cmp.Or(cmp.Compare(g.Token, other.Token), cmp.Compare(g.Turn, other.Turn))
}
