// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
	"github.com/holdfast-go/holdfast/zkio"
)

// A lock rests on ZooKeeper's promise that all servers go through the same history. ZooKeeper
// 3.8.0 breaks it now and then while servers are killed or cut off: a follower keeps a
// transaction that the next leader does not have (ZOOKEEPER-4712 describes one way). Clients of
// that server see a contender that is not there, and wait behind it until its session ends. No
// client can tell, and no lock can do better.
//
// So goroutines of the parent, one for each server of its ensemble, look at the locks'
// directories. After two servers have shown what cannot both be right, a finding shows nothing
// about the locks, and makes the run void.

// agreeEvery is how often each server is asked.
const agreeEvery = 2 * time.Second

// An agreement watches whether the servers agree. A nil agreement watches nothing.
type agreement struct {
	dirs map[string]string // by the locks' names in the history
	stop context.CancelFunc
	all  sync.WaitGroup

	mu    sync.Mutex // protects what follows; not held while a server is asked
	seen  map[string]map[int]sight
	told  map[string]bool // the nodes that were told of
	looks uint64          // pairs of sights that were compared
	err   error
}

// A sight is what a server shows of a directory: its children at one moment, and the
// transactions that created the directory and last changed its children.
type sight struct {
	names          []string
	created, since int64
}

func (p *parent) watchAgreement() *agreement {
	if p.cluster.Ensemble == nil || p.chronicle == nil {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	a := &agreement{dirs: p.lockDirs(), stop: stop, seen: map[string]map[int]sight{}, told: map[string]bool{}}
	for i, server := range p.cluster.Servers {
		a.all.Go(func() {
			if err := a.watch(ctx, i, zkio.Config{Servers: []string{server}, SessionTimeout: p.options.SessionTimeout, Logger: p.log}, p.disagreed); err != nil {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.err = errors.Join(a.err, fmt.Errorf("watching whether server %d agrees with the others: %w", i+1, err))
			}
		})
	}
	return a
}

// end ends watching. It returns how many sights were compared.
func (a *agreement) end() (looks uint64, err error) {
	if a == nil {
		return 0, nil
	}
	a.stop()
	a.all.Wait()
	return a.looks, a.err
}

// disagreed notes that two servers cannot both be right.
func (p *parent) disagreed(lock, text string) {
	p.chronicle.Write(history.Event{Kind: history.Disagreed, Process: history.Harness, Lock: lock, Text: text})
	p.reporter.Note("%s: %s", lock, text)
}

// watch asks one server until ctx ends.
func (a *agreement) watch(ctx context.Context, server int, cfg zkio.Config, tell func(lock, text string)) error {
	opening, cancel := context.WithTimeout(ctx, wire.ConnectTimeout)
	defer cancel()
	c, err := zkio.Open(opening, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return nil // the run is over
		}
		return err
	}
	for pause.For(ctx, agreeEvery, nil) {
		s := c.Session()
		for lock, dir := range a.dirs {
			names, stat, err := s.Children(dir)
			if err != nil {
				continue // the server is down, or there is no such directory now
			}
			created := func(name string) (int64, bool) {
				_, stat, err := s.Get(dir + "/" + name)
				return stat.Czxid, err == nil
			}
			a.compare(lock, server, sight{names, stat.Czxid, stat.Pzxid}, created, tell)
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.ConnectTimeout)
	defer cancel()
	return c.Close(closing)
}

// compare compares what a server shows with what the others have shown last.
func (a *agreement) compare(lock string, server int, now sight, created func(name string) (int64, bool), tell func(lock, text string)) {
	a.mu.Lock()
	others := maps.Clone(a.seen[lock])
	delete(others, server)
	if a.seen[lock] == nil {
		a.seen[lock] = map[int]sight{}
	}
	a.seen[lock][server] = now
	a.looks += uint64(len(others))
	a.mu.Unlock()
	for i, other := range others {
		name, here := now.contradicts(other, created)
		if name == "" {
			continue
		}
		has, lacks := server, i
		if !here {
			has, lacks = i, server
		}
		a.mu.Lock()
		known := a.told[lock+"/"+name]
		a.told[lock+"/"+name] = true
		a.mu.Unlock()
		if !known {
			tell(lock, fmt.Sprintf("server %d shows %s, and server %d, which knows what happened then and later, does not: ZooKeeper has broken its promise that all servers go through the same history, and no lock can do without", has+1, name, lacks+1))
		}
	}
}

// contradicts returns a child that cannot be in one of the sights and missing in the other,
// and whether it is in s. It returns no name if both can be right. Created returns the
// transaction that created a child of s.
//
// A directory knows the last transaction that changed its children. If that is the same for
// both, so are the children. If that of s is younger, a child of s was there when the other
// was seen, unless it was created later: names are not used again.
func (s sight) contradicts(other sight, created func(name string) (int64, bool)) (name string, here bool) {
	if s.created != other.created || s.since < other.since {
		return "", false // another directory; or s is older, and is compared when it is seen again
	}
	for _, name := range s.names {
		if slices.Contains(other.names, name) {
			continue
		}
		if s.since == other.since {
			return name, true
		}
		if at, ok := created(name); ok && at <= other.since {
			return name, true
		}
	}
	if s.since == other.since {
		for _, name := range other.names {
			if !slices.Contains(s.names, name) {
				return name, false
			}
		}
	}
	return "", false
}
