// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestRegister(t *testing.T) {
	type write struct {
		lock        string
		token, turn uint64
		accepted    bool
	}
	tests := []struct {
		name   string
		writes []write
	}{
		{"a token may write again", []write{{"a", 5, 0, true}, {"a", 5, 0, true}}},
		{"a lower token is refused", []write{{"a", 5, 0, true}, {"a", 4, 0, false}, {"a", 6, 0, true}, {"a", 5, 0, false}}},
		{"locks do not matter to each other", []write{{"a", 5, 0, true}, {"b", 4, 0, true}}},
		{"turns count among equal tokens", []write{{"a", 5, 2, true}, {"a", 5, 1, false}, {"a", 6, 1, true}, {"a", 5, 3, false}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &register{highest: map[string]fencing{}}
			for i, w := range tt.writes {
				if got := r.judge(registerWrite{Lock: w.lock, Token: w.token, Turn: w.turn}); got != w.accepted {
					t.Errorf("write %d, %+v: accepted %t", i, w, got)
				}
			}
		})
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
