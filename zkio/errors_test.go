// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"
)

func is(err, target error) bool { return errors.Is(err, target) }

// TestErrors is the table of everything that go-zookeeper can return, and what
// it becomes.
func TestErrors(t *testing.T) {
	code := func(n int) error { return fmt.Errorf("unknown error: %v", zk.ErrCode(n)) } // as go-zookeeper writes it
	for _, tt := range []struct {
		from  error
		to    error
		class Class
	}{
		{zk.ErrNoServer, ErrNotSent, NotSent},

		{zk.ErrConnectionClosed, ErrUnknown, Unknown},
		{zk.ErrClosing, ErrUnknown, Unknown},
		{zk.ErrUnknown, ErrUnknown, Unknown},
		{zk.ErrAPIError, ErrUnknown, Unknown},
		{zk.ErrNothing, ErrUnknown, Unknown},
		{zk.ErrSessionMoved, ErrUnknown, Unknown},
		{zk.ErrShortBuffer, ErrUnknown, Unknown},
		{zk.ErrReconfigDisabled, ErrUnknown, Unknown},
		{io.EOF, ErrUnknown, Unknown},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, ErrUnknown, Unknown},
		{errors.New("never heard of"), ErrUnknown, Unknown},
		{code(-1), ErrUnknown, Unknown},   // system error
		{code(-2), ErrUnknown, Unknown},   // runtime inconsistency
		{code(-4), ErrUnknown, Unknown},   // connection loss
		{code(-7), ErrUnknown, Unknown},   // operation timeout
		{code(-122), ErrUnknown, Unknown}, // request timeout
		{code(-999), ErrUnknown, Unknown},
		{errors.New("unknown error: x"), ErrUnknown, Unknown},

		{code(-127), ErrNotSent, NotSent}, // throttled
		{code(-119), ErrNotSent, NotSent}, // a read-only server

		{zk.ErrSessionExpired, ErrSessionOver, SessionOver},

		{zk.ErrNoNode, ErrNoNode, Definite},
		{zk.ErrNodeExists, ErrNodeExists, Definite},
		{zk.ErrNoAuth, ErrNoAuth, Definite},
		{zk.ErrBadVersion, ErrBadVersion, Definite},
		{zk.ErrNotEmpty, ErrNotEmpty, Definite},
		{zk.ErrNoChildrenForEphemerals, ErrNoChildrenForEphemerals, Definite},
		{zk.ErrInvalidACL, ErrInvalidACL, Definite},
		{zk.ErrAuthFailed, ErrAuthFailed, Definite},
		{code(-124), ErrAuthFailed, Definite}, // the server insists on SASL
		{code(-5), ErrUnknown, Unknown},       // marshalling: the answer, perhaps, of what was carried out
		{zk.ErrBadArguments, ErrBadArguments, Definite},
		{zk.ErrInvalidPath, ErrBadArguments, Definite},
		{zk.ErrInvalidFlags, ErrBadArguments, Definite},
		{code(-120), ErrBadArguments, Definite}, // ephemeral on a local session
		{code(-125), ErrQuota, Definite},
		{code(-6), ErrUnsupported, Definite},
	} {
		err := wrap("create", "/a/b", tt.from)
		if !is(err, tt.to) || ClassOf(err) != tt.class {
			t.Errorf("%v becomes %q of class %v, want %q of class %v", tt.from, err, ClassOf(err), tt.to, tt.class)
		}
		if text := err.Error(); !strings.HasPrefix(text, "zkio: create /a/b: ") || !strings.HasSuffix(text, tt.from.Error()) {
			t.Errorf("%v becomes %q, which does not say what, where, and why", tt.from, text)
		}
	}
	if err := wrap("create", "/a/b", nil); err != nil {
		t.Errorf("no error becomes %v", err)
	}
}

// TestEverySentinelHasAClass makes sure that a new sentinel is thought about.
func TestEverySentinelHasAClass(t *testing.T) {
	for _, c := range classes {
		if got := ClassOf(fmt.Errorf("wrapped: %w", c.err)); got != c.class {
			t.Errorf("ClassOf(%v) = %v, want %v", c.err, got, c.class)
		}
	}
	for _, err := range []error{nil, errors.New("another package's")} {
		if got := ClassOf(err); got != Unknown {
			t.Errorf("ClassOf(%v) = %v, want %v", err, got, Unknown)
		}
	}
	closed := fmt.Errorf("%w: %w", ErrClosed, ErrSessionOver)
	if got := ClassOf(closed); got != Closed {
		t.Errorf("the class of a closed client's session is %v, want %v", got, Closed)
	}
}

func TestErrorTexts(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{wrap("create", "/a/_c_1-lock-", zk.ErrConnectionClosed), "zkio: create /a/_c_1-lock-: outcome unknown: zk: connection closed"},
		{overError("get", "/a", errSessionExpired), "zkio: get /a: session is over: the server ended it"},
		{overError("get", "/a", ErrClosed), "zkio: get /a: client is closed"},
		{badArguments("set", "/a", "too much"), "zkio: set /a: bad arguments: too much"},
		{&opError{op: "close", kind: ErrUnknown}, "zkio: close: outcome unknown"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
