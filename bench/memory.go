// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// enoughMemory is how many bytes a process may have that is to run out of memory: more than it has
// when that begins.
const enoughMemory = 64 << 20

// A memoryGroup is a memory cgroup of Linux with one process, and those that it starts. When they
// have used up its memory, the kernel kills the largest.
type memoryGroup struct{ dir string }

// newMemoryGroup makes one. That takes root's rights, and a hierarchy in which it is permitted: that of
// version 1, or one of version 2 whose root passes the controller on.
func newMemoryGroup(name string) (*memoryGroup, error) {
	parent, limit := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(parent, limit)); err != nil {
		parent, limit = "/sys/fs/cgroup", "memory.max"
	}
	g := &memoryGroup{filepath.Join(parent, name)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("no memory cgroup can be had: %w", err)
	}
	if err := g.write(limit, enoughMemory); err != nil {
		g.remove()
		return nil, fmt.Errorf("no memory cgroup can be had: %w", err)
	}
	return g, nil
}

// add puts a process into the group.
func (g *memoryGroup) add(pid int) error { return g.write("cgroup.procs", pid) }

func (g *memoryGroup) write(file string, n int) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.Itoa(n)), 0)
}

// remove removes the group, once its processes have ended: the helper of the one that was killed is
// in it, too. After some seconds the group stays.
func (g *memoryGroup) remove() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(5 * time.Second); os.Remove(g.dir) != nil && time.Now().Before(late); {
		<-tick.C
	}
}
