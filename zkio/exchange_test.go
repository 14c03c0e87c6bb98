// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// The numbers of calls wrap around.
func TestCallNumbersWrap(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		w := s.connection()
		w.turn <- struct{}{}
		w.xid = -1<<31 + 1
		w.release()
		for range 5 {
			_, _, err := s.Get("/d")
			must(t, err)
		}
		if s.Connection() != 1 || w.xid != firstXid-4 {
			t.Errorf("connection %d, xid %d", s.Connection(), w.xid)
		}
	})
}

// Every frame shows that the server is there: a connection on which only events come is not
// cut.
func TestEventsMoveTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := connectedBench(t)
		event := reply(-1, -1, 0, jute.AppendString(jute.AppendInt32(jute.AppendInt32(nil, jute.EventNodeDeleted), 3), "/p")...)
		go func() {
			for range 10 {
				<-time.After(b.w.patience() / 2)
				b.send(event)
			}
			b.send(reply(12345, 5, 0))
		}()
		b.wantCut(b.end(), "a request that was not made")
	})
}

// The error of a call says why its own connection was closed, even if the session has
// not noted that yet.
func TestF090_CallSaysWhyItsConnectionWasClosed(t *testing.T) {
	b := connectedBench(t)
	read := Read{Path: "/p", What: ReadData}
	var wg, cutting sync.WaitGroup
	wg.Go(func() { b.s.Read(&read) })
	b.receive()
	b.s.mu.Lock() // under which the session notes it
	cutting.Go(func() { b.w.cut(&fault{errors.New("the reason")}) })
	wg.Wait()
	b.s.mu.Unlock()
	cutting.Wait()
	if read.Err == nil || !strings.HasSuffix(read.Err.Error(), "zk: connection closed: the reason") {
		t.Errorf("error %v", read.Err)
	}
}

// When a connection is closed, the goroutine that reads may have an answer in its buffer, and
// takes it when the call has failed already, or at that very moment. The call has failed all
// the same: its caller has gone on, and does not look at what is being written.
func TestF290_AnswerAfterTheCallHasFailed(t *testing.T) {
	data := appendMultiHeader(jute.AppendInt32(appendMultiHeader(nil, jute.OpError, false), -101), -1, true)
	children := append(jute.AppendInt32(nil, 0), stat...)
	for name, test := range map[string]struct {
		call   *call
		answer []byte
	}{
		"a read":                  {pathCall("try", jute.OpGetChildren2, "/a"), children},
		"a read of several nodes": {multiReadCall([]Read{{Path: "/a"}}), data},
		"a deletion":              {opCall("try", DeleteOp("/a", -1)), nil},
		"a transaction":           {multiCall("try", "/a", []Op{CheckOp("/a", -1)}), data},
	} {
		t.Run(name, func(t *testing.T) {
			b := connectedBench(t)
			var wg sync.WaitGroup
			wg.Go(func() { b.s.exchange(test.call) })
			xid := xidOf(b.receive())
			b.ping()
			event := reply(-1, -1, 0, jute.AppendString(jute.AppendInt32(jute.AppendInt32(nil, jute.EventNodeDeleted), 3), "/p")...)
			wg.Go(func() { b.send(append(event, reply(xid, 5, 0, test.answer...)...)) })
			if _, err := b.w.readFrame(maxFrame); err != nil { // the event; the answer is in the buffer now
				t.Fatal(err)
			}
			b.w.cut(errFenced)
			wg.Wait()
			_, before := b.s.result(test.call)
			if err := b.w.next(); err != nil || !isClosed(test.call.trip.done) {
				t.Fatalf("the answer did not come: %v", err)
			}
			got, after := b.s.result(test.call)
			if !errors.Is(before, zk.ErrConnectionClosed) || after != before || got != nil {
				t.Errorf("failed with %v; after the answer %v, %v", before, got, after)
			}
		})
	}
}
