// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The example runs, and finds nothing wrong.
func TestExampleProgram(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "example")
	if out, err := exec.Command("go", "build", "-o", program, "./example").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1 repeated") {
		t.Errorf("%v\n%s", err, out)
	}
}
