// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// envRole makes the test binary play a child.
const envRole = "CHILD_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case "":
		goleak.VerifyTestMain(m)
	case "parent": // it starts another, tells its pid, and waits
		cmd := role("sleeper")
		if err := NewStarter().Start(cmd); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(cmd.Process.Pid)
		<-time.After(time.Hour)
	case "sleeper":
		<-time.After(time.Hour)
	case "speaker":
		fmt.Println("one\ntwo")
		fmt.Fprintln(os.Stderr, "three")
		os.Exit(3)
	case "uptime":
		text, err := os.ReadFile("/proc/uptime")
		fmt.Println(string(text), err)
	}
}

// role returns a command that plays a child in that role.
func role(name string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envRole+"="+name)
	return cmd
}

// awaitEnd waits until no process has the pid.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		if _, ended := state(pid); ended {
			return
		}
		select {
		case <-poll.C:
		case <-t.Context().Done():
			t.Fatalf("process %d does not end", pid)
		}
	}
}

// A child dies with its parent, also while it is paused.
func TestChildDiesWithItsParent(t *testing.T) {
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprintf("paused=%v", paused), func(t *testing.T) {
			parent := role("parent")
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			line, _ := bufio.NewReader(out).ReadString('\n')
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatalf("the parent says %q", line)
			}
			child, err := os.FindProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			if paused {
				if err := Pause(child); err != nil {
					t.Fatal(err)
				}
			}
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait() // it was killed
			awaitEnd(t, pid)
		})
	}
}

// Close kills what the Starter has started, whichever thread that was, and later Starts
// fail.
func TestStarterCloses(t *testing.T) {
	for range 30 { // by chance on the program's first thread, which cannot end
		s := NewStarter()
		first, second := role("sleeper"), role("sleeper")
		for _, cmd := range []*exec.Cmd{first, second} {
			if err := s.Start(cmd); err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
		s.Close()
		for _, cmd := range []*exec.Cmd{first, second} {
			late := time.AfterFunc(10*time.Second, func() {
				t.Error("Close has not killed it")
				_ = cmd.Process.Kill()
			})
			if err := cmd.Wait(); err == nil {
				t.Error("it ended well")
			}
			late.Stop()
		}
		if err := s.Start(role("sleeper")); !errors.Is(err, errClosed) {
			t.Errorf("Start after Close: %v", err)
		}
	}
}

// A Starter's thread is never the program's first one.
func TestOwnThread(t *testing.T) {
	for range 1000 {
		main := make(chan bool)
		onOwnThread(func() { main <- onMainThread() })
		if <-main {
			t.Fatal("it is the first thread")
		}
	}
}

// A paused process has stopped when Pause returns, and one that has ended is told.
func TestPause(t *testing.T) {
	s := NewStarter()
	defer s.Close()
	cmd := role("sleeper")
	if err := s.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := Pause(cmd.Process); err != nil {
		t.Fatal(err)
	}
	if stopped, ended := state(cmd.Process.Pid); !stopped || ended {
		t.Errorf("paused: stopped %v, ended %v", stopped, ended)
	}
	if err := Resume(cmd.Process); err != nil {
		t.Fatal(err)
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for stopped := true; stopped; stopped, _ = state(cmd.Process.Pid) {
		<-poll.C
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, cmd.Process.Pid) // it is not reaped yet
	if err := Pause(cmd.Process); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Pause of a process that has ended: %v", err)
	}
	_ = cmd.Wait() // it was killed
}

// Another clock is that much ahead, and the thread that has set it starts no process of
// other Starters.
func TestClock(t *testing.T) {
	if err := ClocksCanDiffer(); err != nil {
		t.Logf("not tested: %v", err)
		return
	}
	const offset = 1234567 * time.Second
	other, err := NewStarterWithClock(offset)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	same := NewStarter()
	defer same.Close()
	before := uptime(t, same)
	ahead := uptime(t, other) - before
	after := uptime(t, same)
	if ahead < offset || ahead > offset+after-before+time.Second {
		t.Errorf("%v ahead, want %v", ahead, offset)
	}
}

// uptime returns what a process that the Starter starts reads from the clock.
func uptime(t *testing.T, s *Starter) time.Duration {
	t.Helper()
	cmd := role("uptime")
	var out strings.Builder
	cmd.Stdout = &out
	if err := s.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(strings.Fields(out.String())[0], 64)
	if err != nil {
		t.Fatalf("it says %q", out.String())
	}
	return time.Duration(seconds * float64(time.Second))
}
