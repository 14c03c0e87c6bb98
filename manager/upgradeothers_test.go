// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"time"
)

var (
	upgradeSections = flag.Int("upgradesections", 200, "how many sections processes of ours and Curator's have together, with upgrades")
	upgradeTrials   = flag.Int("upgradetrials", 20, "how often a writer of Curator's gives up while we are upgraded")
)

// A reader of Curator's waits behind Curator's writer, which gives up after we were
// upgraded. The reader stays out until we go back to reading.
func testUpgradeBehindCurator(s *backend, o *others) {
	rw := s.rw("ours")
	inside := 0
	for i := range *upgradeTrials {
		w, r, w2 := fmt.Sprintf("upw%d", i), fmt.Sprintf("upr%d", i), fmt.Sprintf("upx%d", i)
		for _, client := range []string{w, r, w2} {
			o.ask(client, "open "+rw.Reader().Path(), "opened")
		}
		up := mustLock(s.t, rw.Upgradable())
		o.tell(w, "try write 300")
		s.untilQueued(rw.Reader(), 2)
		o.tell(r, "acquire read")
		s.untilQueued(rw.Reader(), 3)
		wantErr(s.t, "upgrade", up.Upgrade(s.t.Context()), nil)
		o.hear(w, "refused write")
		o.tell(w2, "acquire write")
		s.until("the first writer has gone, and the second is queued", func() bool { return len(s.queue(rw.Reader())) == 4 })
		// The reader has been told by now that the writer has gone: it watches our shield.
		x := upgradeOf(ioOf(up)).exclusive.Load().path
		s.until("the reader waits for us", func() bool { return len(o.Answers(r)) > 0 || s.watchers(x) > 1 })
		if len(o.Answers(r)) > 0 {
			inside++
		}
		wantHeld(s.t, "our upgrade", up)
		wantErr(s.t, "downgrade", up.Downgrade(), nil)
		o.hear(r, "acquired read")
		wantHeld(s.t, "our read", up)
		mustRelease(s.t, up)
		o.silent(w2)
		o.ask(r, "release read", "released read")
		o.hear(w2, "acquired write")
		o.ask(w2, "release write", "released write")
	}
	s.t.Logf("Curator's reader was inside beside an upgrade in %d of %d trials", inside, *upgradeTrials)
	expect(s.t, inside <= 0, "the shield does not hold")
	s.wantEmpty(rw.Reader())
}

// Two processes of ours, which upgrade, read and write, and three clients of Curator's
// contend, one of which gives up waiting. A referee watches.
func testUpgradesAtOnce(s *backend, o *others) {
	times := max(1, *upgradeSections/6)
	ctx := withTimeout(s.t, time.Duration(*upgradeSections)*time.Second)
	pairs := []*RWLock{s.rw("ours0"), s.rw("ours1"), s.rw("ours2")}
	before := o.ref.Entries()
	var upgrades counter
	var wg sync.WaitGroup
	for i, rw := range pairs[:2] {
		wg.Go(func() {
			for n := range times {
				if err := readThenWrite(ctx, rw, o.ref, i+n, &upgrades); err != nil {
					s.t.Errorf("%s: %v", rw.writer.m.cfg.Label, err)
					return
				}
			}
		})
	}
	third := pairs[2]
	wg.Go(func() {
		for n := range times {
			l := pick(third, n%2 == 0)
			if n%3 == 0 { // a writer behind which others queue, and that gives up
				short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
				if h, err := third.Writer().Lock(short); err == nil {
					h.Release()
				}
				cancel()
			}
			if err := o.ref.visit(ctx, l); err != nil {
				s.t.Errorf("%s: %v", l.m.cfg.Label, err)
				return
			}
		}
	})
	for client, kind := range map[string]string{"x": "write", "y": "read", "z": "read"} {
		o.ask(client, "open "+third.Writer().Path(), "opened")
		wg.Go(func() { o.loop(client, kind, times) })
	}
	wg.Wait()
	s.wantEmpty(third.Reader())
	entries := o.ref.Entries() - before
	s.t.Logf("%d sections, %d of them upgraded; the referee reports violations", entries, upgrades.n)
	want := times * 6
	expect(s.t, entries >= want && upgrades.n >= times,
		"%d entries, %d upgrades, want at least %d and %d", entries, upgrades.n, want, times)
}

// A counter is shared by goroutines.
type counter struct {
	mu sync.Mutex
	n  int // protected by mu
}

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

// readThenWrite takes the upgradable lock, upgrades it, and gives both back in a way that
// depends on n.
func readThenWrite(ctx context.Context, rw *RWLock, ref *referee, n int, upgrades *counter) error {
	m := rw.writer.m
	h, err := rw.Upgradable().Lock(ctx)
	if err != nil {
		return err
	}
	leave := ref.enter(m, h)
	work := func() error {
		_, _, err := m.client.Session().Exists(rw.reader.path)
		return err
	}
	err = work()
	if err == nil {
		err = h.Upgrade(ctx)
	}
	if err == nil {
		upgrades.add()
		back := ref.upgrade(m, h)
		err = work()
		back()
	}
	if err == nil && n%2 == 0 {
		if err = h.Downgrade(); err == nil {
			err = work()
		}
	}
	leave()
	return errors.Join(err, h.Unlock(ctx))
}
