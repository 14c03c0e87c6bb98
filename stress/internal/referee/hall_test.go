// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The files show who is inside, and whether all were told the same.
func TestHall(t *testing.T) {
	h := NewHall(filepath.Join(t.TempDir(), "lock-0"), 3)
	var leaves []func() error
	for worker := range 2 {
		_, leave, err := h.Enter(7, worker)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	for left := range 3 {
		for round, want := range map[uint64]int{7: 2 - left, 8: 0, 70: 0} {
			all, err := h.Inside(round)
			if len(all) != want || err != nil {
				t.Errorf("%d have left, and %v are inside round %d: %v", left, all, round, err)
			}
			for _, in := range all {
				if in.Process != 3 || in.PID != os.Getpid() || in.Token != round {
					t.Errorf("%+v is inside round %d", in, round)
				}
			}
		}
		if left < 2 {
			if err := leaves[left](); err != nil {
				t.Error(err)
			}
		}
	}
	for _, tt := range []struct {
		round      uint64
		what, want string
	}{{7, "all", ""}, {7, "all", ""}, {7, "none", "all"}, {8, "none", ""}} {
		if first, err := h.Told(tt.round, 0, tt.what); first != tt.want || err != nil {
			t.Errorf("%+v: %q, %v", tt, first, err)
		}
	}
	if !h.Begun(7) || h.Begun(70) {
		t.Errorf("round 7 has begun: %t, and round 70: %t", h.Begun(7), h.Begun(70))
	}
}

// The files of rounds do not fill the disk.
func TestHallForgetsRounds(t *testing.T) {
	dir := t.TempDir()
	h := NewHall(filepath.Join(dir, "lock-0"), 0)
	for round := range uint64(manyRounds + 100) {
		_, leave, err := h.Enter(round, 1) // which is killed
		if err != nil {
			t.Fatal(err)
		}
		if err := leave(); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Told(round, 0, "all"); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2*manyRounds {
		t.Errorf("%d files are left, %v", len(files), err)
	}
	if first, err := h.Told(100, 1, "none"); first != "all" || err != nil {
		t.Errorf("of a round that is remembered: %q, %v", first, err)
	}
}

func TestKept(t *testing.T) {
	found := []string{"/r/lock-0/round", "/r/lock-0/members", "/r/lock-0/members/left-1", "/r/lock-0/members/in-1"}
	left := slices.DeleteFunc(found, func(node string) bool { return Kept(node, "") })
	if !slices.Equal(left, []string{"/r/lock-0/members/in-1"}) {
		t.Errorf("%q are left, want the node of a member", left)
	}
}
