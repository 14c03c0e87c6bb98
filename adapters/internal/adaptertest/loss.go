// SPDX-License-Identifier: Apache-2.0

package adaptertest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/adapters/internal/losses"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Late returns u as it is in a process that was paused: the watch has not looked, and the lock
// is given up already.
func Late(u losses.Unwatch) losses.Unwatch {
	gaveUp := u()
	return func() func(error) { return gaveUp }
}

// TellsOfALossAtUnlock checks that onLost is called once, by the first unlock, if the watch is
// [Late]. lock takes a lock and has its watch be late.
func TellsOfALossAtUnlock(t *testing.T, lock func(t *testing.T, m *manager.Manager, onLost func(err error)) (unlock func())) {
	for name, end := range map[string]func(srv *zktest.Server, m *manager.Manager){
		"lost":   func(srv *zktest.Server, m *manager.Manager) { srv.ExpireSession(m.Access().Session().ID()) },
		"closed": func(_ *zktest.Server, m *manager.Manager) { _ = m.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			Bubble(t, func(t *testing.T, srv *zktest.Server) {
				m, lost := Open(t, srv), make(chan error, 2)
				unlock := lock(t, m, func(err error) { lost <- err })
				end(srv, m)
				<-time.After(time.Minute) // until the Manager knows
				if len(lost) != 0 {
					t.Fatal("the watch has told")
				}
				for range 2 {
					unlock()
					synctest.Wait()
				}
				if len(lost) != 1 {
					t.Fatalf("OnLost was called %d times, want once", len(lost))
				}
				if err := <-lost; !errors.Is(err, manager.ErrLost) && !errors.Is(err, manager.ErrClosed) {
					t.Errorf("OnLost was told %v", err)
				}
			})
		})
	}
}
