// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
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

	// Ended is when the process was seen to have ended, by the clock of its machine.
	Ended time.Time

	// After is how much later the session was closed.
	After time.Duration
}

// lastTakeover returns the last takeover from a process that had a node in the directory dir; nil
// if there is no note of one, or none that this client may read.
func lastTakeover(s *zkio.Session, root, dir string) (*Takeover, error) {
	list := zkio.Read{Path: takeover.Directory(root), What: zkio.ReadChildren}
	s.Read(&list)
	names := takeover.Notes(list.Names)
	notes, err := takeover.Read(s, root, names[:min(len(names), takeover.Most)])
	switch err = cmp.Or(list.Err, err); {
	case err == nil:
	case zkio.ClassOf(err) == zkio.Definite:
		return nil, nil // there are none, or they cannot be read: the queue is of more importance
	default:
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
