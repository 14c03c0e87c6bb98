// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/bench/internal/zkconn"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
)

// The scenarios with a process that has 100,000 locks.
const (
	bulkLocks  = 100_000
	bulkOwn    = "bulk/own"
	bulkExpire = "bulk/expire"

	// The process and the server have work to do when all locks are taken. What the
	// locks cost at rest shows only after that.
	bulkSettle = 10 * time.Second

	// After the session has expired, a second lock is asked for.
	askLater = 5 * time.Second
)

// The figures of the bulk scenarios, in Result.Extra.
const (
	takeAllSeconds    = "take all, s"
	restProcessor     = "at rest, % of a processor"
	restRequests      = "at rest, requests/s"
	reconnectMillis   = "reconnect, ms"
	releaseAllSeconds = "release all, s"
	queueAllSeconds   = "queue all, s"
	atOnceMillis      = "free lock at once, ms"
	laterMillis       = "free lock after 5 s, ms"
	queuedAgain       = "all queued again, s"
)

// bulk returns the scenarios with a process that has 100,000 locks. They run once. Rest
// is the time for which the cost at rest is measured.
func bulk(rest time.Duration) []scenario {
	of := func(id, kind string, measure time.Duration, what string) scenario {
		return scenario{
			id: id, what: what,
			job:      work.Job{Work: kind, Locks: bulkLocks, WarmupMillis: int(bulkSettle.Milliseconds()), MeasureMillis: int(measure.Milliseconds())},
			subjects: []string{oursAlone}, rounds: 1, cold: true, at: large, before: ahead,
		}
	}
	return []scenario{
		of(bulkOwn, work.Own, rest, fmt.Sprintf("one process takes 100,000 locks whose directories exist, rests for %.0f s, loses its connection, and releases the locks", rest.Seconds())),
		of(bulkExpire, work.Expire, askLater, "one process queues for 100,000 locks that another holds, and its session expires; it asks for a lock that no process wants at once, and for another after 5 s"),
	}
}

// ahead makes a job's directories and, for work Expire, a node in each that is ahead of all
// others. It returns a function that ends its session.
func ahead(ctx context.Context, j work.Job) (end func(), err error) {
	c, err := zkconn.Connect(ctx, j.Server)
	if err != nil {
		return nil, err
	}
	if err := zkconn.MakeDir(c, j.Dir); err != nil {
		c.Close()
		return nil, err
	}
	const batch = 500
	for i := 0; i < j.Locks; {
		var ops []any
		for ; i < j.Locks && len(ops) < batch; i++ {
			ops = append(ops, &zk.CreateRequest{Path: j.Lock(i), Acl: zkconn.OpenACL})
			if j.Work == work.Expire {
				name := fmt.Sprintf("/_c_%032x-lock-", i)
				ops = append(ops, &zk.CreateRequest{Path: j.Lock(i) + name, Acl: zkconn.OpenACL, Flags: zk.FlagEphemeralSequential})
			}
		}
		if _, err := c.Multi(ops...); err != nil {
			c.Close()
			return nil, fmt.Errorf("make the directories of %d locks: %w", j.Locks, err)
		}
	}
	return c.Close, nil
}

// metered opens a Manager whose requests are counted, and returns its locks.
func (h holdfast) metered(ctx context.Context, j work.Job) (*holdfastSession, *meter, []*manager.Lock, error) {
	meter := new(meter)
	s, err := h.open(ctx, j.Server, manager.Config{Dialer: meter.dial, MaxPathBytes: -1})
	if err != nil {
		return nil, nil, nil, err
	}
	locks, err := s.exclusives(j.Paths(j.Locks))
	if err != nil {
		return nil, nil, nil, errors.Join(err, s.Close())
	}
	return s, meter, locks, nil
}

// lockFree takes and releases a lock that no other process wants, and returns how long
// taking it took, in milliseconds.
func (s *holdfastSession) lockFree(ctx context.Context, j work.Job, name string) (float64, error) {
	l, err := s.lock(j.Dir + "/free-" + name)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	h, err := l.Lock(ctx)
	took := time.Since(began)
	if err != nil {
		return 0, fmt.Errorf("lock a free lock: %w", err)
	}
	h.Release()
	return float64(took) / float64(time.Millisecond), nil
}

