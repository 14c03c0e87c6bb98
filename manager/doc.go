// SPDX-License-Identifier: Apache-2.0

// Package manager provides distributed locks on Apache ZooKeeper that a process
// owns and all its goroutines share.
//
// # What a lock excludes
//
// The owner of a lock is a process, or more exactly a [Manager], which is one
// ZooKeeper session at a time. The goroutines of the process are holders: they
// share the lock. So "exclusive" means exclusive among processes, while any
// number of goroutines of one process may hold the lock together. To exclude
// them from each other as well, use a [Mutex].
//
// However many goroutines of a process want a lock, the process has one place
// in ZooKeeper's queue, and one future tells all of them when it is granted. (Each
// call of [Manager.LockAll] queues for itself.) While the process owns the lock,
// and need not let another process have it first (Config.Tenure), acquiring it again
// takes a few atomic operations: no network, no mutex, no allocation. When the last
// holder leaves, the process gives the lock up: at once or, with Config.Linger, when
// another process wants it or the lock was not used for that time. Later callers queue again, behind the
// processes that are waiting, so the queue is fair between processes.
//
// # What it does not promise
//
// No lock service can stop a process that was paused (by a debugger, the
// scheduler, a suspended machine, a long garbage collection) from acting on a
// lock that it has lost meanwhile. The defences are, from the weakest to the
// strongest:
//
//   - [Hold.Lost] and [Hold.Context] report the loss before ZooKeeper can give
//     the lock to another process, unless another client deletes the lock's node.
//   - [Hold.Err] and the other methods of [Hold] that read the clock compare it
//     with the lease when they are called. After a pause, the first such call
//     reports the loss, before any timer has run.
//   - The fencing token in [Grant] lets a resource refuse a late write, whatever
//     clocks do: it refuses tokens lower than the highest it has seen.
//   - [Hold.Guard] is for data in the same ZooKeeper. Its writes take effect only
//     while the lock's node exists, and ZooKeeper itself decides about both.
//
// The first two depend on bounds: the clocks of this machine and of ZooKeeper's
// leader differ in speed by less than a twelfth; the session timeout is at least
// twice the server's tickTime (ZooKeeper's own default minimum), or four times behind
// an ObserverMaster, and all servers have the same minSessionTimeout and
// maxSessionTimeout; timers of this process run when they are due. The token depends on nothing but the resource,
// and a guarded write on nothing but ZooKeeper.
//
// The wall clock plays no part; it may be set to anything at any time. Time
// during which the machine was suspended counts as elapsed on Linux
// (CLOCK_BOOTTIME) and on Windows (whose monotonic clock includes it). If it was
// longer than the lease, Err and the like report the loss as soon as the machine
// goes on, and Lost closes within a sixth of the session timeout. On macOS Go's
// clock stands still meanwhile, and the loss shows only when the session turns
// out to be over. A virtual machine that its hypervisor stops may not know of it,
// on any system.
//
// The lease is not the same as "the connection is up". A server that is cut off
// from its leader goes on answering pings and reads while the leader expires the
// session and gives the lock away. Only a write that is answered without an error
// shows that the leader knows this session. The lock is trusted for at most half
// the session timeout from the moment at which the last such write was sent. See
// package zkio.
//
// # How to use it
//
// [Open] one Manager per process and get a [Lock] by name. Then use, in the order
// of how much they do for you:
//
//   - [Lock.Do] runs a function under the lock, with a context that ends when
//     the lock is lost.
//   - [Lock.Lock] waits for the lock and returns a [Hold]. [Hold.Unlock] gives
//     it back and waits until another process can have it.
//   - [Lock.Acquire] never blocks. It returns a pending Hold whose
//     [Hold.Ready] is a future to wait for, to select on, or to attach a
//     function to. [Hold.Release] never blocks either.
//   - [Lock.TryLock] and [Lock.TryDo] do not wait for other processes.
//   - A [Mutex], from [Manager.Mutex], has the same methods. It excludes the goroutines
//     of this process, too.
//   - [Manager.LockAll] acquires several locks at once, without deadlock.
//
// [Manager.ReadWrite] returns a pair of locks for readers, which share theirs, and
// writers. Under its third lock, [RWLock.Upgradable], a process reads first, and writes
// only if it must.
//
// Goroutines have no identity, so reentrance is explicit: [Hold.Reenter] reenters
// a Hold, and all acquiring methods reenter if their context comes from
// [Hold.Context].
//
// Errors say which contender holds the lock, and, if ZooKeeper cannot be reached, for
// how long and why: see [Error].
//
// # Talking to the holder
//
//   - [Lock.Holder] asks ZooKeeper which process holds a lock, and [Lock.Queue] which
//     processes wait for it. [Lock.CachedHolder] answers from memory, for programs that
//     send each message to the holder. [Lock.WatchHolder] ranges over the holders as
//     they change.
//   - A process publishes its address as Config.Endpoint, which others find in
//     [Contender].
//   - [Lock.Ask] puts a question to the process that holds a lock. Config.OnAsk answers
//     it there.
//   - [Lock.Revoke] asks that process to give the lock up. Its holders learn of it from
//     [Hold.Revoked], and decide. [Hold.Contended] tells them that another process
//     waits, mostly without a request of its own.
//
// An answer may be out of date when it arrives. So a process that is asked because it
// holds a lock must check [Hold.Err] before it acts.
//
// # Losing the lock
//
//	connection lost               nothing while the lease lasts: holders keep the lock,
//	                              newcomers enter
//	back before the lease's end   nothing was lost
//	lease ended                   Lost closes, contexts end with cause ErrLost, before
//	                              ZooKeeper can give the lock away
//	session expired or replaced   the same, at once
//	lock's node deleted           the same, as soon as ZooKeeper tells of it; another
//	                              process may be inside by then
//	session lost while waiting    the process queues again, at the end, for as long as
//	                              a caller waits; an error that a retry cannot fix (no
//	                              permission, bad arguments) fails the wait
//	Close with holders inside     Lost closes, contexts end with cause ErrClosed
//
// If a holder is interrupted, what the lock protects may be half changed.
// [Lock.ReportAbandoned] has the next holder learn of it.
//
// # Observing
//
// Config.Observer is told what happens to the process's locks, as an [Event] each: it
// waits, it has the lock, it gives it up or loses it. [Manager.Locks] ranges over the
// present state of the locks, and [Manager.Stats] has counters and the state of the
// session. [Lock.Listen] has functions called with what becomes of one lock. None of them
// costs a request, or anything where callers enter a lock that the process owns, after the
// first of a grant.
package manager

// How it works, for readers of the code: parts.go.
