// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// Stats is a snapshot of what a Client has done and has to do. Its numbers are
// read one after the other, so they need not agree exactly.
type Stats struct {
	// Sent counts the requests sent, by the name of the operation: "connect",
	// "create", "createContainer", "delete", "exists", "getData", "setData",
	// "getChildren2", "getACL", "sync", "multi", "multiRead", "removeWatches",
	// "ping", "auth", "setWatches", "closeSession", "other". It has no zeros.
	Sent map[string]uint64

	Answered    uint64 // requests answered
	WatchEvents uint64 // watch events received
	Proofs      uint64 // leases begun or extended

	Watches    int    // armed paths
	Nodes      int    // ephemeral nodes of the present session that are known to exist
	Basic      bool   // the servers seem not to be ZooKeeper 3.5 or newer: the client makes do with what all servers know
	Epoch      uint64 // of the present session
	Sessions   uint64 // sessions begun
	Reconnects uint64 // times that a session was resumed

	Pauses uint64        // times that this process did not run: see Listener.ProcessPaused
	Paused time.Duration // for how long, all of them together

	QueuedFetches  int // tasks waiting in the pool's queues, Refetches included …
	QueuedReleases int
	Delayed        int // … and for their time to come
	Busy           int // workers running a task
}

// opConnect stands for the connect request, which has no operation code.
const opConnect int32 = -1000

// opNames are the operations that are counted, in the order of the counters.
var opNames = [...]struct {
	op   int32
	name string
}{
	{jute.OpGetData, "getData"},
	{jute.OpPing, "ping"},
	{jute.OpMulti, "multi"},
	{jute.OpCreate, "create"},
	{jute.OpDelete, "delete"},
	{jute.OpGetChildren2, "getChildren2"},
	{jute.OpExists, "exists"},
	{jute.OpSetData, "setData"},
	{jute.OpSync, "sync"},
	{jute.OpMultiRead, "multiRead"},
	{jute.OpRemoveWatches, "removeWatches"},
	{jute.OpCreateContainer, "createContainer"},
	{jute.OpGetACL, "getACL"},
	{opConnect, "connect"},
	{jute.OpAuth, "auth"},
	{jute.OpSetWatches, "setWatches"},
	{jute.OpClose, "closeSession"},
	{0, "other"},
}

// opIndex returns the counter of op; that of all others is the last.
func opIndex(op int32) int {
	for i := range len(opNames) - 1 {
		if opNames[i].op == op {
			return i
		}
	}
	return len(opNames) - 1
}

func opName(op int32) string { return opNames[opIndex(op)].name }

// counters are a Client's. Every field is an atomic of its own.
type counters struct {
	sentBy     [len(opNames)]atomic.Uint64
	answered   atomic.Uint64
	events     atomic.Uint64
	proofs     atomic.Uint64
	sessions   atomic.Uint64
	reconnects atomic.Uint64
}

func (c *counters) sent(op int32) { c.sentBy[opIndex(op)].Add(1) }

// byName returns the counters of the operations that were used.
func (c *counters) byName() map[string]uint64 {
	m := make(map[string]uint64)
	for i := range c.sentBy {
		if n := c.sentBy[i].Load(); n > 0 {
			m[opNames[i].name] = n
		}
	}
	return m
}

// Stats returns a snapshot of the client's counters. It does not block, and
// any goroutine may call it.
func (c *Client) Stats() Stats {
	st := Stats{
		Sent:        c.stats.byName(),
		Answered:    c.stats.answered.Load(),
		WatchEvents: c.stats.events.Load(),
		Proofs:      c.stats.proofs.Load(),
		Watches:     c.watches.len(),
		Sessions:    c.stats.sessions.Load(),
		Reconnects:  c.stats.reconnects.Load(),
		Delayed:     c.delays.len(),
		Basic:       c.basics.on.Load(),
	}
	if s := c.Session(); s != nil {
		st.Epoch = s.Epoch()
		st.Nodes = s.nodes.len()
	}
	st.Pauses, st.Paused = c.pulse.stats()
	st.QueuedFetches, st.QueuedReleases, st.Busy = c.pool.load()
	return st
}
