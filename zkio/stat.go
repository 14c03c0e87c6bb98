// SPDX-License-Identifier: Apache-2.0

package zkio

// A Stat is what ZooKeeper tells about a node, besides its data.
type Stat struct {
	Czxid          int64 // the transaction that created the node
	Mzxid          int64 // the transaction that last changed its data
	Ctime          int64 // milliseconds since 1970, of Czxid
	Mtime          int64 // milliseconds since 1970, of Mzxid
	Version        int32 // changes of the data
	Cversion       int32 // changes of the list of children
	Aversion       int32 // changes of the access control list
	EphemeralOwner int64 // the owning session's id; 0 if the node is not ephemeral
	DataLength     int32 // bytes of data
	NumChildren    int32
	Pzxid          int64 // the transaction that last changed the list of children
}
