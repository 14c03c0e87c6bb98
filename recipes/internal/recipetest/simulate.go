// SPDX-License-Identifier: Apache-2.0

package recipetest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

var (
	oneSeed  = flag.Uint64("seed", 0, "simulate this seed only, with a log of what happens")
	numSeeds = flag.Uint64("seeds", 0, "how many seeds to simulate; 0: a few")
)

// A World is one simulation: processes that use a recipe in virtual time while faults
// strike them, their connections and their server, which is an ensemble of three in one seed of
// three. The seed decides what is done, how long
// requests take and which faults strike when; Go's scheduler decides the rest.
type World struct {
	*Cluster
	Seed uint64

	mu        sync.Mutex // protects what follows
	rng       *rand.Rand
	processes []*Process
	told      []string
	begun     time.Time
	deleted   map[string]bool // by an administrator

	// Faults says how many faults of each kind have struck.
	Faults map[string]int
}

// A Process is a manager of a World. It is opened anew when it was killed.
type Process struct {
	Name string
	M    *manager.Manager

	refused atomic.Bool
	ended   atomic.Int64 // the session that the server has ended without warning
}

// Unwarned reports whether the server has ended the process's session, and the process has
// not heard of it yet. A real server ends only sessions that it has not heard of for the
// session timeout, and a lease is over before that. So this process is not at fault if it
// trusts its lease.
func (p *Process) Unwarned() bool { return p.ended.Load() == SessionOf(p.M) }

// Simulate runs fn once for each seed, in a bubble each: few seeds (see [racing.Fewer]), or as many as the flag -seeds says, or the one of -seed. Fn
// opens processes, has them do things while [World.Harm] runs, and judges. What [World.Note] was
// told is printed if a seed fails.
func Simulate(t *testing.T, few int, fn func(w *World)) {
	simulate(t, few, func(seed uint64) int { return 1 + 2*int(seed%3/2) }, fn)
}

// SimulateServer is Simulate on a single server, for judges who have to see each transaction: it is
// executed at once when it is requested.
func SimulateServer(t *testing.T, few int, fn func(w *World)) {
	simulate(t, few, func(uint64) int { return 1 }, fn)
}

func simulate(t *testing.T, few int, servers func(seed uint64) int, fn func(w *World)) {
	first, last := uint64(1), uint64(racing.Fewer(few)) //nolint:gosec // it is positive
	if *numSeeds > 0 {
		last = *numSeeds
	}
	if *oneSeed > 0 {
		first, last = *oneSeed, *oneSeed
	}
	total := make(map[string]int)
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed, servers(seed))
				t.Cleanup(func() {
					if t.Failed() || *oneSeed > 0 {
						w.print()
					}
				})
				fn(w)
				for kind, n := range w.Faults {
					total[kind] += n
				}
			})
		})
	}
	t.Logf("%d seeds; faults: %v", last-first+1, total)
}

func newWorld(t *testing.T, seed uint64, servers int) *World {
	rng := rand.New(rand.NewPCG(seed, 14))
	cfg := zktest.EnsembleConfig{Servers: servers, Seed: seed, Config: zktest.Config{TickTime: time.Second}}
	return &World{Cluster: embedded(t, cfg), Seed: seed, rng: rng, begun: time.Now(), Faults: make(map[string]int), deleted: make(map[string]bool)}
}

// N returns a random number from 0 to n-1.
func (w *World) N(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// UpTo returns a random time below d.
func (w *World) UpTo(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rng.Int64N(int64(d)))
}

// Pause waits for a random time below d, or until ctx ends.
func (w *World) Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(w.UpTo(d)):
	case <-ctx.Done():
	}
}

// Note notes what happened, for the log of a seed that fails.
func (w *World) Note(format string, args ...any) {
	line := fmt.Sprintf("%12v %s", time.Since(w.begun), fmt.Sprintf(format, args...))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, line)
}

func (w *World) print() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.T.Logf("what happened in seed %d (%d lines); again with -run '%s' -args -seed %d", w.Seed, len(w.told), w.T.Name(), w.Seed)
	for _, line := range w.told {
		w.T.Log(line)
	}
}

// SessionTimeout is that of the processes of a World.
const SessionTimeout = 4 * time.Second

// Steady opens a process that no fault strikes, but those of servers: see [World.Outage]. So
// what holds it up for longer is another process, or the recipe.
func (w *World) Steady(name string) *manager.Manager {
	w.T.Helper()
	return w.Open(name, func(cfg *manager.Config) { cfg.SessionTimeout = SessionTimeout })
}

