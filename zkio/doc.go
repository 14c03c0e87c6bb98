// SPDX-License-Identifier: Apache-2.0

// Package zkio does all input and output of the project: it is the only one
// that talks to ZooKeeper, through github.com/go-zookeeper/zk.
//
// A [Client] has one [Session] after the other, a pool of goroutines that run
// [Task] values, and a dispatcher that tells watchers and the listener what
// happened. A [Node] is an ephemeral sequential node that is not lost track of
// when an answer is. A [Lease] says until when the session's nodes may be
// trusted to be there.
package zkio
