// SPDX-License-Identifier: Apache-2.0

package child

import (
	"os"
	"os/signal"
	"syscall"
)

// CatchIgnoredSignals has the processes that this one starts from then on begin with the
// default dispositions of SIGHUP and SIGINT. Under nohup, and in the background of a shell
// without job control, those are ignored, by all descendants, and a shell cannot trap them
// again. But a process does not inherit a disposition that its parent catches. The calling
// process goes on ignoring them.
func CatchIgnoredSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, os.Interrupt} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // never read
		}
	}
}
