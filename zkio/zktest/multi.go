// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// opError is the kind of a failed operation's result in the answer to a multi,
// and of the header that ends request and answer.
const opError = Op(jute.OpError)

// multiOps are the operations that may be part of a multi.
var multiOps = []Op{OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck}

// readMulti decodes a request made of operations of the given kinds. Each has
// a header (its kind, whether this is the end, an unused number) followed by
// the body of the corresponding single request.
func readMulti(r *jute.Reader, allowed ...Op) ([]change, Code) {
	var changes []change
	for {
		op, done, _ := Op(r.Int32()), r.Bool(), r.Int32()
		switch {
		case r.Err() != nil:
			return nil, CodeMarshalling
		case done:
			return changes, CodeOK
		}
		if !slices.Contains(allowed, op) {
			return nil, CodeMarshalling
		}
		ch, err := readChange(op, r)
		if err != CodeOK {
			return nil, err
		}
		// Here the real server takes the kind of create from the flags, not
		// from the operation's number.
		switch op {
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
			switch ttl := ch.flags == flagTTL || ch.flags == flagSequentialTTL; {
			case ttl && op == OpCreateTTL: // as it stands
			case ttl:
				return nil, CodeMarshalling // no time to live is given
			case ch.flags == flagContainer:
				ch.op = OpCreateContainer
			default:
				ch.op = OpCreate
			}
		}
		changes = append(changes, ch)
	}
}

// multi executes all operations or none. The answer to a multi that failed has
// an error code in each result, none in its header: 0 for the operations before
// the one that failed, its code for that one, runtime inconsistency for the rest.
func (s *Server) multi(tx *txn, r *jute.Reader, out *reply) Code {
	changes, err := readMulti(r, multiOps...)
	if err != CodeOK {
		return err
	}
	tx.multi = true
	results := make([]outcome, 0, len(changes))
	failed := -1
	for i, ch := range changes {
		res := tx.apply(ch)
		results = append(results, res)
		if res.err != CodeOK {
			failed = i
			tx.rollback()
			break
		}
	}
	for i, ch := range changes {
		switch {
		case failed < 0:
			out.b = appendResult(out.b, ch.op, results[i])
		case i < failed:
			out.b = appendFailure(out.b, CodeOK)
		case i == failed:
			out.b = appendFailure(out.b, results[i].err)
		default:
			out.b = appendFailure(out.b, CodeRuntimeInconsistency)
		}
	}
	out.b = appendMultiHeader(out.b, opError, true, -1)
	return CodeOK
}

func appendMultiHeader(b []byte, op Op, done bool, err Code) []byte {
	b = jute.AppendInt32(b, int32(op))
	b = jute.AppendBool(b, done)
	return jute.AppendInt32(b, int32(err))
}

// appendResult encodes the result of an operation that succeeded.
func appendResult(b []byte, op Op, res outcome) []byte {
	if op == OpCreateContainer || op == OpCreateTTL {
		op = OpCreate2 // whose answer has a Stat
	}
	b = appendMultiHeader(b, op, false, CodeOK)
	switch op {
	case OpCreate:
		b = jute.AppendString(b, res.path)
	case OpCreate2:
		b = jute.AppendString(b, res.path)
		b = res.stat.append(b)
	case OpSetData:
		b = res.stat.append(b)
	}
	return b
}

// appendFailure encodes the result of an operation of a multi that failed.
func appendFailure(b []byte, err Code) []byte {
	b = appendMultiHeader(b, opError, false, err)
	return jute.AppendInt32(b, int32(err))
}
