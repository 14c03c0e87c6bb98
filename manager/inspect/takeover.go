// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Takeover says that the session of a process was closed for it, because the process had been
// killed: by the helper of package sentinel, or by the guard of holdfast run. Its locks were free
// then, without waiting for the session timeout.
type Takeover struct {
	// From is what the process said of itself, and its Session. Its nodes are gone, so Path,
	// Since, Token and all that a queue shows have their zero values. Nothing proves that the
	// rest is true: quote it.
	From Contender

	// Ended is when the process was seen to have ended, by the clock of its machine, which also
	// decides which takeover is the last.
	Ended time.Time

	// After is how much later the session was closed.
	After time.Duration
}

// mostTakeovers is how many notes are read. As many as half of that are kept, unless several
// processes leave one at the same time, or another client has put nodes there.
const mostTakeovers = 32

// lastTakeover returns the last takeover from a process that had a node in the directory dir; nil
// if there is no note of one, or none that this client may read.
func lastTakeover(s *zkio.Session, root, dir string) (*Takeover, error) {
	list := zkio.Read{Path: takeover.Directory(root), What: zkio.ReadChildren}
	s.Read(&list)
	if err := list.Err; err != nil && !errors.Is(err, zkio.ErrNoNode) && !errors.Is(err, zkio.ErrNoAuth) {
		return nil, err
	}
	slices.Sort(list.Names) // by time
	slices.Reverse(list.Names)
	notes, err := takeover.Read(s, root, list.Names[:min(len(list.Names), mostTakeovers)])
	if err != nil {
		return nil, err
	}
	for _, note := range notes {
		if note.HadNodeIn(dir) {
			return takeoverOf(note), nil
		}
	}
	return nil, nil
}

// takeoverOf returns what a note says.
func takeoverOf(note takeover.Record) *Takeover {
	c := manager.DescribeNode("", note.Process, zkio.Stat{EphemeralOwner: note.Session})
	c.Since = time.Time{} // the Stat has no time
	return &Takeover{From: *FromManager(c), Ended: note.Ended, After: note.After}
}
