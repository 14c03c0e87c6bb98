// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"math"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// containerOwner is the ephemeralOwner of container nodes.
const containerOwner = math.MinInt64

// The ephemeralOwner of a node with a time to live is 0xff in the highest byte,
// two zero bytes, and five bytes of milliseconds.
const (
	ttlOwner = -1 << 56
	maxTTL   = 1<<40 - 1
)

// A znode is one node of the tree. service.mu protects all of it.
type znode struct {
	path     string
	name     string // the last segment of path
	parent   *znode // nil for the root
	children []*znode
	index    int // in parent.children

	data []byte // nil if the client sent no data at all; never changed in place
	acl  []aclEntry

	czxid, mzxid, pzxid int64
	ctime, mtime        int64 // milliseconds since 1970
	version, aversion   int32
	creates             int32 // children ever created, which is the next sequence number
	written             int32 // changes of children's data that Cversion counts: see Quirks.OtherStats
	owner               int64 // session of an ephemeral node, containerOwner, ttlOwner plus the time to live, or 0
	ttl                 int64 // time to live in milliseconds, or 0
}

// ephemeral reports whether n belongs to a session.
func (n *znode) ephemeral() bool { return n.owner != 0 && n.owner != containerOwner && n.ttl == 0 }

// add adds child to n's children.
func (n *znode) add(child *znode) {
	child.index = len(n.children)
	n.children = append(n.children, child)
}

// remove removes child from n's children. The last child takes its place, so the
// cost does not depend on their number.
func (n *znode) remove(child *znode) {
	last := len(n.children) - 1
	moved := n.children[last]
	n.children[child.index] = moved
	moved.index = child.index
	n.children[last] = nil
	n.children = n.children[:last]
	if cap(n.children) > 64 && len(n.children) < cap(n.children)/4 {
		n.children = append(make([]*znode, 0, cap(n.children)/2), n.children...)
	}
}

// descendants counts the nodes below n.
func (n *znode) descendants() int32 {
	count := int32(len(n.children))
	for _, child := range n.children {
		count += child.descendants()
	}
	return count
}

// names returns the names of n's children in the order in which clients get them.
// A real server's order is that of a hash table, which clients must not rely on.
// Here they come in strides: ordered neither by creation nor by name, but the same
// in every run.
func (n *znode) names() []string {
	const stride = 7919 // a prime: every child comes up once unless it divides their number
	count := len(n.children)
	step := stride
	if count%stride == 0 {
		step = 1
	}
	names := make([]string, count)
	for i := range names {
		names[i] = n.children[(i*step+count/2)%count].name
	}
	return names
}

// A Stat is ZooKeeper's description of a node.
type Stat struct {
	Czxid          int64 // transaction that created the node
	Mzxid          int64 // transaction that last set its data
	Ctime          int64 // when it was created, in milliseconds since 1970
	Mtime          int64 // when its data was last set
	Version        int32 // number of times its data was set
	Cversion       int32 // number of changes to its list of children
	Aversion       int32 // number of times its ACL was set
	EphemeralOwner int64 // session that it belongs to, or 0
	DataLength     int32
	NumChildren    int32
	Pzxid          int64 // transaction that last created or deleted a child
}

func (n *znode) stat() Stat {
	owner := n.owner
	if !n.ephemeral() {
		owner = 0 // clients do not see the other meanings
	}
	return Stat{
		Czxid:   n.czxid,
		Mzxid:   n.mzxid,
		Ctime:   n.ctime,
		Mtime:   n.mtime,
		Version: n.version,
		// Every child ever created has been deleted too, except those that
		// are still there.
		Cversion:       n.creates*2 - int32(len(n.children)) + n.written,
		Aversion:       n.aversion,
		EphemeralOwner: owner,
		DataLength:     int32(len(n.data)),
		NumChildren:    int32(len(n.children)),
		Pzxid:          n.pzxid,
	}
}

// append encodes s.
func (s Stat) append(b []byte) []byte {
	b = jute.AppendInt64(b, s.Czxid)
	b = jute.AppendInt64(b, s.Mzxid)
	b = jute.AppendInt64(b, s.Ctime)
	b = jute.AppendInt64(b, s.Mtime)
	b = jute.AppendInt32(b, s.Version)
	b = jute.AppendInt32(b, s.Cversion)
	b = jute.AppendInt32(b, s.Aversion)
	b = jute.AppendInt64(b, s.EphemeralOwner)
	b = jute.AppendInt32(b, s.DataLength)
	b = jute.AppendInt32(b, s.NumChildren)
	return jute.AppendInt64(b, s.Pzxid)
}
