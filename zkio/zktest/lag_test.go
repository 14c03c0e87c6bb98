// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestLagWithClient: go-zookeeper on a follower that lags.
func TestLagWithClient(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubbleClient(t, srv, 10*time.Second)
		lag := srv.Faults().Lag(-1, c.SessionID())
		if _, _, _, err := c.ExistsW("/a"); err != nil {
			t.Fatal(err)
		}
		_, _, appeared, err := c.ExistsW("/a")
		if err != nil {
			t.Fatal(err)
		}
		if err := srv.Create("/a", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // its pings keep the session alive, and nothing happens
		if ok, _, err := c.Exists("/a"); ok || err != nil {
			t.Errorf("Exists = %v, %v; want that it is not seen yet", ok, err)
		}
		select {
		case e := <-appeared:
			t.Errorf("the watch was told %v", e)
		default:
		}
		if _, err := c.Sync("/a"); err != nil {
			t.Fatal(err)
		}
		if ok, _, err := c.Exists("/a"); !ok || err != nil {
			t.Errorf("Exists after Sync = %v, %v", ok, err)
		}
		synctest.Wait()
		select {
		case e := <-appeared:
			if e.Type != zk.EventNodeCreated {
				t.Errorf("the watch was told %v", e)
			}
		default:
			t.Error("the watch was not told")
		}
		// A new connection does not catch up either.
		if err := srv.Delete("/a"); err != nil {
			t.Fatal(err)
		}
		srv.Faults().Cut(c.SessionID())
		c.await(t, zk.StateHasSession)
		if ok, _, err := c.Exists("/a"); !ok || err != nil {
			t.Errorf("Exists after the reconnect = %v, %v; want the past", ok, err)
		}
		<-lag.Hit()
		if got := srv.Faults().Hits()[lag.Kind()]; got == 0 || got != lag.Hits() {
			t.Errorf("%d hits of %s, the Lag counts %d", got, lag.Kind(), lag.Hits())
		}
		c.Close()
		if lag.Pending() != 0 {
			t.Errorf("%d transactions are pending after the close, which is a write", lag.Pending())
		}
	})
}
