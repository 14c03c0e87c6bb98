// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/queueio"

	"github.com/holdfast-go/holdfast/zkio"
)

// An Env is what faults happen to. Several goroutines call its methods at a time.
type Env interface {
	// Now is the clock of the history.
	Now() int64

	// Processes returns the numbers of the worker processes that run.
	Processes() []int
	// Replace kills a worker process by SIGKILL and starts another in its place, whose
	// monotonic clock is ahead of the machine's by clock. It returns when that has been
	// started. If ctx ends, it may leave the place empty.
	Replace(ctx context.Context, process int, clock time.Duration) error
	// Pause stops a worker process by SIGSTOP, and Resume continues it.
	Pause(process int) error
	Resume(process int) error
	// Helper returns the helper process of a worker process, which closes its session when it
	// is killed; nil if it has none at the moment.
	Helper(process int) Helper
	// Links returns the connections of a worker process, or nil if it has no relays. They
	// outlive the process: the next one in its place uses them, too.
	Links(process int) Links

	// Servers returns the ensemble, or nil if it is not the harness's own.
	Servers() Servers

	// Tree returns the session of a client of the harness's own.
	Tree() Tree
	// Look returns which processes hold locks and wait for them at the moment, as the
	// function Look does.
	Look() (holders, waiters []Place)
	// Revoke asks the holders of a lock to give it up, and returns when they have or ctx
	// ends.
	Revoke(ctx context.Context, lock string) error

	// Note tells a person what is not in the history: why a fault was not injected.
	Note(text string)
}

// A Place is a process's node in the queue of a lock.
type Place struct {
	Process int
	Lock    string // as the history calls it
	Node    string // the path
	Still   bool   // the lock does not change hands: workers of its holder have been told to stay inside
}

// A Helper is the helper process of one worker process: see package sentinel.
type Helper interface {
	Kill() error
	Pause() error
	Resume() error
}

// Links are the connections of one worker process: a [realzk.Links].
type Links interface {
	Sever() int
	Blackhole()
	BlackholeUsed()
	Mend()
	Delay(d time.Duration)
	Throttle(bytesPerSecond int)
	SwallowAnswer() (dropped <-chan struct{})
	StopSwallowing()
}

// Servers are an ensemble whose servers have numbers: a [realzk.Cluster].
type Servers interface {
	Leader(ctx context.Context) (int, error)
	Followers(ctx context.Context) ([]int, error)
	Settled(ctx context.Context) (leader int, err error)
	Kill(id int) error
	Restart(ctx context.Context, id int) error
	Pause(id int) error
	Resume(id int) error
	StallLogs() (resume func() error, err error)
	Isolate(id int) error
	Heal()
}

// A Tree is ZooKeeper's nodes, as a client sees them: a [zkio.Session].
type Tree interface {
	Children(dir string) ([]string, zkio.Stat, error)
	GetAll(paths ...string) []zkio.Read
	Create(path string, data []byte, acl []zkio.ACL) error
	Delete(path string, version int32) error
	Multi(ops ...zkio.Op) ([]zkio.OpResult, error)
}

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
