// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// Faults on the way into the queue, by their numbers in docs/faults.md. More of
// them are scripts: testdata/scripts/enter.txt.

// The lock's directory is an ephemeral node, which cannot have children. Retrying
// would not help, so the wait fails at once.
func TestF010_DirectoryIsEphemeral(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		wantErr(c.t, "create", c.srv.CreateEphemeral(session(m), dir, nil), nil)
		l := exclusive(c.t, m, "jobs")
		c.takeCounts()
		start := time.Now()
		_, err := l.Lock(c.t.Context())
		wantErr(c.t, "lock", err, zkio.ErrNoChildrenForEphemerals)
		expect(c.t, strings.Contains(err.Error(), dir),
			"the error does not name the directory: %v", err)
		wantErr(c.t, "trylock", errOf(l.TryLock(c.t.Context())), zkio.ErrNoChildrenForEphemerals)
		expect(c.t, time.Since(start) == 0, "it took %v", time.Since(start))
		later(time.Minute)
		c.wantCounts("two attempts", map[verb]int{createNode: 2})
		wantState(c.t, l, state.Free, 0)
	})
}

// A forger is a connection that changes packets on their way.
type forger struct {
	net.Conn
	request func(op int32, packet []byte) (reply func(frame []byte) []byte) // a nil reply leaves the answer alone

	mu      sync.Mutex
	greeted bool                            // the connect request, which has no operation, was sent
	replies map[int32]func(p []byte) []byte // by xid
	in, out []byte                          // bytes from the server, and bytes ready for Read
}

func (f *forger) Write(p []byte) (int, error) {
	if f.mu.Lock(); f.greeted {
		p = append([]byte(nil), p...)
		if reply := f.request(int32(binary.BigEndian.Uint32(p[8:])), p); reply != nil {
			f.replies[int32(binary.BigEndian.Uint32(p[4:]))] = reply
		}
	}
	f.greeted = true
	f.mu.Unlock()
	return f.Conn.Write(p)
}

func (f *forger) Read(p []byte) (int, error) {
	for len(f.out) == 0 {
		some := make([]byte, 4096)
		n, err := f.Conn.Read(some)
		f.in = append(f.in, some[:n]...)
		for len(f.in) >= 4 {
			size := 4 + int(binary.BigEndian.Uint32(f.in))
			if len(f.in) < size {
				break
			}
			frame := f.in[:size:size]
			f.in = f.in[size:]
			xid := int32(binary.BigEndian.Uint32(frame[4:]))
			f.mu.Lock()
			if forge := f.replies[xid]; forge != nil {
				delete(f.replies, xid)
				frame = forge(frame)
			}
			f.mu.Unlock()
			f.out = append(f.out, frame...)
		}
		if err != nil && len(f.out) == 0 {
			return 0, err
		}
	}
	n := copy(p, f.out)
	f.out = f.out[n:]
	return n, nil
}

// forged is an option of open. request sees each request of the manager, may
// change it, and may return a function that changes the reply.
func (c *cluster) forged(request func(op int32, packet []byte) (reply func(frame []byte) []byte)) func(*Config) {
	return func(cfg *Config) {
		dial := cfg.Dialer
		cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &forger{Conn: conn, request: request, replies: make(map[int32]func([]byte) []byte)}, nil
		}
	}
}

// harmless turns a request into a ping.
func harmless(packet []byte) { binary.BigEndian.PutUint32(packet[8:], uint32(jute.OpPing)) }

// refusal replaces a reply by an error with the given code.
func refusal(code int32) func(frame []byte) []byte {
	return func(frame []byte) []byte {
		binary.BigEndian.PutUint32(frame[16:], uint32(code))
		binary.BigEndian.PutUint32(frame, 16) // without a body
		return frame[:20]
	}
}

