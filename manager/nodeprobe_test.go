// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio"
)

// A nodeProbe is a client that asks servers again and again whether a node exists.
// It shows whether ZooKeeper could have given a lock away before its holder was told
// of the loss: not before the sending of the last request that was answered with the
// node. All times are of one monotonic clock.
type nodeProbe struct {
	client *zkio.Client
	path   string
	synced bool // the server catches up with its leader before each look

	stop  chan struct{}  // closed to end the looks
	looks sync.WaitGroup // the goroutine that looks

	gone   chan struct{} // closed when the node was found gone
	goneAt time.Time     // when the answer came; written before gone is closed

	mu   sync.Mutex // protects seen
	seen time.Time  // when the last request was sent that was answered with the node
}

// newNodeProbe connects a probe to servers.
func newNodeProbe(t *testing.T, synced bool, servers ...*realzk.Server) *nodeProbe {
	t.Helper()
	ctx := withTimeout(t, time.Minute)
	client, err := zkio.Open(ctx, zkio.Config{
		Servers: realzk.Addrs(servers...), SessionTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &nodeProbe{client: client, synced: synced, gone: make(chan struct{}), stop: make(chan struct{})}
	t.Cleanup(func() {
		close(p.stop)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Close(ctx) // its server may be cut off
		p.looks.Wait()        // for a call that this has ended
	})
	return p
}

// watch makes the probe look for path, which exists, from now on. It returns when the
// probe has seen it. It is called once.
func (p *nodeProbe) watch(t *testing.T, path string) {
	t.Helper()
	p.path = path
	// A follower may lag behind.
	if err := p.client.Session().Sync(path); err != nil {
		t.Fatal(err)
	}
	p.looks.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for p.look() {
			select {
			case <-tick.C:
			case <-p.stop:
				return
			}
		}
	})
	p.sees(t, time.Time{})
}

// look looks once, and reports whether to look again: not if the node is gone.
func (p *nodeProbe) look() bool {
	s := p.client.Session()
	if s == nil {
		return true // between two sessions
	}
	sent := time.Now()
	if p.synced && s.Sync(p.path) != nil {
		return true
	}
	_, ok, err := s.Exists(p.path)
	switch {
	case err != nil: // no server answers
	case ok:
		p.mu.Lock()
		p.seen = sent
		p.mu.Unlock()
	default:
		p.goneAt = time.Now()
		close(p.gone)
		return false
	}
	return true
}

func (p *nodeProbe) lastSeen() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// sees waits until the probe has seen the node by a request sent after when.
func (p *nodeProbe) sees(t *testing.T, when time.Time) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !p.lastSeen().After(when); {
		select {
		case <-tick.C:
		case <-p.gone:
			t.Fatalf("%s is gone", p.path)
		case <-deadline:
			t.Fatalf("no answer for %s", p.path)
		}
	}
}

// misses waits until the probe has found the node gone, and returns when it was last
// there, and when it was not.
func (p *nodeProbe) misses(t *testing.T) (there, gone time.Time) {
	t.Helper()
	select {
	case <-p.gone:
	case <-time.After(time.Minute):
		t.Fatalf("%s is still there", p.path)
	}
	return p.lastSeen(), p.goneAt
}

// lossOf sends the time at which h is told of its loss.
func lossOf(h Hold) <-chan time.Time {
	told := make(chan time.Time, 1)
	go func() {
		<-h.Lost()
		told <- time.Now()
	}()
	return told
}

// within receives from c, for up to a minute.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("a minute later, still not: %s", what)
	}
	panic("not reached")
}
