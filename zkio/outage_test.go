// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"bytes"
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
// A connection that comes back at the first attempt is not logged.
func TestOutageIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		cfg := configure(z)
		log := logTo(&cfg)
		open(t, cfg)

		z.Faults().CutAll()
		time.Sleep(time.Second)
		if strings.Contains(log.String(), "reached") || strings.Contains(log.String(), "back") {
			t.Errorf("a short interruption was logged:\n%s", log.String())
		}

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
			if strings.Count(lines, "zookeeper is back") != n || strings.Count(lines, "server=zk:2181") != n {
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
