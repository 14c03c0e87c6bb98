// SPDX-License-Identifier: Apache-2.0

package zkio

import "github.com/holdfast-go/holdfast/internal/jute"

// An ACL is one entry of a node's access control list.
type ACL struct {
	Perms  int32  // a sum of the Perm constants
	Scheme string // "world", "auth", "digest", "ip", "x509", …
	ID     string // the identity, in the scheme's own notation
}

// What an ACL permits. The right to create or delete a node is its parent's.
const (
	PermRead int32 = 1 << iota
	PermWrite
	PermCreate
	PermDelete
	PermAdmin
	PermAll = PermRead | PermWrite | PermCreate | PermDelete | PermAdmin
)

// String returns the entry as ZooKeeper's command line writes it, for instance
// "world:anyone:cdrwa".
func (a ACL) String() string {
	letters := []struct {
		perm   int32
		letter byte
	}{{PermCreate, 'c'}, {PermDelete, 'd'}, {PermRead, 'r'}, {PermWrite, 'w'}, {PermAdmin, 'a'}}
	s := []byte(a.Scheme + ":" + a.ID + ":")
	for _, l := range letters {
		if a.Perms&l.perm != 0 {
			s = append(s, l.letter)
		}
	}
	return string(s)
}

// openACL lets every client do everything. It is what an empty ACL stands for, which every
// server would refuse.
var openACL = []ACL{{PermAll, "world", "anyone"}}

// orOpen returns acl, or openACL if it is empty.
func orOpen(acl []ACL) []ACL {
	if len(acl) == 0 {
		return openACL
	}
	return acl
}

// appendACL appends acl to a request.
func appendACL(b []byte, acl []ACL) []byte {
	b = jute.AppendInt32(b, int32(len(acl)))
	for _, a := range acl {
		b = jute.AppendInt32(b, a.Perms)
		b = jute.AppendString(b, a.Scheme)
		b = jute.AppendString(b, a.ID)
	}
	return b
}

// sizeOfACL returns how many bytes acl adds to a request.
func sizeOfACL(acl []ACL) int {
	n := 4
	for _, a := range acl {
		n += len(a.Scheme) + len(a.ID) + 12
	}
	return n
}