// The server answers the creation with an uncommon error code. A permanent refusal
// fails the wait. After any other code, known or not, the client finds out whether
// the node exists, and the wait goes on.
func TestF013_UncommonErrors(t *testing.T) {
	type test struct {
		code    int32
		happens bool // the server executes the request all the same
		want    error
	}
	each(t, map[string]test{
		"quota exceeded":                          {-125, false, zkio.ErrQuota},
		"throttled":                               {-127, false, nil},
		"a code from the future, carried out":     {-999, true, nil},
		"a code from the future, not carried out": {-999, false, nil},
		"a timeout of the server's, carried out":  {-122, true, nil},
	}, func(c *cluster, test test) {
		// A directory with data makes the client send a plain create.
		wantErr(c.t, "create", c.srv.CreateAll(dir, []byte("data")), nil)
		times := 0
		l := c.lock("a", c.forged(func(op int32, packet []byte) func([]byte) []byte {
			if op != jute.OpCreate || !strings.Contains(string(packet), dir) || times > 0 {
				return nil
			}
			times++
			if !test.happens {
				harmless(packet)
			}
			return refusal(test.code)
		}))
		h := l.Acquire(c.t.Context())
		later(time.Minute)
		if times != 1 {
			c.t.Fatalf("%d answers were forged, want 1", times)
		}
		wantErr(c.t, "grant", settled(c.t, "grant", h.Granted()), test.want)
		if test.want == nil {
			c.wantNodes(1)
			mustRelease(c.t, h)
		} else {
			wantErr(c.t, "release", settled(c.t, "release", h.Release()), test.want)
		}
		c.wantNodes(0)
		wantState(c.t, l, state.Free, 0)
		mustRelease(c.t, mustLock(c.t, l)) // the next attempt is unaffected
	})
	// The client refuses to send a request that is too large: the server would
	// close the connection, again and again.
	subtest(t, "too large", func(c *cluster) {
		cfg := c.config(strings.Repeat("x", 2<<20)) // part of each node's data
		wantErr(c.t, "open", errOf(Open(c.t.Context(), cfg)), zkio.ErrBadArguments)
	})
}

// The list of a very long queue exceeds the megabyte that ZooKeeper accepts for a
// request. A process reads it once per look, and the error of a caller that gives
// up says how many contenders are ahead.
func TestF017_LongQueue(t *testing.T) {
	const ahead = 22_000
	bubble(t, func(c *cluster) {
		strangers := c.crowd()
		size := 0
		last := ""
		for i := range ahead {
			last = fmt.Sprintf("_c_%s-lock-%010d", hex32, i)
			size += len(last)
			strangers.node(last)
		}
		if size < 1<<20 {
			c.t.Fatalf("the list has only %d bytes", size)
		}
		l := c.lock("a")
		c.takeCounts()
		var holds []Hold
		for range 50 {
			holds = append(holds, l.Acquire(c.t.Context()))
		}
		synctest.Wait()
		c.wantCounts("50 goroutines", map[verb]int{createNode: 1, list: 1})
		_, err := l.TryLock(c.t.Context())
		var e *Error
		expect(c.t, errors.As(err, &e) && e.Position == ahead && e.Ahead != nil && e.Ahead.Path == dir+"/"+last,
			"trylock: %v, want one that names %d ahead, the nearest %s", err, ahead, last)
		c.remove(dir + "/" + last)
		synctest.Wait()
		c.wantCounts("when the nearest goes", map[verb]int{createNode: 0, list: 1})
		for _, h := range holds {
			h.Release()
		}
		synctest.Wait()
		c.wantNodes(ahead - 1)
	})
}

// The servers begin to refuse the credentials. Waiters and newcomers fail, and
// holders lose the lock in time. When the servers accept the credentials again,
// everything works again.
func TestF012_CredentialsRefusedLater(t *testing.T) {
	bubble(t, func(c *cluster) {
		var refused atomic.Bool
		credentials := func(cfg *Config) { cfg.Auth = []zkio.Auth{{Scheme: "digest", Data: []byte("user:secret")}} }
		m := c.open("a", credentials, c.forged(func(op int32, packet []byte) func([]byte) []byte {
			if op == jute.OpAuth && refused.Load() {
				copy(packet[20:], "nobody") // instead of "digest"
			}
			return nil
		}))
		held, waited, late := exclusive(c.t, m, "held"), exclusive(c.t, m, "jobs"), exclusive(c.t, m, "late")
		h := mustLock(c.t, held)
		other := mustLock(c.t, c.lock("b"))
		w := waited.Acquire(c.t.Context())
		synctest.Wait()

		refused.Store(true)
		c.srv.Faults().Cut(session(m))
		<-h.Lost()
		wantErr(c.t, "the holder", h.Err(), ErrLost)
		later(time.Second)
		wantErr(c.t, "the waiter", settled(c.t, "grant", w.Granted()), zkio.ErrAuthFailed)
		start := time.Now()
		wantErr(c.t, "a newcomer", errOf(late.Lock(c.t.Context())), zkio.ErrAuthFailed)
		expect(c.t, time.Since(start) <= 10*time.Second, "a newcomer waited for %v", time.Since(start))
		lines := c.log.with("ERROR zookeeper refuses the client's credentials; trying again cause=")
		expect(c.t, len(lines) > 0, "the refusal is not logged")

		refused.Store(false)
		h.Release()
		w.Release()
		waitUntil(c.t, "there is a session again", func() bool { return m.client.Session().Err() == nil })
		for _, l := range []*Lock{held, late} {
			mustRelease(c.t, mustLock(c.t, l))
		}
		mustRelease(c.t, other)
		mustRelease(c.t, mustLock(c.t, waited))
	})
}

