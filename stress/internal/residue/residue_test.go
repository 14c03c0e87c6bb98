// SPDX-License-Identifier: Apache-2.0

package residue

import (
	"strings"
	"testing"
)

func TestResidue(t *testing.T) {
	before := Residue{goroutines: 10, files: 20, heap: 1 << 20}
	tests := []struct {
		after Residue
		says  string
	}{
		{Residue{10, 20, 5 << 20}, ""},
		{Residue{9, 12, 1 << 10}, ""},
		{Residue{11, 20, 1 << 20}, "11 goroutines"},
		{Residue{10, 21, 1 << 20}, "21 open files"},
		{Residue{10, -1, 1 << 20}, ""},
		{Residue{10, 20, 60 << 20}, "60 MiB"},
	}
	for _, tt := range tests {
		err := tt.after.left(before)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v, want %q", tt.after, err, tt.says)
		}
	}
}
