// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"errors"
	"fmt"
	"strings"
)

// The conditions that the package reports, beside those of package manager. Each is wrapped
// in a [*manager.Error], which says what was attempted at which barrier.
var (
	// ErrLost says that this process has lost its place inside a [Double] barrier, although
	// it has not left. Stop the work of the round: the others may have gone on.
	ErrLost = errors.New("the place at the barrier was lost")
	// ErrMismatch says that the barrier was made for another number of members.
	ErrMismatch = errors.New("the barrier has another number of members")
	// ErrBadMembers says that a barrier cannot have that many members.
	ErrBadMembers = errors.New("bad number of members")
)

// A BrokenError is returned by [Stage.Leave] of all members that have left, if others have
// died inside.
type BrokenError struct {
	Round uint64   // the number of the round
	Died  []string // the members that have died, as in [Stage.Members]
}

// Error says which members have died.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("round %d is broken: %d died inside: %s", e.Round, len(e.Died), strings.Join(e.Died, "; "))
}
