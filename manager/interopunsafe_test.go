// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"path"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// What docs/migrating.md warns of can be seen: other clients that do not exclude each
// other, or block each other for good. If this fails, such a client has been mended, and
// the warning should go.
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
	_, err := l.TryLock(s.t.Context())
	wantErr(s.t, "trylock", err, ErrLocked)
	kazoo.ask("beside", "release mutex", "released mutex")
	_, err = l.TryLock(s.t.Context())
	wantErr(s.t, "trylock", err, ErrLocked)
	curator.ask("beside", "release mutex", "released mutex")
	mustRelease(s.t, mustLock(s.t, l))
}

// kazoo's ReadLock waits for a writer that queues behind it, and that waits for it: no
// client holds the lock, and none ever will.
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
		_, err := l.TryLock(s.t.Context())
		wantErr(s.t, "trylock", err, ErrLocked)
		curator.ask("kind0", "release "+kinds[0], "released "+kinds[0])
		curator.ask("kind1", "release "+kinds[1], "released "+kinds[1])
	}
	mustRelease(s.t, mustLock(s.t, l))
}

// A downgrade in Curator 5.4 makes the node of the read lock behind a writer that is queued
// already. When the write lock is released, that writer is let in beside the reader.
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
	curator.hear("waits", "acquired write") // down still reads
	curator.ask("down", "release read", "released read")
	curator.ask("waits", "release write", "released write")
	s.wantEmpty(l)
}
