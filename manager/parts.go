// SPDX-License-Identifier: Apache-2.0

package manager

// How the package works: its parts, what they promise each other, who runs on which
// goroutine, and the life of one acquisition. Read this first, and then the comments that
// CONTRIBUTING.md lists under "How the code is laid out", in that order.
//
// A lock goes from round to round. A round is its life from FREE through FETCHING, RETAINED and
// RELEASING to RELEASED. Its phase and its count of holders are one 32-bit word (package state);
// flags and futures stand beside it:
//
//	             Acquire                     nothing ahead
//	  FREE/0 ───────────────► FETCHING/n ────────────────────► RETAINED/n
//	    ▲                      │      │                          │    │
//	    │        merged into   │      │ all withdrew,       lost │    │ the last left
//	    │     the round before │      │ or failed                ▼    ▼
//	    │                      │      └────────────────────► RELEASING/0
//	    │                      ▼                                  │
//	next round ◄────────── RELEASED ◄────── the node is gone ─────┘
//
// (A caller that may not enter the present round any more is counted in the next. If the reason
// goes before the round ends, that next round is merged into it: gate.go.)
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
//   - A line is a Lock's view of the queue in ZooKeeper, in which this process is one contender
//     of several. It answers Holder and Queue (line.go, holder.go).
//   - A Hold is a handle of one holder. It points to the share that counts the holder, and
//     names a slot of a pool, so that it costs no allocation and a late call does no harm
//     (slot.go, home.go).
//   - A share is what the holders of a round have in common: the word, and the promises of
//     the grant, the release and the loss. Contexts, Ready and Contended hang on its signals.
//
// The engine, which takes one round to ZooKeeper and back:
//
//   - round.go: the chain of rounds of a lock. A caller that comes too late for one round is
//     counted in the next.
//   - roundio.go: Step, and pass, which looks at the word and calls fetch (which ends in grant),
//     keep or release.
//   - A roundIO has roles. Each role is a type with roundIO as its underlying type and methods of
//     its own; t.waiter() returns t as a waiter. A queuer creates the node, and gives up a bad
//     place to queue again (queuer.go). A waiter waits behind other contenders: the queue says
//     which to watch, and plan.go's pure function decide says what to do next. An
//     incumbent has the lock: it looks for contenders behind it (tenure.go), and for their sake
//     refuses newcomers (gate.go, revoked.go). Whereabouts says where the round stands in the
//     queue, teller reports what happens to it, and delays wakes it later (files of these names).
//     Within a role, t.io, a field of the promises that roundIO embeds,
//     is the roundIO.
//   - handover.go deletes the node, and in the same request creates that of the next round if
//     callers wait there.
//
// What a round does beyond a plain lock is in its traits (trait.go). The engine's steps call
// them at certain moments of the round's life, and know none by name. What else a lock can do by
// its kind is a row in abilities.go. Few places ask for a trait or a kind by name: the ways into and
// out of a round for lingering, the rotation for an upgrade, a waiting Lock for what delays it, and
// what concerns the two or three locks of a pair together.
//
//   - paired.go: it is one lock of a read/write pair.
//   - upgrade.go: it is upgradable, or upgraded.
//   - abandoned.go: it reports that the last holder was interrupted.
//   - linger.go: it stays the process's when the last holder has left.
//   - takeover.go: it was granted because the process that had the lock was killed.
//   - place.go: it is a place of a LockAll. A group does the I/O of all its places, which are in
//     no chain (group.go).
//
// A Mutex needs no trait. A turn is to its goroutines what a round is to processes: a place in a
// line, here in the Mutex's own. It has a share and no round, and gets the lock from the present
// round of the Mutex's private lock, its host, which hands the lock to one turn after the other
// (mutex.go, turns.go, turn.go).
//
// What goes on beside the rounds, as tasks of the same kind (internal/errand):
//
//   - An observer finds out who holds a lock, for CachedHolder and WatchHolder; however many
//     callers ask, there is one for each lock directory. own.go answers the same question for
//     this process.
//   - An inquiry is an Ask or a Revoke under way: it puts a question into the other process's
//     mailbox. The mailbox's steps answer it there.
//
// Events: teller.go reports most of them. What happens at the gate, at a merge, or to an idle lock
// does not happen in a step, and goes straight to the feed, and listener.go reports sessions. The feed queues them for
// Config.Observer, which it calls on a goroutine of its own, and for each Listener, which it calls
// on another.
//
// Manager holds them together. It is made of an identity (what its nodes are called, and what they
// say), a life (from Open to Close, with the goroutines that Close joins: life.go, open.go, close.go),
// a registry (what is open under each name) and an activeSet (the rounds that may have a node). In
// the role of listener it hears of sessions, leases and connections. As rotation it wakes rounds,
// waiting or held, that have not looked at the queue for long.
//
// # What they promise each other
//
//   - state.Word: each change is one method that returns the new word and its effect. The
//     goroutine whose compare-and-swap has made the change carries the effect out, alone.
//   - errand.Stepper: one step at a time, and a step after each wake. So what only steps use
//     needs no lock. A goroutine that has news stores it, and then wakes.
//   - next: each function of a step returns what is to be done next: next.go has the list. fetch
//     goes on by itself after goOn and atFront, and hands all else on to Step.
//   - trait: what a kind of lock adds, at which moments of a round's life.
//   - shareOwner: what a share tells of its word, to the roundIO of its round or to its turn.
//   - zkio.Watcher and zkio.Listener: news from ZooKeeper. That of one connection comes in order,
//     that of two in none, and any may come twice: it says to look again, and nothing more.
//   - queue.Queue (internal/queue): what the names in a directory say about order; pure.
//
// # Goroutines
//
//	the caller's       Acquire, Release and most methods of Hold: the word, no I/O;
//	                   Guard, Get, Unlock and Upgrade wait for a worker
//	a worker of zkio   Step, and the functions given to Access.Call
//	the dispatcher     PathChanged, SessionOver, LeaseLapsed, …: must not block
//	the feed's         Config.Observer; one more for each Listener
//	life.spawn's       OnAsk, the ends of contexts, what recipes begin, the report of losses;
//	                   one each; Close joins them
//	a future's         functions given to OnDone, one each: the user's, which the package does not join
//	the runtime's      when a context ends: a pending Hold is withdrawn, an inquiry given up, a
//	                   revoker counted out; the package does not join them
//	the rotation       rotation.rotate: wakes rounds that have not looked for long; Close joins it
//
// # Locks
//
// observers.mu is taken before observer.mu, and a lock inside package futures last. Every other
// mutex of the package is held alone. None is held across I/O, anything that can block, or a
// function of the user's; under one, a channel is only closed, or sent to without waiting.
//
// # The life of an acquisition
//
// An uncontended [Lock.Acquire] of a lock that this process does not hold:
//
//  1. Lock.acquire is the fast path, of a lock that is held. This one is not, so it calls
//     acquireSlow, which deals with reentrance and refusals and calls Lock.arrive. round.arrive
//     counts the caller into the present round by one compare-and-swap: state.Word.Arrive says
//     FREE/0 → FETCHING/1, effect Started. Later callers get Joined, share the promises, and are
//     done.
//  2. The caller that started the round calls round.want, which sets a flag. If the round
//     before is RELEASED, Runner.Wake puts the lock into the pool's queue of fetches. The caller
//     has its Hold and goes on.
//  3. A worker calls Runner.Run, which calls roundIO.Step, which calls pass. The word is FETCHING
//     and has holders: roundIO.fetch.
//  4. queuer.createNode has newNode choose a unique name, and calls zkio.Node.CreateAndCount,
//     which notes the obligation to clean up. One transaction creates the node and counts the
//     children of the directory. (The first round of a lock reads the directory before that.)
//  5. zkio sends it, and the answer extends the lease: see package zkio, "The path of a
//     request".
//  6. The directory has one child, so the node is the first. roundIO.grant writes the tenure,
//     swaps the word to RETAINED, settles the grant, and looks at the lease and at the
//     manager's stage once more.
//
// With contenders ahead, waiter.wait comes between steps 5 and 6. It lists the queue, watches
// some of those ahead, and waits for them, and does so again when they have gone. listQueue reads the queue, or takes the list that
// came with the node, and makes a plan of it: which contenders to watch, and what to do when
// they have gone. watchAhead registers for their paths and reads the nodes, which leaves
// watches. Then there is nothing to do, and the round has no goroutine until one of them
// goes: the dispatcher calls ahead.PathChanged, which wakes the round: step 3 again.
//
// The last [Hold.Release] swaps the word to RELEASING/0 (share.leave) and wakes the round,
// this time through the queue of releases. roundIO.release deletes the node, calls round.finish,
// which makes the word RELEASED and lets the next round begin, and then settles the release.
