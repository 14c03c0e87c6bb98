// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestCronKeepsNoFiles: however many programs have run, cron has no more files open.
func TestCronKeepsNoFiles(t *testing.T) {
	t.Parallel()
	_, addr := serve(t)
	c := prepare(t, "cron", "--servers", addr, "--every=20ms", "--missed=all", "reports", "--", "echo", "ran")
	c.Env = append(c.Env, "GOGC=off") // a collection would close what was forgotten
	c.begin()
	open := func(runs int) int {
		t.Helper()
		late := time.After(patience)
		for strings.Count(c.stdout.String(), "ran\n") < runs {
			select {
			case <-late:
				t.Fatalf("%d programs do not run: %s", runs, c.stdout)
			case <-time.After(10 * time.Millisecond):
			}
		}
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	// The runs that begin meanwhile have a few.
	if first, last := open(3), open(33); last > first+10 {
		t.Errorf("%d files are open after 3 runs, and %d after 33", first, last)
	}
}
