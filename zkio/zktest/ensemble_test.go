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
	case a.verb == "CutLink":
		e.CutLink(numbers[0], numbers[1])
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

// TestNoSuchServer: a number that no server has is refused in words that say which there are.
func TestNoSuchServer(t *testing.T) {
	e := newEnsemble(t, zktest.EnsembleConfig{Observers: 1})
	e.Server(4) // the observer
	const to4 = ": the ensemble has 1 to 4"
	for _, test := range []struct {
		call string
		do   func()
		want string
	}{
		{"Server(0)", func() { e.Server(0) }, "zktest: there is no server 0" + to4},
		{"Server(5)", func() { e.Server(5) }, "zktest: there is no server 5" + to4},
		{"Isolate(7)", func() { e.Isolate(7) }, "zktest: there is no server 7" + to4},
		{"Pause(0)", func() { e.Pause(0) }, "zktest: there is no server 0" + to4},
		{"Resume(-1)", func() { e.Resume(-1) }, "zktest: there is no server -1" + to4},
		{"CutLink(1, 9)", func() { e.CutLink(1, 9) }, "zktest: there is no server 9" + to4},
		{"CutLink(1, 1)", func() { e.CutLink(1, 1) }, "zktest: server 1 has no link to itself: name two servers"},
		{"SlowLink(2, 2, 1s)", func() { e.SlowLink(2, 2, time.Second) }, "zktest: server 2 has no link to itself: name two servers"},
		{"Deafen(3, 3)", func() { e.Deafen(3, 3) }, "zktest: server 3 has no link to itself: name two servers"},
	} {
		func() {
			defer func() {
				if got := recover(); got != test.want {
					t.Errorf("%s panics with %v, want %s", test.call, got, test.want)
				}
			}()
			test.do()
		}()
	}
	e.Heal() // none of them holds the mutex
}
