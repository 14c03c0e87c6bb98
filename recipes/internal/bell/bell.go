// SPDX-License-Identifier: Apache-2.0

// Package bell wakes goroutines of the recipes when something in ZooKeeper has changed.
package bell

import (
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A Bell wakes the goroutine that receives from it. It may be rung at any time, and remembers
// one ring. It is a [zkio.Watcher], which rings at every change, and a [zkio.Listener], which
// rings when a session begins: what was learned in the last one, and its watches, went with it.
type Bell chan struct{}

// New returns a Bell that has not been rung.
func New() Bell { return make(Bell, 1) }

// Ring rings the bell. It does not block, so the dispatcher may call it.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// PathChanged is called by the dispatcher, as are the methods below.
func (b Bell) PathChanged(string, zkio.Event) { b.Ring() }

// SessionStarted rings.
func (b Bell) SessionStarted(*zkio.Session) { b.Ring() }

// SessionOver changes nothing: the next session will.
func (b Bell) SessionOver(*zkio.Session, error) {}

// ConnectionLost changes nothing.
func (b Bell) ConnectionLost(*zkio.Session, error) {}

// ConnectionResumed changes nothing: the watches are told what has happened meanwhile.
func (b Bell) ConnectionResumed(*zkio.Session, time.Duration) {}

// ProcessPaused changes nothing.
func (b Bell) ProcessPaused(time.Duration) {}

// LeaseLapsed changes nothing.
func (b Bell) LeaseLapsed(*zkio.Lease) {}
