// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// requireDescendants ends a test that needs what only Linux has.
func requireDescendants(*testing.T) {}

// TestSystemTime: the clock of leases goes on while the machine is suspended. In a time
// namespace, that clock can be ahead of the one that does not.
func TestSystemTime(t *testing.T) {
	const ahead = 1_000_000 * time.Second
	unshare := []string{"--time", "--fork", "--kill-child", fmt.Sprintf("--boottime=%d", ahead/time.Second)}
	if out, err := exec.Command("unshare", append(unshare, "true")...).CombinedOutput(); err != nil {
		realzk.NotRun(t, fmt.Sprintf("it needs unshare and the right to make a namespace: %v, %s", err, out))
	}
	file := filepath.Join(t.TempDir(), "stamps")
	c := prepare(t)
	c.Path, _ = exec.LookPath("unshare") // found above
	c.Args = slices.Concat([]string{"unshare"}, unshare, stamper(file))
	c.begin()
	if first := awaitStamps(t, file, 1).first; first < systemTime()+ahead-patience {
		t.Errorf("the time is %v, here it is %v; want %v more", first, systemTime(), ahead)
	}
}

// childrenOf returns the children of a process.
func childrenOf(t *testing.T, parent int) (children []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && parentOf(e.Name()) == parent {
			children = append(children, pid)
		}
	}
	return children
}
