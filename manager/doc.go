// SPDX-License-Identifier: Apache-2.0

// Package manager is a distributed lock on Apache ZooKeeper that a process owns
// and all its goroutines share.
//
// # What a lock excludes
//
// The owner of a lock is a process, or more exactly a [Manager], which is one
// ZooKeeper session. Its goroutines are holders: they share the lock. So
// "exclusive" means exclusive among processes: goroutines of one process are
// inside together. To exclude them from each other as well, use a sync.Mutex
// inside the lock.
//
// However many goroutines of a process want a lock, the process has one place
// in ZooKeeper's queue, and one future tells all of them that it has come to
// its turn. While the process owns the lock, taking it again is one
// compare-and-swap: no network, no mutex, no allocation. When the last holder
// has left, the process gives the lock up; whoever wants it from then on queues
// again, behind the processes that are waiting. Between processes the queue is
// fair.
//
// # What it does not promise
//
// No lock service can stop a process that was paused (by a debugger, the
// scheduler, the machine's suspension, a long garbage collection elsewhere)
// from acting on a lock that it has lost meanwhile. Against that there are, from
// the weakest to the strongest:
//
//   - [Hold.Lost] and [Hold.Context], which tell of the loss before ZooKeeper
//     can give the lock to another process;
//   - [Hold.Err] and the other methods of [Hold] that compare the clock with
//     the lease at the moment of the call: a process that was paused learns of
//     its loss from the first of them, before any timer has run;
//   - the fencing token in [Grant]: a resource that refuses tokens lower than
//     the highest it has seen refuses a late write, whatever clocks do;
//   - [Hold.Guard], for data in the same ZooKeeper: writes that take effect only
//     while the lock's node exists, decided by who gives the lock away.
//
// The first two rest on bounds: the clocks of this machine and of ZooKeeper's
// leader differ in speed by less than a twelfth; the session timeout is at least
// twice the server's tickTime (ZooKeeper's own default minimum); timers of this
// process run when they are due. The token rests on nothing but the resource, a
// guarded write on nothing but ZooKeeper.
//
// The wall clock plays no part: it can be set to anything at any time. Time in
// which the machine was suspended counts as elapsed on Linux (CLOCK_BOOTTIME) and
// on Windows (whose monotonic clock includes it): when the machine goes on, Err
// and the others say at once that the lock is lost if that took longer than the
// lease, and Lost closes within a sixth of the session timeout. On macOS Go's
// clock stands still meanwhile, and the loss shows later, when the session turns
// out to be over. A virtual machine that is stopped by its hypervisor may not
// know of it, on any system.
//
// The lease behind them is not "the connection is up". A server that is cut off
// from its leader goes on answering pings and reads while the leader expires
// the session and gives the lock away. Only a write that is answered without an
// error shows that the leader knows this session; from the moment at which the
// last such write was sent, the lock is trusted for half the session timeout at
// most. See package zkio.
//
// # How to use it
//
// [Open] a Manager per process, get a [Lock] by name, and then, in the order of
// how much they do by themselves:
//
//   - [Lock.Do] runs a function under the lock, with a context that ends when
//     the lock is lost.
//   - [Lock.Lock] waits for the lock and returns a [Hold]; [Hold.Unlock] gives
//     it back and waits until the next process can have it.
//   - [Lock.Acquire] never blocks: it returns a pending Hold whose
//     [Hold.Granted] is a future to wait for, select on, or hang a function on.
//     [Hold.Release] never blocks either.
//   - [Lock.TryLock] does not wait for other processes.
//
// Goroutines have no identity, so reentrance is explicit: a Hold can be
// reentered ([Hold.Reenter]), and all acquiring methods reenter by themselves
// when their context comes from [Hold.Context].
//
// # Losing the lock
//
//	connection lost               nothing, as long as the lease lasts: holders keep
//	                              the lock, newcomers enter
//	lease ended                   Lost closes, contexts end with cause ErrLost; this is
//	                              before ZooKeeper can give the lock away
//	session expired or replaced,  the same, at once
//	own node deleted by somebody
//	back before the lease's end   nothing was lost
//	session lost while waiting    the process queues again by itself, at the end, as
//	                              long as somebody waits; an error that will not go
//	                              away (no permission, bad arguments) fails the wait
//	Close with holders inside     Lost closes, cause ErrClosed
//
// # How it works
//
// A lock's whole state in this process is one 32-bit word: a phase and a count
// of holders (package state). The word lives in a round: one turn from FREE
// over FETCHING, RETAINED and RELEASING to RELEASED.
//
//	Lock ─ cur ─► round ─ next ─► round     the chain; each round owns its word
//	                │
//	             roundIO                    futures that the holders share, and the I/O
//	             │  │  └ tenure             what only a holder needs: grant, lease, looks behind
//	             │  └ watching              what only a waiter needs: its plan, and the news
//	             │        └ decide          a pure function: what to do next
//	             └ runner                   one worker of zkio's pool at a time runs step
//
// To follow the code from Acquire to the wire and back: [Lock.Acquire] counts the
// caller into a round (round.arrive); the first one hands the round's I/O to the
// pool (runner.wake), whose workers do all network work (roundIO.step): create the
// node, list the queue, watch a contender ahead, grant. The last Release
// (round.leave) wakes the runner again, which deletes the node and hands the lock
// to the next round (round.finish). If goroutines wait in that round already, the
// request that deletes the one node creates the other (roundIO.deleteNode).
//
// Locks are taken in this order: Manager.mu before any lock inside package zkio;
// a lock inside package futures is taken last. None is held across I/O or a
// channel operation.
package manager
