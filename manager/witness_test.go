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

// A witness is a client of its own that asks some servers all the time whether
// a node exists. Against a holder that was told of its loss it shows whether
// ZooKeeper could have given the lock away before: no earlier than the sending
// of the last request that was answered with the node. All times are of one
// monotonic clock.
type witness struct {
	client *zkio.Client
	path   string
	synced bool // it has the server catch up with its leader before each look

	stop  chan struct{}  // closed when it is to look no more
	looks sync.WaitGroup // the goroutine that looks

	gone   chan struct{} // closed when the node was found gone
	goneAt time.Time     // when the answer came; written before gone is closed

	mu   sync.Mutex // protects seen
	seen time.Time  // when the last request was sent that was answered with the node
}

// newWitness connects a witness to some servers.
func newWitness(t *testing.T, synced bool, servers ...*realzk.Server) *witness {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := zkio.Open(ctx, zkio.Config{
		Servers: realzk.Addrs(servers...), SessionTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{client: client, synced: synced, gone: make(chan struct{}), stop: make(chan struct{})}
	t.Cleanup(func() {
		close(w.stop)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Close(ctx) // its server may be cut off
		w.looks.Wait()        // for a call that this has ended
	})
	return w
}

// watch has it ask for path, which is there, from now on. It returns when the
// witness has seen it. It is called once.
func (w *witness) watch(t *testing.T, path string) {
	t.Helper()
	w.path = path
	// A follower may not have heard of the node yet.
	if err := w.client.Session().Sync(path); err != nil {
		t.Fatal(err)
	}
	w.looks.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for w.look() {
			select {
			case <-tick.C:
			case <-w.stop:
				return
			}
		}
	})
	w.sees(t, time.Time{})
}

// look looks once. It reports false if the node is gone.
func (w *witness) look() bool {
	s := w.client.Session()
	if s == nil {
		return true // between two sessions
	}
	sent := time.Now()
	if w.synced && s.Sync(w.path) != nil {
		return true
	}
	_, ok, err := s.Exists(w.path)
	switch {
	case err != nil: // no server serves
	case ok:
		w.mu.Lock()
		w.seen = sent
		w.mu.Unlock()
	default:
		w.goneAt = time.Now()
		close(w.gone)
		return false
	}
	return true
}

func (w *witness) lastSeen() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// sees waits until the witness has seen the node by a request sent after when.
func (w *witness) sees(t *testing.T, when time.Time) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !w.lastSeen().After(when); {
		select {
		case <-tick.C:
		case <-w.gone:
			t.Fatalf("%s is gone", w.path)
		case <-deadline:
			t.Fatalf("nobody answers for %s", w.path)
		}
	}
}

// misses waits until the witness has found the node gone, and returns when it
// was there yet, and when not any more.
func (w *witness) misses(t *testing.T) (there, gone time.Time) {
	t.Helper()
	select {
	case <-w.gone:
	case <-time.After(time.Minute):
		t.Fatalf("%s is there yet", w.path)
	}
	return w.lastSeen(), w.goneAt
}

// lossOf notes when h is told of its loss; the time is sent once.
func lossOf(h Hold) <-chan time.Time {
	told := make(chan time.Time, 1)
	go func() {
		<-h.Lost()
		told <- time.Now()
	}()
	return told
}

// within receives what comes within a minute.
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
