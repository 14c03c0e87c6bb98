// SPDX-License-Identifier: Apache-2.0

// Package residue finds what a process has not given back: goroutines, open files, and memory.
package residue

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A Residue is what a process has of what a run must give back.
type Residue struct {
	goroutines int
	files      int // -1: not known here
	heap       uint64
}

const (
	// So much memory may be left: buffers, and the latencies that were recorded.
	mostHeap = 32 << 20
	// Goroutines and connections end within that time after they were told to.
	patience = 2 * time.Second
)

// Take returns what the process has now.
func Take() Residue {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Residue{goroutines: runtime.NumGoroutine(), files: openFiles(), heap: m.HeapAlloc}
}

// openFiles returns how many files and connections are open, without those that the Go
// runtime keeps for waiting for others.
func openFiles() (n int) {
	const dir = "/proc/self/fd"
	files, err := os.ReadDir(dir)
	if err != nil {
		return -1
	}
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && !strings.HasPrefix(to, "anon_inode:") {
			n++
		}
	}
	return n
}

func (r Residue) left(before Residue) error {
	switch {
	case r.goroutines > before.goroutines:
		return fmt.Errorf("there are %d goroutines, and there were %d before the run", r.goroutines, before.goroutines)
	case before.files >= 0 && r.files > before.files:
		return fmt.Errorf("there are %d open files, and there were %d before the run", r.files, before.files)
	case r.heap > before.heap+mostHeap:
		return fmt.Errorf("%d MiB of memory are in use, and there were %d MiB before the run", r.heap>>20, before.heap>>20)
	}
	return nil
}

// Await waits until nothing is left, and returns what is.
func Await(before Residue) error {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for limit := time.Now().Add(patience); ; <-poll.C {
		err := Take().left(before)
		if err == nil || time.Now().After(limit) {
			return err
		}
	}
}
