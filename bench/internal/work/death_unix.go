// SPDX-License-Identifier: Apache-2.0

//go:build unix

package work

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// deaths has what makes a process that keeps locks end.
var deaths = map[string]syscall.Signal{ByKill: syscall.SIGKILL, ByGroup: syscall.SIGKILL, ByPanic: syscall.SIGUSR1, ByExit: syscall.SIGUSR2, ByOOM: syscall.SIGHUP}

// end makes a process end.
func end(pid int, death string) error {
	s, known := deaths[death]
	if !known {
		return fmt.Errorf("unknown way %q", death)
	}
	if death == ByGroup {
		pid = -pid
	}
	return syscall.Kill(pid, s)
}

// dieWhenAsked has this process end as end asks for it, until it does.
func dieWhenAsked() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, deaths[ByPanic], deaths[ByExit], deaths[ByOOM])
	go func() {
		switch <-asked {
		case deaths[ByExit]:
			os.Exit(1)
		case deaths[ByOOM]:
			for hoard := [][]byte{}; ; {
				hoard = append(hoard, bytes.Repeat([]byte{1}, 1<<20))
			}
		}
		debug.SetTraceback("none")
		panic("asked for")
	}()
}
