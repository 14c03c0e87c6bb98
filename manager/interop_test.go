// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"flag"
	"fmt"
	"path"
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
	ctx := withTimeout(s.t, time.Minute+time.Duration(each)*time.Second)
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
				if err := ref.visit(ctx, locks[(i+n)%len(locks)]); err != nil {
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
	expect(s.t, ref.Entries() == 2*each*(1+len(all)),
		"%d entries, want %d", ref.Entries(), 2*each*(1+len(all)))
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
			expect(t, !slices.Contains(theirs, held[0]),
				"%s was let in beside our node: %v", library, theirs)

			h := l.Acquire(t.Context())
			s.untilQueued(l, 2)
			pending(t, "ours", h.Granted())
			if err := p.Kill(); err != nil {
				t.Fatal(err)
			}
			killed = time.Now()
			s.granted(h)
			t.Logf("%s was let in %v after ours was killed, and ours %v after %[1]s was", library, took, time.Since(killed))
			left := s.queue(l)
			expect(t, !slices.Contains(left, theirs[0]), "ours was let in beside their node: %v", left)
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
	expect(s.t, len(lines) == 1 && strings.Contains(lines[0], recipe) && strings.Contains(lines[0], "lock=jobs"),
		"logged: %q", lines)
	mustRelease(s.t, h)
}

// What docs/migrating.md and the pages beside it warn of can be seen: other clients that do
// not exclude each other, or block each other for good. If this fails, such a client has
// been mended, and the warning should go.
func TestUnsafe(t *testing.T) {
	zk := realzk.Shared(t)
	curator, kazoo := startCurator(t, zk), startKazoo(t, zk)
	for name, test := range map[string]func(s *backend, curator, kazoo *others){
		"Curator beside kazoo":                      testCuratorBesideKazoo,
		"kazoo's ReadLock":                          testKazooReadLock,
		"a Curator mutex beside a read/write lock":  testCuratorMutexBesideReadWrite,
		"a Curator downgrade with a writer waiting": testCuratorDowngrade,
	} {
		t.Run(name, func(t *testing.T) {
			test(realBackend(t, zk), &others{t, nil, curator}, &others{t, nil, kazoo})
		})
	}
}

// Curator takes no notice of kazoo's nodes, so both hold the lock. Ours waits for each.
func testCuratorBesideKazoo(s *backend, curator, kazoo *others) {
	l := s.lock("ours")
	curator.ask("beside", "open "+l.Path(), "opened")
	kazoo.ask("beside", "open "+l.Path(), "opened")

	kazoo.ask("beside", "acquire mutex", "acquired mutex")
	curator.ask("beside", "try mutex", "acquired mutex") // both hold it
	wantErr(s.t, "trylock", errOf(l.TryLock(s.t.Context())), ErrLocked)
	kazoo.ask("beside", "release mutex", "released mutex")
	wantErr(s.t, "trylock", errOf(l.TryLock(s.t.Context())), ErrLocked)
	curator.ask("beside", "release mutex", "released mutex")
	mustRelease(s.t, mustLock(s.t, l))
}

// In kazoo 2.8, ReadLock waits for a writer that queues behind it, and that waits for it: no
// client holds the lock, and none ever will. In 2.11 it does not wait.
func testKazooReadLock(s *backend, _, kazoo *others) {
	first, second := s.rw("first").Writer(), s.rw("second").Writer()
	kazoo.ask("reads", "open "+first.Path(), "opened")

	held := mustLock(s.t, first)
	kazoo.tell("reads", "acquire read")
	s.untilQueued(first, 2)
	waits := second.Acquire(s.t.Context())
	s.untilQueued(first, 3)
	own := path.Base(grantOf(s.t, held).Path)
	both := slices.DeleteFunc(s.queue(first), func(name string) bool { return name == own })
	mustRelease(s.t, held)
	if otherclients.KazooMended(s.t) {
		kazoo.hear("reads", "acquired read")
		pending(s.t, "our writer", waits.Granted())
		kazoo.ask("reads", "release read", "released read")
		granted(s.t, "our writer", waits, time.Minute)
		mustRelease(s.t, waits)
		return
	}
	s.until("each waits for the other", func() bool {
		return s.watchers(first.Path()+"/"+both[0]) > 0 && s.watchers(first.Path()+"/"+both[1]) > 0
	})
	kazoo.silent("reads")
	pending(s.t, "our writer", waits.Granted())

	waits.Release() // one of them has to give up
	kazoo.hear("reads", "acquired read")
	kazoo.ask("reads", "release read", "released read")
}

// Curator 5.4 grants a mutex and a write lock on one path at the same time, whichever is
// first. Ours waits for both.
func testCuratorMutexBesideReadWrite(s *backend, curator, _ *others) {
	l := s.lock("ours")
	curator.ask("kind0", "open "+l.Path(), "opened")
	curator.ask("kind1", "open "+l.Path(), "opened")
	for _, kinds := range [][2]string{{"mutex", "write"}, {"write", "mutex"}} {
		curator.ask("kind0", "acquire "+kinds[0], "acquired "+kinds[0])
		curator.ask("kind1", "try "+kinds[1], "acquired "+kinds[1]) // both hold it
		wantErr(s.t, "trylock", errOf(l.TryLock(s.t.Context())), ErrLocked)
		curator.ask("kind0", "release "+kinds[0], "released "+kinds[0])
		curator.ask("kind1", "release "+kinds[1], "released "+kinds[1])
	}
	mustRelease(s.t, mustLock(s.t, l))
}

// A downgrade in Curator 5.4 makes the node of the read lock behind a writer that is queued
// already. When the write lock is released, that writer is let in beside the reader. In 5.9 it waits.
func testCuratorDowngrade(s *backend, curator, _ *others) {
	l := s.rw("ours").Writer()
	curator.ask("down", "open "+l.Path(), "opened")
	curator.ask("waits", "open "+l.Path(), "opened")
	curator.ask("down", "acquire write", "acquired write")
	curator.tell("waits", "acquire write")
	s.untilQueued(l, 2)
	curator.ask("down", "acquire read", "acquired read")
	curator.silent("waits")
	curator.ask("down", "release write", "released write")
	if otherclients.CuratorMended(s.t) {
		curator.silent("waits")
		curator.ask("down", "release read", "released read")
		curator.hear("waits", "acquired write")
	} else {
		curator.hear("waits", "acquired write") // down still reads
		curator.ask("down", "release read", "released read")
	}
	curator.ask("waits", "release write", "released write")
	s.wantEmpty(l)
}
