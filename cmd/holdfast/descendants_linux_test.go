// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// TestRunEndsWhatTheGuardLeaves: when the guard is killed, the system kills the program. Run
// kills what that leaves, in its process group and elsewhere, which no SIGTERM would end,
// and only then releases the lock and ends.
func TestRunEndsWhatTheGuardLeaves(t *testing.T) {
	server, addr := serve(t)
	c := begin(t, "run", "--servers", addr, "x", "--", "sh", "-c",
		`trap '' TERM; sleep 100 & echo $!; setsid sleep 100 & echo $!; (sh -c 'echo $PPID; echo in; sleep 100'; true) & wait`)
	c.stdout.await(t, "in")
	kill(t, guardOf(t, c), syscall.SIGKILL)
	if code := c.code(); code != 137 {
		t.Errorf("exit code %d, %s", code, c.stderr)
	}
	for _, line := range strings.Fields(strings.TrimSuffix(c.stdout.String(), "in\n")) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
	if n := len(server.Children("/holdfast/x")); n > 0 {
		t.Errorf("%d contenders are left", n)
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
