// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
		names, _, err := t.Children(dir)
		if errors.Is(err, zkio.ErrNoNode) {
			continue // an idle lock has no directory
		} else if err != nil {
			return nil, nil, fmt.Errorf("looking who holds lock %s: %w", lock, err)
		}
		queue := contenders(names)
		paths := make([]string, 0, len(queue))
		for _, c := range queue {
			paths = append(paths, dir+"/"+c.name)
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
			if p := (Place{Process: process, Lock: lock, Node: paths[i]}); queue[i].holds {
				holders = append(holders, p)
			} else {
				waiters = append(waiters, p)
			}
		}
	}
	return holders, waiters, nil
}

// A contender is a node in the queue of a lock.
type contender struct {
	name     string
	sequence int64
	reads    bool
	holds    bool // it is the first, or reads, as all before it do
}

// contenders returns the nodes of a directory that are a lock's, in the order of its queue.
func contenders(names []string) []contender {
	const width = 10 // digits that ZooKeeper appends
	var queue []contender
	for _, name := range names {
		at := len(name) - width
		if at < 0 {
			continue
		}
		sequence, err := strconv.ParseUint(name[at:], 10, 31)
		if err != nil {
			continue
		}
		// Apache Curator's and Holdfast's marks, and kazoo's.
		kind := name[:at]
		reads := strings.HasSuffix(kind, "__READ__") || strings.HasSuffix(kind, "__rlock__")
		if reads || slices.ContainsFunc([]string{"lock-", "latch-", "__WRIT__", "__lock__"}, func(mark string) bool { return strings.HasSuffix(kind, mark) }) {
			queue = append(queue, contender{name: name, sequence: int64(sequence), reads: reads})
		}
	}
	slices.SortFunc(queue, func(a, b contender) int {
		// After a downgrade the read has the number of the write that is about to go.
		return cmp.Or(cmp.Compare(a.sequence, b.sequence), compareBool(a.reads, b.reads), cmp.Compare(a.name, b.name))
	})
	for i := range queue {
		queue[i].holds = i == 0 || queue[i].reads && queue[i-1].reads && queue[i-1].holds
	}
	return queue
}

// compareBool has false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
