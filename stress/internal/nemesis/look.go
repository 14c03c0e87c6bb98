// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/queueio"
	"github.com/holdfast-go/holdfast/zkio"
)

// Look returns which processes hold the locks and wait for them, by the nodes in their
// directories, whose owners are sessions. Dirs has the directory of each lock. ProcessOf
// returns the worker process that has a session; places of other clients are left out.
//
// It looks at one directory after the other, so what it returns may be over.
func Look(t Tree, dirs map[string]string, processOf func(session int64) (process int, ok bool)) (holders, waiters []Place, err error) {
	for _, lock := range slices.Sorted(maps.Keys(dirs)) {
		dir := dirs[lock]
		names, stat, err := t.Children(dir)
		if errors.Is(err, zkio.ErrNoNode) {
			continue // an idle lock has no directory
		} else if err != nil {
			return nil, nil, fmt.Errorf("looking who holds lock %s: %w", lock, err)
		}
		q := queueio.Of(names, stat, queue.OnlyLatches(names))
		q.Sort()
		paths := make([]string, 0, len(q.Contenders))
		for _, c := range q.Contenders {
			paths = append(paths, dir+"/"+c.Name)
		}
		for i, read := range t.GetAll(paths...) {
			if errors.Is(read.Err, zkio.ErrNoNode) {
				continue
			} else if read.Err != nil {
				return nil, nil, fmt.Errorf("looking who holds lock %s: %w", lock, read.Err)
			}
			process, ok := processOf(read.Stat.EphemeralOwner)
			if !ok {
				continue
			}
			if p := (Place{Process: process, Lock: lock, Node: paths[i]}); q.Contenders[i].Turn {
				holders = append(holders, p)
			} else {
				waiters = append(waiters, p)
			}
		}
	}
	return holders, waiters, nil
}
