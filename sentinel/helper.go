// SPDX-License-Identifier: Apache-2.0

package sentinel

import (
	"os"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/zkio"
)

// HelperName is the helper's name in a list of processes.
const HelperName = "holdfast-sentinel"

// marker is the environment variable that a helper has.
const marker = "HOLDFAST_SENTINEL"

var (
	mainCalled atomic.Bool
	configured atomic.Bool
)

// Main is the main function of the helper. It must be the first call of main: in a helper it does not
// return, and in any other process it returns at once. What the program does when its packages are
// initialized, it does in the helper, too.
//
// The helper has the servers and the credentials of each Manager from the process. But it cannot be
// told of Config.TLS and Config.Dialer, which are not data. A program that uses them passes a
// function that sets both in the helper, where it is called with the Servers and Auth of the
// Manager whose session is to be closed. os.Args are not the program's in the helper: pass the
// function its settings in the environment or in a file. A session that was reached by TLS or a Dialer
// is not closed if the function sets neither.
func Main(configure ...func(*zkio.Config) error) {
	mainCalled.Store(true)
	configured.Store(len(configure) > 0)
	if os.Getenv(marker) == "" {
		return
	}
	os.Exit(helperMain(func(cfg *zkio.Config) error {
		for _, set := range configure {
			if err := set(cfg); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Reaches reports whether the helper can reach the servers of a Manager with TLS or a Dialer of its
// own: whether Main was given a function that sets them, or there is an agent.
func (s *Sentinel) Reaches() bool { return s.cfg.Agent != "" || configured.Load() }
