// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestEventBeforeReply: writers change a node that many readers watch and read. A
// reader that sees a later version than the one at which it set its watch has been
// sent the event before.
func TestEventBeforeReply(t *testing.T) {
	srv := newServer(t, zktest.Config{})
	if err := srv.Create("/a", nil); err != nil {
		t.Fatal(err)
	}
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := srv.Set("/a", nil); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 30 {
		d := rawSession(t, srv, 10*time.Second)
		readers.Go(func() {
			watching, at := false, int32(-1) // the version at which the watch was set
			for range 100 {
				d.request(jute.OpGetData, jute.AppendBool(jute.AppendString(nil, "/a"), true))
				for replied := false; !replied; {
					frame, end := d.readFrame()
					if end != "" {
						t.Error(end)
						return
					}
					r := jute.NewReader(frame)
					if r.Int32() == jute.XidWatchEvent {
						if !watching {
							t.Error("an event without a watch")
						}
						watching = false
						continue
					}
					_, _, _ = r.Int64(), r.Int32(), r.Buffer()
					for range 4 {
						_ = r.Int64()
					}
					version := r.Int32()
					if watching && version != at {
						t.Errorf("version %d was read before the event of the watch set at %d", version, at)
					}
					watching, at, replied = true, version, true
				}
			}
		})
	}
	readers.Wait()
	close(stop)
	writers.Wait()
}
