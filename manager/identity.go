// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// An identity is what tells a Manager from any other: in the names of its nodes, and in their data.
type identity struct {
	id      string // in the names of our nodes
	counter atomic.Uint64
	newGUID func() string // guid; kept so that the method value is made once
	ranked  atomic.Int64  // the transaction in the last group's rank

	patterns map[string][]byte // of nodes' data, by kind: see nodeData
}

// managers are the ids of the Managers of this process that are open. The host and the process
// id that a node names do not tell them from others: a container that was started again often has
// those that it had before.
var managers sync.Map

// which says of a contender, in an error, what its host and process id hide: that this process
// waits for itself. It returns "" for one of another process.
func (c *Contender) which() string {
	_, here := managers.Load(makerOf(lastSegment(c.Path)))
	switch {
	case c.Own:
		return ", which is this process itself"
	case here:
		return ", which is another Manager of this process"
	}
	return ""
}

// init makes an identity that no other Manager has.
func (d *identity) init(host, label, endpoint string, guarded bool) error {
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	d.id = hex.EncodeToString(id[:])
	d.newGUID = d.guid
	d.patterns = patterns(host, label, endpoint, guarded)
	return nil
}

// guid makes a name that no other node has ever had: 64 random bits of this
// manager and a counter.
func (d *identity) guid() string { return fmt.Sprintf("%s%016x", d.id, d.counter.Add(1)) }

// owns reports whether the contender called name is one of this manager's nodes.
func (d *identity) owns(name string) bool {
	rest, ok := strings.CutPrefix(name, "_c_")
	return ok && strings.HasPrefix(rest, d.id)
}

// groupMark is the digit behind the manager's id in the names of groups' nodes. The
// counter of guid does not get that far.
const groupMark = "f"

// rankAfter returns the rank of a new group. Of two groups the one with the lower rank began to
// wait first, by ZooKeeper's transactions as far as their processes had heard of them. zxid is the
// last that this one has heard of.
//
//	digits of a group's node   0 … 16         16          17 … 28             28 … 32
//	                           manager's id   groupMark   last transaction    the group's counter
func (d *identity) rankAfter(zxid int64) string {
	for {
		last := d.ranked.Load()
		zxid = max(last+1, zxid)
		if d.ranked.CompareAndSwap(last, zxid) {
			return lastDigits(zxid, rankLength) + d.id
		}
	}
}

// rankLength is how many digits of a transaction's id a rank has. With 11, ranks begin
// again after 4096 elections of a leader. Then some groups have too high a rank or too low
// a one, and wait for longer.
const rankLength = 11

// lastDigits returns the last n hexadecimal digits of v.
func lastDigits(v int64, n int) string {
	s := fmt.Sprintf("%016x", v)
	return s[len(s)-n:]
}

// rankOf returns the rank of the group whose node is called name, or "" if it is no
// group's. Other clients' names can look like one; those wait for longer, too.
func rankOf(name string) string {
	id := makerOf(name)
	if id == "" {
		return ""
	}
	rank, ok := strings.CutPrefix(name[len("_c_")+len(id):], groupMark)
	if !ok {
		return ""
	}
	return rank[:rankLength] + id
}

// shares reports whether the contender called name is one of this manager's nodes that
// goroutines share: not a group's.
func (d *identity) shares(name string) bool {
	return d.owns(name) && !strings.HasPrefix(name, "_c_"+d.id+groupMark)
}

// nodeData returns what our nodes tell a person who looks at them. Only the time
// differs between nodes of a kind: see patterns.
func (d *identity) nodeData(kind string) []byte { return d.nodeDataAt(kind, time.Now()) }

// nodeDataAt is nodeData of a node that was made at that time.
func (d *identity) nodeDataAt(kind string, at time.Time) []byte {
	return dated(d.patterns[kind], at)
}

// dated returns data of a node with that time in place of noTime.
func dated(pattern []byte, at time.Time) []byte {
	now := at.UTC().Truncate(time.Millisecond).AppendFormat(nil, time.RFC3339Nano)
	return bytes.Replace(pattern, []byte(noTime), now, 1)
}

// noTime is the zero time in JSON.
const noTime = "0001-01-01T00:00:00Z"

// probeKind is the kind of the node with which Open tries its permissions.
const probeKind = "probe"

// patterns returns the data of nodes of each kind, with noTime for the time.
func patterns(host, label, endpoint string, guarded bool) map[string][]byte {
	names := []string{probeKind}
	for kind := range queue.Kinds {
		names = append(names, kind.String())
	}
	p := make(map[string][]byte)
	for _, kind := range names {
		data, err := json.Marshal(nodeData{Host: host, PID: os.Getpid(), Label: label, Endpoint: endpoint, Kind: kind, Asks: 1, Guarded: guarded})
		if err != nil {
			panic("manager: a node's data cannot be encoded: " + err.Error())
		}
		p[kind] = data
	}
	return p
}
