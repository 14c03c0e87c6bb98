// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/look"
	"github.com/holdfast-go/holdfast/zkio"
)

// lookAgain is after how long a goroutine that waits looks again at the earliest.
const lookAgain = 10 * time.Second

// waiting returns what a caller waits with that may fail when Shutdown begins.
func waiting(a manager.Access) *look.Loop {
	l := look.New(a, a.Accepting())
	l.Again = lookAgain + rand.N(lookAgain/2)
	return l
}

// A lookout is what a caller waits with for the process of a [Double] that it watches: one at a time.
type lookout struct {
	*look.Loop
	double *Double
	path   string // of that process's node; "": none
}

func (d *Double) lookout() *lookout { return &lookout{Loop: waiting(d.access), double: d} }

// watch has the process of this name watched that is inside, or waits, and reports whether it is
// there.
func (l *lookout) watch(s *zkio.Session, name string) (there bool, err error) {
	if path := l.double.in(name); l.path != path {
		l.Unwatch(s, l.path)
		l.Watch(path)
		l.path = path
	}
	_, stat, err := s.Get(l.path) // leaves no watch if there is no such node
	return err == nil && l.double.owned(name, stat), access.Unless(err, zkio.ErrNoNode)
}
