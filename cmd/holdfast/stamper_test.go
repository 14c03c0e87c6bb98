// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stamperVerb makes the test program a stamper: a program to be run under a lock, which
// writes the time into a file every millisecond, for as long as it lives.
const stamperVerb = "stamper"

// stamperMain takes the file, and words:
//
//	stubborn  it ignores SIGTERM
//	parent    it starts another stamper, in a session of its own
//	leave     it ends when that one writes
func stamperMain(args []string) {
	file, words := args[0], args[1:]
	if slices.Contains(words, "stubborn") {
		signal.Ignore(syscall.SIGTERM)
	}
	if i := slices.Index(words, "parent"); i >= 0 {
		words = slices.Delete(slices.Clone(words), i, i+1)
		child := exec.Command(os.Args[0], slices.Concat([]string{stamperVerb, file}, words)...)
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for range time.Tick(time.Millisecond) {
		fmt.Fprintf(out, "%d %d\n", os.Getpid(), systemTime())
	}
}

// stamper returns the command line of a stamper.
func stamper(file string, words ...string) []string {
	return slices.Concat([]string{os.Args[0], stamperVerb, file}, words)
}

// stamps are what stampers have written into a file.
type stamps struct {
	first, last time.Duration
	pids        []int // the processes
}

// readStamps returns the stamps in a file; false if there are none.
func readStamps(t *testing.T, file string) (s stamps, ok bool) {
	t.Helper()
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		return s, false
	} else if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		a, b, _ := strings.Cut(lines.Text(), " ")
		pid, err := strconv.Atoi(a)
		at, err2 := strconv.ParseInt(b, 10, 64)
		if err != nil || err2 != nil {
			continue // it is being written
		}
		if s.first == 0 {
			s.first = time.Duration(at)
		}
		s.last = max(s.last, time.Duration(at))
		if !slices.Contains(s.pids, pid) {
			s.pids = append(s.pids, pid)
		}
	}
	return s, s.first > 0
}

// awaitStamps waits until n stampers have written into a file.
func awaitStamps(t *testing.T, file string, n int) stamps {
	t.Helper()
	var s stamps
	eventually(t, func() bool {
		s, _ = readStamps(t, file)
		return len(s.pids) >= n
	})
	return s
}
