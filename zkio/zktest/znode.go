// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"math"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// containerOwner is the ephemeralOwner by which a container node is known.
const containerOwner = math.MinInt64

// The ephemeralOwner of a node with a time to live has all bits of the highest
// byte set, two bytes of zeroes, and the milliseconds in the other five.
const (
	ttlOwner = -1 << 56
	maxTTL   = 1<<40 - 1
)

// A znode is one node of the tree. Server.mu protects all of it.
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
	creates             int32 // children ever created here; the next sequence number
	owner               int64 // session of an ephemeral node, containerOwner, ttlOwner with the time to live, or 0
	ttl                 int64 // time to live in milliseconds, or 0
}

// ephemeral reports whether n belongs to a session.
func (n *znode) ephemeral() bool { return n.owner != 0 && n.owner != containerOwner && n.ttl == 0 }

// add enters child below n.
func (n *znode) add(child *znode) {
	child.index = len(n.children)
	n.children = append(n.children, child)
}

// remove takes child out. The last child moves into its place, so that this
// costs the same for one child and for a hundred thousand.
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

// names returns the names of n's children in the order in which a client is
// told them. The real server's order is that of a hash table, and a client
// must not lean on it; so they are dealt out in strides here, which is neither
// the order of their making nor of their names, yet the same in every run.
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

// A Stat is what ZooKeeper tells about a node.
type Stat struct {
	Czxid          int64 // transaction that made the node
	Mzxid          int64 // transaction that last set its data
	Ctime          int64 // when it was made, in milliseconds since 1970
	Mtime          int64 // when its data was last set
	Version        int32 // times its data was set
	Cversion       int32 // changes to its children
	Aversion       int32 // times its ACL was set
	EphemeralOwner int64 // session that it lives with, or 0
	DataLength     int32
	NumChildren    int32
	Pzxid          int64 // transaction that last made or deleted a child
}

func (n *znode) stat() Stat {
	owner := n.owner
	if !n.ephemeral() {
		owner = 0 // what else it may say is not shown to clients
	}
	return Stat{
		Czxid:   n.czxid,
		Mzxid:   n.mzxid,
		Ctime:   n.ctime,
		Mtime:   n.mtime,
		Version: n.version,
		// The tree counts creates; for every one of them there has been a
		// delete too, except for the children that are still here.
		Cversion:       n.creates*2 - int32(len(n.children)),
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
