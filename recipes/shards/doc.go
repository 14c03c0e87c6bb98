// SPDX-License-Identifier: Apache-2.0

// Package shards divides a fixed number of shards among the processes that are there:
// partitions of a stream, ranges of a table, tenants. Each shard has one owner at a time,
// and each process about as many shards as any other.
//
//	err := shards.Run(ctx, m, shards.Options{Name: "orders", N: 200}, func(ctx context.Context, s shards.Shard) error {
//		for {
//			select {
//			case <-ctx.Done(): // stop now
//				return nil
//			case <-s.Revoked: // another process is to have it: finish first
//				return flush(s.Index)
//			case order := <-orders[s.Index]:
//				if err := process(ctx, order, s.Token); err != nil {
//					return err
//				}
//			}
//		}
//	})
//
// # What it promises
//
// A shard has one owner at a time: the process that holds its lock. All that package
// manager says about a lock is true of a shard. The function's context ends when the lock
// is lost, before another process can get it; Shard.Token fences writes elsewhere, and
// Shard.Hold guards writes to ZooKeeper. A shard is given up when the function has
// returned, and never before.
//
// The goroutines of a Manager share its locks, so a Manager has one call of Run for a name, and
// another is refused with [ErrRunning]. Leave the locks below the name to Run.
//
// Among M processes that agree on who is there, each has ⌊N/M⌋ shards, and N mod M of them one
// more. When a process comes or goes, few shards move besides those that must: of 200 shards, when
// a fifth process joins four, about 45 of at least 40.
//
// ZooKeeper takes a dead process for alive until its session times out. What is to be its own does
// not wait for that: a shard is given up only when the process waits for it that is to have it, and
// one that no process has or waits for is taken, after an eighth of the session timeout, by the
// others that are there. What the dead process had is free when its session is over.
//
// # What it does not promise
//
// Every process computes by itself which shards are its own, from its view of the group.
// While views differ, two processes may want a shard, or none; the lock decides. All shards
// are owned by the processes that are to have them when all see the same group, the owners before
// have given up what they must, and no process is dead that ZooKeeper takes for alive.
//
// A process whose Run is to end leaves the group at once, and gives its shards up when its functions
// have returned. A shard that it gives up late, and that a dead process is to have, may stand still
// until the session of the dead one is over.
//
// No process waits for another before it begins. The first to start wants all shards, and
// gives most of them up again when others come.
//
// Shards are equal: there are no weights, nor a choice of the owner. The number of shards
// is for good. To hand pieces of work to whichever process is free, use a queue; to have one
// process do everything, an election.
//
// # Cost
//
// To take a shard and to give it up costs what that costs for a lock, a write each and a
// list. While it owns shards, a process sends what one lock costs it: a write every seventh
// of the session timeout. The group costs what package members says. To compute who has
// what takes time in proportion to N × M: 200 shards among 10 processes about a
// millisecond, [MaxShards] among 100 some tens. After each change of the group a process looks
// at the shards of the others, by one request or two, and while a process seems to be dead
// eight times in a session timeout.
//
// # Nodes
//
// Below the name: members, a group of package members; shards/0, shards/1 and so on, each
// a lock as Manager.Exclusive has it, and Curator's InterProcessMutex; and spec, a
// persistent node that says how many shards there are and how they are divided, as JSON.
// A process that says otherwise is refused, such as one of a version that divides them in
// another way. To change the number or the division, stop all processes and delete spec.
//
// # The division
//
// Each pair of a shard and a member has a number, a hash of both. Going through the pairs
// from the highest number on, a shard is given to the member if it has none yet, and the
// member has less than ⌊N/M⌋ shards, or just so many and fewer than N mod M members have
// more. This is rendezvous hashing with a bound. The id of a
// member decides which shards it gets, so a process that starts again under the same id
// gets the same.
package shards
