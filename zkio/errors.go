// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"
	"strings"

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

	// ErrNotSent means that the request was never sent, or not executed.
	ErrNotSent = errors.New("zkio: not sent")

	// ErrUnknown means that the operation may have happened: no answer says.
	ErrUnknown = errors.New("zkio: outcome unknown")

	// ErrNoNode means that the node, or the parent of the one to create, is missing.
	ErrNoNode = errors.New("zkio: no such node")

	// ErrNodeExists means that a node of that path exists already.
	ErrNodeExists = errors.New("zkio: node exists")

	// ErrNoAuth means that an access control list forbids the operation.
	ErrNoAuth = errors.New("zkio: not authorized")

	// ErrBadVersion means that the node's version is not the one demanded.
	ErrBadVersion = errors.New("zkio: bad version")

	// ErrNotEmpty means that the node has children and so cannot be deleted.
	ErrNotEmpty = errors.New("zkio: node has children")

	// ErrNoChildrenForEphemerals means that the parent is an ephemeral node.
	ErrNoChildrenForEphemerals = errors.New("zkio: parent is an ephemeral node")

	// ErrInvalidACL means that the server refused the access control list.
	ErrInvalidACL = errors.New("zkio: invalid ACL")

	// ErrAuthFailed means that the server refused the client's credentials.
	ErrAuthFailed = errors.New("zkio: authentication failed")

	// ErrQuota means that the operation would exceed a quota of ZooKeeper's.
	ErrQuota = errors.New("zkio: quota exceeded")

	// ErrTooManyNodes means that the session has as many ephemeral nodes as
	// [Config.MaxPathBytes] permits.
	ErrTooManyNodes = errors.New("zkio: too many nodes in the session")

	// ErrBadArguments means that the request is malformed or too large.
	ErrBadArguments = errors.New("zkio: bad arguments")

	// ErrTooLarge means that the answer is larger than the 64 MiB that are taken of one:
	// the list of a directory with a million children, or so.
	ErrTooLarge = errors.New("zkio: the server's answer is too large")

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
	what, why := strings.TrimSpace(e.op+" "+e.path), unprefixed(e.kind)
	if e.why != nil {
		if text := unprefixed(e.why); strings.HasPrefix(text, why) {
			why = text // it says the same, and more
		} else {
			why += ": " + text
		}
	}
	return "zkio: " + what + ": " + why
}

// unprefixed returns an error's text without the package's prefix.
func unprefixed(err error) string { return strings.TrimPrefix(err.Error(), "zkio: ") }

// Unwrap returns the sentinel and the cause.
func (e *opError) Unwrap() []error {
	if e.why == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.why}
}

// sentinels has what the codes of answers mean.
var sentinels = map[int32]error{
	jute.ErrNoNode:                  ErrNoNode,
	jute.ErrNodeExists:              ErrNodeExists,
	jute.ErrNoAuth:                  ErrNoAuth,
	jute.ErrBadVersion:              ErrBadVersion,
	jute.ErrNotEmpty:                ErrNotEmpty,
	jute.ErrNoChildrenForEphemerals: ErrNoChildrenForEphemerals,
	jute.ErrEphemeralOnLocalSession: ErrBadArguments,
	jute.ErrInvalidACL:              ErrInvalidACL,
	jute.ErrBadArguments:            ErrBadArguments,
	jute.ErrQuotaExceeded:           ErrQuota,
	jute.ErrUnimplemented:           ErrUnsupported,
	codeTooLarge:                    ErrTooLarge,

	jute.ErrAuthFailed:               ErrAuthFailed,
	jute.ErrSessionClosedRequireSASL: ErrAuthFailed,
	jute.ErrSessionExpired:           ErrSessionOver,

	// The server answers these without executing them.
	jute.ErrThrottledOp: ErrNotSent,
	jute.ErrNotReadOnly: ErrNotSent,
}

// refusal makes the error for an answer with this code, which is not [jute.ErrOK]. A code
// that is not known is ErrUnknown, which is the safe default. Among these are
// jute.ErrSessionMoved, of a session that moved to another server with the request under
// way at the old one, and jute.ErrMarshalling, which a server also says when it has carried
// a request out and cannot make the answer.
func refusal(op, path string, code int32) error {
	e := &opError{op: op, path: path, kind: sentinels[code]}
	if e.kind == nil {
		e.kind, e.why = ErrUnknown, fmt.Errorf("the server answered with error %d", code)
	}
	return e
}

// overError makes the error of a call on a session that is over because of err.
func overError(op, path string, err error) error {
	kind := ErrSessionOver
	if errors.Is(err, ErrClosed) {
		kind = ErrClosed
	}
	return &opError{op: op, path: path, kind: kind, why: err}
}

// badArguments makes the error for a request that is refused before it is sent.
func badArguments(op, path, format string, args ...any) error {
	return &opError{op: op, path: path, kind: ErrBadArguments, why: fmt.Errorf(format, args...)}
}
