// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"reflect"
	"testing"
	"time"
)

func TestLockTime(t *testing.T) {
	tests := []struct {
		name      string
		processes []time.Duration
		percent   []float64
		ofRun     float64
	}{
		{"fair", []time.Duration{4 * time.Second, 4 * time.Second}, []float64{50, 50}, 80},
		{"one starves", []time.Duration{0, 10 * time.Second}, []float64{0, 100}, 100},
		{"never used", []time.Duration{0, 0}, []float64{0, 0}, 0},
		{"three", []time.Duration{time.Second, time.Second, 2 * time.Second}, []float64{25, 25, 50}, 40},
		{"readers together", []time.Duration{10 * time.Second, 10 * time.Second}, []float64{50, 50}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := NewLockTime("l", tt.processes, 10*time.Second)
			if want := (LockTime{"l", tt.processes, tt.percent, tt.ofRun}); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	if got := NewLockTime("l", []time.Duration{0}, 0); got.PercentOfRun != 0 {
		t.Errorf("a run that took no time: %+v", got)
	}
}
