// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"crypto/sha1" //nolint:gosec // the digest scheme of the protocol is SHA-1
	"encoding/base64"
	"net"
	"slices"
	"strings"
)

// The permissions of an ACL entry.
const (
	permRead int32 = 1 << iota
	permWrite
	permCreate
	permDelete
	permAdmin
	permAll = permRead | permWrite | permCreate | permDelete | permAdmin
)

// An id names a client under an authentication scheme.
type id struct{ scheme, name string }

// An aclEntry grants permissions to the clients that have an id.
type aclEntry struct {
	perms int32
	id    id
}

// anyone is the id that every client has.
var anyone = id{"world", "anyone"}

// openACL grants every client every permission. It is shared and never modified.
var openACL = []aclEntry{{permAll, anyone}}

// superUser passes every check.
var superUser = id{"super", ""}

// administrator is the author of what the Server's own methods do.
var administrator = []id{superUser}

// allows reports whether acl grants one of the permissions in perm to a client
// with the ids in who. As in a real server, an empty list grants everything.
func allows(acl []aclEntry, who []id, perm int32) bool {
	if len(acl) == 0 {
		return true
	}
	for _, w := range who {
		if w.scheme == "super" {
			return true
		}
	}
	for _, e := range acl {
		if e.perms&perm == 0 {
			continue
		}
		if e.id == anyone {
			return true
		}
		for _, w := range who {
			if w.scheme == e.id.scheme && matches(w, e.id) {
				return true
			}
		}
	}
	return false
}

// matches reports whether an entry's id covers a client's id of the same scheme.
func matches(who, entry id) bool {
	switch entry.scheme {
	case "digest":
		return who.name == entry.name
	case "ip":
		addr := net.ParseIP(who.name)
		if _, block, err := net.ParseCIDR(entry.name); err == nil {
			return block.Contains(addr)
		}
		want := net.ParseIP(entry.name)
		return want != nil && want.Equal(addr)
	}
	return false
}

// fixACL returns the list to store when a client with the ids in who asks for
// acl. Duplicates are gone, and entries of the scheme "auth" are replaced by the
// client's own ids.
func fixACL(acl []aclEntry, who []id) ([]aclEntry, Code) {
	if len(acl) == 0 {
		return nil, CodeInvalidACL
	}
	if len(acl) == 1 && acl[0] == openACL[0] {
		return openACL, CodeOK // one copy for all the nodes
	}
	var fixed []aclEntry
	for i, e := range acl {
		if slices.Contains(acl[:i], e) {
			continue
		}
		switch e.id.scheme {
		case "world":
			if e.id.name != "anyone" {
				return nil, CodeInvalidACL
			}
			fixed = append(fixed, e)
		case "auth":
			known := false
			for _, w := range who {
				if w.scheme == "digest" {
					known = true
					fixed = append(fixed, aclEntry{e.perms, w})
				}
			}
			if !known {
				return nil, CodeInvalidACL
			}
		case "digest":
			// User and hash; trailing colons do not count.
			if strings.Count(strings.TrimRight(e.id.name, ":"), ":") != 1 {
				return nil, CodeInvalidACL
			}
			fixed = append(fixed, e)
		case "ip":
			if _, _, err := net.ParseCIDR(e.id.name); err != nil && net.ParseIP(e.id.name) == nil {
				return nil, CodeInvalidACL
			}
			fixed = append(fixed, e)
		default:
			return nil, CodeInvalidACL
		}
	}
	return fixed, CodeOK
}

// identify adds an id that c's client has proved.
func (c *conn) identify(who id) {
	if !slices.Contains(c.who, who) {
		c.who = append(slices.Clip(c.who), who) // transactions share the list
	}
}

// digestID returns the id that the credentials "user:password" prove.
func digestID(credentials string) id {
	user, _, _ := strings.Cut(credentials, ":")
	sum := sha1.Sum([]byte(credentials)) //nolint:gosec // as above
	return id{"digest", user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// masked returns acl as a client sees it that may read but not administer the
// node: without the hashes of the digests.
func masked(acl []aclEntry) []aclEntry {
	shown := slices.Clone(acl)
	for i, e := range shown {
		if user, _, ok := strings.Cut(e.id.name, ":"); ok && e.id.scheme == "digest" {
			shown[i].id.name = user + ":x"
		}
	}
	return shown
}
