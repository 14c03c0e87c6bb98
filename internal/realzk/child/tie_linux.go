// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// tie makes the kernel kill the process when the thread that starts it ends.
func tie(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// onMainThread reports whether this is the program's first thread.
func onMainThread() bool { return syscall.Gettid() == os.Getpid() }

// cloneNewTime is CLONE_NEWTIME of <linux/sched.h>.
const cloneNewTime = 0x80

// setClock puts the processes that this thread starts from now on into a time namespace.
// The thread itself stays outside, so it cannot start threads: the Go runtime has another
// thread start them, because this one is locked to its goroutine.
func setClock(offset time.Duration) error {
	if err := syscall.Unshare(cloneNewTime); err != nil {
		return fmt.Errorf("child: make a time namespace, which takes root: %w", err)
	}
	seconds, rest := offset/time.Second, offset%time.Second
	if rest < 0 {
		seconds, rest = seconds-1, rest+time.Second
	}
	text := fmt.Sprintf("monotonic %d %d\nboottime %d %d\n", seconds, rest, seconds, rest)
	// The file of the process is that of its first thread.
	file := fmt.Sprintf("/proc/%d/timens_offsets", syscall.Gettid())
	if err := os.WriteFile(file, []byte(text), 0); err != nil {
		return fmt.Errorf("child: set the clock of a time namespace to %v later: %w", offset, err)
	}
	return nil
}
