// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"errors"
	"slices"
)

// Quirks are what other servers that speak ZooKeeper's protocol, such as ClickHouse Keeper and
// RaftKeeper, do otherwise than ZooKeeper, and what its later releases do otherwise than 3.8. The
// zero value has none. See [ClickHouseKeeper] and
// [RaftKeeper].
type Quirks struct {
	// Unknown are requests that the server does not know, and Reaction is what it does about them.
	Unknown  []Op
	Reaction Reaction

	// NoResume: a client that resumes a session gets another one, without a word. The old one
	// ends by its timeout.
	NoResume bool

	// ExpiredByTimeout: a client that resumes a session that is over gets its id back, with a
	// timeout of -1 ms, and version 42 of the protocol. ZooKeeper answers with the id 0.
	ExpiredByTimeout bool

	// ForgetsChildWatches: setWatches sets no watches for children, and does not say so.
	ForgetsChildWatches bool

	// FalseDeletions: setWatches with a watch for a node's children tells all clients that watch
	// the node that it was deleted.
	FalseDeletions bool

	// OtherStats: a node's Cversion counts the changes of its children's data, too, and its Pzxid
	// does not change when a child is deleted.
	OtherStats bool

	// ExistsTakesRead: the request exists takes the right to read the node, as in ZooKeeper from
	// 3.8.4 and 3.9.2 on. A node that is missing is said to be missing all the same.
	ExistsTakesRead bool

	// Deaf are requests that do not keep the session alive.
	Deaf []Op
}

// A Reaction is what a server does about a request that it does not know.
type Reaction int

// The reactions.
const (
	RefuseUnknown Reaction = iota // it answers with CodeBadArguments
	IgnoreUnknown                 // it never answers
	CloseUnknown                  // it closes the connection
)

// reads are the requests that a follower answers by itself.
var reads = []Op{OpExists, OpGetData, OpGetACL, OpGetChildren, OpGetChildren2, OpMultiRead, OpSetWatches}

// ClickHouseKeeper returns the quirks of ClickHouse Keeper before its releases of July 2026.
func ClickHouseKeeper() Quirks {
	return Quirks{
		Unknown: []Op{OpCreateContainer, OpRemoveWatches, OpSetWatches, OpSetWatches2, OpGetEphemerals}, Reaction: CloseUnknown,
		NoResume: true, OtherStats: true, Deaf: reads,
	}
}

// RaftKeeper returns the quirks of RaftKeeper 2.3.
func RaftKeeper() Quirks {
	return Quirks{
		Unknown: []Op{OpCreateContainer, OpRemoveWatches, OpSetWatches2, OpGetEphemerals}, Reaction: IgnoreUnknown,
		ExpiredByTimeout: true, FalseDeletions: true,
	}
}

// errUnknownOp ends the connection of a client that has sent a request which is not known.
var errUnknownOp = errors.New("unknown request")

// unknown reacts to a request that the server does not know, and reports whether req is one. An
// error ends the connection. The caller holds s.mu.
func (s *Server) unknown(c *conn, req request, plan plan) (is bool, err error) {
	q := &s.cfg.Quirks
	if !slices.Contains(q.Unknown, req.op) {
		return false, nil
	}
	switch q.Reaction {
	case RefuseUnknown:
		s.reply(c, newReply().frame(req.xid, c.view().tree.zxid, CodeBadArguments), plan)
	case CloseUnknown:
		s.detach(c)
		c.finish()
		return true, errUnknownOp
	}
	return true, nil
}

// refusal returns what the answer to a connect request has that gets no session: the protocol's
// version, the timeout in milliseconds, and the id of the session.
func (q *Quirks) refusal(req connectRequest) (version, milliseconds int32, id int64) {
	if q.ExpiredByTimeout {
		return 42, -1, req.session
	}
	return 0, 0, 0
}
