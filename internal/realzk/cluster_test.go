// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk/scratch"
)

func runCluster(t *testing.T, opts ...Option) *Cluster {
	t.Helper()
	Require(t)
	c, err := RunEnsemble(t.Context(), 3, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// A command's ensemble names its servers by their numbers, and leaves nothing behind.
func TestRunEnsembleForCommands(t *testing.T) {
	t.Parallel()
	c := runCluster(t, ConfigLine("syncLimit=4"))
	ctx := t.Context()
	leader, err := c.Settled(ctx)
	if err != nil {
		t.Fatal(err)
	}
	followers, err := c.Followers(ctx)
	if all := append(slices.Clone(followers), leader); err != nil || len(all) != 3 || slices.Max(all) != 3 || slices.Contains(followers, leader) {
		t.Errorf("leader %d, followers %v, error %v", leader, followers, err)
	}
	follower := followers[0]

	if err := c.Pause(follower); err != nil {
		t.Fatal(err)
	}
	if r := c.Roles(ctx); r.Other != 1 || r.Leader != leader {
		t.Errorf("with a paused follower: %+v", r)
	}
	if err := c.Resume(follower); err != nil {
		t.Fatal(err)
	}
	if err := c.Isolate(follower); err != nil {
		t.Fatal(err)
	}
	if r := c.Roles(ctx); r.Isolated != 1 || r.Leader == 0 {
		t.Errorf("with an isolated follower: %+v", r)
	}
	c.Heal()
	if _, err := c.Settled(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Kill(follower); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := c.Settled(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not all servers serve") {
		t.Errorf("settled with a killed server: %v", err)
	}
	if err := c.Restart(ctx, follower); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Settled(ctx); err != nil {
		t.Error(err)
	}
	for _, bad := range []error{c.Kill(0), c.Isolate(4)} {
		if bad == nil || !strings.Contains(bad.Error(), "no server") {
			t.Errorf("a server that does not exist: %v", bad)
		}
	}

	dir := filepath.Dir(c.Members()[0].Dir())
	if text, err := os.ReadFile(c.Members()[0].LogFile()); err != nil || len(text) == 0 {
		t.Errorf("the log: %d bytes, %v", len(text), err)
	}
	// Without a majority no server serves, so the restart goes on until Stop ends it.
	for id := range 3 {
		if err := c.Kill(id + 1); err != nil {
			t.Fatal(err)
		}
	}
	restarted := make(chan error, 1)
	go func() { restarted <- c.Restart(ctx, 1) }()
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	if err := <-restarted; err == nil {
		t.Error("a server restarted without the others")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory stays: %v", err)
	}
}

// playOwner starts an ensemble, prints its directory and the pids, and waits.
func playOwner() {
	c, err := RunEnsemble(context.Background(), 3)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Print(c.temp.Path())
	for _, p := range c.Members() {
		fmt.Print(" ", p.PID())
	}
	fmt.Println()
	<-time.After(time.Hour)
}

// The servers die with a command that is killed, even paused ones, and the next command
// removes their directory.
func TestEnsembleOfAKilledCommand(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		NotRun(t, "only Linux kills a server whose parent was killed")
	}
	Require(t)
	temp := t.TempDir()
	cmd, line := startChild(t, envChild+"=ensemble", "TMPDIR="+temp)
	var dir string
	var pids [3]int
	if _, err := fmt.Sscan(line, &dir, &pids[0], &pids[1], &pids[2]); err != nil {
		t.Fatalf("the command said %q", line)
	}
	if !strings.HasPrefix(dir, temp) {
		t.Fatalf("the directory %s is not in %s", dir, temp)
	}
	for _, pid := range pids {
		if !running(pid) {
			t.Errorf("server %d does not run", pid)
		}
	}
	killChild(t, cmd, pids[:]...)
	if _, err := os.Stat(filepath.Join(dir, "1", "zoo.cfg")); err != nil {
		t.Errorf("the killed command has no directory: %v", err)
	}
	next, err := scratch.NewIn(temp, scratchPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of a killed command stays: %v", err)
	}
}
