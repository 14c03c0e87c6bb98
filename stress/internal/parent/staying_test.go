// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/nemesis"
	"github.com/holdfast-go/holdfast/stress/internal/progress"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// An orderBook notes what a process is told, and when. The parent's goroutine alone uses it
// until that has ended.
type orderBook struct {
	process int
	began   time.Time
	told    *[]string
}

func (b orderBook) Write(line []byte) (int, error) {
	*b.told = append(*b.told, fmt.Sprintf("%v process %d: %s", time.Since(b.began), b.process, bytes.TrimSpace(line)))
	return len(line), nil
}

func (orderBook) Close() error { return nil }

// A fault on a process or a server has two processes stay inside with locks until it is
// over, or a moment longer if it deletes a node, unless it is to hit locks that change hands.
func TestFaultsHaveWorkersStay(t *testing.T) {
	for _, tt := range []struct {
		kind, target string
		stays        bool
		told         []string
	}{
		{"cut-connection", "process 3", true, []string{"0s process 3: stay 0", "0s process 0: stay 1", "3s process 3: leave 0", "3s process 0: leave 1"}},
		{"pause-leader", "server 2 (leader)", true, []string{"0s process 1: stay 0", "0s process 2: stay 1", "3s process 1: leave 0", "3s process 2: leave 1"}},
		{"delete-holder", "process 1", true, []string{"0s process 1: stay 0", "0s process 2: stay 1", "3.5s process 1: leave 0", "3.5s process 2: leave 1"}},
		{"cut-connection", "process 3", false, nil},
		{"delete-holder", "process 1", false, nil},
		{"revoke", "lock lock-0", true, nil},
	} {
		t.Run(fmt.Sprintf("%s, %v", tt.kind, tt.stays), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				var shown strings.Builder
				p := &parent{calls: make(chan func()), reporter: progress.New(&shown)}
				p.options.Processes = 4
				p.options.Kind = wire.QueueWorkload // the queues of which are not looked at
				for i := range p.options.Processes {
					p.processes = append(p.processes, &process{index: i, ready: true, stdin: orderBook{i, time.Now(), &told}})
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for call := range p.calls {
						call()
					}
				}()
				x := &trouble{parent: p, staying: map[third]int{}}
				e := history.Event{Kind: history.FaultBegan, Fault: 5, Text: tt.kind, Target: tt.target, Stays: tt.stays}
				x.record(e)
				time.Sleep(3*time.Second - time.Since(p.processes[0].stdin.(orderBook).began)) // while it lasts
				e.Kind = history.FaultEnded
				x.record(e)
				close(p.calls)
				<-ended
				if !slices.Equal(told, tt.told) {
					t.Errorf("told %q, want %q", told, tt.told)
				}
				if len(x.staying) > 0 {
					t.Errorf("still to stay: %v", x.staying)
				}
				if says := strings.Contains(shown.String(), "while the locks change hands"); says == tt.stays {
					t.Errorf("shown: %q", shown.String())
				}
			})
		})
	}
}

// A place is still if workers of the lock's holder stay inside, be it the holder's or one
// that waits for it.
func TestMarkStill(t *testing.T) {
	place := func(process int, lock string) nemesis.Place { return nemesis.Place{Process: process, Lock: lock} }
	holders := []nemesis.Place{place(0, "a"), place(1, "b"), place(2, "c")}
	waiters := []nemesis.Place{place(1, "a"), place(0, "b"), place(2, "b")}
	// Process 0 stays inside with a, and would with c.
	markStill(holders, waiters, func(p nemesis.Place) bool { return p.Process == 0 && p.Lock != "b" })
	var still []string
	for _, p := range slices.Concat(holders, waiters) {
		if p.Still {
			still = append(still, fmt.Sprintf("%d %s", p.Process, p.Lock))
		}
	}
	if want := []string{"0 a", "1 a"}; !slices.Equal(still, want) {
		t.Errorf("still: %q, want %q", still, want)
	}
}