// Faults while a process waits, by their numbers in docs/faults.md. More of them
// are scripts: testdata/scripts/wait.txt.

// During a wait of many hours, with many reconnects, watches accumulate neither in
// the client nor in the server.
func TestF035_LongWait(t *testing.T) {
	bubble(t, func(c *cluster) {
		cuts := racing.Fewer(300)
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, b)
		w := a.Acquire(c.t.Context())
		later(time.Minute)
		watches, onServer := a.m.client.Stats().Watches, c.srv.AllWatches()
		if watches != 3 { // the contender ahead, our own node, and the mailbox
			c.t.Errorf("%d watches, want 3", watches)
		}
		for range cuts {
			c.srv.Faults().Cut(session(a.m))
			later(time.Minute)
		}
		if n := a.m.client.Stats(); n.Watches != watches || n.Reconnects != uint64(cuts) {
			c.t.Errorf("%d watches after %d reconnects, %d before", n.Watches, n.Reconnects, watches)
		}
		expect(c.t, c.srv.AllWatches() == onServer,
			"the server has %+v, had %+v", c.srv.AllWatches(), onServer)
		mustRelease(c.t, h)
		synctest.Wait()
		wantErr(c.t, "the waiter", w.Err(), nil)
		mustRelease(c.t, w)
	})
}

// A thousand readers in ten processes wait for one writer. All enter when it
// leaves, and each process lists the queue at most once.
func TestF039_Herd(t *testing.T) {
	const processes, goroutines = 10, 100
	bubble(t, func(c *cluster) {
		write := mustLock(c.t, c.rw("writer").Writer())
		var holds []Hold
		for p := range processes {
			l := c.rw(fmt.Sprint(p)).Reader()
			for range goroutines {
				holds = append(holds, l.Acquire(c.t.Context()))
			}
		}
		synctest.Wait()
		c.wantNodes(1 + processes)
		c.takeCounts()
		mustRelease(c.t, write)
		synctest.Wait()
		for _, h := range holds {
			wantHeld(c.t, "a reader", h)
		}
		if got := c.takeCounts(); got[list] > processes || got[lookAtNode]+got[lookAtDir] > 0 || got[createNode]+got[prove]+got[other] > processes {
			c.t.Errorf("requests: %v", got)
		}
		for _, h := range holds {
			h.Release()
		}
		synctest.Wait()
		c.wantNodes(0)
	})
}

// The news of the contender ahead is lost on the way: the waiter looks by itself
// once in a while.
func TestF025_WatchIsLost(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		next := b.Acquire(c.t.Context())
		later(time.Minute)
		ahead := ioOf(next).watching.ahead[0] // no step runs that could change it
		b.m.client.Unwatch(ahead.path, ahead)
		mustRelease(c.t, h)
		later(time.Second)
		pending(c.t, "the grant, whose news is lost", next.Granted())
		later(2 * rotationTimeout)
		c.held(next)
		mustRelease(c.t, next)
	})
}

// The same with the news of the reader that an upgrade waits for.
func TestF025_WatchOfAnUpgradeIsLost(t *testing.T) {
	bubble(t, func(c *cluster) {
		reader := c.acquire(c.rw("other").Reader())
		p := c.rw("p")
		up := c.acquire(p.Upgradable())
		u := c.upgrade(up)
		later(time.Minute)
		inTheWay := upgradeOf(ioOf(up)).inTheWay // no step runs that could change it
		p.writer.m.client.Unwatch(inTheWay.path, inTheWay)
		c.unlock(reader)
		later(time.Second)
		u.waits()
		later(2 * rotationTimeout)
		u.done()
		c.unlock(up)
	})
}

// A process that holds and waits for as many locks as its session can have nodes for is
// refused another one, and says why. A lock that it gives up makes room; what it holds
// already can be entered.
func TestF367_TooManyLocks(t *testing.T) {
	bubble(t, func(c *cluster) {
		const fits = 3
		size := len(dir) + len("/_c_") + len(hex32) + len("-lock-") + 10 + 4
		m := c.open("a", func(cfg *Config) { cfg.MaxPathBytes = fits * size })
		var holds []Hold
		for i := range fits {
			holds = append(holds, mustLock(c.t, exclusive(c.t, m, fmt.Sprintf("job%d", i))))
		}
		refused := exclusive(c.t, m, "jobs")
		_, err := refused.Lock(c.t.Context())
		wantErr(c.t, "one too many", err, zkio.ErrTooManyNodes)
		synctest.Wait()
		wantState(c.t, refused, state.Free, 0)
		mustRelease(c.t, mustLock(c.t, exclusive(c.t, m, "job1"))) // it is held already
		mustRelease(c.t, holds[0])
		mustRelease(c.t, mustLock(c.t, refused))
	})
}
