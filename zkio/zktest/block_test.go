// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestBlockRequests: requests of several sessions are executed in the order that
// the test chooses, those of one session in the order in which they were sent.
func TestBlockRequests(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			const clients, each = 3, 4
			if err := srv.Create("/d", nil); err != nil {
				t.Fatal(err)
			}
			var holds []*zktest.Block
			var wg sync.WaitGroup
			for i := range clients {
				c := bubbleClient(t, srv, time.Hour)
				holds = append(holds, srv.Faults().BlockRequests(c.SessionID()))
				for k := range each {
					wg.Go(func() {
						if _, err := c.Create(fmt.Sprintf("/d/%d.%d-", i, k), nil, zk.FlagSequence, open); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait() // sent, and held
				}
			}
			rnd := rand.New(rand.NewPCG(seed, 1))
			var want []string
			var sent [clients]int
			for len(want) < clients*each {
				i := rnd.IntN(clients)
				n := holds[i].Let(1)
				synctest.Wait()
				if left := each - sent[i]; n != min(1, left) || holds[i].Waiting() != left-n {
					t.Fatalf("Let(1) = %d, %d still wait; %d waited", n, holds[i].Waiting(), left)
				}
				if n == 0 {
					continue
				}
				want = append(want, fmt.Sprintf("%d.%d-%010d", i, sent[i], len(want)))
				sent[i]++
				names := srv.Children("/d")
				slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[4:], b[4:]) })
				if !slices.Equal(names, want) {
					t.Fatalf("executed: %v, want %v", names, want)
				}
			}
			wg.Wait()
			for _, h := range holds {
				if h.Hits() != each {
					t.Errorf("%d hits, want %d", h.Hits(), each)
				}
			}
			if got := srv.Faults().Hits()[zktest.FaultBlockRequest]; got != clients*each {
				t.Errorf("%d hits altogether, want %d", got, clients*each)
			}
		})
	}
}

// TestBlockEndsWithServer: Close does not wait for frames that a Block holds back.
func TestBlockEndsWithServer(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, time.Hour)
		b := srv.Faults().BlockReplies(d.session)
		d.do("send ping")
		<-b.Hit()
		if b.Kind() != zktest.FaultBlockReply || b.Session() != d.session {
			t.Errorf("%s of session %x", b.Kind(), b.Session())
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
}
