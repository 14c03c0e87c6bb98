// SPDX-License-Identifier: Apache-2.0

// Package history is the record of a run of the stress harness: what each worker
// attempted and was told, and which faults were injected, in the order of the machine's
// monotonic clock.
//
// A history is a directory. Its file run.json has the [Header]. Its directory events has
// files of one [Event] a line, as JSON, each written by one process: a worker process
// writes to a file before it does what the event says, or as soon as it was told, so that
// what the file has is true even if the process is killed in between. Files are cut into
// segments, so that old ones can be removed during a long run.
package history

import (
	"cmp"
	"fmt"
)

// A Kind says what happened.
type Kind string

// What workers do, and are told. Op identifies the acquisition in its process.
const (
	// Request is written before a worker asks for a lock.
	Request Kind = "request"
	// Granted is written when the worker has been told that it holds the lock. Token and
	// Turn are the grant's.
	Granted Kind = "granted"
	// Refused is written when the acquisition has ended without a grant. Text says why.
	Refused Kind = "refused"
	// Changed is written when a hold has got another Mode, by an upgrade or, before the
	// downgrade begins, by a downgrade.
	Changed Kind = "changed"
	// Valid is written when the worker has asked whether its hold is valid, and was told
	// that it is. At is when it asked.
	Valid Kind = "valid"
	// Lost is written when the worker has been told that its hold was lost. Text is the
	// cause, Session the session that held the lock.
	Lost Kind = "lost"
	// Revoked is written when the worker has been told that it is asked to give up the lock.
	Revoked Kind = "revoked"
	// Release is written before the worker releases its hold. From then on it is outside.
	Release Kind = "release"
	// Released is written when the release has settled. Text is its error, if any.
	Released Kind = "released"
	// Write is written when a write to the register has been answered: OK says whether it
	// was accepted. At is when it was answered.
	Write Kind = "write"
	// Session is written when a worker process learns that its session has begun, is
	// suspended, is resumed or has ended: see Text.
	Session Kind = "session"
	// Alive is written at intervals. It tells that the process has no earlier event to
	// write.
	Alive Kind = "alive"
	// Failure is written when a worker or the harness sees something wrong that is not a
	// matter of the history, such as an error that the API does not allow, or a process that
	// was never granted a lock for writing. Text is what.
	Failure Kind = "failure"
)

// What the harness does, and sees from outside. Its Process is [Harness].
const (
	// Started is written when a worker process has been started: Process, Incarnation.
	Started Kind = "started"
	// Ended is written when a worker process has ended, or just before it is killed. OK says
	// that it has ended in good order, after its workers.
	Ended Kind = "ended"
	// FaultBegan and FaultEnded enclose a fault. Fault is its number, Text its kind,
	// Target what it hits. A fault of a moment ends when it begins.
	FaultBegan Kind = "fault began"
	FaultEnded Kind = "fault ended"
	// Expired is written for each session that the leader has ended because it was not
	// heard of in time. At is the time in the leader's log. Text is [Deposed] if the server
	// that tells may not have been the leader any more.
	Expired Kind = "expired"
	// Accepted is written by the register for each write that it has accepted.
	Accepted Kind = "accepted"
	// Stale is written by the register for each write that it has refused, because it has
	// accepted one with a higher token.
	Stale Kind = "stale"
	// Overlap is written when a referee has seen two processes inside at once, or a token
	// that fell. Text is what. In a run with faults the process of the referee writes it, of
	// whatever it sees: Target is the kind of violation, Token that of the entry, and Others
	// the processes that were in a round of a barrier. The judge knows whether a correct lock
	// may show it.
	Overlap Kind = "overlap"
	// StoodStill is written when the harness has noticed that the machine did not run for a
	// while, or was suspended. At is when it went on, Lasted how long it was. Text says so.
	StoodStill Kind = "stood still"
	// Disagreed is written when two servers show of a lock's directory what cannot both be
	// right. Text says which and what. Compared is written at the end: Count is how often
	// servers were compared.
	Disagreed Kind = "servers disagree"
	Compared  Kind = "servers compared"
	// Stopping is written when the workers are told to end.
	Stopping Kind = "stopping"
	// TooLittle is written at the end if too little has happened for the run to show anything.
	// Text is what.
	TooLittle Kind = "too little"
	// Left is written for each node that is left in ZooKeeper at the end.
	Left Kind = "left"
)

// What Text says of a [Session].
const (
	SessionBegan     = "began"
	SessionSuspended = "suspended"
	SessionResumed   = "resumed"
	SessionEnded     = "ended"
)

// What a referee can have seen: the Target of an [Overlap].
const (
	// Two processes are inside at once.
	SeenOverlap = "overlap"
	// A process enters with a lower token than an earlier conflicting entry, or with the
	// same token and a lower turn.
	SeenTokenFell = "token fell"
	// Two processes enter with the same token.
	SeenTokenShared = "token shared"
	// One process has two rounds of a lock at once. Neither is lost, and neither is a
	// downgrade of the other.
	SeenTwoRounds = "two rounds"
	// Two workers of one process are inside with a mutex.
	SeenTwoTurns = "two turns"
	// A member of a barrier was let out while others were inside.
	SeenPremature = "premature"
)

