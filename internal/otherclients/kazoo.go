// SPDX-License-Identifier: Apache-2.0

package otherclients

import (
	"context"
	"os/exec"
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// Kazoo returns a program in Python that uses kazoo, ready to start. The end of ctx kills
// the program.
func Kazoo(ctx context.Context, tb testing.TB, script string, args ...string) *exec.Cmd {
	tb.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(ctx, python, "-c", "import kazoo").Run() == nil {
			return exec.CommandContext(ctx, python, append([]string{script}, args...)...)
		}
	}
	realzk.NotRun(tb, "no python3 has the module kazoo (Debian: apt-get install python3-kazoo)")
	return nil
}
