// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// reported is what a guard is told of its children, besides their ends.
const reported = syscall.WUNTRACED | syscall.WCONTINUED

// adoptOrphans makes descendants of this process whose parents end its children, and reports
// whether it could. A kernel that cannot do that (before 3.4) leaves them to process 1.
func adoptOrphans() bool { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil }

// programAttr has the program start in a process group of its own, in the foreground of
// the terminal tty if need be, and die with the thread that started it.
func programAttr(foreground bool, tty int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: foreground, Ctty: tty, Pdeathsig: syscall.SIGKILL}
}

// signalDescendants sends a signal to all descendants of this process. A process that is
// forked at the same moment may be missed, so call it again when one has ended.
func signalDescendants(s syscall.Signal) {
	for _, pid := range descendants() {
		_ = syscall.Kill(pid, s)
	}
}

// descendants returns the descendants of this process, parents first. It returns none if
// /proc is missing, or is that of another container, where the numbers are others.
func descendants() []int {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			parent := parentOf(e.Name())
			children[parent] = append(children[parent], pid)
		}
	}
	found := children[os.Getpid()]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// parentOf returns the parent of a process; 0 if it has ended.
func parentOf(pid string) int {
	_, _, parent := statOf(pid)
	return parent
}

// leftRunning names the descendants of this process that have not ended.
func leftRunning() (left []string) {
	for _, pid := range descendants() {
		if command, state, _ := statOf(strconv.Itoa(pid)); command != "" && state != "Z" {
			left = append(left, fmt.Sprintf("%s (pid %d)", safe(command), pid))
		}
	}
	return left
}

// statOf returns what the system tells of a process; nothing if there is none.
func statOf(pid string) (command, state string, parent int) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", "", 0
	}
	// pid (command) state parent …; the command may contain anything.
	begin, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if begin < 0 || end < begin {
		return "", "", 0
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 {
		return "", "", 0
	}
	parent, _ = strconv.Atoi(string(fields[1])) // 0 if the kernel writes nonsense
	return string(stat[begin+1 : end]), string(fields[0]), parent
}
