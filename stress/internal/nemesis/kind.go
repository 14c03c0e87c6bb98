// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk/child"
)

// A Kind is a kind of fault.
type Kind struct {
	Name string // on the command line, and in the history
	Does string // in one line, for a person who reads the help

	need   need
	server bool // it hits a server, so no other fault that does may be active
	// lasts returns how long a fault lasts, at least and at most, with the session timeout t.
	// Without it a fault is a moment.
	lasts func(t time.Duration) (least, most time.Duration)
	// inject injects a fault and undoes it. It returns an error that wraps errNoTarget if
	// there is nothing to hit, and others only if it could not undo the fault.
	inject func(ctx context.Context, f *fault) error
}

// A need is what a kind of fault takes.
type need int

const (
	needsNothing need = iota
	needsEnsemble
	needsLinks
	needsPause
	needsClocks
	needsStalls
	needsHelpers
	needsHoldfast
)

// Kinds are all kinds of faults.
var Kinds = []Kind{
	{Name: "kill-worker", Does: "kill a worker process by SIGKILL, and start another", inject: killWorker},
	{Name: "pause-worker", Does: "stop a worker process by SIGSTOP for longer than its session timeout, then continue it", need: needsPause, lasts: pastTimeout, inject: pauseWorker},

	{Name: "kill-helper", Does: "kill the helper of a worker process, which closes the session of one that is killed", need: needsHelpers, inject: killHelper},
	{Name: "late-helper", Does: "kill a worker process while its helper is stopped, start another, and continue the helper when the session may have expired", need: needsHelpers, lasts: aroundTimeout, inject: lateHelper},

	{Name: "kill-server", Does: "kill a follower by SIGKILL, and start it again after some seconds", need: needsEnsemble, server: true, lasts: seconds(1, 4), inject: onServer(follower, killed)},
	{Name: "kill-leader", Does: "the same with the leader", need: needsEnsemble, server: true, lasts: seconds(1, 4), inject: onServer(leader, killed)},
	{Name: "pause-server", Does: "stop a follower by SIGSTOP for some seconds", need: needsEnsemble, server: true, lasts: seconds(1, 5), inject: onServer(follower, paused)},
	{Name: "pause-leader", Does: "the same with the leader", need: needsEnsemble, server: true, lasts: seconds(1, 5), inject: onServer(leader, paused)},
	{Name: "restart-server", Does: "kill any server, and start it again at once", need: needsEnsemble, server: true, inject: onServer(anyServer, killed)},
	{Name: "isolate-follower", Does: "cut a follower off from the other servers, but not from its clients", need: needsEnsemble, server: true, lasts: seconds(2, 6), inject: onServer(follower, isolated)},
	// Followers leave a leader that they have not heard for the sync limit, 2 s in the
	// harness's ensemble. If they come back before it has noticed, ZooKeeper 3.8.0 can stop
	// for good: what the leader has proposed meanwhile, they get with its snapshot or diff
	// ("Got zxid … expected 0x1" in their logs) and never acknowledge. So it lasts long
	// enough for the leader to step down.
	{Name: "isolate-leader", Does: "the same with the leader", need: needsEnsemble, server: true, lasts: seconds(4, 7), inject: onServer(leader, isolated)},

	// Followers that have not written a proposal for the sync limit are given up by the leader,
	// which then has no majority. Some of these faults last longer, and most do not: then a
	// session lives on, by its pings, while no write of it is answered, and its lease must end.
	{Name: "slow-disk", Does: "keep all servers from writing their logs, as a disk does that hangs, while they answer reads and pings", need: needsStalls, server: true, lasts: seconds(0.5, 2.5), inject: onServer(allServers, stalled)},

	{Name: "cut-connection", Does: "close a worker process's connection to ZooKeeper", need: needsLinks, inject: cutConnection},
	{Name: "blackhole-connection", Does: "let nothing through to or from a worker process, or only on its present connection, and close nothing", need: needsLinks, lasts: aroundTimeout, inject: onLinks(blackhole)},
	{Name: "delay-link", Does: "delay what a worker process sends and receives by 20 ms", need: needsLinks, lasts: seconds(3, 8), inject: onLinks(delay)},
	{Name: "throttle-link", Does: "limit a worker process's connection to 4 kB/s in each direction", need: needsLinks, lasts: seconds(2, 6), inject: onLinks(throttle)},
	{Name: "swallow-answer", Does: "drop the answer to one request of a worker process, while the answers to its pings pass", need: needsLinks, lasts: seconds(3, 3), inject: swallowAnswer},

	{Name: "delete-holder", Does: "delete the node of a process that holds a lock", need: needsHoldfast, inject: deleteHolder},
	{Name: "delete-waiter", Does: "delete the node of a process that waits for a lock", need: needsHoldfast, inject: deleteWaiter},
	{Name: "foreign-children", Does: "put nodes that are no contenders into a lock's directory", need: needsHoldfast, lasts: seconds(2, 6), inject: foreignChildren},
	{Name: "foreign-contenders", Does: "have other clients, such as Curator, queue for a lock", need: needsHoldfast, lasts: seconds(0.5, 3), inject: foreignContenders},
	{Name: "revoke", Does: "ask the holder of a lock to give it up", need: needsHoldfast, inject: revoke},

	{Name: "clock-offset", Does: "kill a worker process, and start another whose monotonic clock has another origin", need: needsClocks, inject: clockOffset},
}

