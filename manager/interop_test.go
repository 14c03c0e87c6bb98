// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/otherclients"
	"github.com/holdfast-go/holdfast/internal/realzk"
)

var interopSections = flag.Int("interopsections", 40, "how many critical sections each library has in the tests beside others")

// guests are two clients of another library, each of which locks what its kind says.
type guests struct {
	*otherclients.Program
	library string
	kinds   [2]string // mutex, read, write or latch
}

// Locks of other libraries exclude ours, and ours exclude them. Other recipes of Curator's do
// not, which is logged.
func TestInterop(t *testing.T) {
	zk := realzk.Shared(t)
	java := startCurator(t, zk)
	curator := guests{java, "Curator", [2]string{"mutex", "mutex"}}
	gozk := guests{startGoZooKeeper(t, zk), "go-zookeeper", [2]string{"mutex", "mutex"}}
	kazoo := guests{startKazoo(t, zk), "kazoo", [2]string{"mutex", "mutex"}}
	for name, all := range map[string][]guests{
		"Curator's InterProcessMutex":         {curator},
		"Curator's InterProcessReadWriteLock": {{java, "Curator", [2]string{"write", "read"}}},
		"Curator's LeaderLatch":               {{java, "Curator", [2]string{"latch", "latch"}}},
		"go-zookeeper's Lock":                 {gozk},
		"kazoo's Lock":                        {kazoo},
		"Curator and go-zookeeper":            {curator, gozk},
	} {
		t.Run(name, func(t *testing.T) { contend(realBackend(t, zk), all) })
	}
	for recipe, words := range map[string][2]string{
		"LeaderLatch": {"lead", "leads"}, "InterProcessSemaphoreMutex": {"enter", "inside"},
	} {
		t.Run(recipe, func(t *testing.T) {
			testForeignRecipe(realBackend(t, zk), &others{t, nil, java}, recipe, words[0], words[1])
		})
	}
}

// Two processes of ours and two clients of each other library contend for one lock, and a
// referee watches.
func contend(s *backend, all []guests) {
	each := max(1, *interopSections/2)
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute+time.Duration(each)*time.Second)
	defer cancel()
	ref := newReferee(s.t)
	var clients []func()
	var path string
	for i := range 2 {
		m := s.open(fmt.Sprint("ours", i))
		var locks []*Lock
		switch all[0].kinds[0] {
		case "mutex":
			locks = []*Lock{exclusive(s.t, m, "jobs")}
		case "latch":
			locks = []*Lock{latch(s.t, m, "jobs")}
		default:
			rw := readWrite(s.t, m, "jobs-rw")
			locks = []*Lock{rw.Writer(), rw.Reader()}
		}
		path = locks[0].Path()
		clients = append(clients, func() {
			for n := range each {
				err := locks[(i+n)%len(locks)].Do(ctx, func(_ context.Context, h Hold) error {
					defer ref.enter(m, h)()
					_, _, err := m.client.Session().Exists(path) // some work
					return err
				})
				if err != nil {
					s.t.Errorf("%s: %v", m.cfg.Label, err)
					return
				}
			}
		})
	}
	for _, g := range all {
		o := &others{s.t, ref, g.Program}
		for i, kind := range g.kinds {
			client := fmt.Sprintf("%s%d", strings.ReplaceAll(s.t.Name(), " ", "_"), i)
			o.ask(client, "open "+path, "opened")
			clients = append(clients, func() { o.loop(client, kind, each) })
		}
	}
	start := time.Now()
	var wg sync.WaitGroup
	for _, client := range clients {
		wg.Go(client)
	}
	wg.Wait()
	s.t.Logf("%d sections of ours and of each other library, in %v; the referee reports violations", 2*each, time.Since(start).Round(time.Millisecond))
	if want := 2 * each * (1 + len(all)); ref.Entries() != want {
		s.t.Errorf("%d entries, want %d", ref.Entries(), want)
	}
}

// A holder that is killed, ours or theirs, keeps the other side out until the server has
// deleted its node; then the other side has the lock.
func TestInteropKilledHolder(t *testing.T) {
	const timeout = 2 * time.Second
	zk := realzk.Shared(t)
	for library, start := range map[string]func(*testing.T, *realzk.Server, ...string) *otherclients.Program{
		"Curator": startCurator, "go-zookeeper": startGoZooKeeper, "kazoo": startKazoo,
	} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			s := realBackend(t, zk)
			s.root = defaultRoot // where the other process locks
			name := strings.ToLower(t.Name())
			l := exclusive(t, s.open("ours"), name)
			p := start(t, zk, fmt.Sprint(timeout.Milliseconds()))
			o := &others{t, nil, p}
			o.ask("a", "open "+l.Path(), "opened")

			ours := startHolder(t, zk.Addr(), name, childTimeout+"="+timeout.String())
			held := s.queue(l)
			o.tell("a", "acquire mutex")
			s.untilQueued(l, 2)
			o.silent("a")
			ours.kill()
			killed := time.Now()
			o.hear("a", "acquired mutex")
			took := time.Since(killed)
			theirs := s.queue(l)
			if slices.Contains(theirs, held[0]) {
				t.Errorf("%s was let in beside our node: %v", library, theirs)
			}

			h := l.Acquire(t.Context())
			s.untilQueued(l, 2)
			pending(t, "ours", h.Granted())
			if err := p.Kill(); err != nil {
				t.Fatal(err)
			}
			killed = time.Now()
			s.granted(h)
			t.Logf("%s was let in %v after ours was killed, and ours %v after %[1]s was", library, took, time.Since(killed))
			if left := s.queue(l); slices.Contains(left, theirs[0]) {
				t.Errorf("ours was let in beside their node: %v", left)
			}
			mustRelease(t, h)
			s.wantEmpty(l)
		})
	}
}

// A recipe of Curator's that uses a lock's directory is logged by name. It does not exclude
// ours.
func testForeignRecipe(s *backend, o *others, recipe, command, answer string) {
	l := s.lock("ours")
	o.ask(recipe, command+" "+l.Path(), answer+" "+l.Path())
	h := mustLock(s.t, l) // beside theirs
	lines := s.log.with("WARN holdfast: another kind of lock")
	if len(lines) != 1 || !strings.Contains(lines[0], recipe) || !strings.Contains(lines[0], "lock=jobs") {
		s.t.Errorf("logged: %q", lines)
	}
	mustRelease(s.t, h)
}
