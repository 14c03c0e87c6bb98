// SPDX-License-Identifier: Apache-2.0

package manager

// How the package works: its parts, what they promise each other, who runs on which
// goroutine, and the life of one acquisition. Read this first, and then the opening comments
// of share.go, round.go, roundio.go, next.go, trait.go, plan.go and internal/errand, in this order.
//
// A lock's whole state in this process is one 32-bit word: a phase, and a count of holders
// (package state). The word belongs to a round, which is the life of the lock from FREE over
// FETCHING, RETAINED and RELEASING to RELEASED:
//
//	             Acquire                     nothing ahead
//	  FREE/0 ───────────────► FETCHING/n ────────────────────► RETAINED/n
//	    ▲                      │      │                           │    │
//	    │         all withdrew │      │ failed      the last left │    │ lost
//	    │                      ▼      ▼                           ▼    ▼
//	next round ◄──────────── RELEASED ◄── node is gone ──── RELEASING/0
//
// A caller's goroutine changes the word, and is done. A worker of zkio's pool does the rest: it
// runs roundIO.Step, which looks at the word and sends the requests that it calls for. At any time
// one worker at most runs the steps of a round.
//
//	your goroutines         this package                  zkio                   ZooKeeper
//
//	Acquire ─────► Lock ───► round ──► share (the word)
//	Hold ◄──────────┘          │ first arrival
//	                           ▼
//	                         Runner ─────── submit ────► pool ─► worker
//	                           ▲                                   │ Run
//	                           │ wake       roundIO.Step ◄─────────┘
//	                           │                │ create, list, look, prove
//	                           │                ▼
//	                           │              Node, Session ──► exchange ──► wire ──► server
//	                           │                                              │
//	                           └──── ahead.PathChanged ◄── dispatcher ◄─events┘
//
// # The parts, by what they do
//
// What callers touch:
//
//   - Lock, RWLock and Mutex are what a program gets by name; Lock.cur is the present round.
//   - A line is the part of a Lock that does not belong to this process: the queue in the lock's
//     directory, as ZooKeeper shows it. It answers Holder and Queue (line.go, holder.go).
//   - A Hold is a handle of one holder. It points to the share that counts the holder, and
//     names a slot of a pool, so that it costs no allocation and a late call does no harm
//     (slot.go).
//   - A share is what the holders of a round have in common: the word, and the promises of
//     the grant, the release and the loss. Contexts, Ready and Contended hang on its signals.
//
// The engine, which takes one round to ZooKeeper and back:
//
//   - round.go: the chain of rounds of a lock. A caller that comes too late for one round is
//     counted in the next.
//   - roundio.go: Step, which looks at the word; fetch, grant and keep, which it calls.
//   - A roundIO has roles. Each role is a type with its own methods, to which a method of roundIO
//     converts: t.waiter(), say. A queuer creates the node and keeps it (queuer.go). A waiter waits
//     behind other contenders; plan.go's pure function decide says for which, and what is next. An
//     incumbent has the lock: it looks for contenders behind it (tenure.go), and for their sake
//     refuses newcomers (gate.go, revocation.go). Whereabouts says where the round stands in the
//     queue, teller reports what happens to it, and delays wakes it later (files of these names).
//     Within a role, t.io is the roundIO.
//   - handover.go deletes the node, and in the same request creates that of the next round if
//     callers wait there.
//
// What a round does besides that of a plain lock are its traits (trait.go). The engine calls
// them at certain moments of the round's life and knows none by name: of a pair (paired.go),
// upgradable (upgrade.go), reporting abandonment (abandoned.go), lingering when idle
// (linger.go), or a place of a LockAll, whose group does the I/O of all its rounds, which are
// in no chain (group.go, place.go). A Mutex needs no trait: one round of its private lock is
// the host of turns, which it hands the lock to one after the other, and which have shares of
// their own and no round (mutex.go, turn.go).
//
// What goes on beside the rounds, as tasks of the same kind (internal/errand):
//
//   - An observer finds out who holds a lock, for CachedHolder and WatchHolder; however many
//     callers ask, there is one for a lock. own.go answers the same of this process.
//   - An inquiry is an Ask or a Revoke under way: it puts a question into the other process's
//     mailbox. The mailbox's steps answer it there.
//
// Events: a round reports all of them by teller.go. A feed queues them for Config.Observer, which
// it calls on a goroutine of its own, and for each Listener, which it calls on another.
//
// Manager holds them together. It is made of an identity (what its nodes are called, and what they
// say), a life (from Open to Close, with the goroutines that Close joins), a registry (what is open
// under each name) and an activeSet (the rounds that may have a node). In the role of listener it
// hears of sessions, leases and connections; as rotation it wakes rounds that have waited or been
// idle for long.
//
// # What they promise each other
//
//   - state.Word: each change is one method that returns the new word and its effect. The
//     goroutine whose compare-and-swap has made the change carries the effect out, alone.
//   - errand.Stepper: one step at a time, and a step after each wake. So what only steps use
//     needs no lock. A goroutine that has news stores it, and then wakes.
//   - next: each function of a step returns what is to be done next, and only Step acts.
//   - trait: what a kind of lock adds, at which moments of a round's life.
//   - shareOwner: what a share tells of its word, to the roundIO of its round or to its turn.
//   - zkio.Watcher and zkio.Listener: news from ZooKeeper, in the order in which it happened.
//   - queue.Queue (internal/queue): what the names in a directory say about order; pure.
//
// # Goroutines
//
//	the caller's       Acquire, Release and all methods of Hold: the word, no I/O
//	a worker of zkio   Step, and the functions given to Access.Call
//	the dispatcher     PathChanged, SessionOver, LeaseLapsed, …: must not block
//	the feed's         Config.Observer; one more for each Listener
//	life.spawn's       user code of another kind (OnAsk, contexts' ends), one each; Close joins
//	the rotation       rotation.rotate: wakes rounds that have waited for long; Close joins it
//
// # Locks
//
// observers.mu is taken before observer.mu, and a lock inside package futures last. Mutex.mu,
// registry.mu, activeSet.mu, marks.mu and groups.mu are each held alone, as are a roster's and a
// feed's. None is held across I/O or a channel operation.
//
// # The life of an acquisition
//
// An uncontended [Lock.Acquire] of a lock that this process does not hold:
//
//  1. Lock.acquire deals with reentrance and refusals. round.arrive counts the caller into the
//     present round by one compare-and-swap: state.Word.Arrive says FREE/0 → FETCHING/1,
//     effect Started. Later callers get Joined, share the promises, and are done.
//  2. The caller that started the round calls round.want, which sets a flag. If the round
//     before is over, Runner.Wake puts the lock into the pool's queue of fetches. The caller
//     has its Hold and goes on.
//  3. A worker calls Runner.Run, which calls roundIO.Step. The word is FETCHING and has
//     holders: roundIO.fetch.
//  4. queuer.createNode calls zkio.Node.CreateAndCount: the unique name is chosen, the
//     obligation to clean it up is noted, and one transaction creates the node and counts its
//     neighbours. (The first round of a lock reads the directory before that.)
//  5. zkio sends it, and the answer extends the lease: see package zkio, "The path of a
//     request".
//  6. The directory has one child, so the node is the first. roundIO.grant writes the tenure,
//     swaps the word to RETAINED, settles the grant, and looks at the lease and at the
//     manager's stage once more.
//
// With contenders ahead, waiter.wait takes the place of step 6. It repeats: what does the
// round know, and what is the next action? listQueue reads the queue, or takes the list that
// came with the node, and makes a plan of it: which contenders to watch, and what to do when
// they have gone. watchAhead registers for their paths and reads the nodes, which leaves
// watches. Then there is nothing to do, and the round has no goroutine until one of them
// goes: the dispatcher calls ahead.PathChanged, which wakes the round: step 3 again.
//
// The last [Hold.Release] swaps the word to RELEASING/0 (share.leave) and wakes the round,
// this time through the queue of releases. roundIO.release deletes the node, round.finish
// makes the word RELEASED, lets the next round begin and settles the release.
