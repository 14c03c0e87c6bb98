// SPDX-License-Identifier: Apache-2.0

package zkio

import "github.com/go-zookeeper/zk"

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

// zkACL translates an access control list. An empty one, which every server
// would refuse, lets every client do everything.
func zkACL(acl []ACL) []zk.ACL {
	if len(acl) == 0 {
		return zk.WorldACL(zk.PermAll)
	}
	out := make([]zk.ACL, len(acl))
	for i, a := range acl {
		out[i] = zk.ACL(a)
	}
	return out
}
