// SPDX-License-Identifier: Apache-2.0

package otherclients

import (
	"context"
	"fmt"
	"os/exec"
	"testing"

	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/realzk"
)

// Kazoo returns a program in Python that uses kazoo, ready to start. The end of ctx kills the
// program.
func Kazoo(ctx context.Context, tb testing.TB, script string, args ...string) *exec.Cmd {
	tb.Helper()
	python, _ := kazoo(ctx, tb)
	return exec.CommandContext(ctx, python, append([]string{script}, args...)...)
}

// KazooMended reports whether kazoo is 2.11 or newer, and not the 2.8 that Debian ships, whose
// ReadLock waits for writers behind it.
func KazooMended(tb testing.TB) bool {
	tb.Helper()
	_, version := kazoo(tb.Context(), tb)
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		tb.Fatalf("kazoo has the version %q: %v", version, err)
	}
	return major > 2 || major == 2 && minor >= 11
}

// kazoo returns the interpreter that has kazoo, and its version.
func kazoo(ctx context.Context, tb testing.TB) (python, version string) {
	tb.Helper()
	python, version, err := foreign.Python(ctx)
	if err != nil {
		realzk.NotRun(tb, err.Error())
	}
	return python, version
}
