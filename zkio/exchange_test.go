// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// Frames that go-zookeeper does not see show that the server is there, as others do:
// a connection on which only those come is not cut.
func TestSwallowedFramesMoveTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := connectedBench(t)
		event := reply(-1, -1, 0, jute.AppendString(jute.AppendInt32(jute.AppendInt32(nil, jute.EventNodeDeleted), 3), "/p")...)
		must(t, b.w.SetReadDeadline(time.Now().Add(b.w.patience()))) // as go-zookeeper does before it reads
		go func() {
			for range 10 {
				<-time.After(b.w.patience() / 2)
				b.send(event)
			}
			b.send(reply(12345, 5, 0))
		}()
		_, err := b.read()
		b.wantCut(err, "a request that was not made")
	})
}

// The error of a call says why its own connection was closed, even if the session has
// not noted that yet.
func TestF090_CallSaysWhyItsConnectionWasClosed(t *testing.T) {
	b := connectedBench(t)
	b.s.fault.Store(&fault{errors.New("an older reason")})
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