// seconds returns the lasts of a kind of fault that does not depend on the session timeout.
func seconds(least, most float64) func(time.Duration) (time.Duration, time.Duration) {
	in := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return func(time.Duration) (time.Duration, time.Duration) { return in(least), in(most) }
}

// pastTimeout is so long that the servers have ended the session, which they do in steps of
// a tick.
func pastTimeout(t time.Duration) (least, most time.Duration) {
	return t + t/2 + time.Second/2, 2*t + time.Second/2
}

// aroundTimeout is so long that some sessions survive, and more do not: their holders must be
// told before.
func aroundTimeout(t time.Duration) (least, most time.Duration) { return t / 2, 2 * t }

func kindNamed(name string) (Kind, bool) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return Kinds[i], true
}

// Facilities are what a run has for faults.
type Facilities struct {
	Servers int  // of an ensemble that the harness has started; 0: the servers are others'
	Links   bool // each worker process has relays to the servers
	Pause   bool // processes can be stopped
	Stalls  bool // single threads of servers can be stopped
	Helpers bool // some worker processes have a helper that closes their session if they are killed
	Foreign bool // the locks are another library's
	// Without are the kinds of faults that the servers do not have, since they are of that System;
	// none if they are ZooKeeper's.
	Without []string
	System  string
	Clocks  error // why processes cannot have another clock; nil: they can
}

// Here returns the facilities that this machine has, with an ensemble of so many servers.
func Here(servers int) Facilities {
	return Facilities{Servers: servers, Links: true, Pause: child.CanPause, Stalls: child.CanStall, Helpers: child.CanFind, Clocks: child.ClocksCanDiffer()}
}

// Lacks returns what a kind of fault needs and the run does not have; "" if it has all.
func (k Kind) Lacks(f Facilities) string {
	switch {
	case slices.Contains(f.Without, k.Name):
		return "servers of ZooKeeper, and not of " + f.System
	case k.need == needsStalls && !f.Stalls:
		return "Linux, where single threads can be stopped"
	case (k.need == needsEnsemble || k.need == needsStalls) && f.Servers < 3:
		return "an ensemble of the harness's own, with three servers or more: -ensemble 3"
	case k.need == needsLinks && !f.Links:
		return "connections through relays"
	case k.need == needsPause && !f.Pause:
		return "a system with SIGSTOP"
	case k.need == needsHoldfast && f.Foreign:
		return "Holdfast's locks: what strangers do to a queue is between them and its owner"
	case k.need == needsHelpers && f.Foreign:
		return "Holdfast's locks"
	case k.need == needsHelpers && !f.Helpers:
		return "Linux, where the helper knows when a process has ended"
	case k.need == needsClocks && f.Foreign:
		return "Holdfast's locks"
	case k.need == needsClocks && f.Clocks != nil:
		return "root on Linux (" + f.Clocks.Error() + ")"
	}
	return ""
}

// Help returns a line for each kind of fault, each with the given indent.
func Help(indent string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, k := range Kinds {
		fmt.Fprintf(w, "%s%s\t%s\n", indent, k.Name, k.Does)
	}
	_ = w.Flush() // a Builder has no errors
	return b.String()
}
