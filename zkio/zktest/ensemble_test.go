// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestEnsembles plays the scripts in testdata/ensembles in virtual time, on ensembles whose
// servers wait two seconds for news of their leader. Each client's name ends with the number of
// its server. With -update it rewrites them; read the difference.
func TestEnsembles(t *testing.T) {
	eachScript(t, func(t *testing.T, file string) {
		synctest.Test(t, func(t *testing.T) {
			var e *zktest.Ensemble
			var m *remote
			r := newRecord(t, func(client string) (net.Conn, error) {
				return e.Dial(t.Context(), "tcp", "zk"+client[len(client)-1:]+":2181")
			})
			r.patience = 500 * time.Millisecond // without an answer: longer than any link is slow
			r.command = func(a args) (string, bool) {
				if a.verb == "Ensemble" {
					e = newEnsemble(t, zktest.EnsembleConfig{
						Servers: int(a.option("servers", 3)), Observers: int(a.option("observers", 0)), SyncLimit: 4,
					})
					m = r.remote(e.Server(1))
					return "", true
				}
				if result, ok := direct(e, a); ok {
					return result, true
				}
				return m.do(a)
			}
			r.playFile(file)
			_ = e.Close() // with connections to all servers
		})
	}, "testdata/ensembles")
}

// newEnsemble starts an ensemble with a tick of 500 ms, and closes it at the end of the test.
func newEnsemble(t *testing.T, cfg zktest.EnsembleConfig) *zktest.Ensemble {
	cfg.Config = zktest.Config{TickTime: ensembleTick, Logger: quiet}
	e := zktest.NewEnsemble(cfg)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// direct has an ensemble carry out a command of the "server" in a script.
func direct(e *zktest.Ensemble, a args) (result string, ok bool) {
	var numbers []int
	for _, word := range a.words {
		if n, err := strconv.Atoi(word); err == nil {
			numbers = append(numbers, n)
		}
	}
	switch {
	case a.verb == "Leader":
		return strconv.Itoa(e.Leader()), true
	case a.verb == "Heal":
		e.Heal()
	case a.verb == "Isolate":
		e.Isolate(numbers...)
	case a.verb == "Deafen":
		e.Deafen(numbers[0], numbers[1])
	case a.verb == "SlowLink":
		e.SlowLink(numbers[0], numbers[1], a.duration(2))
	case len(numbers) != 1:
		return "", false
	case a.verb == "Pause":
		e.Pause(numbers[0])
	case a.verb == "Resume":
		e.Resume(numbers[0])
	case a.verb == "Stop":
		e.Server(numbers[0]).Stop()
	case a.verb == "Start":
		e.Server(numbers[0]).Start()
	default:
		return "", false
	}
	synctest.Wait()
	return "", true
}
