// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// TestBashCompletion has bash complete command lines.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		realzk.NotRun(t, "it needs bash")
	}
	script, stderr, code := do(t, "completion", "bash")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	for _, tt := range []struct{ line, want string }{
		{"holdfast wh", "who"},
		{"holdfast w", "who watch"},
		{"holdfast run --try --r", "--root --read"},
		{"holdfast run --wr", "--write"},
		{"holdfast run --on-revoke t", "term"},
		{"holdfast run --on-revoke = i", "ignore"}, // as bash splits --on-revoke=i
		{"holdfast --servers zk1 wh", "who"},
		{"holdfast --servers = zk1 wh", "who"},
		{"holdfast run --wait ", ""},
		{"holdfast completion z", "zsh"},
		{"holdfast run x -- --r", ""},
	} {
		t.Run(tt.line, func(t *testing.T) {
			words := strings.Split(tt.line, " ")
			ask := script + `
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _holdfast; echo "${COMPREPLY[@]}"`
			out, err := exec.Command(bash, append([]string{"--norc", "-c", ask, "bash"}, words...)...).CombinedOutput()
			if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != tt.want {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// TestCompletionScripts: the shells that are here can read the scripts for them.
func TestCompletionScripts(t *testing.T) {
	for shell, args := range map[string][]string{"bash": {"--norc", "-n"}, "zsh": {"-n"}, "fish": {"--no-execute"}} {
		t.Run(shell, func(t *testing.T) {
			script, _, code := do(t, "completion", shell)
			if code != 0 || !strings.Contains(script, "revoke") || !strings.Contains(script, "on-revoke") {
				t.Errorf("exit code %d, %s", code, script)
			}
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Logf("no %s here: its script is not run", shell)
				return
			}
			cmd := exec.Command(path, args...)
			if shell == "fish" {
				file := filepath.Join(t.TempDir(), "script")
				writeFile(t, file, script)
				cmd.Args = append(cmd.Args, file)
			}
			cmd.Stdin = strings.NewReader(script)
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v, %s", err, out)
			}
		})
	}
}
