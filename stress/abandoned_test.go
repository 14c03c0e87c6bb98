// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// TestLedger has two processes take turns, and the ledger judge what their grants say.
func TestLedger(t *testing.T) {
	type turn struct {
		process          int
		token            uint64
		abandoned        bool // what the grant says
		recovers, panics bool
		want             error
	}
	tests := []struct {
		name  string
		turns []turn
	}{
		{"released in good order", []turn{{token: 1}, {process: 1, token: 2}, {token: 3}}},
		{"interrupted, told, recovered", []turn{{token: 1, panics: true}, {process: 1, token: 2, abandoned: true, recovers: true}, {token: 3}}},
		{"told until one recovers", []turn{{token: 1, panics: true}, {process: 1, token: 2, abandoned: true}, {token: 3, abandoned: true, recovers: true}, {process: 1, token: 4}}},
		{"interrupted after it recovered", []turn{{token: 1, panics: true}, {process: 1, token: 2, abandoned: true, recovers: true, panics: true}, {token: 3, abandoned: true}}},
		{"the same round again, after it recovered", []turn{{token: 1, panics: true}, {token: 2, abandoned: true, recovers: true}, {token: 2}, {process: 1, token: 3}}},
		{"not told", []turn{{token: 1, panics: true}, {process: 1, token: 2, want: errUntold}}},
		{"not told by the same process", []turn{{token: 1, panics: true}, {token: 2, want: errUntold}}},
		{"told after a release in good order", []turn{{token: 1}, {process: 1, token: 2, abandoned: true, want: errTold}}},
		{"told although another had recovered", []turn{{token: 1, panics: true}, {token: 2, abandoned: true, recovers: true}, {process: 1, token: 3, abandoned: true, want: errTold}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock-0")
			var ledgers [2]*ledger
			for i := range ledgers {
				var err error
				if ledgers[i], err = newLedger(path); err != nil {
					t.Fatal(err)
				}
				defer ledgers[i].file.Close()
			}
			for i, turn := range tt.turns {
				b := ledgers[turn.process]
				err := b.begin(manager.Grant{Token: turn.token, Abandoned: turn.abandoned})
				if !errors.Is(err, turn.want) {
					t.Errorf("turn %d: %v, want %v", i, err, turn.want)
				}
				if turn.recovers {
					err = errors.Join(err, b.recover(turn.token))
				}
				if turn.panics {
					err = errors.Join(err, b.interrupt(turn.token))
				}
				if err != nil && turn.want == nil {
					t.Error(err)
				}
			}
		})
	}
}

// Only marks that the ledger knows of are no leaks.
func TestUnexplainedLeaks(t *testing.T) {
	dir := t.TempDir()
	for name, says := range map[string]string{"lock-0": "a", "lock-1": "c"} {
		if err := os.WriteFile(filepath.Join(dir, name+ledgerSuffix), []byte(says), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := func() []leak {
		return []leak{{Path: "/r/_held_"}, {Path: "/r/_held_/lock-0"}, {Path: "/r/_held_/lock-1"}, {Path: "/r/_held_/lock-2"}, {Path: "/r/lock-0/node"}}
	}
	if left := unexplained(found(), "/r", dir, false); len(left) != 3 || left[0].Path != "/r/_held_/lock-1" {
		t.Errorf("%v are left, want those of lock-1, lock-2 and the node", left)
	}
	if left := unexplained(found(), "/r", dir, true); len(left) != 1 || left[0].Path != "/r/lock-0/node" {
		t.Errorf("%v are left although holds were lost, want the node", left)
	}
}

func TestSummaryOfFalseReports(t *testing.T) {
	for _, tt := range []struct {
		reports, lost uint64
		want          verdict
	}{{0, 0, ok}, {1, 0, failed}, {1, 1, ok}, {2, 1, failed}} {
		s := exampleSummary()
		s.Verdict, s.Reasons, s.Swallow = "", nil, 0
		s.Counts = wire.Counts{Entries: 100000, FalseReports: tt.reports, LostHolds: tt.lost}
		s.Leaks = 0
		s.judge()
		if s.Verdict != tt.want {
			t.Errorf("%d false reports, %d lost holds: %s, want %s", tt.reports, tt.lost, s.Verdict, tt.want)
		}
	}
}
