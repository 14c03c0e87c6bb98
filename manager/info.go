// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"iter"
	"time"
)

// ManagerStats are a Manager's counters since Open, and its present state. They are read
// one after the other, so they are no snapshot of one moment.
type ManagerStats struct {
	Locks     int           // locks that exist in this process: busy or referenced
	Session   int64         // the id of the session; 0 if there is none
	Timeout   time.Duration // of the session, as the servers granted it
	Connected bool          // the session has a connection
	Outage    error         // what is wrong with the connection, and for how long; nil if nothing is
	Lease     time.Duration // how much longer locks are surely held without another answer; 0: not at all

	Sessions    uint64            // sessions begun
	Reconnects  uint64            // times that a session was resumed
	Requests    map[string]uint64 // requests sent, by the name of the operation, such as "multi"; it has no zeros
	Answers     uint64            // requests answered
	WatchEvents uint64            // watch events received

	Queued  int // tasks that wait for a worker
	Busy    int // workers at work
	Workers int // Config.Workers

	Grants        uint64 // rounds in which this process got the lock
	Losses        uint64 // rounds in which it lost the lock
	Failures      uint64 // rounds that ended without a grant
	DroppedEvents uint64 // events that Config.Observer was not told, because too many waited
}

// Stats returns the manager's counters and its state. It does no I/O and does not block.
func (m *Manager) Stats() ManagerStats { return ManagerStats{} }

// A LockInfo is the state of a lock in this process, at about one moment.
type LockInfo struct {
	Name  string
	Path  string // the directory in ZooKeeper in which its contenders queue
	Kind  Kind   // what this process asks for
	Mutex bool   // it is the lock of a Mutex
	Stats Stats  // as Lock.Stats returns them

	Since time.Time     // when it was granted; if it waits, when its first caller asked; zero if that is not known
	Node  string        // the path of this process's node; "" if there is none, or that is not known
	Token uint64        // the fencing token; 0 if it is not held
	Lease time.Duration // how much longer it is surely held; 0 if it is not held

	Position   int         // how many contenders are ahead; 0 if that is not known
	Ahead      *Contender  // the contender that this process waits for; nil if that is not known
	Holder     *Contender  // the contender that holds the lock, if this process waits; nil if that is not known
	Contended  bool        // this process holds it, and has seen another one wait
	Yielding   bool        // this process holds it, and newcomers must let others go first
	Revocation *Revocation // which process has asked for it, and why; nil if none has
	LastLoss   *Loss       // the last time this process lost it, if it is among the Manager's last 1,000 losses
}

// A Loss is the end of a lock that this process owned, and holders had, by force.
type Loss struct {
	Time time.Time
	Held time.Duration // from the grant to the loss
	Err  error         // an [*Error], which says why
}

// Locks returns the state of each lock that callers of this process hold or wait for,
// in no particular order. The locks of LockAll and those of each Mutex are among them, and
// the locks of a read/write pair come one by one. If all is true, it also returns those
// that have been used and are still referenced, with nothing going on.
//
// Locks does no I/O and does not block. It holds no lock of the manager's while the loop
// runs, so the loop may call any method of the Manager, and a slow loop delays no caller.
// Each LockInfo is made when the loop comes to it. Locks that begin or end during the loop
// may be missing.
func (m *Manager) Locks(all bool) iter.Seq[LockInfo] {
	return func(func(LockInfo) bool) {}
}
