// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// lockedBuffer is a buffer that several goroutines may write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// An outage is logged once, however long it is, with the reason; and its end.
// One that comes back at the first attempt is logged in two lines, for information.
func TestOutageIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		cfg := configure(z)
		log := logTo(&cfg)
		open(t, cfg)

		z.Faults().CutAll()
		time.Sleep(time.Second)
		synctest.Wait()
		if lines := log.String(); strings.Contains(lines, "WARN") || strings.Count(lines, "lost the connection to zookeeper") != 1 ||
			strings.Count(lines, "cause=\"the server closed the connection\"") != 1 || strings.Count(lines, "zookeeper is back") != 1 {
			t.Errorf("a short interruption:\n%s", lines)
		}
		time.Sleep(time.Minute)

		after := regexp.MustCompile(`after=[34](\.\d+)?s`) // how long an outage lasted
		for n := 1; n <= 2; n++ {
			refused := z.Faults().Refuse()
			z.Faults().CutAll()
			time.Sleep(3 * time.Second)
			refused.Remove()
			time.Sleep(time.Second)
			synctest.Wait()
			lines := log.String()
			if strings.Count(lines, "level=WARN") != n || strings.Count(lines, `no zookeeper server can be reached; trying again`) != n ||
				strings.Count(lines, `servers="zk:2181: connection refused"`) != n {
				t.Errorf("outage %d: it is to be logged once, with the reason:\n%s", n, lines)
			}
			if strings.Count(lines, "zookeeper is back") != n+1 || len(after.FindAllString(lines, -1)) != n {
				t.Errorf("outage %d: its end is to be logged once:\n%s", n, lines)
			}
		}
	})
}

// Open's error tells of an outage, and not the log as well.
func TestOpenInAnOutageIsNotLogged(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		refused := z.Faults().Refuse()
		time.AfterFunc(5*time.Second, refused.Remove)
		cfg := configure(z)
		log := logTo(&cfg)
		open(t, cfg)
		if strings.Contains(log.String(), "reached") || strings.Contains(log.String(), "back") {
			t.Errorf("logged:\n%s", log.String())
		}
	})
}

// Outage says since when there has been no answer, and why.
func TestF104_Outage(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, _ *Session) {
		want := func(what, text string) {
			t.Helper()
			synctest.Wait()
			if err := c.Outage(); fmt.Sprint(err) != text {
				t.Errorf("%s: %v, want %s", what, err, text)
			}
		}
		const none = "<nil>"
		want("connected", none)
		refused := z.Faults().Refuse()
		z.Faults().CutAll()
		time.Sleep(2 * time.Second)
		want("no connection", "no connection for 2s: zk:2181: connection refused")
		refused.Remove()
		time.Sleep(time.Second)
		want("back", none)

		frozen := z.Faults().BlackholeAll()
		for c.Outage() == nil { // until a ping, say, is pending
			time.Sleep(50 * time.Millisecond)
		}
		if err := c.Outage(); err == nil || !strings.HasPrefix(err.Error(), "no answer for ") || !strings.HasSuffix(err.Error(), "s: zk:2181") {
			t.Errorf("frozen: %v", err)
		}
		frozen.Remove()
		time.Sleep(10 * time.Second)
		want("back from the freeze", none)

		refused = z.Faults().Refuse()
		z.Faults().CutAll()
		c.Session().end(errSessionExpired, true)
		time.Sleep(12 * time.Second)
		want("no session", "no session for 12s: zk:2181: connection refused")
		refused.Remove()
		time.Sleep(10 * time.Second)
		want("a new session", none)
		mustClose(t, c)
		want("closed", none)
	})
}

// A session timeout that the servers change is a warning, once, with both values and
// what to change.
func TestChangedTimeoutIsLogged(t *testing.T) {
	for _, tt := range []struct {
		asked, granted time.Duration
		bound          string
	}{
		{100 * time.Millisecond, time.Second, "minSessionTimeout"},
		{10 * time.Minute, 10 * time.Second, "maxSessionTimeout"},
		{4 * time.Second, 4 * time.Second, ""},
	} {
		bubble(t, func(t *testing.T, z *zktest.Server) {
			cfg := configure(z)
			cfg.SessionTimeout = tt.asked
			log := logTo(&cfg)
			c := open(t, cfg)
			z.ExpireSession(c.Session().ID())
			time.Sleep(time.Minute)
			lines := log.String()
			want := fmt.Sprintf("asked=%v granted=%v", tt.asked, tt.granted)
			n := strings.Count(lines, "changed the session timeout")
			if tt.bound == "" && n != 0 || tt.bound != "" && (n != 1 || !strings.Contains(lines, want) || !strings.Contains(lines, "bound=\""+tt.bound)) {
				t.Errorf("%v: want %s and the bound %q once:\n%s", tt.asked, want, tt.bound, lines)
			}
		})
	}
}
