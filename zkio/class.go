// SPDX-License-Identifier: Apache-2.0

package zkio

import "errors"

// A Class says what to do about an error.
type Class int

const (
	// Unknown: the operation may have happened. Find out, then try again. It is
	// the class of every error that is not known to be of another.
	Unknown Class = iota
	// NotSent: the operation did not happen. Try again.
	NotSent
	// SessionOver: the session is over. Start again in the next one.
	SessionOver
	// Definite: the server, or this package, refused. The operation did not
	// happen, and trying the same again will not help.
	Definite
	// Closed: the client is closed. There will be no next session.
	Closed
)

func (c Class) String() string {
	names := [...]string{"unknown", "not sent", "session over", "definite", "closed"}
	if c < 0 || int(c) >= len(names) {
		return "invalid class"
	}
	return names[c]
}

// classes lists the sentinels with their classes. The first that an error wraps
// counts: a closed client's session is over as well, and an operation's outcome
// is of no more interest once its session is over.
var classes = []struct {
	err   error
	class Class
}{
	{ErrClosed, Closed},
	{ErrSessionOver, SessionOver},
	{ErrUnknown, Unknown},
	{ErrNotSent, NotSent},
	{ErrNoNode, Definite},
	{ErrNodeExists, Definite},
	{ErrNoAuth, Definite},
	{ErrBadVersion, Definite},
	{ErrNotEmpty, Definite},
	{ErrNoChildrenForEphemerals, Definite},
	{ErrInvalidACL, Definite},
	{ErrAuthFailed, Definite},
	{ErrQuota, Definite},
	{ErrTooManyNodes, Definite},
	{ErrBadArguments, Definite},
	{ErrTooLarge, Definite},
	{ErrUnsupported, Definite},
}

// ClassOf returns the class of an error that this package returned. A nil
// error has none; for it, and for errors from elsewhere, ClassOf says Unknown.
func ClassOf(err error) Class {
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.class
		}
	}
	return Unknown
}
