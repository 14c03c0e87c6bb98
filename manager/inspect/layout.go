// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// A layout is the nodes by which a recipe is known: see the documentation of packages
// recipes/election, and so on.
type layout struct {
	kind   RecipeKind
	marker string                 // a child with data that only this recipe writes; "" if there is none
	proves func(data []byte) bool // whether data are that marker's

	// beside are the children beside the marker, or in place of one. Without a marker that
	// can be read, one of them must be there.
	beside []string

	// parts are the children that are directories of the recipe. What is in them is no lock,
	// group or recipe of its own.
	parts []string
}

// The layouts, in the order in which they are looked for.
var layouts = []layout{
	{KindShards, "spec", provesShards, []string{"shards"}, []string{"shards", "members"}},
	{KindBarrier, "round", provesBarrier, []string{"members"}, []string{"members"}},
	{KindElection, "leader", provesElection, []string{"lock"}, []string{"lock"}},
	{KindCron, "record", provesCron, []string{"lock"}, []string{"lock"}},
	{KindSemaphore, "permits", func(data []byte) bool { return len(data) == 4 }, []string{"leases", "locks"}, []string{"leases", "locks"}},
	{KindSemaphore, "", nil, []string{"leases"}, []string{"leases", "locks"}}, // Curator's, without a SharedCount
	{KindQueue, "", nil, []string{"producers", "consumers", "dead"}, []string{"items", "producers", "consumers", "dead", "delayed", "idle"}},
}

// suspects returns the layouts that the names of a directory's children may be of.
func suspects(names []string) (found []layout) {
	for _, l := range layouts {
		beside := slices.ContainsFunc(l.beside, func(name string) bool { return slices.Contains(names, name) })
		switch {
		case l.marker != "" && slices.Contains(names, l.marker),
			l.marker == "" && l.kind == KindQueue && slices.Contains(names, items) && beside,
			l.marker == "" && l.kind == KindSemaphore && beside:
			found = append(found, l)
		}
	}
	return found
}

// is reports whether a directory with these children is of the layout. marker is what a read
// of the marker has shown, if there is one. A client that may not read it goes by the names.
func (l layout) is(names []string, marker *zkio.Read) bool {
	switch {
	case marker == nil:
		return true
	case marker.Err != nil:
		return false
	case marker.What == zkio.ReadStat: // the data may not be read
		return lasting(marker.Stat) && slices.ContainsFunc(l.beside, func(name string) bool { return slices.Contains(names, name) })
	}
	return l.proves(marker.Data)
}

// Names of nodes.
const (
	items   = "items"
	element = "qn-"
	claim   = "claim"
	inside  = "in-"
	left    = "left-"
)

// elements returns the elements of a queue among a directory's children, the first one first.
func elements(names []string) []string { return numbered(names, element) }

// numbered returns those of names that have a mark before the number that ZooKeeper has
// appended, in the order of the numbers.
func numbered(names []string, mark string) []string {
	number := make(map[string]int64)
	var all []string
	for _, name := range names {
		seq, ok := queue.Sequence(name)
		if !ok || !strings.Contains(name, mark) {
			continue
		}
		if seq < 0 {
			seq += 1 << 32 // ZooKeeper's counter has gone on with the least number
		}
		number[name] = seq
		all = append(all, name)
	}
	slices.SortFunc(all, func(a, b string) int { return int(number[a] - number[b]) })
	return all
}

// The data of markers.
type (
	electionRecord struct {
		Token uint64 `json:"token"`
		ID    string `json:"id"`
		Data  []byte `json:"data"`
	}
	cronRecord struct {
		Planned time.Time `json:"planned"`
		State   string    `json:"state"`
		Token   uint64    `json:"token"`
		Attempt int       `json:"attempt"`
		ID      string    `json:"id"`
	}
	shardsSpec struct {
		Shards    int    `json:"shards"`
		Algorithm string `json:"algorithm"`
	}
	barrierRecord struct {
		Size    int             `json:"size"`
		Round   uint64          `json:"round"`
		Members []barrierMember `json:"members"`
	}
	barrierMember struct {
		Name string `json:"name"`
		ID   string `json:"id"`
	}
)

func provesElection(data []byte) bool {
	var r electionRecord
	return json.Unmarshal(data, &r) == nil && r.Token != 0
}

func provesCron(data []byte) bool {
	var r cronRecord
	return json.Unmarshal(data, &r) == nil && !r.Planned.IsZero() && r.State != ""
}

func provesShards(data []byte) bool {
	var s shardsSpec
	return json.Unmarshal(data, &s) == nil && s.Shards > 0 && s.Algorithm != ""
}

func provesBarrier(data []byte) bool {
	var r barrierRecord
	return json.Unmarshal(data, &r) == nil && r.Size > 0
}

// permitsIn returns how many permits a semaphore's marker says that it has.
func permitsIn(data []byte) int {
	if len(data) != 4 {
		return 0
	}
	return int(max(0, int32(binary.BigEndian.Uint32(data))))
}

// mostGate is how many bytes of data a gate has at most.
const mostGate = 4096

// mayBeGate reports whether a node without children may be a shut gate.
func mayBeGate(st zkio.Stat) bool {
	return lasting(st) && st.NumChildren == 0 && st.DataLength > 0 && st.DataLength <= mostGate
}

// isGate reports whether a node with these data is a shut gate. Curator's DistributedBarrier
// writes what its clients write by default, an address.
func isGate(data []byte) bool {
	var d struct {
		Kind string `json:"kind"`
	}
	return json.Unmarshal(data, &d) == nil && d.Kind == "gate" || isAddress(string(data))
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// isSelector reports whether a contender is one of Curator's LeaderSelector, as far as that
// can be told from its InterProcessMutex: the node of a mutex has an address as its data, by
// default, and that of a selector its id, if it has one.
func isSelector(c *Contender) bool {
	const revoked = "__REVOKE__" // what Curator's Revoker makes of the data
	return c.Client == "curator" && manager.KindExclusive == c.Kind && c.Identity != "" && c.Identity != revoked && !isAddress(c.Identity)
}

// The owners of nodes that are not ephemeral: ZooKeeper marks containers, and nodes with a
// time to live, by what would be the id of a session.
const (
	containerOwner = -1 << 63
	leastTTLOwner  = -1 << 56 // up to -1
)

// ephemeral reports whether a node ends with a session.
func ephemeral(st zkio.Stat) bool {
	return st.EphemeralOwner != 0 && st.EphemeralOwner != containerOwner && (st.EphemeralOwner > 0 || st.EphemeralOwner < leastTTLOwner)
}

// lasting reports whether a node is there until a client deletes it.
func lasting(st zkio.Stat) bool { return st.EphemeralOwner == 0 }
