// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"cmp"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// checkReply takes apart the body of a reply that carries no error. It returns
// an error if go-zookeeper could not decode the body safely: that allocates what
// a length claims, and panics at some malformed bodies. checkReply also reports
// whether the reply is to a write, which proves that the leader acted for the
// session.
func checkReply(op int32, r *jute.Reader) (proof bool, err error) {
	switch op {
	case jute.OpCreate, jute.OpCreateContainer:
		proof, err = true, checkText(r)
	case jute.OpDelete:
		proof = true
	case jute.OpSetData:
		proof = true
		checkStat(r)
	case jute.OpExists:
		checkStat(r)
	case jute.OpGetData:
		r.Buffer()
		checkStat(r)
	case jute.OpGetChildren2:
		err = checkTexts(r)
		checkStat(r)
	case jute.OpGetACL:
		err = checkACL(r)
		checkStat(r)
	case jute.OpSync:
		err = checkText(r)
	case jute.OpMulti:
		proof, err = checkMulti(r)
	case jute.OpMultiRead:
		err = checkMultiRead(r)
	}
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return false, fmt.Errorf("in the reply to %s: %w", opName(op), err)
	}
	return proof, nil
}

// checkMulti takes the results of a transaction apart. If the first is not an
// error, the transaction happened, as a whole; if it did not happen, all are.
func checkMulti(r *jute.Reader) (proof bool, err error) {
	for first := true; ; first = false {
		kind, done := r.Int32(), r.Bool()
		r.Int32()
		if r.Err() != nil || done {
			return proof, r.Err()
		}
		if first {
			proof = kind != jute.OpError
		}
		switch kind {
		case jute.OpError:
			r.Int32()
		case jute.OpCreate:
			err = checkText(r)
		case jute.OpSetData:
			checkStat(r)
		case jute.OpCheck, jute.OpDelete:
		default:
			err = fmt.Errorf("%w: a result of type %d", jute.ErrMalformed, kind)
		}
		if err != nil {
			return false, err
		}
	}
}

// checkMultiRead takes the results of several reads apart.
func checkMultiRead(r *jute.Reader) error {
	for {
		kind, done := r.Int32(), r.Bool()
		r.Int32()
		switch {
		case r.Err() != nil || done:
			return r.Err()
		case kind == jute.OpError:
			r.Int32()
		case kind == jute.OpGetData:
			r.Buffer()
			checkStat(r)
		default:
			return fmt.Errorf("%w: a result of type %d", jute.ErrMalformed, kind)
		}
	}
}

// checkStat passes over a Stat.
func checkStat(r *jute.Reader) {
	for range 4 { // Czxid, Mzxid, Ctime, Mtime
		r.Int64()
	}
	for range 3 { // the three versions
		r.Int32()
	}
	r.Int64() // EphemeralOwner
	r.Int32() // DataLength
	r.Int32() // NumChildren
	r.Int64() // Pzxid
}

// checkACL passes over an access control list.
func checkACL(r *jute.Reader) error {
	return checkVector(r, "entries of an ACL", 12, func() error {
		r.Int32()                                 // the permissions
		return cmp.Or(checkText(r), checkText(r)) // the scheme and the id
	})
}

// checkText passes over a string, which must not be the null string.
func checkText(r *jute.Reader) error {
	if r.Buffer() == nil {
		return fmt.Errorf("%w: no string where one was due", jute.ErrMalformed)
	}
	return nil
}

// checkTexts passes over a vector of strings.
func checkTexts(r *jute.Reader) error {
	return checkVector(r, "strings", 4, func() error { return checkText(r) })
}

// checkVector passes over a vector, not null, whose elements have size bytes or more.
func checkVector(r *jute.Reader, what string, size int, check func() error) error {
	n := int(r.Int32())
	if n < 0 || n > r.Len()/size {
		return fmt.Errorf("%w: %d %s in %d bytes", jute.ErrMalformed, n, what, r.Len())
	}
	for range n {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}
