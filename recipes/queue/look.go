// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/zkio"
)

const looksAt = 100 // elements that are looked at together

// A look finds out which elements have no claim.
type look struct {
	names  []string // to look at, in this order
	listed int64    // a transaction up to which the delayed ones are known, which are not among names; 0: none

	free    []string
	taken   map[string]bool
	orphans []string // they have a persistent claim, and are not delayed
}

// run looks at the elements in dir until enough of them are free.
func (l *look) run(s *zkio.Session, dir string, enough int) error {
	if l.taken == nil {
		l.taken = make(map[string]bool)
	}
	for some := range slices.Chunk(l.names, looksAt) {
		claims := make([]*zkio.Read, len(some))
		for i, name := range some {
			claims[i] = &zkio.Read{Path: dir + "/" + name + claimName, What: zkio.ReadStat}
		}
		s.Read(claims...)
		for i, r := range claims {
			switch name := some[i]; {
			case errors.Is(r.Err, zkio.ErrNoNode):
				l.free = append(l.free, name) // or the element is gone
			case r.Err != nil:
				return r.Err
			case l.orphan(r.Stat):
				l.orphans = append(l.orphans, name)
			default:
				l.taken[name] = true
			}
		}
		if len(l.free) >= enough {
			break
		}
	}
	return nil
}

// orphan reports whether a claim is of no consumer and of no entry among the delayed ones. One
// that was made after these were listed may have an entry.
func (l *look) orphan(claim zkio.Stat) bool {
	return claim.EphemeralOwner == 0 && claim.Czxid <= l.listed
}