// Deposed is the Text of an [Expired] that only a server tells which may have been deposed:
// the session may have lived on under the next leader.
const Deposed = "by a server that may have been deposed"

const (
	// Harness is the Process of what the harness does, apart from Started and Ended, which
	// have the process that they are about.
	Harness = -1
	// Register is the process of the register, for [Create]. What it writes may have any
	// Process: its Lock, Token and Turn tell.
	Register = -2
)

// An Event is a line of a history.
type Event struct {
	At          int64  `json:"at"` // nanoseconds of the machine's monotonic clock
	Kind        Kind   `json:"kind"`
	Process     int    `json:"p"`             // number of the worker process; Harness
	Incarnation int    `json:"inc,omitempty"` // how often it has been started before
	Worker      int    `json:"w,omitempty"`
	Op          uint64 `json:"op,omitempty"` // from 1 in each incarnation
	Lock        string `json:"lock,omitempty"`
	Mode        Mode   `json:"mode,omitempty"`
	Token       uint64 `json:"token,omitempty"`
	Turn        uint64 `json:"turn,omitempty"`
	Session     string `json:"session,omitempty"` // hexadecimal, as ZooKeeper logs it: 0x1000…
	OK          bool   `json:"ok,omitempty"`
	Permits     int    `json:"permits,omitempty"` // of a Permit; 0 means 1
	Fault       int    `json:"fault,omitempty"`   // from 1
	Target      string `json:"target,omitempty"`
	Others      []int  `json:"others,omitempty"`    // of an Overlap: numbers of processes
	Stays       bool   `json:"stays,omitempty"`     // of a fault: workers stayed inside with locks while it lasted
	Lasted      int64  `json:"lasted_ns,omitempty"` // of StoodStill
	Count       uint64 `json:"count,omitempty"`     // of Compared
	Text        string `json:"text,omitempty"`
}

// ProcessTarget is the Target of a fault that hits a worker process.
func ProcessTarget(number int) string { return fmt.Sprintf("process %d", number) }

// TargetProcess returns the number of the worker process that a fault with the target hits, or -1 if
// it hits none.
func TargetProcess(target string) int {
	var number int
	if n, _ := fmt.Sscanf(target, "process %d", &number); n != 1 {
		return -1
	}
	return number
}

// A Mode is a way of holding a lock.
type Mode string

// The ways of holding locks.
const (
	Exclusive  Mode = "exclusive"  // goroutines of one process share it
	Mutex      Mode = "mutex"      // they do not
	Read       Mode = "read"       // processes share it
	Upgradable Mode = "upgradable" // beside readers, but alone of its kind
	WriteMode  Mode = "write"
	Permit     Mode = "permit" // of a semaphore: as many at once as the lock's Capacity
)

// Alone reports whether a process that holds a lock in the mode does so alone.
func (m Mode) Alone() bool {
	return m != Read && m != Upgradable && m != Permit
}

// A Fence is a fencing token: for a mutex, with the turn under it.
type Fence struct{ Token, Turn uint64 }

// Compare returns a negative number if f is the older one, and a positive one if it is the newer.
func (f Fence) Compare(other Fence) int {
	return cmp.Or(cmp.Compare(f.Token, other.Token), cmp.Compare(f.Turn, other.Turn))
}

func (f Fence) String() string {
	if f.Turn > 0 {
		return fmt.Sprintf("token %d turn %d", f.Token, f.Turn)
	}
	return fmt.Sprintf("token %d", f.Token)
}

// Fence returns the fencing token of the event.
func (e Event) Fence() Fence { return Fence{e.Token, e.Turn} }

// A Lock is one that a history is about. What a recipe gives to one process at a time is
// one, too: the leadership of an election, a shard, an element of a queue.
type Lock struct {
	// Name is the lock's. If it ends with *, then this is about all locks whose names begin
	// so, for things that are made during the run, such as elements of a queue.
	Name     string `json:"name"`
	Mode     Mode   `json:"mode"`               // of all its holds; empty for a read/write lock
	Capacity int    `json:"capacity,omitempty"` // of a semaphore
	// Once says that the lock may be released in good order only once: an element of a
	// queue.
	Once bool `json:"once,omitempty"`
}

// A Header is the head of a history.
type Header struct {
	Version        int      `json:"version"` // 1
	Command        string   `json:"command"` // that repeats the run
	Seed           uint64   `json:"seed"`
	Workload       string   `json:"workload"`
	Contender      string   `json:"contender,omitempty"` // whose locks they are; empty: Holdfast's
	Library        string   `json:"library,omitempty"`   // of the contender, with its version; empty: unknown
	Processes      int      `json:"processes"`
	Goroutines     int      `json:"goroutines"`
	Locks          []Lock   `json:"locks"`
	Servers        []string `json:"servers"`
	SessionTimeout int64    `json:"session_timeout_ns"`
	Tenure         int64    `json:"tenure_ns"`
	Linger         int64    `json:"linger_ns,omitempty"` // how long a process keeps a lock that it does not use
	Nemesis        []string `json:"nemesis"`             // kinds of faults that are on
	Begin          int64    `json:"begin"`               // monotonic, when the workers began
	BeginWall      string   `json:"begin_wall"`
	Planned        int64    `json:"planned_ns"`
	Go             string   `json:"go"`        // version
	ZooKeeper      string   `json:"zookeeper"` // version, or "embedded"
}
