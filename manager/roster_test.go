// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"
	"testing"
)

func TestRoster(t *testing.T) {
	var r roster[int]
	tests := []struct {
		do   string
		fn   func(int)
		v    int
		want []int
	}{
		{"remove", r.remove, 1, nil},
		{"add", r.add, 1, []int{1}},
		{"add", r.add, 2, []int{1, 2}},
		{"add", r.add, 3, []int{1, 2, 3}},
		{"remove", r.remove, 1, []int{2, 3}},
		{"remove", r.remove, 1, []int{2, 3}},
		{"remove", r.remove, 3, []int{2}},
		{"add", r.add, 1, []int{1, 2}},
		{"remove", r.remove, 2, []int{1}},
		{"remove", r.remove, 1, nil},
	}
	for i, tt := range tests {
		tt.fn(tt.v)
		got := r.list()
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Fatalf("step %d: after %s(%d): %v, want %v", i, tt.do, tt.v, got, tt.want)
		}
	}
}
