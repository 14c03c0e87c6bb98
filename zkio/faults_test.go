// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// slowListener is a recorder that blocks until free is closed.
type slowListener struct {
	recorder
	free chan struct{}
}

func (l *slowListener) SessionStarted(s *Session) {
	<-l.free
	l.recorder.SessionStarted(s)
}

// TestF059_EventStorm: far more happens than a channel holds while the listener
// blocks. Nothing waits for it, and in the end it is told everything, in order.
func TestF059_EventStorm(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		l := &slowListener{free: make(chan struct{})}
		cfg := configure(z)
		cfg.Listener = l
		c := open(t, cfg)
		must(t, c.Session().Create("/d", nil, nil))
		want := []string{"started 1"}
		const paths, sessions = 100, 3
		for i := range sessions {
			s := c.Session()
			for j := range paths {
				path := fmt.Sprintf("/d/%d-%d", i, j)
				must(t, s.Create(path, nil, nil))
				watchNode(t, s, path, l)
				must(t, s.Delete(path, -1))
				want = append(want, path+" deleted")
			}
			for range 5 {
				time.Sleep(time.Second)
				z.Faults().CutAll()
				eventually(t, "connected", func() bool { return s.Sync("/d") == nil })
			}
			lease := s.Lease()
			if !lease.InForce() { // from the last write, some seconds ago
				time.Sleep(s.NextProof()) // none begins at once after a reconnect
				must(t, s.Create(fmt.Sprintf("/d/%d", i), nil, nil))
				lease = s.Lease()
				want = append(want, "lapsed")
			}
			z.ExpireSession(s.ID())
			eventually(t, "another session", func() bool { return c.Session() != s })
			if lease.InForce() {
				t.Error("a lease is in force because the listener blocks")
			}
			want = append(want, "lapsed", fmt.Sprintf("over %d", i+1), fmt.Sprintf("started %d", i+2))
		}
		synctest.Wait()
		if got := l.lines(); len(got) != 0 {
			t.Fatalf("told %q although it blocks", got)
		}
		close(l.free)
		eventually(t, "all is told", func() bool { return len(l.lines()) >= len(want) })
		got := l.lines()
		for i, line := range got {
			if i >= len(want) || !strings.HasPrefix(line, want[i]) {
				t.Fatalf("line %d of %d is %q, want one of %d:\n%q", i, len(got), line, len(want), want)
			}
		}
	})
}

// TestF003_LaggingServer: the answer to the create gets lost, and the next
// server that the client gets to has not learned of it yet: its list does not
// show the node. No second one is made.
func TestF003_LaggingServer(t *testing.T) {
	onServers(t, 2, func(t *testing.T, e *zktest.Ensemble) {
		z, behind := e.Server(2), e.Server(1)
		var there atomic.Pointer[zktest.Server]
		there.Store(z)
		cfg := configure(z)
		cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			return there.Load().Dial(ctx, network, address)
		}
		s := open(t, cfg).Session()
		must(t, s.EnsureDir("/d", nil))
		lag := behind.Faults().Lag(-1)
		n := newNode("/d", nil)
		lost := z.Faults().DropReply(zktest.Match{Op: zktest.OpCreate, Times: 1})
		there.Store(behind)
		wantErr(t, n.Create(s), ErrUnknown, Unknown)
		must(t, func() error { _, _, err := s.Get("/d"); return err }())
		if names, _, err := s.Children("/d"); len(names) != 0 || err != nil || len(z.Children("/d")) != 1 {
			t.Fatalf("the server shows %v, %v; there are %v", names, err, z.Children("/d"))
		}
		must(t, n.Create(s))
		wantPlaced(t, z, n, s)
		if sent := s.client.Stats().Sent["create"]; sent != 1 || lost.Hits() != 1 || lag.Hits() == 0 {
			t.Errorf("%d creates, %d answers lost, %d answers from the past", sent, lost.Hits(), lag.Hits())
		}
	})
}
