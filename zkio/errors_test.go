// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/jute"
)

func is(err, target error) bool { return errors.Is(err, target) }

// TestErrors is the table of every code that an answer can have, and what it becomes.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		code  int32
		to    error
		class Class
	}{
		{jute.ErrSystem, ErrUnknown, Unknown},
		{jute.ErrRuntimeInconsistency, ErrUnknown, Unknown},
		{jute.ErrConnectionLoss, ErrUnknown, Unknown},
		{jute.ErrOperationTimeout, ErrUnknown, Unknown},
		{jute.ErrRequestTimeout, ErrUnknown, Unknown},
		{jute.ErrSessionMoved, ErrUnknown, Unknown},
		{jute.ErrReconfigDisabled, ErrUnknown, Unknown},
		{jute.ErrMarshalling, ErrUnknown, Unknown}, // the answer, perhaps, of what was carried out
		{-999, ErrUnknown, Unknown},

		{jute.ErrThrottledOp, ErrNotSent, NotSent},
		{jute.ErrNotReadOnly, ErrNotSent, NotSent},

		{jute.ErrSessionExpired, ErrSessionOver, SessionOver},

		{jute.ErrNoNode, ErrNoNode, Definite},
		{jute.ErrNodeExists, ErrNodeExists, Definite},
		{jute.ErrNoAuth, ErrNoAuth, Definite},
		{jute.ErrBadVersion, ErrBadVersion, Definite},
		{jute.ErrNotEmpty, ErrNotEmpty, Definite},
		{jute.ErrNoChildrenForEphemerals, ErrNoChildrenForEphemerals, Definite},
		{jute.ErrInvalidACL, ErrInvalidACL, Definite},
		{jute.ErrAuthFailed, ErrAuthFailed, Definite},
		{jute.ErrSessionClosedRequireSASL, ErrAuthFailed, Definite},
		{jute.ErrBadArguments, ErrBadArguments, Definite},
		{jute.ErrEphemeralOnLocalSession, ErrBadArguments, Definite},
		{jute.ErrQuotaExceeded, ErrQuota, Definite},
		{jute.ErrUnimplemented, ErrUnsupported, Definite},
		{codeTooLarge, ErrTooLarge, Definite},
	} {
		err := refusal("create", "/a/b", tt.code)
		if !is(err, tt.to) || ClassOf(err) != tt.class {
			t.Errorf("%d becomes %q of class %v, want %q of class %v", tt.code, err, ClassOf(err), tt.to, tt.class)
		}
		want := "zkio: create /a/b: " + unprefixed(tt.to)
		if tt.to == ErrUnknown {
			want += fmt.Sprintf(": the server answered with error %d", tt.code)
		}
		if got := err.Error(); got != want {
			t.Errorf("%d becomes %q, want %q", tt.code, got, want)
		}
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
		{&opError{op: "create", path: "/a/_c_1-lock-", kind: ErrUnknown, why: zk.ErrConnectionClosed}, "zkio: create /a/_c_1-lock-: outcome unknown: zk: connection closed"},
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
