// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// takeLinks returns what was told about connections, and forgets it.
func (r *recorder) takeLinks() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	links := r.links
	r.links = nil
	return links
}

// A listener is told of each connection that is lost, and of the next one: of both, in
// this order, or of neither.
func TestConnectionsAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		c, r := openTold(t, z)
		wantLinks := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := r.takeLinks(); !slices.EqualFunc(got, want, strings.HasPrefix) {
				t.Errorf("%s: told %q, want %q", when, got, want)
			}
		}
		wantLinks("at first")
		if !c.Session().Connected() {
			t.Error("not connected")
		}
		z.Faults().CutAll()
		time.Sleep(time.Second)
		wantLinks("a connection that breaks",
			"lost 1: zk:2181: the server closed the connection", "resumed 1 after ")

		refused := z.Faults().Refuse()
		z.Faults().CutAll()
		time.Sleep(time.Second)
		wantLinks("an outage", "lost 1: zk:2181: the server closed the connection")
		if c.Session().Connected() {
			t.Error("connected in an outage")
		}
		refused.Remove()
		time.Sleep(10 * time.Second)
		wantLinks("after the outage", "resumed 1 after 1.") // and a pause before the next attempt

		first := c.Session()
		z.ExpireSession(first.ID())
		eventually(t, "another session", func() bool { return c.Session() != first })
		if got := r.takeLinks(); len(got) > 1 {
			t.Errorf("the end of a session: told %q", got)
		}
		mustClose(t, c)
		wantLinks("the end of the client")
	})
}
