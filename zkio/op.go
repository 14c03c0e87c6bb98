// SPDX-License-Identifier: Apache-2.0

package zkio

import "github.com/go-zookeeper/zk"

// An Op is one operation of a [Session.Multi]. It is made by CheckOp, CreateOp,
// SetOp or DeleteOp; the zero Op is refused.
type Op struct {
	req  any // one of go-zookeeper's request types
	path string
	size int // about how many bytes it adds to the request
}

// CheckOp makes the transaction fail unless the node at path exists and, if
// version is not -1, its data has that version.
func CheckOp(path string, version int32) Op {
	return Op{req: &zk.CheckVersionRequest{Path: path, Version: version}, path: path, size: len(path)}
}

// CreateOp creates a persistent node. An empty acl lets the world do everything.
func CreateOp(path string, data []byte, acl []ACL) Op {
	return Op{
		req:  &zk.CreateRequest{Path: path, Data: data, Acl: zkACL(acl), Flags: zk.FlagPersistent},
		path: path,
		size: len(path) + len(data) + sizeOfACL(acl),
	}
}

// SetOp replaces the data of a node if its version is the given one, or
// whatever it is if version is -1.
func SetOp(path string, data []byte, version int32) Op {
	return Op{
		req:  &zk.SetDataRequest{Path: path, Data: data, Version: version},
		path: path,
		size: len(path) + len(data),
	}
}

// DeleteOp deletes a node if its version is the given one, or whatever it is
// if version is -1.
func DeleteOp(path string, version int32) Op {
	return Op{req: &zk.DeleteRequest{Path: path, Version: version}, path: path, size: len(path)}
}

// An OpResult is what one operation of a Multi did. After a failed Multi, which
// changed nothing, Err is set for the operation that made it fail.
type OpResult struct {
	Path string // the path created, of a CreateOp
	Stat Stat   // the node's Stat afterwards, of a SetOp
	Err  error
}

// sizeOfACL returns about how many bytes acl adds to a request.
func sizeOfACL(acl []ACL) int {
	n := 0
	for _, a := range acl {
		n += len(a.Scheme) + len(a.ID) + 12
	}
	return n
}
