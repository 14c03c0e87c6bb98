// SPDX-License-Identifier: Apache-2.0

package register

import (
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/history"
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
			r := &register{highest: map[string]history.Fence{}}
			for i, w := range tt.writes {
				var got bool
				if err := r.Write(Write{Lock: w.lock, Token: w.token, Turn: w.turn}, &got); err != nil || got != w.accepted {
					t.Errorf("write %d, %+v: accepted %t, %v", i, w, got, err)
				}
			}
		})
	}
}
