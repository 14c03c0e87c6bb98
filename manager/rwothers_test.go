// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/otherclients"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio"
)

// others is a program of contenders that use another client library's locks; see
// testdata/curator and testdata/kazoo.
type others struct {
	t   *testing.T
	ref *referee
	*otherclients.Program
}

// tell sends a client a command and does not wait for the answer.
func (o *others) tell(client, command string) {
	wantErr(o.t, "tell "+client, o.Tell(client, command), nil)
}

// hear waits for a client's answer, and checks it.
func (o *others) hear(client, want string) {
	o.t.Helper()
	select {
	case got := <-o.Answers(client):
		if got != want {
			o.t.Fatalf("%s says %q, want %q", client, got, want)
		}
	case <-time.After(30 * time.Second):
		o.t.Fatalf("%s does not say %q for 30 s", client, want)
	}
}

// ask is tell and hear.
func (o *others) ask(client, command, want string) {
	o.t.Helper()
	o.tell(client, command)
	o.hear(client, want)
}

// silent checks that a client has not answered.
func (o *others) silent(client string) {
	o.t.Helper()
	select {
	case got := <-o.Answers(client):
		o.t.Fatalf("%s says %q, want it to wait", client, got)
	default:
	}
}

// loop lets a client acquire and release a lock a number of times, and tells the
// referee when it is inside.
func (o *others) loop(client, kind string, times int) {
	o.tell(client, fmt.Sprintf("loop %s %d", kind, times))
	var leave func()
	for {
		select {
		case answer := <-o.Answers(client):
			verb, _, _ := strings.Cut(answer, " ")
			switch verb {
			case "enter":
				leave = o.ref.enterStranger(client, kind != "read", 0)
			case "leave":
				leave()
			case "done":
				return
			default:
				o.t.Errorf("%s says %q", client, answer)
				return
			}
			o.tell(client, "ok")
		case <-time.After(60 * time.Second):
			o.t.Errorf("%s got stuck", client)
			return
		}
	}
}

// startCurator starts the contenders that use Apache Curator. Their session timeout is 10 s,
// unless one follows, in milliseconds.
func startCurator(t *testing.T, zk *realzk.Server, timeout ...string) *otherclients.Program {
	t.Helper()
	args := append([]string{zk.Addr()}, timeout...)
	return otherclients.Start(t, otherclients.Curator(context.Background(), t, "testdata/curator/Contenders.java", args...))
}

// startKazoo is startCurator for kazoo.
func startKazoo(t *testing.T, zk *realzk.Server, timeout ...string) *otherclients.Program {
	t.Helper()
	args := append([]string{zk.Addr()}, timeout...)
	return otherclients.Start(t, otherclients.Kazoo(context.Background(), t, "testdata/kazoo/contenders.py", args...))
}

// Services that lock with Apache Curator and services that lock with this package
// exclude each other.
func TestCurator(t *testing.T) {
	zk := realzk.Shared(t)
	testOthers(t, zk, startCurator(t, zk), map[string]func(*backend, *others){
		"mutex":                    testOthersMutex,
		"mutexes at once":          testOthersMutexesAtOnce,
		"read and write":           testOthersReadWrite,
		"downgrade":                testDowngradeBeforeCurator,
		"downgrade, reader queued": testQueuedDowngradeBeforeCurator,
		"all at once":              testOthersAllAtOnce,
		"upgrade behind a writer":  testUpgradeBehindCurator,
		"upgrades at once":         testUpgradesAtOnce,
		"theirs revokes ours":      testCuratorRevokes,
		"ours revokes theirs":      testRevokesCurator,
	})
}

// The same with kazoo, which has to be told of our nodes' names. The read locks of
// some of its versions wait for later writers, too, so "all at once" is not for it.
func TestKazoo(t *testing.T) {
	zk := realzk.Shared(t)
	testOthers(t, zk, startKazoo(t, zk), map[string]func(*backend, *others){
		"mutex":           testOthersMutex,
		"mutexes at once": testOthersMutexesAtOnce,
		"read and write":  testOthersReadWrite,
	})
}

