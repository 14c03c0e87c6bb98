// SPDX-License-Identifier: Apache-2.0

// Package internal has what the recipes are made of. It has no code itself: read this before the
// packages below recipes, each of which then takes one sitting.
//
//	                       your goroutine
//	                             │ Take, Enter, Join, Lock, …; a ctx to give up by
//	                             ▼
//	the recipe: barrier, cron, election, members, queue, semaphore, shards
//	   │ one question                  │ a wait                   │ something had
//	   ▼                               ▼                          ▼
//	access: Do, Ask, Tell  ◄──────  look.Loop  ◄─── bell       own.Keeper ─► own.Node
//	   │ a function, and a verdict     ▲ rings                    │ Lost, Err, Context
//	   ▼                               │                          ▼
//	manager.Access ── session, I/O goroutines, watches, listeners, leases ──► ZooKeeper
//
// # The parts
//
// By what they do for a recipe:
//
//   - asks: package access has an I/O goroutine run a function with the present session, again
//     after each error that a retry may fix. A function that knows better returns
//     access.Verdict(err). Caller and function share variables, so after an error which may have left
//     the function running, the caller must not read them; Ask and Verdict see to that.
//     access.Error is the error around what comes out.
//   - waits: a look.Loop watches nodes and looks at them, again whenever its bell.Bell has
//     rung, and takes its watches back in the end. A look is never interrupted, and there is one
//     at a time, so it needs no mutex for what it learns.
//   - has: an own.Keeper keeps an ephemeral node, a claim or a place or a membership, for as long
//     as the session's lease lasts and the node is there. It tells its owner of the end before
//     ZooKeeper can give what the node stands for to another process, unless another client
//     deletes the node.
//   - is tested: package recipetest has clusters of processes, their faults, and simulations.
//
// What a recipe brings is the rest: which nodes there are, what a transaction of its own makes of
// them, and what becomes of one whose answer was lost. That differs from recipe to recipe, as its
// doc.go says under "Nodes". Locks serve where processes queue: election and cron are locks with a record,
// shards has a lock for each shard and a group of members, semaphore and queue have one for the
// line of those that wait.
//
// # The interfaces between them
//
// A recipe gets a manager.Access, and nothing else of the Manager's but locks. It gives
// functions to access and looks to a Loop: both are run by I/O goroutines, get the session that
// they talk to, and return what happened. Into the recipe come calls of the dispatcher, by
// zkio.Watcher and zkio.Listener, which must not block: mostly a bell takes them. Goroutines
// are begun by manager.Access.Go, which Close joins, or by manager.Access.Finish, for which
// Shutdown waits, too. Three contexts end a wait: the caller's, Accepting with Shutdown, and
// Context with Close.
//
// # The life of one call
//
// barrier.Double.Enter, the third of three members:
//
//  1. Enter has a goroutine run enter, by Finish, since a member that gives up has something to
//     undo. Enter itself waits for the result, for ctx and for Shutdown.
//  2. enter makes a lookout, a Loop that also watches one other member, has it watch the record,
//     and calls Run. Run listens for sessions and has an I/O goroutine look: entry.step.
//  3. step makes the ephemeral node of the process. Should the answer get lost, access runs step
//     again, which finds that it exists. The node's name is chosen here, so it can only be ours.
//  4. step reads the record and the members around it. Three wait, so this one begins the round,
//     with a transaction on the record. For the first two, step had returned without a Stage, so
//     Run waited. The record's change rings their bells, and they look again.
//  5. The record has the member now. step asks for the node and hands it to the Keeper, which
//     proves the lease if too little is left of it. The own.Node that it returns is in the Stage.
//  6. There is a Stage, so the look reports to Run that the wait is over. Run takes the watches
//     back in the same breath, and enter returns the Stage. Had ctx ended while one of the first
//     two waited, Run would have returned its error, and enter would have told ZooKeeper, by
//     access.Tell, that the member has withdrawn.
//  7. While the member is inside, the Keeper listens for the lease's end, and a watch tells it if
//     the node is deleted: then Lost closes. Leave has it forget the node, tells ZooKeeper in one
//     transaction that the member has left, and waits for the others with a Loop of its own.
package internal