// Process opens a process that faults strike.
func (w *World) Process(name string) *Process {
	w.T.Helper()
	p := &Process{Name: name}
	p.M = w.Open(name, func(cfg *manager.Config) {
		cfg.SessionTimeout = SessionTimeout
		cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			if p.refused.Load() {
				return nil, syscall.ECONNREFUSED
			}
			return w.dial(ctx, network, address)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes = append(w.processes, p)
	return p
}

// Harm has n faults strike the processes, one after the other with random pauses of up to
// pause, and returns when the last of them is over. Deletable, if not nil, returns paths
// that an administrator may delete.
func (w *World) Harm(n int, pause time.Duration, deletable func() []string) {
	for range n {
		<-time.After(w.UpTo(pause))
		w.mu.Lock()
		p := w.processes[w.rng.IntN(len(w.processes))]
		w.mu.Unlock()
		session := SessionOf(p.M)
		at := w.serverOf(session)
		faults := w.Ens.Server(at).Faults()
		kinds := []string{"expire", "cut", "drop reply", "swallow reply", "delay reply", "drop request", "blackhole", "away", "delete", "restart", "lag"}
		if len(w.addresses) > 1 {
			kinds = append(kinds, "isolate", "isolate the leader", "slow link", "pause", "stop")
		}
		kind := kinds[w.N(len(kinds))]
		op := []zktest.Op{zktest.OpMulti, zktest.OpCreate, zktest.OpDelete, zktest.OpGetData, zktest.OpGetChildren2, zktest.OpSetData}[w.N(6)]
		match := zktest.Match{Session: session, Op: op, Times: 1}
		switch kind {
		case "expire":
			p.ended.Store(session)
			w.Srv.ExpireSession(session)
		case "cut":
			faults.Cut(session)
		case "drop reply":
			w.until(faults.DropReply(match))
		case "swallow reply":
			w.until(faults.SwallowReply(match))
		case "delay reply":
			w.until(faults.DelayReply(match, w.UpTo(500*time.Millisecond)))
		case "drop request":
			w.until(faults.DropRequest(match))
		case "blackhole":
			f := faults.Blackhole(session)
			<-time.After(w.UpTo(8 * time.Second))
			f.Remove()
		case "away":
			p.refused.Store(true)
			faults.Cut(session)
			<-time.After(w.UpTo(8 * time.Second))
			p.refused.Store(false)
		case "delete":
			if deletable == nil {
				continue
			}
			all := deletable()
			if len(all) == 0 {
				continue
			}
			path := all[w.N(len(all))]
			w.mu.Lock()
			w.deleted[path] = true // before others can notice
			w.mu.Unlock()
			if w.Srv.Delete(path) != nil {
				continue // it has gone meanwhile
			}
			w.Note("administrator deletes %s", path)
		case "restart":
			w.Ens.Server(at).Restart()
		case "isolate":
			w.Ens.Isolate(at)
			<-time.After(w.UpTo(10 * time.Second))
			w.Ens.Heal()
		case "isolate the leader":
			if leader := w.Ens.Leader(); leader > 0 {
				w.Ens.Isolate(leader)
			}
			<-time.After(w.UpTo(10 * time.Second))
			w.Ens.Heal()
		case "slow link":
			other := at%3 + 1
			w.Ens.SlowLink(at, other, w.UpTo(200*time.Millisecond))
			<-time.After(w.UpTo(5 * time.Second))
			w.Ens.SlowLink(at, other, 0)
		case "pause":
			w.Ens.Pause(at)
			<-time.After(w.UpTo(8 * time.Second))
			w.Ens.Resume(at)
		case "stop":
			w.Ens.Server(at).Stop()
			<-time.After(w.UpTo(8 * time.Second))
			w.Ens.Server(at).Start()
		case "lag":
			l := faults.Lag(1+w.N(5), session)
			<-time.After(w.UpTo(2 * time.Second))
			l.Remove()
		}
		w.Note("fault: %s of %s (%v)", kind, p.Name, op)
		w.mu.Lock()
		w.Faults[kind]++
		w.mu.Unlock()
	}
}

// Outage returns for how long faults may keep a steady process from going on, too: those of
// servers of an ensemble last up to ten seconds, and its session may have to begin anew.
func (w *World) Outage() time.Duration {
	if len(w.addresses) == 1 {
		return 0
	}
	return 10*time.Second + 2*SessionTimeout
}

// Heal ends all faults.
func (w *World) Heal() {
	w.Ens.Heal()
	for i := range w.addresses {
		w.Ens.Server(i + 1).Faults().Clear()
	}
}

// serverOf returns the number of the server that a session was last at.
func (w *World) serverOf(session int64) int {
	for _, s := range w.Srv.Sessions() {
		if s.ID == session {
			return s.Server
		}
	}
	return 1
}

// HasDeleted reports whether an administrator has deleted the node at path, or is about to.
func (w *World) HasDeleted(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted[path]
}

// until leaves a fault to strike within two seconds.
func (w *World) until(f *zktest.Fault) {
	select {
	case <-f.Hit():
	case <-time.After(2 * time.Second):
	}
	f.Remove()
}
