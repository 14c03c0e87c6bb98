// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// envParent makes the test binary make a directory there, tell its path, and wait.
const envParent = "SCRATCH_TEST_PARENT"

const prefix = "holdfast-scratch-"

func TestMain(m *testing.M) {
	parent := os.Getenv(envParent)
	if parent == "" {
		goleak.VerifyTestMain(m)
	}
	d, err := NewIn(parent, prefix)
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path(), "data"), nil, 0o600); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(d.Path() + "\n")
	<-time.After(time.Hour)
}

func newDir(t *testing.T, parent string) *Dir {
	t.Helper()
	d, err := NewIn(parent, prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// What a killed process has left goes when the next one makes a directory. What belongs to
// a process that runs stays, and so does what is no such directory.
func TestSweep(t *testing.T) {
	parent := t.TempDir()
	mine := newDir(t, parent)
	link, plain, foreign := filepath.Join(parent, prefix+"link"), filepath.Join(parent, prefix+"file"), filepath.Join(parent, prefix+"foreign")
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(foreign, "data"), 0o700); err != nil { // it has no owner's mark
		t.Fatal(err)
	}
	empty := filepath.Join(parent, prefix+"empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(self)
	other.Env = append(os.Environ(), envParent+"="+parent)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	others := strings.TrimSpace(line)
	if !exists(others) || !exists(mine.Path()) {
		t.Fatalf("the other process says %q", line)
	}
	newDir(t, parent)
	if !exists(filepath.Join(others, "data")) {
		t.Error("the directory of a process that runs is gone")
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it was killed
	newDir(t, parent)
	if exists(others) && canTell {
		t.Error("the directory of a killed process stays")
	}
	if exists(empty) && canTell {
		t.Error("the directory of a process that was killed before it had marked it stays")
	}
	for _, path := range []string{mine.Path(), link, elsewhere, plain, foreign} {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
}

// Many that begin at the same time do not remove each other's.
func TestTogether(t *testing.T) {
	parent := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				d, err := NewIn(parent, prefix)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(d.Path(), "data"), nil, 0o600); err != nil {
					t.Error(err)
				}
				if err := d.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestRemoveTwice(t *testing.T) {
	d := newDir(t, t.TempDir())
	for range 2 {
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	}
	if exists(d.Path()) {
		t.Error("it stays")
	}
}
