// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// A Violation is an entry that the lock should have prevented.
type Violation struct {
	Kind string    `json:"kind"` // history.SeenOverlap, or another of those
	Lock string    `json:"lock"`
	Time time.Time `json:"time"`
	At   int64     `json:"at"`   // the same, as in the history
	Mode string    `json:"mode"` // exclusive, read, upgradable, write or upgraded
	// Process is the number of the process that entered, or of the one that was let out of
	// a barrier, and PID its id.
	Process int    `json:"process"`
	PID     int    `json:"pid"`
	Token   uint64 `json:"token"` // its fencing token
	Turn    uint64 `json:"turn,omitempty"`
	// The last correct entry according to the file.
	OtherPID   int    `json:"other_pid"`
	OtherToken uint64 `json:"other_token"`
	OtherTurn  uint64 `json:"other_turn,omitempty"`

	// Others are the processes that were inside the round Token of a barrier.
	Others []Party `json:"others,omitempty"`
}

// A Party is a process that is inside.
type Party struct {
	Process int    `json:"process"`
	PID     int    `json:"pid"`
	Mode    string `json:"mode"`
	Token   uint64 `json:"token"` // of its latest entry
}

// Upgraded is the mode of a writer with the token of its upgradable read.
const Upgraded = "upgraded"

// String describes v in a line of text.
func (v Violation) String() string {
	var what string
	switch v.Kind {
	case history.SeenOverlap:
		// The one that is inside may not have written the file of entries yet.
		what = fmt.Sprintf("pid %d entered with token %d while another process was inside; the last recorded entry is that of pid %d with token %d", v.PID, v.Token, v.OtherPID, v.OtherToken)
	case history.SeenTokenFell:
		what = fmt.Sprintf("pid %d entered with %s after pid %d had entered with the higher %s", v.PID, fence(v.Token, v.Turn), v.OtherPID, fence(v.OtherToken, v.OtherTurn))
	case history.SeenTokenShared:
		what = fmt.Sprintf("pid %d entered with token %d, which pid %d also had", v.PID, v.Token, v.OtherPID)
	case history.SeenTwoTurns:
		what = fmt.Sprintf("pid %d entered with %s while another of its workers was inside with %s", v.PID, fence(v.Token, v.Turn), fence(v.OtherToken, v.OtherTurn))
	case history.SeenPremature:
		what = fmt.Sprintf("pid %d left round %d while these were inside: %s", v.PID, v.Token, parties(v.Others))
	case history.SeenTwoRounds:
		what = fmt.Sprintf("pid %d entered with token %d while its workers with token %d were inside and had not lost the lock", v.PID, v.Token, v.OtherToken)
	}
	return fmt.Sprintf("%s: %s on lock %q (%s): %s", v.Time.Format("15:04:05.000000"), v.Kind, v.Lock, v.Mode, what)
}

// fence names a token, with the turn if there is one.
func fence(token, turn uint64) string {
	if turn == 0 {
		return fmt.Sprintf("token %d", token)
	}
	return fmt.Sprintf("token %d, turn %d", token, turn)
}

func parties(all []Party) string {
	texts := make([]string, 0, len(all))
	for _, p := range all {
		texts = append(texts, fmt.Sprintf("pid %d (%s, %s)", p.PID, p.Mode, fence(p.Token, 0)))
	}
	return strings.Join(texts, ", ")
}