// own does the work Own.
func (h holdfast) own(ctx context.Context, j work.Job) (r work.Result, err error) {
	s, meter, locks, err := h.metered(ctx, j)
	if err != nil {
		return r, err
	}
	defer s.Close()
	r.Extra = make(map[string]float64)
	began := time.Now()
	holds := make([]manager.Hold, len(locks))
	take(holds, locks)
	if err := granted(ctx, holds); err != nil {
		return r, err
	}
	r.Extra[takeAllSeconds] = time.Since(began).Seconds()

	if err := work.Sleep(ctx, time.Duration(j.WarmupMillis)*time.Millisecond); err != nil {
		return r, err
	}
	requests, processor, began := meter.requests.Load(), processorTime(), time.Now()
	if err := work.Sleep(ctx, time.Duration(j.MeasureMillis)*time.Millisecond); err != nil {
		return r, err
	}
	rested := time.Since(began).Seconds()
	r.Extra[restProcessor] = 100 * (processorTime() - processor).Seconds() / rested
	r.Extra[restRequests] = float64(meter.requests.Load()-requests) / rested

	meter.cut()
	if r.Extra[reconnectMillis], err = s.lockFree(ctx, j, "cut"); err != nil {
		return r, err
	}
	lost := 0
	for _, h := range holds {
		if h.Err() != nil {
			lost++
		}
	}
	if lost > 0 {
		return r, fmt.Errorf("%d of %d locks were lost with the connection", lost, len(holds))
	}

	began = time.Now()
	if err := releaseAll(ctx, holds); err != nil {
		return r, err
	}
	r.Extra[releaseAllSeconds] = time.Since(began).Seconds()
	return r, nil
}

// expire does the work Expire.
func (h holdfast) expire(ctx context.Context, j work.Job) (r work.Result, err error) {
	s, meter, locks, err := h.metered(ctx, j)
	if err != nil {
		return r, err
	}
	defer s.Close()
	queued, err := awaitQueued(ctx, j)
	if err != nil {
		return r, err
	}
	r.Extra = make(map[string]float64)
	began := time.Now()
	holds := make([]manager.Hold, len(locks))
	take(holds, locks)
	if err := queued(); err != nil {
		return r, err
	}
	r.Extra[queueAllSeconds] = time.Since(began).Seconds()

	if err := meter.expire(ctx, j.Server, s.m.Access().Session().Ticket()); err != nil {
		return r, err
	}
	began = time.Now()
	var atOnce, later float64
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		atOnce, err = s.lockFree(gctx, j, "at-once")
		return err
	})
	g.Go(func() (err error) {
		if err = work.Sleep(gctx, time.Duration(j.MeasureMillis)*time.Millisecond); err == nil {
			later, err = s.lockFree(gctx, j, "later")
		}
		return err
	})
	g.Go(func() error {
		err := queued()
		r.Extra[queuedAgain] = time.Since(began).Seconds()
		return err
	})
	if err := g.Wait(); err != nil {
		return r, err
	}
	r.Extra[atOnceMillis], r.Extra[laterMillis] = atOnce, later
	runtime.KeepAlive(holds)
	return r, nil
}

// monitored is a part of what a server says of itself.
type monitored struct{ ephemerals, watches int }

// monitor asks a ZooKeeper server with the command mntr.
func monitor(ctx context.Context, server string) (m monitored, err error) {
	text, err := realzk.FourLetterWord(ctx, server, "mntr")
	if err != nil {
		return m, err
	}
	for name, to := range map[string]*int{"zk_ephemerals_count": &m.ephemerals, "zk_watch_count": &m.watches} {
		_, after, _ := strings.Cut(text, name+"\t")
		if _, err := fmt.Sscan(after, to); err != nil {
			return m, fmt.Errorf("mntr does not tell %s: %w", name, err)
		}
	}
	return m, nil
}

// awaitQueued returns a function that waits until the server has, beyond what it has now, a
// node and a watch of each of a job's locks.
func awaitQueued(ctx context.Context, j work.Job) (queued func() error, err error) {
	others, err := monitor(ctx, j.Server)
	return func() error {
		for {
			now, err := monitor(ctx, j.Server)
			if err != nil || now.ephemerals >= others.ephemerals+j.Locks && now.watches >= others.watches+j.Locks {
				return err
			}
			if err := work.Sleep(ctx, 200*time.Millisecond); err != nil {
				return fmt.Errorf("%w; there are %d ephemeral nodes and %d watches", err, now.ephemerals, now.watches)
			}
		}
	}, err
}
