// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"bytes"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// An answer is what the server says to a request that it has carried out.
type answer struct {
	path    string     // of the node created
	data    []byte     // of the node read
	names   []string   // of its children
	stat    Stat       // of the node read or changed
	acl     []ACL      // of the node
	nodes   []nodeRead // of several nodes
	results []OpResult // of a transaction
	// If the transaction was refused: why, and for which operation.
	code    int32
	refused int
}

// A nodeRead is what a request for several nodes says of one.
type nodeRead struct {
	code int32 // jute.ErrOK, or why there is nothing else
	data []byte
	stat Stat
}

// read takes apart the body of the answer to a request of kind op. It keeps nothing of
// what r reads. It also reports whether the answer proves that the leader acted for the
// session.
//
// It runs on the goroutine that reads, before the caller is woken: the connection is cut if the
// answer is malformed.
func (a *answer) read(op int32, r *jute.Reader) (proof bool, err error) {
	proof = changes(op)
	switch op {
	case jute.OpCreate, jute.OpCreateContainer:
		a.path, err = readText(r)
	case jute.OpSetData, jute.OpExists:
		a.stat = readStat(r)
	case jute.OpGetData:
		a.data = bytes.Clone(r.Buffer())
		a.stat = readStat(r)
	case jute.OpGetChildren2:
		a.names, err = readNames(r)
		a.stat = readStat(r)
	case jute.OpGetACL:
		a.acl, err = readACL(r)
		readStat(r)
	case jute.OpSync:
		_, err = readText(r)
	case jute.OpMulti:
		proof, err = a.readResults(r)
	case jute.OpMultiRead:
		err = a.readNodes(r)
	}
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return false, fmt.Errorf("in the reply to %s: %w", opName(op), err)
	}
	return proof, nil
}

// nextResult reads what precedes each result of a transaction, or of several reads. kind
// is the operation's; or jute.OpError, and code says why it was refused; or 0 at the end.
func nextResult(r *jute.Reader) (kind, code int32) {
	kind, last := r.Int32(), r.Bool()
	r.Int32() // the code once more
	switch {
	case last || r.Err() != nil:
		return 0, jute.ErrOK
	case kind == jute.OpError:
		code = r.Int32()
	}
	return kind, code
}

// readResults reads the results of a transaction. If the first is not an error, the
// transaction happened, as a whole; if it did not happen, all are.
func (a *answer) readResults(r *jute.Reader) (proof bool, err error) {
	for {
		var res OpResult
		kind, code := nextResult(r)
		if len(a.results) == 0 {
			proof = kind != jute.OpError && kind != 0
		}
		switch kind {
		case 0:
			return proof, nil
		case jute.OpError:
			// The errors after the first say only that those were not attempted.
			if a.code == jute.ErrOK {
				a.code, a.refused = code, len(a.results)
			}
		case jute.OpCreate:
			res.Path, err = readText(r)
		case jute.OpSetData:
			res.Stat = readStat(r)
		case jute.OpCheck, jute.OpDelete:
		default:
			err = fmt.Errorf("%w: a result of type %d", jute.ErrMalformed, kind)
		}
		if err != nil {
			return false, err
		}
		a.results = append(a.results, res)
	}
}

// readNodes reads the results of several reads. The data of each has memory of its own, since
// its reader may keep it, and not the others'.
func (a *answer) readNodes(r *jute.Reader) error {
	for {
		kind, code := nextResult(r)
		node := nodeRead{code: code}
		switch kind {
		case 0:
			return r.Err()
		case jute.OpError:
		case jute.OpGetData:
			node.data, node.stat = bytes.Clone(r.Buffer()), readStat(r)
		default:
			return fmt.Errorf("%w: a result of type %d", jute.ErrMalformed, kind)
		}
		a.nodes = append(a.nodes, node)
	}
}

// readStat reads a Stat.
func readStat(r *jute.Reader) (st Stat) {
	st.Czxid, st.Mzxid, st.Ctime, st.Mtime = r.Int64(), r.Int64(), r.Int64(), r.Int64()
	st.Version, st.Cversion, st.Aversion = r.Int32(), r.Int32(), r.Int32()
	st.EphemeralOwner, st.DataLength, st.NumChildren = r.Int64(), r.Int32(), r.Int32()
	st.Pzxid = r.Int64()
	return st
}

var errNoString = fmt.Errorf("%w: no string where one was due", jute.ErrMalformed)

// readText reads a string, which must not be the null string.
func readText(r *jute.Reader) (string, error) {
	if r.Null() {
		return "", errNoString
	}
	return r.String(), nil
}

// readCount reads the length of a vector, not null, each of whose elements takes size
// bytes or more.
func readCount(r *jute.Reader, what string, size int) (int, error) {
	n := int(r.Int32())
	if n < 0 || n > r.Len()/size {
		return 0, fmt.Errorf("%w: %d %s in %d bytes", jute.ErrMalformed, n, what, r.Len())
	}
	return n, nil
}

// readNames reads a list of names. They share one string: there can be thousands.
func readNames(r *jute.Reader) ([]string, error) {
	n, err := readCount(r, "strings", 4)
	if err != nil {
		return nil, err
	}
	all, names := string(r.Rest()), make([]string, 0, n)
	for range n {
		if r.Null() {
			return nil, errNoString
		}
		name, end := r.Buffer(), len(all)-r.Len()
		names = append(names, all[end-len(name):end])
	}
	return names, nil
}

// readACL reads an access control list.
func readACL(r *jute.Reader) ([]ACL, error) {
	n, err := readCount(r, "entries of an ACL", 12)
	acl := make([]ACL, 0, n)
	for range n {
		e := ACL{Perms: r.Int32()}
		for _, text := range [...]*string{&e.Scheme, &e.ID} {
			if *text, err = readText(r); err != nil {
				return nil, err
			}
		}
		acl = append(acl, e)
	}
	return acl, err
}
