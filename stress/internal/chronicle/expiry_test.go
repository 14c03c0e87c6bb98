// SPDX-License-Identifier: Apache-2.0

package chronicle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/cluster"
	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// What a server tells of ended sessions is in the history, also if it may have been deposed:
// then the history says so.
func TestExpiriesOfADeposedServer(t *testing.T) {
	dir := t.TempDir()
	c, err := New(dir, history.Header{})
	if err != nil {
		t.Fatal(err)
	}
	o := NewObituary(&cluster.Cluster{}, c)
	for id := range 3 {
		path := filepath.Join(dir, fmt.Sprintf("server%d.log", id))
		line := fmt.Sprintf("%s [myid:] - INFO - Expiring session 0x%d00, timeout of 4000ms exceeded\n", time.Now().Format("15:04:05.000"), id)
		if err := os.WriteFile(path, []byte(line), 0o666); err != nil {
			t.Fatal(err)
		}
		o.logs = append(o.logs, &serverLog{id: id, path: path})
	}
	c.Write(history.Event{Kind: history.FaultBegan, At: 1, Fault: 1, Text: "isolate-leader", Target: "server 2 (leader)"})
	for range 2 { // what was read is not read again
		if err := o.Look(); err != nil {
			t.Fatal(err)
		}
	}
	over(t, c)
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

// The log is read as it grows.
func TestServerLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "zookeeper.log")
	l := &serverLog{id: 1, path: path}
	var found []string
	var times []time.Time
	read := func() {
		t.Helper()
		err := l.read(func(session string, at time.Time) {
			found, times = append(found, session), append(times, at)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	read() // there is no file yet
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write("11:22:33.444 [main] INFO org.apache.zookeeper.server.ZooKeeperServer - Snapshotting\n" +
		"11:22:33.555 [SessionTracker] INFO org.apache.zookeeper.server.ZooKeeperServer - Expiring session 0x1000000a, timeout of 4000ms exceeded\n" +
		"11:22:34.000 [SessionTracker] INFO org.apache.zookeeper.server.ZooKeeperServer - Expiring sess")
	read()
	write("ion 0x1000000b, timeout of 4000ms exceeded\n")
	read()
	if !slices.Equal(found, []string{"0x1000000a", "0x1000000b"}) {
		t.Fatalf("found %q", found)
	}
	if at := times[0]; at.Hour() != 11 || at.Minute() != 22 || at.Nanosecond() != 555_000_000 {
		t.Errorf("the first ended at %v", at)
	}
}

func TestTimeOfDay(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 5, 0, time.Local)
	for text, want := range map[string]time.Time{
		"00:00:04.500": time.Date(2026, 3, 1, 0, 0, 4, 500_000_000, time.Local),
		"23:59:59.000": time.Date(2026, 2, 28, 23, 59, 59, 0, time.Local),
	} {
		if got := timeOfDay(text, now); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