func testOthers(t *testing.T, zk *realzk.Server, p *otherclients.Program, tests map[string]func(*backend, *others)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(realBackend(t, zk), &others{t, newReferee(t), p}) })
	}
}

// Each is kept out while the other is in, and gets in after it.
func testOthersMutex(s *backend, o *others) {
	l := s.lock("ours")
	o.ask("a", "open "+l.Path(), "opened")

	h := mustLock(s.t, l)
	o.ask("a", "try mutex", "refused mutex")
	o.tell("a", "acquire mutex")
	s.until("theirs is queued and waits", func() bool { return len(s.queue(l)) == 2 && s.watchers(grantOf(s.t, h).Path) > 0 })
	o.silent("a")
	mustRelease(s.t, h)
	o.hear("a", "acquired mutex")

	wantErr(s.t, "trylock", errOf(l.TryLock(s.t.Context())), ErrLocked)
	h = l.Acquire(s.t.Context())
	s.untilQueued(l, 2)
	pending(s.t, "ours", h.Granted())
	o.ask("a", "release mutex", "released mutex")
	s.granted(h)
	mustRelease(s.t, h)
	s.wantEmpty(l)
}

// revocations is how often each revokes the other.
const revocations = 20

// Curator's Revoker revokes our lock, right after the grant and later. Our node says
// again what it said.
func testCuratorRevokes(s *backend, o *others) {
	l := s.lock("ours")
	o.ask("waits", "open "+l.Path(), "opened")
	o.ask("revokes", "open "+l.Path(), "opened")
	var took []time.Duration
	for i := range revocations {
		h := mustLock(s.t, l)
		path := grantOf(s.t, h).Path
		o.tell("waits", "acquire mutex")
		s.untilQueued(l, 2)
		if i%2 == 1 { // else we have no watch for our node yet
			s.until("we watch our node", func() bool { return s.watchers(path) == 2 })
		}
		start := time.Now()
		o.ask("revokes", "revoke "+path, "revoking "+path)
		select {
		case <-h.Revoked():
		case <-time.After(10 * time.Second):
			s.t.Fatalf("number %d is not revoked", i)
		}
		took = append(took, time.Since(start))
		s.until("the node says again what it said", func() bool {
			data, _, err := l.m.client.Session().Get(path)
			return err == nil && new(Contender).describe(data, zkio.Stat{})
		})
		o.silent("waits")
		mustRelease(s.t, h)
		o.hear("waits", "acquired mutex")
		o.ask("waits", "release mutex", "released mutex")
	}
	slices.Sort(took)
	s.t.Logf("%d of %d revoked, in %v (median), %v at most", len(took), revocations, took[len(took)/2], took[len(took)-1])
}

// We revoke a lock of Curator's that is revocable, and are told of one that is not.
func testRevokesCurator(s *backend, o *others) {
	l := s.lock("ours")
	ctx := withTimeout(s.t, time.Minute)
	o.ask("a", "open "+l.Path(), "opened")
	o.ask("a", "acquire mutex", "acquired mutex")
	theirs := l.Path() + "/" + s.queue(l)[0]
	before, _, _ := l.m.client.Session().Get(theirs)
	wantErr(s.t, "not revocable", l.Revoke(ctx, ""), ErrNoAnswer)
	after, _, _ := l.m.client.Session().Get(theirs)
	expect(s.t, len(before) != 0 && bytes.Equal(before, after), "its node says %q, before %q", after, before)
	o.ask("a", "release mutex", "released mutex")

	var took []time.Duration
	for range revocations {
		o.ask("a", "revocable mutex", "revocable mutex")
		o.ask("a", "acquire mutex", "acquired mutex")
		h := l.Acquire(ctx)
		s.untilQueued(l, 2)
		gone := make(chan error, 1)
		start := time.Now()
		go func() { gone <- l.Revoke(ctx, "not sent") }()
		o.hear("a", "revoked mutex")
		o.ask("a", "release mutex", "released mutex")
		wantErr(s.t, "revoke", <-gone, nil)
		took = append(took, time.Since(start))
		s.granted(h)
		mustRelease(s.t, h)
	}
	slices.Sort(took)
	s.t.Logf("%d of %d revoked and released, in %v (median), %v at most", len(took), revocations, took[len(took)/2], took[len(took)-1])
}

