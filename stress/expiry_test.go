// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// What a server tells of ended sessions is in the history, also if it may have been deposed:
// then the history says so.
func TestExpiriesOfADeposedServer(t *testing.T) {
	dir := t.TempDir()
	c, err := newChronicle(dir, history.Header{}, newReporter(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	o := newObituary(&cluster{}, c)
	for id := range 3 {
		path := filepath.Join(dir, fmt.Sprintf("server%d.log", id))
		line := fmt.Sprintf("%s [myid:] - INFO - Expiring session 0x%d00, timeout of 4000ms exceeded\n", time.Now().Format("15:04:05.000"), id)
		if err := os.WriteFile(path, []byte(line), 0o666); err != nil {
			t.Fatal(err)
		}
		o.logs = append(o.logs, &serverLog{id: id, path: path})
	}
	c.write(history.Event{Kind: history.FaultBegan, At: 1, Fault: 1, Text: "isolate-leader", Target: "server 2 (leader)"})
	for range 2 { // what was read is not read again
		if err := o.look(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.judge(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.close(false); err != nil {
		t.Fatal(err)
	}
	by := map[string]string{}
	n := 0
	for e := range eventsOf(dir) {
		if e.Kind == history.Expired {
			by[e.Session] = e.Text
			n++
		}
	}
	if n != 3 || by["0x000"] != "" || by["0x100"] != "" || by["0x200"] != history.Deposed {
		t.Errorf("%d expiries: %v", n, by)
	}
}
