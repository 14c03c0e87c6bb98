// SPDX-License-Identifier: Apache-2.0

package queue

// A Kind says what a contender asks for.
type Kind uint8

// The kinds of contenders. All of them are understood in every lock's directory,
// since other clients and other versions may queue there too.
const (
	Exclusive Kind = iota + 1
	Read
	Write
	Upgradable // a read that can become a write: see [Queue.Upgrade]
)

// NumKinds is one more than the highest kind, for arrays that have an element for each.
const NumKinds = len(kinds)

// kinds says what the kinds are. What a process's locks can do by their kinds, package manager has
// in a table of its own.
var kinds = [...]struct {
	name   string
	mark   string // see Kind.Mark
	reads  bool   // see Kind.reads
	family string // see Kind.Family
}{
	Exclusive: {name: "exclusive", mark: "lock-", family: "exclusive"},
	Read:      {name: "read", mark: "__READ__", reads: true, family: "read/write"},
	Write:     {name: "write", mark: "__WRIT__", family: "read/write"},
	// Its mark is a reader's, so that other clients let it in beside readers. Its guid tells it
	// from those: see UpgradableGUID.
	Upgradable: {name: "upgradable", mark: "__READ__", reads: true, family: "read/write"},
}

// Kinds yields each kind.
func Kinds(yield func(Kind) bool) {
	for k := Exclusive; int(k) < NumKinds; k++ {
		if !yield(k) {
			return
		}
	}
}

// String returns "exclusive", "read", "write" or "upgradable".
func (k Kind) String() string {
	if k == 0 || int(k) >= NumKinds {
		return "unknown"
	}
	return kinds[k].name
}

// Mark returns what precedes the sequence number in the name of one of our nodes.
func (k Kind) Mark() string { return kinds[k].mark }

// reads reports whether other clients take a contender of the kind for a reader.
func (k Kind) reads() bool { return kinds[k].reads }

// Family returns the kind of lock in whose directory contenders of the kind queue, "exclusive" or
// "read/write". Contenders of two families do not take each other into account, if one is of
// another client.
func (k Kind) Family() string { return kinds[k].family }

// Excludes reports whether contenders of kinds a and b cannot hold the lock
// together. Readers can, with one upgradable among them.
func Excludes(a, b Kind) bool {
	return !a.reads() || !b.reads() || a == Upgradable && b == Upgradable
}
