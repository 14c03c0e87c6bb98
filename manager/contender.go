// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unique"
)

// A Kind says what a contender asks for.
type Kind uint8

// The kinds of contenders. Every kind is understood in every lock's directory,
// since other clients and other versions queue there too.
const (
	KindExclusive Kind = iota + 1
	KindRead
	KindWrite
)

// String returns "exclusive", "read" or "write".
func (k Kind) String() string {
	switch k {
	case KindExclusive:
		return "exclusive"
	case KindRead:
		return "read"
	case KindWrite:
		return "write"
	}
	return "unknown"
}

// A Contender is one entry of a lock's queue, as far as it is known.
type Contender struct {
	Path     string // its node
	Kind     Kind
	Sequence int64 // its number in the queue

	// What the contender says of itself; empty if it is another client's.
	Host  string
	PID   int
	Label string
	Since time.Time

	// Persistent reports that the node is not ephemeral: it does not go with
	// its owner's session, and somebody has to delete it by hand.
	Persistent bool
}

// String names the contender for a person: label@host, its process, and since when it is there.
func (c *Contender) String() string {
	if c == nil {
		return "nobody"
	}
	var b strings.Builder
	if c.Host == "" && c.Label == "" {
		b.WriteString(c.Path)
	} else {
		if c.Label != "" {
			b.WriteString(c.Label + "@")
		}
		fmt.Fprintf(&b, "%s, pid %d, since %s", c.Host, c.PID, c.Since.Format(time.RFC3339))
	}
	if c.Persistent {
		fmt.Fprintf(&b, "; its node %s is not ephemeral: delete it if its owner is gone", c.Path)
	}
	return b.String()
}

// nodeData is what a contender writes into its node, as JSON, for people and tools.
type nodeData struct {
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Label string    `json:"label,omitempty"`
	Kind  string    `json:"kind"`
	Since time.Time `json:"since"`
}

// describe fills in what the contender's node says, and reports whether it is a
// node of this package's. Data that is not ours is another client's and says nothing.
func (c *Contender) describe(data []byte) bool {
	var d nodeData
	if json.Unmarshal(data, &d) != nil || d.Kind == "" {
		return false
	}
	// Many contenders are of the same few hosts.
	c.Host, c.Label = unique.Make(d.Host).Value(), unique.Make(d.Label).Value()
	c.PID, c.Since = d.PID, d.Since
	return true
}

// contender is a queue entry as its node's name tells it.
type contender struct {
	name  string
	kind  Kind
	seq   int64
	czxid int64 // only where the sequence number says nothing; see trip.order
}

// mark is what stands before the sequence number in the name of a node of ours.
func (k Kind) mark() string {
	switch k {
	case KindRead:
		return "__READ__"
	case KindWrite:
		return "__WRIT__"
	}
	return "lock-"
}

// The kinds by what stands between a node's unique prefix and its sequence
// number: the first three are those of Apache Curator, go-zookeeper and this
// package, the last two kazoo's.
var kindMarks = []struct {
	mark  string
	kind  Kind
	kazoo bool
}{
	{"lock-", KindExclusive, false},
	{"__READ__", KindRead, false},
	{"__WRIT__", KindWrite, false},
	{"__lock__", KindExclusive, true},
	{"__rlock__", KindRead, true},
}

// parseContender takes a node's name apart. It matches the whole name strictly:
//
//	[_c_<guid>-] lock-|__READ__|__WRIT__ <sequence>
//	<32 hex digits> __lock__|__rlock__ <sequence>
//
// where a guid has 32 hexadecimal digits and may have dashes between them. A
// child of any other name is no contender.
func parseContender(name string) (contender, bool) {
	rest, seq, ok := cutSequence(name)
	if !ok {
		return contender{}, false
	}
	for _, m := range kindMarks {
		prefix, ok := strings.CutSuffix(rest, m.mark)
		if !ok {
			continue
		}
		if m.kazoo {
			if len(prefix) != 32 || !isGUID(prefix) {
				continue
			}
		} else if prefix != "" {
			guid, ok := strings.CutPrefix(prefix, "_c_")
			if !ok {
				continue
			}
			if guid, ok = strings.CutSuffix(guid, "-"); !ok || !isGUID(guid) {
				continue
			}
		}
		return contender{name: name, kind: m.kind, seq: seq}, true
	}
	return contender{}, false
}

// cutSequence cuts the number that ZooKeeper appends to a sequential node: ten
// digits or, after the counter overflowed, a minus sign and ten or nine digits,
// since the sign counts as one of the ten characters that a number is padded to.
func cutSequence(name string) (rest string, seq int64, ok bool) {
	const width = 10
	at := len(name) - width
	if at < 0 {
		return "", 0, false
	}
	digits, negative := strings.CutPrefix(name[at:], "-")
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return "", 0, false
		}
	}
	seq, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || negative && seq == 0 {
		return "", 0, false
	}
	// "lock--2147483648": the mark's own dash is not the sign.
	if !negative && digits[0] != '0' && (strings.HasSuffix(name[:at], "--") || strings.HasSuffix(name[:at], "__-")) {
		at--
		negative = true
	}
	if negative {
		seq = -seq
	}
	return name[:at], seq, true
}

