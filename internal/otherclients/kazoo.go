// SPDX-License-Identifier: Apache-2.0

package otherclients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// Kazoo returns a program in Python that uses kazoo, ready to start. The end of ctx kills the
// program.
func Kazoo(ctx context.Context, tb testing.TB, script string, args ...string) *exec.Cmd {
	tb.Helper()
	return exec.CommandContext(ctx, python(ctx, tb), append([]string{script}, args...)...)
}

// KazooMended reports whether kazoo is 2.11 or newer, and not the 2.8 that Debian ships, whose
// ReadLock waits for writers behind it.
func KazooMended(tb testing.TB) bool {
	tb.Helper()
	version, err := exec.CommandContext(tb.Context(), python(tb.Context(), tb), "-c", "import kazoo; print(kazoo.__version__)").Output()
	if err != nil {
		tb.Fatalf("the version of kazoo: %v", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(version), "%d.%d", &major, &minor); err != nil {
		tb.Fatalf("kazoo has the version %q: %v", version, err)
	}
	return major > 2 || major == 2 && minor >= 11
}

// python returns $KAZOO_PYTHON, if that is set, or else the first python3 that has kazoo.
func python(ctx context.Context, tb testing.TB) string {
	tb.Helper()
	hasKazoo := func(python string) error { return exec.CommandContext(ctx, python, "-c", "import kazoo").Run() }
	if python := os.Getenv("KAZOO_PYTHON"); python != "" {
		if err := hasKazoo(python); err != nil {
			realzk.NotRun(tb, fmt.Sprintf("KAZOO_PYTHON is %q, which cannot import kazoo: %v", python, err))
		}
		return python
	}
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if hasKazoo(python) == nil {
			return python
		}
	}
	realzk.NotRun(tb, "no python3 has the module kazoo (Debian: apt-get install python3-kazoo)")
	return ""
}
