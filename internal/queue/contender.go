// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"strconv"
	"strings"
)

// MayBeReplaced reports whether a read of its own process may stand beside the contender,
// with its number: the read that came out of a write by a downgrade, or one that entered
// beside an upgradable. If the contender has gone, a list from before may lack that read.
func (c Contender) MayBeReplaced() bool { return c.Kind == Write || c.Kind == Upgradable }

// UpgradableGUID returns the form in which the name of an upgradable's node has a guid
// of 32 digits: with a dash in the middle. No other client writes it so.
func UpgradableGUID(guid string) string { return guid[:16] + "-" + guid[16:] }

// isUpgradableGUID reports whether a guid, which has 32 digits, has that form.
func isUpgradableGUID(guid string) bool { return len(guid) == 33 && guid[16] == '-' }

// A Contender is an entry of a lock's queue, as its node's name describes it.
type Contender struct {
	Name  string
	Kind  Kind
	GUID  bool  // the name carries an id chosen by its owner, so no later node has the same name
	Latch bool  // it is Exclusive, in a queue of LeaderLatch's: see [LatchMark]
	Seq   int64 // the number that ZooKeeper appended
	Czxid int64 // the transaction that created the node; known only where numbers do not order: see [Exhausted]
	Turn  bool  // its turn has come; known only after [Queue.Sort]
}

// LatchMark is the mark of the nodes of Curator's LeaderLatch. They are a family of their
// own: LeaderLatch takes no contender of another name into account, so a queue consists of
// latches or of the others, whichever the lock that queues there is. See [List].
const LatchMark = "latch-"

// marks maps the text between a name's unique prefix and its sequence number to
// a kind. The first three are those of Apache Curator, go-zookeeper and
// Holdfast, the next two kazoo's.
var marks = []struct {
	mark  string
	kind  Kind
	kazoo bool
}{
	{"lock-", Exclusive, false},
	{"__READ__", Read, false},
	{"__WRIT__", Write, false},
	{"__lock__", Exclusive, true},
	{"__rlock__", Read, true},
	{LatchMark, Exclusive, false},
}

// ParseName parses a node's name. It matches the whole name strictly:
//
//	[_c_<guid>-] lock-|__READ__|__WRIT__|latch- <sequence>
//	<32 hex digits> __lock__|__rlock__ <sequence>
//
// where a guid has 32 hexadecimal digits and may have dashes between them. With a
// single dash, in the middle, a read is an upgradable. A child with any other name is
// not a contender.
func ParseName(name string) (Contender, bool) {
	rest, seq, ok := cutSequence(name)
	if !ok {
		return Contender{}, false
	}
	for _, m := range marks {
		prefix, ok := strings.CutSuffix(rest, m.mark)
		if !ok {
			continue
		}
		kind := m.kind
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
			if kind == Read && isUpgradableGUID(guid) {
				kind = Upgradable
			}
		}
		return Contender{Name: name, Kind: kind, GUID: prefix != "", Latch: m.mark == LatchMark, Seq: seq}, true
	}
	return Contender{}, false
}

// OfCurator reports whether Apache Curator has made the node of this name, for a lock or a
// semaphore. Among the clients that put a guid into names, only Curator's has dashes
// everywhere.
func OfCurator(name string) bool {
	guid, ok := strings.CutPrefix(name, "_c_")
	guid, _, _ = strings.Cut(guid, "-lock-")
	guid, _, _ = strings.Cut(guid, "-latch-")
	guid, _, _ = strings.Cut(guid, "-lease-")
	guid, _, _ = strings.Cut(guid, "-__")
	return ok && strings.Count(guid, "-") == 4
}

// recipes maps a mark in a node's name to the recipe whose nodes have it: a lock of
// another kind, or a queue, whose nodes are not contenders here.
var recipes = []struct{ mark, recipe string }{
	{LatchMark, "Curator's LeaderLatch"},
	{"lease-", "Curator's InterProcessSemaphoreV2 or InterProcessSemaphoreMutex"},
	{"qn-", "a queue, ZooKeeper's DistributedQueue"},
}

// Recipe returns the known recipe of another kind of lock that would create a child of
// this name, which is a stranger in the lock's directory; "" if there is none.
func Recipe(name string) string {
	if c, ok := ParseName(name); ok && !c.Latch {
		return "a lock" // the directory is a latch's
	}
	if name == "leases" || name == "locks" {
		return "Curator's InterProcessSemaphoreV2 or InterProcessSemaphoreMutex"
	}
	rest, _, ok := cutSequence(name)
	if !ok {
		return ""
	}
	for _, r := range recipes {
		if prefix, ok := strings.CutSuffix(rest, r.mark); ok && (prefix == "" || strings.HasPrefix(prefix, "_c_")) {
			return r.recipe
		}
	}
	return ""
}

// cutSequence cuts off the number that ZooKeeper appends to the name of a
// sequential node: ten digits or, once its counter has overflowed, a minus sign
// and nine or ten digits, since the sign counts as one of the ten characters to
// which the number is padded.
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
	// In "lock--2147483648" the first dash belongs to the mark; the second is the sign.
	if !negative && digits[0] != '0' && (strings.HasSuffix(name[:at], "--") || strings.HasSuffix(name[:at], "__-")) {
		at--
		negative = true
	}
	if negative {
		seq = -seq
	}
	return name[:at], seq, true
}

// isGUID reports whether s has 32 hexadecimal digits and otherwise only dashes.
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

// guidCharacters classifies the characters of a guid. It is a table because a
// long queue has hundreds of thousands of them.
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

// LastSafeSequence is the last number that orders a queue. ZooKeeper counts in an
// int32 and does not wrap around at its end: five nodes in a row were seen with
// the number 2147483647, and later ones with negative numbers. The margin is for
// the creates that are under way when the end is near.
const LastSafeSequence = 1<<31 - 1<<20

// Exhausted reports whether seq says nothing about its owner's place in the queue.
func Exhausted(seq int64) bool { return seq < 0 || seq > LastSafeSequence }

// Compare is negative if a's turn comes before b's, positive if it comes after.
//
// Sequence numbers decide. Contenders whose number is exhausted were created after
// all others and come after them, in the order of their Czxids if those are known.
// A read with the same number as a write came out of it by a downgrade: its turn
// comes right after the write's and before that of every contender that queued
// behind the write, although its node is younger. A read beside an upgradable comes
// right after that in the same way.
func Compare(a, b Contender) int {
	if late(a)+late(b) == 0 && a.Seq != b.Seq { // nearly always
		return cmp.Compare(a.Seq, b.Seq)
	}
	return cmp.Or(
		cmp.Compare(late(a), late(b)),
		cmp.Compare(a.Czxid, b.Czxid),
		cmp.Compare(a.Seq, b.Seq),
		cmp.Compare(rank(a.Kind), rank(b.Kind)),
		cmp.Compare(a.Name, b.Name))
}

// late sorts contenders whose number is exhausted behind the others.
func late(c Contender) int {
	if Exhausted(c.Seq) {
		return 1
	}
	return 0
}

// rank sorts a read behind the write or the upgradable whose number it has.
func rank(k Kind) int {
	switch k {
	case Upgradable:
		return 1
	case Read:
		return 2
	}
	return 0
}

// Sequence returns the number that ZooKeeper has appended to a node's name, if it ends in one.
func Sequence(name string) (seq int64, ok bool) {
	_, seq, ok = cutSequence(name)
	return seq, ok
}
