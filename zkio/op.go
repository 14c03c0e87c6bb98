// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// An Op is one operation of a [Session.Multi]. It is made by CheckOp, CreateOp,
// SetOp or DeleteOp, which copy what they are given; the zero Op is refused.
type Op struct {
	code    int32 // of the operation, in the protocol
	path    string
	data    []byte
	acl     []ACL
	flags   int32
	version int32
}

// CheckOp makes the transaction fail unless the node at path exists and, if
// version is not -1, its data has that version.
func CheckOp(path string, version int32) Op {
	return Op{code: jute.OpCheck, path: path, version: version}
}

// CreateOp creates a persistent node. An empty acl lets every client do
// everything. For other nodes see [Op.Ephemeral] and [Op.Sequential].
func CreateOp(path string, data []byte, acl []ACL) Op {
	return Op{code: jute.OpCreate, path: path, data: bytes.Clone(data), acl: orOpen(slices.Clone(acl)), flags: jute.FlagPersistent}
}

// Ephemeral returns the operation made by CreateOp for a node that goes with the session.
// It must not be sent in another session than the caller wants to own the node, so what
// waits for a connection belongs to one [Session]. Other operations stay as they are.
//
// Nothing keeps the session's lease alive for such a node, or deletes it: see [Adopt].
func (o Op) Ephemeral() Op { return o.flagged(jute.FlagEphemeral) }

// Sequential returns the operation made by CreateOp for a node to whose name the server
// appends a number of ten digits: [OpResult.Path] is the whole path. Other operations
// stay as they are.
func (o Op) Sequential() Op { return o.flagged(jute.FlagPersistentSequential) }

func (o Op) flagged(flag int32) Op {
	if o.code == jute.OpCreate {
		o.flags |= flag
	}
	return o
}

// SetOp replaces the data of a node if they have the given version, or any
// version if that is -1.
func SetOp(path string, data []byte, version int32) Op {
	return Op{code: jute.OpSetData, path: path, data: bytes.Clone(data), version: version}
}

// DeleteOp deletes a node if its data have the given version, or any version if
// that is -1.
func DeleteOp(path string, version int32) Op {
	return Op{code: jute.OpDelete, path: path, version: version}
}

// append appends the operation to a request: to that for it alone, or, after what precedes
// it there, to that for a transaction.
func (o Op) append(b []byte) []byte {
	b = jute.AppendString(b, o.path)
	switch o.code {
	case jute.OpCreate, jute.OpCreateContainer:
		b = jute.AppendBuffer(b, o.data)
		b = appendACL(b, o.acl)
		return jute.AppendInt32(b, o.flags)
	case jute.OpSetData:
		b = jute.AppendBuffer(b, o.data)
	}
	return jute.AppendInt32(b, o.version)
}

// size returns how many bytes the operation adds to a request, at most.
func (o Op) size() int { return len(o.path) + len(o.data) + sizeOfACL(o.acl) + 32 }

// Path returns the path of the node that the operation is about; "" for the
// zero Op.
func (o Op) Path() string { return o.path }

// Validate returns an error that wraps ErrBadArguments if the operation can never
// succeed: it is the zero Op, or its path is malformed. It does no I/O.
func (o Op) Validate() error {
	if o.code == 0 {
		return badArguments("transaction", "", "the zero Op: make it with CheckOp, CreateOp, SetOp or DeleteOp")
	}
	if err := checkPath(o.path); err != nil {
		return &opError{op: "transaction", path: o.path, kind: ErrBadArguments, why: err}
	}
	return nil
}

// checkPath checks a path as servers do.
func checkPath(path string) error {
	switch {
	case !strings.HasPrefix(path, "/"):
		return errors.New("a path begins with a slash")
	case path == "/":
		return nil
	case strings.HasSuffix(path, "/"):
		return errors.New("a path does not end with a slash")
	}
	for _, r := range path {
		// Beyond the basic plane are surrogates to a server; bad UTF-8 is U+FFFD.
		if r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			return fmt.Errorf("a path has no character %U", r)
		}
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		switch segment {
		case "":
			return errors.New("a path has no empty segments")
		case ".", "..":
			return fmt.Errorf("a path has no segment %q", segment)
		}
	}
	return nil
}

// An OpResult is what one operation of a Multi did. After a failed Multi, which
// changed nothing, Err is set for the operation that made it fail.
type OpResult struct {
	Path string // the path created, of a CreateOp
	Stat Stat   // the node's Stat afterwards, of a SetOp
	Err  error
}
