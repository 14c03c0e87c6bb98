// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// read executes a request that changes no data and appends the answer's body
// to out. It answers from c's view.
func (s *Server) read(c *conn, op Op, r *jute.Reader, out *reply) Code {
	v := c.view()
	switch op {
	case OpPing:
		return CodeOK
	case OpExists:
		return v.exists(c, r, out, s.cfg.Quirks.ExistsTakesRead)
	case OpGetData, OpGetChildren, OpGetChildren2:
		path, err := readPath(r)
		watch := r.Bool()
		if err != CodeOK || r.Err() != nil {
			return CodeMarshalling
		}
		return v.get(c, op, path, watch, out)
	case OpMultiRead:
		return v.multiRead(c, r, out)
	case OpGetACL:
		return v.getACL(c, r, out)
	case OpGetEphemerals:
		return v.getEphemerals(c, r, out)
	case OpGetAllChildrenNumber:
		return v.getAllChildrenNumber(c, r, out)
	case OpSetWatches, OpSetWatches2:
		return v.setWatches(c, op, r, &s.cfg.Quirks)
	case OpAddWatch:
		return v.addWatch(c, r, out)
	case OpCheckWatches, OpRemoveWatches:
		return v.findWatches(c, op, r)
	case OpWhoAmI:
		c.appendIdentities(out)
		return CodeOK
	}
	return CodeUnimplemented
}

// exists needs no permission, unless takesRead. Its watch is set even if there is no
// node, and then fires when the node is created.
func (v *view) exists(c *conn, r *jute.Reader, out *reply, takesRead bool) Code {
	path, err := readPath(r)
	watch := r.Bool()
	if err != CodeOK || r.Err() != nil {
		return CodeMarshalling
	}
	if strings.IndexByte(path, 0) >= 0 {
		return CodeBadArguments
	}
	if _, code := v.readable(c, path); takesRead && code == CodeNoAuth {
		return CodeNoAuth
	}
	if watch {
		v.watches.set(c, path, dataSide, oneShot)
	}
	n := v.tree.node(path)
	if n == nil {
		return CodeNoNode
	}
	out.b = n.stat().append(out.b)
	return CodeOK
}

// readable returns the node at path if c may read it.
func (v *view) readable(c *conn, path string) (*znode, Code) {
	n := v.tree.node(path)
	switch {
	case n == nil:
		return nil, CodeNoNode
	case !allows(n.acl, c.who, permRead):
		return nil, CodeNoAuth
	}
	return n, CodeOK
}

// get executes getData, getChildren and getChildren2. It sets no watch if it
// fails.
func (v *view) get(c *conn, op Op, path string, watch bool, out *reply) Code {
	n, err := v.readable(c, path)
	if err != CodeOK {
		return err
	}
	side := childSide
	if op == OpGetData {
		side = dataSide
		out.b = jute.AppendBuffer(out.b, n.data)
	} else {
		out.b = jute.AppendStrings(out.b, n.names())
	}
	if op != OpGetChildren {
		out.b = n.stat().append(out.b)
	}
	if watch {
		v.watches.set(c, path, side, oneShot)
	}
	return CodeOK
}

// multiRead executes several getData and getChildren requests, each of which
// has an answer of its own. They set no watches.
func (v *view) multiRead(c *conn, r *jute.Reader, out *reply) Code {
	ops, err := readMulti(r, OpGetData, OpGetChildren)
	if err != CodeOK {
		return err
	}
	for _, ch := range ops {
		before := len(out.b)
		out.b = appendMultiHeader(out.b, ch.op, false, CodeOK)
		if code := v.get(c, ch.op, ch.path, false, out); code != CodeOK {
			out.b = appendFailure(out.b[:before], code)
		}
	}
	out.b = appendMultiHeader(out.b, opError, true, -1)
	return CodeOK
}

// getACL answers clients that may read or administer the node. Only the latter
// see the hashes of passwords.
func (v *view) getACL(c *conn, r *jute.Reader, out *reply) Code {
	path, err := readPath(r)
	if err != CodeOK {
		return err
	}
	n := v.tree.node(path)
	if n == nil {
		return CodeNoNode
	}
	acl := n.acl
	if !allows(n.acl, c.who, permAdmin) {
		if !allows(n.acl, c.who, permRead) {
			return CodeNoAuth
		}
		acl = masked(acl)
	}
	out.b = appendACL(out.b, acl)
	out.b = n.stat().append(out.b)
	return CodeOK
}

// getEphemerals lists the session's ephemeral nodes whose paths have a prefix.
// It needs no permission.
func (v *view) getEphemerals(c *conn, r *jute.Reader, out *reply) Code {
	prefix := r.String()
	if r.Err() != nil {
		return CodeMarshalling
	}
	if blank := strings.TrimFunc(prefix, func(r rune) bool { return r <= ' ' }); blank == "" || blank == "/" {
		prefix = ""
	}
	paths := []string{}
	for _, n := range v.tree.owned(c.sid) {
		if strings.HasPrefix(n.path, prefix) {
			paths = append(paths, n.path)
		}
	}
	out.b = jute.AppendStrings(out.b, paths)
	return CodeOK
}

// getAllChildrenNumber counts the nodes below a node.
func (v *view) getAllChildrenNumber(c *conn, r *jute.Reader, out *reply) Code {
	path, err := readPath(r)
	if err != CodeOK {
		return err
	}
	n, err := v.readable(c, path)
	if err != CodeOK {
		return err
	}
	count := n.descendants()
	if path == "" {
		count++ // the real server counts the root, under that name, as its own child
	}
	out.b = jute.AppendInt32(out.b, count)
	return CodeOK
}

// appendIdentities encodes the answer to whoAmI.
func (c *conn) appendIdentities(out *reply) {
	out.b = jute.AppendInt32(out.b, int32(len(c.who)))
	for _, w := range c.who {
		user := w.name
		if w.scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		out.b = jute.AppendString(jute.AppendString(out.b, w.scheme), user)
	}
}
