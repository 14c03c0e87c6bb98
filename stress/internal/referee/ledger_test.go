// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/manager"
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
		{"not told", []turn{{token: 1, panics: true}, {process: 1, token: 2, want: ErrUntold}}},
		{"not told by the same process", []turn{{token: 1, panics: true}, {token: 2, want: ErrUntold}}},
		{"told after a release in good order", []turn{{token: 1}, {process: 1, token: 2, abandoned: true, want: ErrTold}}},
		{"told although another had recovered", []turn{{token: 1, panics: true}, {token: 2, abandoned: true, recovers: true}, {process: 1, token: 3, abandoned: true, want: ErrTold}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock-0")
			var ledgers [2]*Ledger
			for i := range ledgers {
				var err error
				if ledgers[i], err = OpenLedger(path); err != nil {
					t.Fatal(err)
				}
				defer ledgers[i].Close()
			}
			for i, turn := range tt.turns {
				b := ledgers[turn.process]
				err := b.Begin(manager.Grant{Token: turn.token, Abandoned: turn.abandoned})
				if !errors.Is(err, turn.want) {
					t.Errorf("turn %d: %v, want %v", i, err, turn.want)
				}
				if turn.recovers {
					err = errors.Join(err, b.Recover(turn.token))
				}
				if turn.panics {
					err = errors.Join(err, b.Interrupt(turn.token))
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
	found := []string{"/r/_held_", "/r/_held_/lock-0", "/r/_held_/lock-1", "/r/_held_/lock-2", "/r/lock-0/node"}
	for lost, want := range map[bool][]string{false: found[2:], true: found[4:]} {
		left := slices.DeleteFunc(slices.Clone(found), func(node string) bool { return Explained(node, "/r", dir, lost) })
		if !slices.Equal(left, want) {
			t.Errorf("holds were lost: %t; %q are left, want %q", lost, left, want)
		}
	}
}
