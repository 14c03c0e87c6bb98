// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strings"
	"testing"
)

func TestResidue(t *testing.T) {
	before := residue{goroutines: 10, files: 20, heap: 1 << 20}
	tests := []struct {
		after residue
		says  string
	}{
		{residue{10, 20, 5 << 20}, ""},
		{residue{9, 12, 1 << 10}, ""},
		{residue{11, 20, 1 << 20}, "11 goroutines"},
		{residue{10, 21, 1 << 20}, "21 open files"},
		{residue{10, -1, 1 << 20}, ""},
		{residue{10, 20, 60 << 20}, "60 MiB"},
	}
	for _, tt := range tests {
		err := tt.after.left(before)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v, want %q", tt.after, err, tt.says)
		}
	}
}
