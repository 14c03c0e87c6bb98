// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// Every error that this package returns wraps one of these, which say what
// happened. [ClassOf] says what to do about it.
var (
	// ErrClosed means that the Client was closed, or is being closed.
	ErrClosed = errors.New("zkio: client is closed")

	// ErrSessionOver means that the session had ended before the call, or
	// ended before its result could be trusted.
	ErrSessionOver = errors.New("zkio: session is over")

	// ErrNotSent means that the operation did not happen, because the request was
	// never sent or because the server did not execute it.
	ErrNotSent = errors.New("zkio: not sent")

	// ErrUnknown means that the operation may have happened: the request may
	// have been sent, and no answer came that says what became of it.
	ErrUnknown = errors.New("zkio: outcome unknown")

	// ErrNoNode means that the node, or the parent of the node to be created, does
	// not exist.
	ErrNoNode = errors.New("zkio: no such node")

	// ErrNodeExists means that a node of that path exists already.
	ErrNodeExists = errors.New("zkio: node exists")

	// ErrNoAuth means that an access control list forbids the operation.
	ErrNoAuth = errors.New("zkio: not authorized")

	// ErrBadVersion means that the node's version is not the one demanded.
	ErrBadVersion = errors.New("zkio: bad version")

	// ErrNotEmpty means that a node cannot be deleted because it has children.
	ErrNotEmpty = errors.New("zkio: node has children")

	// ErrNoChildrenForEphemerals means that the parent is an ephemeral node,
	// which can have no children.
	ErrNoChildrenForEphemerals = errors.New("zkio: parent is an ephemeral node")

	// ErrInvalidACL means that the server refused the access control list.
	ErrInvalidACL = errors.New("zkio: invalid ACL")

	// ErrAuthFailed means that the server refused the client's credentials.
	ErrAuthFailed = errors.New("zkio: authentication failed")

	// ErrQuota means that the operation would exceed a quota of ZooKeeper's.
	ErrQuota = errors.New("zkio: quota exceeded")

	// ErrBadArguments means that the request itself is wrong: a malformed path,
	// say, or more data than a server takes.
	ErrBadArguments = errors.New("zkio: bad arguments")

	// ErrUnsupported means that the server does not know the operation.
	ErrUnsupported = errors.New("zkio: not supported by the server")
)

// An opError is what every call returns when it fails: the operation, its
// path, the sentinel that classifies the failure, and the cause below it.
type opError struct {
	op   string
	path string
	kind error // a sentinel of this package
	why  error // the cause; nil if the sentinel says it all
}

func (e *opError) Error() string {
	var b strings.Builder
	b.WriteString("zkio: ")
	b.WriteString(e.op)
	if e.path != "" {
		b.WriteByte(' ')
		b.WriteString(e.path)
	}
	b.WriteString(": ")
	kind := unprefixed(e.kind)
	if e.why == nil {
		b.WriteString(kind)
		return b.String()
	}
	why := unprefixed(e.why)
	if !strings.HasPrefix(why, kind) { // else it says the same, and more
		b.WriteString(kind)
		b.WriteString(": ")
	}
	b.WriteString(why)
	return b.String()
}

// unprefixed returns an error's text without the package's prefix, to be put
// behind another error's.
func unprefixed(err error) string { return strings.TrimPrefix(err.Error(), "zkio: ") }

// Unwrap returns the sentinel and the cause.
func (e *opError) Unwrap() []error {
	if e.why == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.why}
}

// unknownCode is the text before the number in go-zookeeper's error for a code
// that it has no name for.
const unknownCode = "unknown error: "

var sentinels = []struct{ from, to error }{
	{zk.ErrNoServer, ErrNotSent},
	{zk.ErrNoNode, ErrNoNode},
	{zk.ErrNodeExists, ErrNodeExists},
	{zk.ErrNoAuth, ErrNoAuth},
	{zk.ErrBadVersion, ErrBadVersion},
	{zk.ErrNotEmpty, ErrNotEmpty},
	{zk.ErrNoChildrenForEphemerals, ErrNoChildrenForEphemerals},
	{zk.ErrInvalidACL, ErrInvalidACL},
	{zk.ErrAuthFailed, ErrAuthFailed},
	{zk.ErrSessionExpired, ErrSessionOver},
	{zk.ErrBadArguments, ErrBadArguments},
	{zk.ErrInvalidPath, ErrBadArguments},
	{zk.ErrInvalidFlags, ErrBadArguments},
}

// sentinelOf returns the sentinel for an error of go-zookeeper's, nil for nil. An
// error that it does not know is ErrUnknown, which is the safe default.
func sentinelOf(err error) error {
	if err == nil {
		return nil
	}
	for _, s := range sentinels {
		if errors.Is(err, s.from) {
			return s.to
		}
	}
	if code, ok := strings.CutPrefix(err.Error(), unknownCode); ok {
		if n, err := strconv.ParseInt(code, 10, 32); err == nil {
			return sentinelOfCode(int32(n))
		}
	}
	// Among these: the connection's end (zk.ErrConnectionClosed and the net
	// package's errors), a session that moved to another server with the
	// request still under way at the old one (zk.ErrSessionMoved), and answers
	// that could not be decoded.
	return ErrUnknown
}

// sentinelOfCode returns the sentinel for a code of the server's that
// go-zookeeper has no name for.
func sentinelOfCode(code int32) error {
	switch code {
	case jute.ErrQuotaExceeded:
		return ErrQuota
	case jute.ErrThrottledOp, jute.ErrNotReadOnly:
		// A throttled request is answered without being executed; so is a
		// write on a server that is cut off and serves reads only.
		return ErrNotSent
	case jute.ErrUnimplemented:
		return ErrUnsupported
	case jute.ErrEphemeralOnLocalSession:
		return ErrBadArguments
	case jute.ErrSessionClosedRequireSASL:
		return ErrAuthFailed
	}
	// Among these: jute.ErrMarshalling. A server says it of a request that it
	// could not read or prepare, but also when it failed to make the answer to
	// one that it has carried out.
	return ErrUnknown
}

// wrap makes the error of operation op on path from an error of
// go-zookeeper's; nil stays nil.
func wrap(op, path string, err error) error {
	kind := sentinelOf(err)
	if kind == nil {
		return nil
	}
	return &opError{op: op, path: path, kind: kind, why: err}
}

// badArguments makes the error for a request that is refused before it is sent.
func badArguments(op, path, format string, args ...any) error {
	return &opError{op: op, path: path, kind: ErrBadArguments, why: fmt.Errorf(format, args...)}
}
