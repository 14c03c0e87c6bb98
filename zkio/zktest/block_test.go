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

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestBlockRequests: requests of several sessions are executed in the order that
// the test chooses, those of one session in the order of their sending.
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

// TestBlockReplies: what has been done is seen by others, while the one who did
// it hears of it when the test chooses, in order, events among the answers.
func TestBlockReplies(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, time.Hour)
		d.create("/a", "", 0)
		hold := srv.Faults().BlockReplies(d.session)
		d.request(jute.OpGetData, jute.AppendBool(jute.AppendString(nil, "/a"), true)) // z+1
		synctest.Wait()
		if err := srv.Set("/a", []byte("x")); err != nil { // an event
			t.Fatal(err)
		}
		d.request(jute.OpDelete, jute.AppendInt32(jute.AppendString(nil, "/a"), -1))
		synctest.Wait()
		if srv.Exists("/a") {
			t.Error("the delete was held, not its answer")
		}
		if hold.Waiting() != 3 || hold.Hits() != 3 || hold.Kind() != zktest.FaultBlockReply || hold.Session() != d.session {
			t.Errorf("%d frames wait, %d hits, want 3", hold.Waiting(), hold.Hits())
		}
		<-hold.Hit()
		next := func() int32 {
			d.patience = time.Second
			frame, end := d.readFrame()
			if end != "" {
				return 0
			}
			return jute.NewReader(frame).Int32()
		}
		first := d.xid - 1
		for _, step := range []struct {
			let  int
			want []int32 // xids of what arrives then; 0: nothing
		}{
			{0, []int32{0}},
			{-1, []int32{0}},
			{1, []int32{first, 0}},
			{2, []int32{jute.XidWatchEvent, d.xid, 0}},
			{1, []int32{0}},
		} {
			hold.Let(step.let)
			for i, want := range step.want {
				if got := next(); got != want {
					t.Errorf("after Let(%d), frame %d has xid %d, want %d", step.let, i, got, want)
				}
			}
		}
		d.request(jute.OpPing, nil)
		synctest.Wait()
		hold.Remove()
		hold.Remove()
		d.request(jute.OpPing, nil)
		for range 2 {
			if got := next(); got != jute.XidPing {
				t.Errorf("after Remove a frame has xid %d, want that of a ping", got)
			}
		}
		if hold.Let(1) != 0 || hold.Waiting() != 0 {
			t.Error("a Block that was removed has something waiting")
		}
	})
}

// TestBlockGoesOn: a Block acts on every connection of its session. Handshakes
// pass; what waited on a connection that has ended is lost.
func TestBlockGoesOn(t *testing.T) {
	for _, kind := range []string{"requests", "replies"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := bubbleClient(t, srv, time.Hour)
				hold := srv.Faults().BlockRequests
				if kind == "replies" {
					hold = srv.Faults().BlockReplies
				}
				h := hold(c.SessionID())
				if hold(c.SessionID()) != h {
					t.Error("a second Block for the same session")
				}
				result := make(chan error, 1)
				create := func(path string) {
					_, err := c.Create(path, nil, 0, open)
					result <- err
				}
				go create("/a")
				synctest.Wait()
				srv.Faults().Cut(c.SessionID())
				if err := <-result; err != zk.ErrConnectionClosed {
					t.Errorf("Create: %v, want a lost connection", err)
				}
				c.await(t, zk.StateHasSession)
				synctest.Wait()
				if got, want := srv.Exists("/a"), kind == "replies"; got != want || h.Waiting() != 0 {
					t.Errorf("the node is there: %v, want %v; %d frames wait", got, want, h.Waiting())
				}
				go create("/b")
				synctest.Wait()
				if h.Waiting() != 1 {
					t.Errorf("on the new connection %d frames wait, want 1", h.Waiting())
				}
				if n := h.Let(5); n != 1 {
					t.Errorf("Let(5) = %d", n)
				}
				if err := <-result; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestBlockAndExpiry: held pings are no sign of life.
func TestBlockAndExpiry(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, 10*time.Second)
		hold := srv.Faults().BlockRequests(d.session)
		for range 4 {
			d.request(jute.OpPing, nil)
			time.Sleep(3 * time.Second)
		}
		if got := srv.Expired(); len(got) != 1 || got[0].Session != d.session {
			t.Errorf("expired: %+v", got)
		}
		if hold.Hits() < 3 {
			t.Errorf("%d pings were held", hold.Hits())
		}
	})
}

// TestBlockAndBlackhole: what two faults keep passes when both let it.
func TestBlockAndBlackhole(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, time.Hour)
		hole := srv.Faults().Blackhole(d.session)
		d.request(jute.OpPing, nil)
		synctest.Wait()
		in, out := srv.Faults().BlockRequests(d.session), srv.Faults().BlockReplies(d.session)
		if n := in.Let(1); n != 1 {
			t.Errorf("Let(1) = %d", n)
		}
		synctest.Wait()
		if out.Waiting() != 0 {
			t.Error("the request got out of the blackhole")
		}
		hole.Remove()
		synctest.Wait()
		if out.Waiting() != 1 {
			t.Error("the request did not get out of the blackhole")
		}
		d.request(jute.OpPing, nil)
		synctest.Wait()
		srv.Faults().Clear()
		for range 2 {
			if frame, end := d.readFrame(); end != "" || len(frame) == 0 {
				t.Errorf("no answer: %s", end)
			}
		}
	})
}

// TestBlockAfterBlock: a Block keeps nothing that an earlier one has let go.
func TestBlockAfterBlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, time.Hour)
		f := srv.Faults()
		first := f.BlockReplies(d.session)
		d.request(jute.OpPing, nil)
		synctest.Wait()
		hole := f.Blackhole(d.session) // or else the answer might be gone already
		first.Remove()
		second := f.BlockReplies(d.session)
		if second == first || second.Waiting() != 0 {
			t.Errorf("%d frames wait, of which the second Block has seen none", second.Waiting())
		}
		hole.Remove()
		synctest.Wait()
		if frame, end := d.readFrame(); end != "" || len(frame) == 0 {
			t.Errorf("no answer: %s", end)
		}
		d.request(jute.OpPing, nil)
		synctest.Wait()
		if second.Waiting() != 1 || second.Let(1) != 1 {
			t.Errorf("%d frames wait, want 1", second.Waiting())
		}
	})
}

// TestBlockLetsGo: a connection whose answers are held ends with its client, and
// with the server.
func TestBlockLetsGo(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, time.Hour)
		srv.Faults().BlockReplies(d.session)
		d.request(jute.OpPing, nil)
		synctest.Wait()
		srv.ExpireSession(d.session) // the end of the connection waits behind the answer
		d.patience = time.Minute
		if frame, end := d.readFrame(); end != "nothing" {
			t.Errorf("read %x, %s; want silence", frame, end)
		}
		d.nc.Close()
		synctest.Wait()
		if n := srv.Connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}

		d = rawSession(t, srv, time.Hour)
		srv.Faults().BlockReplies(d.session)
		d.request(jute.OpPing, nil)
		synctest.Wait()
		if err := srv.Close(); err != nil { // it would wait for ever
			t.Error(err)
		}
	})
}