// isGUID reports whether s is 32 hexadecimal digits, with dashes between them or without.
func isGUID(s string) bool {
	digits := 0
	for i := range len(s) {
		switch guidCharacters[s[i]] {
		case hexDigit:
			digits++
		case noCharacter:
			return false
		}
	}
	return digits == 32
}

// guidCharacters says what a character is in a guid. A table, since a long queue
// has tens of thousands of them.
var guidCharacters = func() (table [256]uint8) {
	table['-'] = dash
	for _, c := range []byte("0123456789abcdefABCDEF") {
		table[c] = hexDigit
	}
	return table
}()

const (
	noCharacter uint8 = iota
	hexDigit
	dash
)

// The sequence numbers that order a queue. ZooKeeper counts in an int32 and, at
// its end, repeats and mixes numbers instead of wrapping around: five nodes in a
// row were seen with 2147483647, and later ones with negative numbers. The
// margin is for the creates that are under way when the end is near.
const lastSafeSequence = 1<<31 - 1<<20

// exhausted reports whether seq says nothing about its owner's place.
func exhausted(seq int64) bool { return seq < 0 || seq > lastSafeSequence }

// queue is a lock's directory as one list showed it. Call free when it is not
// needed any more.
type queue struct {
	contenders []contender // in no order: see compareTurns
	foreign    int         // children that are no contenders
	next       int64       // the number of the next child
	exhausted  bool        // sequence numbers do not order it: see trip.order
}

// parseQueue finds the contenders among a directory's children.
func parseQueue(children []string) queue {
	q := queue{contenders: spareContenders(len(children))}
	for _, name := range children {
		c, ok := parseContender(name)
		if !ok {
			q.foreign++
			continue
		}
		if exhausted(c.seq) {
			q.exhausted = true
		}
		q.contenders = append(q.contenders, c)
	}
	return q
}

// spare has slices for the contenders of a queue: a process that hands a lock round
// among a thousand needs one of 40 KB for each grant.
var spare sync.Pool

// spareContenders returns an empty slice for n contenders.
func spareContenders(n int) []contender {
	if s, ok := spare.Get().(*[]contender); ok && cap(*s) >= n {
		return (*s)[:0]
	}
	return make([]contender, 0, n)
}

// free gives back the queue's memory. Contenders that were copied out of it stay.
func (q *queue) free() {
	s := q.contenders[:cap(q.contenders)]
	q.contenders = nil
	clear(s) // the names
	spare.Put(&s)
}

// compareTurns is negative if it is a's turn before it is b's: by sequence number.
// Those whose number says nothing were made after all others, and come after
// them, in the order of their czxids if those are known. A read that has the
// number of a write came out of it by a downgrade: it is behind the write and
// ahead of whoever queued after that, although it was made later.
//
// A queue is not sorted: what is asked of it takes one pass, and at every hand-over
// somebody asks.
func compareTurns(a, b contender) int {
	if late(a)+late(b) == 0 && a.seq != b.seq { // nearly always
		return cmp.Compare(a.seq, b.seq)
	}
	return cmp.Or(
		cmp.Compare(late(a), late(b)),
		cmp.Compare(a.czxid, b.czxid),
		cmp.Compare(a.seq, b.seq),
		cmp.Compare(order(a.kind), order(b.kind)),
		cmp.Compare(a.name, b.name))
}

// late sorts the contenders whose number says nothing behind the others.
func late(c contender) int {
	if exhausted(c.seq) {
		return 1
	}
	return 0
}

func order(k Kind) int {
	if k == KindRead {
		return 1
	}
	return 0
}

// find returns the contender called name.
func (q queue) find(name string) (c contender, found bool) {
	i := slices.IndexFunc(q.contenders, func(c contender) bool { return c.name == name })
	if i < 0 {
		return contender{}, false
	}
	return q.contenders[i], true
}

// behind returns the first contender that is behind the one called name, is
// excluded by it, and is not one to skip. If name is not in the queue, everybody
// is behind it.
func (q queue) behind(name string, kind Kind, skip func(name string) bool) (c contender, found bool) {
	own, known := q.find(name)
	return q.excluded(kind, func(other contender) bool {
		return known && compareTurns(other, own) <= 0 || skip(other.name)
	})
}

// excluded returns the first contender that one of the given kind excludes and
// that is not one to skip. To one that is inside that is somebody who waits for
// it, whatever the order of the queue.
func (q queue) excluded(kind Kind, skip func(contender) bool) (first contender, found bool) {
	for _, c := range q.contenders {
		if excludes(kind, c.kind) && (!found || compareTurns(c, first) < 0) && !skip(c) {
			first, found = c, true
		}
	}
	return first, found
}

// foreignKind returns a contender that does not belong into a queue of kind's: a
// mutex among readers and writers, or the other way round.
func (q queue) foreignKind(kind Kind) (c contender, found bool) {
	for _, c := range q.contenders {
		if (c.kind == KindExclusive) != (kind == KindExclusive) {
			return c, true
		}
	}
	return contender{}, false
}

// excludes reports whether two contenders of these kinds cannot be inside
// together. Only readers can.
func excludes(a, b Kind) bool { return a != KindRead || b != KindRead }