// wantEmpty checks that no node is left in the queue of l.
func (s *backend) wantEmpty(l *Lock) {
	s.t.Helper()
	got := s.queue(l)
	expect(s.t, len(got) == 0, "left behind: %v", got)
}

// Readers share, across the two clients, and writers exclude all others.
func testOthersReadWrite(s *backend, o *others) {
	rw := s.rw("ours")
	o.ask("a", "open "+rw.Writer().Path(), "opened")
	for _, theirs := range []string{"read", "write"} {
		for _, ours := range []*Lock{rw.Reader(), rw.Writer()} {
			shared := theirs == "read" && reads(ours)

			h := mustLock(s.t, ours)
			if shared {
				o.ask("a", "try "+theirs, "acquired "+theirs)
				o.ask("a", "release "+theirs, "released "+theirs)
			} else {
				o.ask("a", "try "+theirs, "refused "+theirs)
			}
			mustRelease(s.t, h)

			o.ask("a", "acquire "+theirs, "acquired "+theirs)
			h, err := ours.TryLock(s.t.Context())
			if shared {
				wantErr(s.t, "trylock", err, nil)
				mustRelease(s.t, h)
			} else {
				wantErr(s.t, "trylock", err, ErrLocked)
			}
			o.ask("a", "release "+theirs, "released "+theirs)
		}
	}

	// In the order of the queue: our reader, their writer, our reader, their reader.
	first := mustLock(s.t, rw.Reader())
	o.tell("a", "acquire write")
	s.untilQueued(rw.Reader(), 2)
	second := s.rw("second").Reader().Acquire(s.t.Context())
	s.untilQueued(rw.Reader(), 3)
	o.ask("b", "open "+rw.Reader().Path(), "opened")
	o.tell("b", "acquire read")
	s.untilQueued(rw.Reader(), 4)
	mustRelease(s.t, first)
	o.hear("a", "acquired write")
	o.silent("b")
	pending(s.t, "our second reader", second.Granted())
	o.ask("a", "release write", "released write")
	s.granted(second)
	o.hear("b", "acquired read") // beside ours
	wantHeld(s.t, "our second reader", second)
	o.ask("b", "release read", "released read")
	mustRelease(s.t, second)
	s.wantEmpty(rw.Reader())
}

// Our writer becomes a reader while Curator's writer is queued behind it, which
// waits for the reader.
func testDowngradeBeforeCurator(s *backend, o *others) {
	rw := s.rw("ours")
	for i := range 5 {
		client := fmt.Sprintf("down%d", i)
		o.ask(client, "open "+rw.Writer().Path(), "opened")
		write := mustLock(s.t, rw.Writer())
		o.tell(client, "acquire write")
		s.untilQueued(rw.Writer(), 2)
		releaseBefore(s, o, client, write, mustLock(s.t, rw.Reader()))
	}
}

// The same with a reader that is queued behind our own writer, and behind
// Curator's.
func testQueuedDowngradeBeforeCurator(s *backend, o *others) {
	rw := s.rw("ours")
	o.ask("first", "open "+rw.Writer().Path(), "opened")
	for i := range 5 {
		client := fmt.Sprintf("queued%d", i)
		o.ask(client, "open "+rw.Writer().Path(), "opened")
		o.ask("first", "acquire write", "acquired write")
		write := rw.Writer().Acquire(s.t.Context())
		s.untilQueued(rw.Writer(), 2)
		o.tell(client, "acquire write")
		s.untilQueued(rw.Writer(), 3)
		read := rw.Reader().Acquire(s.t.Context())
		s.untilQueued(rw.Writer(), 4)
		o.ask("first", "release write", "released write")
		s.granted(write)
		s.granted(read)
		releaseBefore(s, o, client, write, read)
	}
}

