// SPDX-License-Identifier: Apache-2.0

package zkio

import "github.com/holdfast-go/holdfast/internal/jute"

// What the requests are made of, in the protocol.

// pathCall returns a request of kind op that begins with a path, and says what it is for.
func pathCall(what string, op int32, path string) *call {
	return &call{what: what, path: path, op: op, body: jute.AppendString(make([]byte, 0, len(path)+8), path)}
}

// readCall returns a read of the node at path, which asks for a watch if the path is armed.
func (s *Session) readCall(q Question, path string) *call {
	c := pathCall(questions[q], int32(q), path)
	if s.client.watches.armed(path, c.op) {
		c.watch = path
	}
	c.body = jute.AppendBool(c.body, c.watch != "")
	c.bundled, c.operations = true, 1
	return c
}

// opCall returns the request for o alone.
func opCall(what string, o Op) *call {
	return &call{what: what, path: o.path, op: o.code, body: o.append(make([]byte, 0, o.size()))}
}

// together lets the change c, which has n operations, be sent with other workers' calls. dir is
// where it makes a node; "" if it makes none.
func (c *call) together(dir string, n int) *call {
	c.bundled, c.dir, c.operations = true, dir, n
	return c
}

// multiCall returns the transaction of ops. Errors name path, unless they are those of an
// operation.
func multiCall(what, path string, ops []Op) *call {
	size := multiHeader
	for _, o := range ops {
		size += o.size()
	}
	b := make([]byte, 0, size)
	for _, o := range ops {
		b = o.append(appendMultiHeader(b, o.code, false))
	}
	return &call{what: what, path: path, op: jute.OpMulti, body: appendMultiHeader(b, -1, true)}
}

// multiReadCall returns the request for the data of the nodes of reads. It sets no watches.
func multiReadCall(reads []Read) *call {
	size := multiHeader
	for _, r := range reads {
		size += 14 + len(r.Path)
	}
	b := make([]byte, 0, size)
	for _, r := range reads {
		b = appendMultiHeader(b, jute.OpGetData, false)
		b = jute.AppendString(b, r.Path)
		b = jute.AppendBool(b, false)
	}
	return &call{what: questions[ReadData], path: reads[0].Path, op: jute.OpMultiRead, body: appendMultiHeader(b, -1, true)}
}

// multiHeader is how many bytes appendMultiHeader appends.
const multiHeader = 9

// appendMultiHeader appends what precedes each operation of a transaction, or
// follows the last.
func appendMultiHeader(b []byte, op int32, last bool) []byte {
	b = jute.AppendInt32(b, op)
	b = jute.AppendBool(b, last)
	return jute.AppendInt32(b, -1) // the error, which a request has not
}
