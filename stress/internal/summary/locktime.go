// SPDX-License-Identifier: Apache-2.0

package summary

import "time"

// LockTime is how long each process used one lock.
type LockTime struct {
	Lock      string          `json:"lock"`
	Processes []time.Duration `json:"process_ns"`
	Percent   []float64       `json:"percent"` // each process's share of their sum; 0 if that is 0
	// The sum as a share of the run. It can exceed 100: processes read together.
	PercentOfRun float64 `json:"percent_of_run"`
}

// NewLockTime returns the shares in a run that took elapsed.
func NewLockTime(lock string, processes []time.Duration, elapsed time.Duration) LockTime {
	l := LockTime{Lock: lock, Processes: processes, Percent: make([]float64, len(processes))}
	var sum time.Duration
	for _, d := range processes {
		sum += d
	}
	if sum > 0 {
		for i, d := range processes {
			l.Percent[i] = 100 * float64(d) / float64(sum)
		}
	}
	if elapsed > 0 {
		l.PercentOfRun = 100 * float64(sum) / float64(elapsed)
	}
	return l
}