// releaseBefore releases our write, and then our read, with the client's writer
// queued behind.
func releaseBefore(s *backend, o *others, client string, write, read Hold) {
	s.t.Helper()
	w, g := grantOf(s.t, write), grantOf(s.t, read)
	expect(s.t, sequenceOf(w.Path) == sequenceOf(g.Path) && w.Token == g.Token,
		"the reader is in with %+v, the writer with %+v", g, w)
	mustRelease(s.t, write)
	// When a second session watches our reader's node, besides our own, they have
	// looked again.
	s.until("their writer waits for our reader", func() bool {
		o.silent(client)
		return s.watchers(g.Path) == 2
	})
	o.silent(client)
	mustRelease(s.t, read)
	o.hear(client, "acquired write")
	o.ask(client, "release write", "released write")
}

// Two processes of ours and two clients of theirs contend. A referee watches.
func testOthersMutexesAtOnce(s *backend, o *others) {
	const times = 20
	ctx := withTimeout(s.t, time.Minute)
	var wg sync.WaitGroup
	locks := []*Lock{s.lock("ours0"), s.lock("ours1")}
	for _, l := range locks {
		wg.Go(func() {
			for range times {
				if err := o.ref.visit(ctx, l); err != nil {
					s.t.Errorf("%s: %v", l.m.cfg.Label, err)
					return
				}
			}
		})
	}
	for _, client := range []string{"x", "y"} {
		o.ask(client, "open "+locks[0].Path(), "opened")
		wg.Go(func() { o.loop(client, "mutex", times) })
	}
	wg.Wait()
	s.wantEmpty(locks[0])
	want := times * 4
	expect(s.t, o.ref.Entries() == want, "%d entries, want %d", o.ref.Entries(), want)
}

// Two processes of ours and three clients of theirs contend, ours with downgrades
// that race with the release of the write. A referee watches.
func testOthersAllAtOnce(s *backend, o *others) {
	const times = 15
	ctx := withTimeout(s.t, time.Minute)
	var wg sync.WaitGroup
	locks := []*RWLock{s.rw("ours0"), s.rw("ours1")}
	for _, rw := range locks {
		wg.Go(func() {
			for n := range times {
				if err := writeThenRead(ctx, rw, o.ref, n); err != nil {
					s.t.Errorf("%s: %v", rw.writer.m.cfg.Label, err)
					return
				}
			}
		})
	}
	for client, kind := range map[string]string{"x": "write", "y": "read", "z": "write"} {
		o.ask(client, "open "+locks[0].Writer().Path(), "opened")
		wg.Go(func() { o.loop(client, kind, times) })
	}
	wg.Wait()
	s.wantEmpty(locks[0].Reader())
	want := times * 5
	expect(s.t, o.ref.Entries() >= want, "%d entries, want at least %d", o.ref.Entries(), want)
}

// writeThenRead writes and asks for read, and releases the write at a moment that
// depends on n.
func writeThenRead(ctx context.Context, rw *RWLock, ref *referee, n int) error {
	m := rw.writer.m
	write, err := rw.Writer().Lock(ctx)
	if err != nil {
		return err
	}
	leave := ref.enter(m, write)
	var read Hold
	if n%3 < 2 {
		read = rw.Reader().Acquire(ctx)
	}
	if n%3 == 0 {
		_, err = read.Granted().Wait(ctx)
	}
	leave()
	write.Release()
	if n%3 == 2 {
		read = rw.Reader().Acquire(ctx)
	}
	if err == nil {
		_, err = read.Granted().Wait(ctx)
	}
	if err != nil {
		read.Release()
		return err
	}
	leave = ref.enter(m, read)
	_, _, err = m.client.Session().Exists(rw.reader.path) // some work
	leave()
	_, released := write.Released().Wait(ctx)
	return errors.Join(err, released, read.Unlock(ctx))
}
