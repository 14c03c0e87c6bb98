// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Kind says what a contender asks for, or a lock of this process.
type Kind uint8

// The kinds of contenders. All of them are understood in every lock's directory,
// since other clients and other versions may queue there too.
const (
	KindExclusive = Kind(queue.Exclusive)
	KindRead      = Kind(queue.Read)
	KindWrite     = Kind(queue.Write)

	// KindUpgradable is a read that can become a write in place: see
	// [RWLock.Upgradable]. While it does, its process has a contender of KindWrite, too.
	KindUpgradable = Kind(queue.Upgradable)

	// KindMutex is what a [Mutex] of this process asks for, in a [LockInfo] and an [Event].
	// ZooKeeper does not know of it: the process's [Contender] is of KindExclusive.
	KindMutex Kind = 1 << 7 // no kind of a contender
)

// String returns "exclusive", "read", "write", "upgradable" or "mutex".
func (k Kind) String() string {
	if k == KindMutex {
		return "mutex"
	}
	return queue.Kind(k).String()
}

// A Contender is an entry of a lock's queue: one node, which belongs to a process that
// holds the lock or waits for it. Fields that are not known have their zero values.
type Contender struct {
	Path     string // its node in ZooKeeper
	Kind     Kind   // what it asks for
	Sequence int64  // its number in the queue

	// What the process has written into its node about itself; empty if it uses
	// another ZooKeeper client. Nothing proves it: any client that may create nodes in
	// the lock's directory can write anything. Quote it.
	Host     string
	PID      int
	Label    string // its Config.Label
	Endpoint string // its Config.Endpoint: where other processes can reach it

	// Identity is the data of a node that another ZooKeeper client created, cut to 128
	// bytes. Apache Curator writes the client's address. With kazoo the caller chooses it,
	// and with go-zookeeper, too, if it locks by LockWithData; Lock writes nothing.
	Identity string

	// Since is when its node was created, by the clock of ZooKeeper's leader. If the
	// Contender is this process as the lock's holder, it can be the time of the grant,
	// by this process's clock.
	Since time.Time

	// Token is the transaction that created its node. For a holder it is the fencing
	// token of its grant, with one exception: a process that reads beside its own write
	// lock or upgraded Hold has the token of that, which is lower.
	Token uint64

	// Session is the ZooKeeper session that its node belongs to.
	Session int64

	// Own reports that the node belongs to this Manager.
	Own bool

	// Holds reports that its turn has come: no contender ahead excludes it. It holds
	// the lock, or will as soon as its process has noticed.
	Holds bool

	// Persistent reports that the node is not ephemeral. It outlives its owner's
	// session, so an administrator must delete it if its owner is gone.
	Persistent bool

	asks    bool // its process answers questions: see mailbox
	guarded bool // another process closes its session when its process has ended: see takeovers
}

// String describes the contender for a person: label@host, the process id, the endpoint,
// and since when it has been in the queue. It cuts texts that other processes have
// written, and quotes them if they contain spaces or unusual characters.
func (c Contender) String() string {
	var b strings.Builder
	switch {
	case c.Host == "" && c.Label == "" && c.Identity == "":
		b.WriteString(c.Path)
	case c.Host == "" && c.Label == "":
		fmt.Fprintf(&b, "%s, which says %s", c.Path, strconv.Quote(cut(c.Identity)))
	default:
		if c.Label != "" {
			b.WriteString(readable(c.Label) + "@")
		}
		fmt.Fprintf(&b, "%s, pid %d", readable(c.Host), c.PID)
		if c.Endpoint != "" {
			b.WriteString(", at " + readable(c.Endpoint))
		}
	}
	if !c.Since.IsZero() {
		b.WriteString(", since " + c.Since.Format(time.RFC3339))
	}
	if c.Persistent {
		fmt.Fprintf(&b, "; its node %s is not ephemeral: delete it if its owner is gone", c.Path)
	}
	return b.String()
}

// nodeData is what a contender writes into its node, as JSON, for people and
// tools.
type nodeData struct {
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Label    string    `json:"label,omitempty"`
	Endpoint string    `json:"endpoint,omitempty"`
	Kind     string    `json:"kind"`
	Since    time.Time `json:"since"`
	Asks     int       `json:"asks,omitempty"`    // 1: the process answers questions: see mailbox
	Guarded  bool      `json:"guarded,omitempty"` // another process closes its session when it has ended: see takeovers
}

// DescribeNode returns what the node at path says about its process, and what ZooKeeper
// says about the node. It is for tools that read the nodes themselves: see package inspect.
// data and stat are what they have read; the zero Stat is that of a node which may not be
// read, so the Contender says nothing about its session then. If the node's name is not a contender's, as that
// of a question under Config.Root is not, Kind and Sequence are 0. Own and Holds are not
// filled in. DescribeNode does no I/O and does not block.
func DescribeNode(path string, data []byte, stat zkio.Stat) Contender {
	c := Contender{Path: path}
	if entry, ok := queue.ParseName(lastSegment(path)); ok {
		c.Kind, c.Sequence = Kind(entry.Kind), entry.Seq
	}
	c.describe(data, stat)
	return c
}

// describe fills in what the contender's node says, and what the server says about the
// node. It reports whether this package wrote the data.
func (c *Contender) describe(data []byte, stat zkio.Stat) bool {
	if stat != (zkio.Stat{}) { // else the server does not tell it: see Look
		c.Since = time.Unix(0, stat.Ctime*int64(time.Millisecond))
		c.Token, c.Session = uint64(stat.Czxid), stat.EphemeralOwner
		c.Persistent = stat.EphemeralOwner == 0
	}
	var d nodeData
	if json.Unmarshal(data, &d) != nil || d.Kind == "" {
		c.Identity = cut(strings.ToValidUTF8(string(data), "�"))
		return false
	}
	c.Host, c.Label, c.PID, c.Endpoint = d.Host, d.Label, d.PID, d.Endpoint
	c.asks, c.guarded = d.Asks > 0, d.Guarded
	return true
}
