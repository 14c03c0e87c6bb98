// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestErrorText(t *testing.T) {
	ahead := &Contender{Path: "/p", Host: "db7", PID: 4711, Label: "billing", Since: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	for _, test := range []struct {
		err  *Error
		want string
	}{
		{&Error{Op: "open", Err: ErrBadConfig}, "holdfast: open: bad configuration"},
		{&Error{Op: "lock", Name: "jobs/nightly", Err: context.DeadlineExceeded}, `holdfast: lock "jobs/nightly": context deadline exceeded`},
		{&Error{Op: "lock", Name: "a", Position: 3, Err: ErrLocked}, `holdfast: lock "a": locked by another process (3 ahead)`},
		{&Error{Op: "lock", Name: "jobs/nightly", Position: 2, Ahead: ahead, Err: context.DeadlineExceeded},
			`holdfast: lock "jobs/nightly": context deadline exceeded (2 ahead; waiting for billing@db7, pid 4711, since 2026-01-02T15:04:05Z)`},
		{&Error{Op: "lock", Name: "a", Position: 1, Ahead: &Contender{Path: "/holdfast/a/x", Persistent: true}, Err: ErrLocked},
			`holdfast: lock "a": locked by another process (1 ahead; waiting for /holdfast/a/x; its node /holdfast/a/x is not ephemeral: delete it if its owner is gone)`},
		{&Error{Op: "exclusive", Name: "a\n\"b", Err: ErrBadName}, `holdfast: exclusive "a\n\"b": bad lock name`}, // always one line
	} {
		wantEq(t, "text", test.err.Error(), test.want)
	}
}

// What an error quotes of a name that no lock can have is bounded. A legal name is quoted in full.
func TestErrorQuotesLongNames(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		for _, test := range []struct{ name, want string }{
			{strings.Repeat("\x01", 1<<20), strings.Repeat(`\x01`, maxQuoted) + `…" (1048576 bytes)`},
			{strings.Repeat("\x00", 300), strings.Repeat(`\x00`, maxQuoted) + `…" (300 bytes)`},
			{strings.Repeat("x", 5000), strings.Repeat("x", maxQuoted) + `…" (5000 bytes)`},
			{strings.Repeat("x", maxQuoted-1) + strings.Repeat("é", 600), strings.Repeat("x", maxQuoted-1) + `…" (1327 bytes)`},
			{strings.Repeat("x", 999) + "/", `exclusive "` + strings.Repeat("x", 999) + `/": bad lock name`},
		} {
			err := errOf(m.Exclusive(test.name))
			wantErr(c.t, "exclusive", err, ErrBadName)
			if text := err.Error(); !strings.Contains(text, test.want) || len(text) > 2048 {
				c.t.Errorf("%d bytes: %.3000q, want %q", len(text), text, test.want)
			}
		}
	})
}

// The error of a method of the zero Hold names the method.
func TestErrorsOfTheZeroHold(t *testing.T) {
	ctx, cancel := Hold{}.Context(t.Context())
	defer cancel()
	for op, err := range map[string]error{
		"unlock": Hold{}.Unlock(t.Context()), "leave": Hold{}.Leave(), "hold": Hold{}.Err(), "grant": errOf(Hold{}.Grant()),
		"release": settled(t, "release", Hold{}.Release()), "reenter": errOf(Hold{}.Reenter()), "share": errOf(Hold{}.Share()),
		"upgrade": Hold{}.Upgrade(t.Context()), "downgrade": Hold{}.Downgrade(), "guard": errOf(Hold{}.Guard(t.Context())), "context": context.Cause(ctx),
	} {
		wantErr(t, op, err, ErrReleased)
		wantEq(t, op, fmt.Sprint(err), "holdfast: "+op+": hold was released: it is the zero Hold")
	}
}

func TestGrantText(t *testing.T) {
	for _, test := range []struct {
		grant Grant
		want  string
	}{
		{Grant{}, "none"},
		{Grant{Token: 456, Path: "/holdfast/jobs/_c_1-lock-0000000000", Session: -2}, "token 456, node /holdfast/jobs/_c_1-lock-0000000000, session 0xfffffffffffffffe"},
		{Grant{Token: 7, Turn: 2, Path: "/a", Session: 16, Abandoned: true}, "token 7, turn 2, node /a, session 0x10, abandoned by the holder before"},
	} {
		wantEq(t, "text", test.grant.String(), test.want)
	}
}

// errors.Is tells the sentinels apart, through wrappers, too.
func TestErrorsIs(t *testing.T) {
	all := []error{
		ErrLocked, ErrYielding, ErrUnconfirmed, ErrLost, ErrReleased, ErrNotGranted, ErrKind, ErrTooManyHolders, ErrSequenceExhausted, ErrClosed, ErrBadName, ErrBadConfig,
	}
	for i, a := range all {
		wrapped := fmt.Errorf("more: %w", &Error{Op: "lock", Name: "a", Err: fmt.Errorf("%w: why", a)})
		var e *Error
		expect(t, errors.As(wrapped, &e) && e.Op == "lock", "%v contains no *Error", wrapped)
		for j, b := range all {
			expect(t, errors.Is(wrapped, b) == (i == j || a == ErrYielding && b == ErrLocked),
				"errors.Is(%v, %v) = %t", wrapped, b, errors.Is(wrapped, b))
		}
	}
	for _, err := range []error{errNodeDeleted, errLeaseEnded, errSessionEnded} {
		expect(t, errors.Is(err, ErrLost), "%v is not ErrLost", err)
	}
}
