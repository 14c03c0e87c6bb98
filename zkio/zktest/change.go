// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// write executes a transaction and appends the answer's body to out.
func (s *Server) write(tx *txn, op Op, r *jute.Reader, out *reply) Code {
	switch op {
	case OpMulti:
		return s.multi(tx, r, out)
	case OpDeleteContainer:
		return CodeBadArguments // the server's own request, in a form of its own
	case OpReconfig:
		return CodeReconfigDisabled
	}
	ch, err := readChange(op, r)
	if err != CodeOK {
		return err
	}
	res := tx.apply(ch)
	if res.err != CodeOK {
		return res.err
	}
	switch op {
	case OpCreate:
		out.b = jute.AppendString(out.b, res.path)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		out.b = jute.AppendString(out.b, res.path)
		out.b = res.stat.append(out.b)
	case OpSetData, OpSetACL:
		out.b = res.stat.append(out.b)
	}
	return CodeOK
}

func wellFormedReconfig(body []byte) bool {
	r := jute.NewReader(body)
	_, _, _, _ = r.String(), r.String(), r.String(), r.Int64()
	return r.Err() == nil
}

// A change is one operation that a client requests, alone or within a multi.
type change struct {
	op      Op
	path    string
	data    []byte
	acl     []aclEntry
	flags   int32
	ttl     int64 // milliseconds; of OpCreateTTL only
	version int32
}

// readPath reads the path of a request, which must not be null.
func readPath(r *jute.Reader) (string, Code) {
	null, path := r.Null(), r.String()
	if null || r.Err() != nil {
		return "", CodeMarshalling
	}
	return path, CodeOK
}

// readChange decodes the body of an operation.
func readChange(op Op, r *jute.Reader) (change, Code) {
	path, err := readPath(r)
	if err != CodeOK && r.Err() == nil && (op == OpSetData || op == OpSetACL || op == OpCheck) {
		err = CodeOK // for these a null path is an invalid one, refused later
	}
	ch := change{op: op, path: path}
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		ch.data = bytes.Clone(r.Buffer())
		ch.acl = readACL(r)
		ch.flags = r.Int32()
		if op == OpCreateTTL {
			ch.ttl = r.Int64()
		}
	case OpSetData:
		ch.data = bytes.Clone(r.Buffer())
		ch.version = r.Int32()
	case OpSetACL:
		ch.acl = readACL(r)
		ch.version = r.Int32()
	case OpDelete, OpCheck:
		ch.version = r.Int32()
	case OpGetData, OpGetChildren:
		_ = r.Bool() // a watch, which is ignored within a multiRead
	}
	if r.Err() != nil {
		err = CodeMarshalling
	}
	return ch, err
}

func readACL(r *jute.Reader) []aclEntry {
	acl := make([]aclEntry, r.Count(12))
	for i := range acl {
		acl[i] = aclEntry{r.Int32(), id{r.String(), r.String()}}
	}
	return acl
}

func appendACL(b []byte, acl []aclEntry) []byte {
	b = jute.AppendInt32(b, int32(len(acl)))
	for _, e := range acl {
		b = jute.AppendInt32(b, e.perms)
		b = jute.AppendString(b, e.id.scheme)
		b = jute.AppendString(b, e.id.name)
	}
	return b
}

// An outcome is the result of a change.
type outcome struct {
	err  Code
	path string // of the node created
	stat Stat   // of the node created or set
}

// apply makes the change ch, or refuses it.
func (tx *txn) apply(ch change) outcome {
	var res outcome
	switch ch.op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		var n *znode
		if n, res.err = tx.create(ch); n != nil {
			res.path, res.stat = n.path, n.stat()
		}
	case OpDelete:
		res.err = tx.delete(ch.path, ch.version)
	case OpSetData:
		res.stat, res.err = tx.setData(ch.path, ch.data, ch.version)
	case OpSetACL:
		res.stat, res.err = tx.setACL(ch.path, ch.acl, ch.version)
	case OpCheck:
		res.err = tx.check(ch.path, ch.version)
	default:
		res.err = CodeUnimplemented
	}
	return res
}
