// SPDX-License-Identifier: Apache-2.0

// Package sentinel makes the locks of a process that was killed free at once, instead of after the
// session timeout.
//
// A killed process cannot tell ZooKeeper that it is gone. But the kernel knows. So a small helper
// process, which survives the death of the process that started it, waits until the kernel says
// that the process has ended, and closes its session then:
//
//	func main() {
//		sentinel.Main() // first: the helper is this program, started once more
//
//		helper, err := sentinel.Start(sentinel.Config{})
//		if err != nil { … }
//		defer helper.Close()
//		m, err := manager.Open(ctx, manager.Config{Servers: servers, Sentinel: helper})
//		…
//		defer m.Close() // runs before helper.Close
//	}
//
// However the process ends (SIGKILL, a panic, os.Exit, the OOM killer), the next process has its
// locks some milliseconds later. A process that closes its Manager needs no helper for that. If
// the helper cannot do its work, ZooKeeper ends the session after its timeout, as without one.
//
// # What it does not give away
//
// The helper closes the session only when all of these hold:
//
//   - The kernel says that all threads of the process have ended, by its pidfd, which stands for
//     this process and no later one of the same number. So the locks of a process that is stopped,
//     frozen, or slow stay its own.
//   - The helper's connection to the process has ended. A process that has closed that by
//     mistake is still protected by the condition before.
//   - All children that were started with [Sentinel.Keep] have ended. But ZooKeeper itself ends the
//     session one session timeout after the end of the process: they must have ended by then.
//
// Children that were started without Keep may live on, and what they do is no longer protected.
// Writes that the process left in its sockets may still arrive after the next grant, as after
// any loss of a lock: the fencing token tells them apart. Where the resource cannot compare
// tokens, Config.Delay leaves time for them to arrive.
//
// # Where it works
//
// On Linux 5.3 or newer. In a container the helper ends with process 1 of the container. If that is
// the process itself, its locks are not free earlier. An agent outside the container helps there:
// see [Config.Agent].
package sentinel
