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

// An id is somebody's name under an authentication scheme.
type id struct{ scheme, name string }

// An aclEntry grants permissions to whoever has an id.
type aclEntry struct {
	perms int32
	id    id
}

// anyone is everybody's id.
var anyone = id{"world", "anyone"}

// openACL lets everybody do everything. It is shared; nobody changes it.
var openACL = []aclEntry{{permAll, anyone}}

// superUser passes every check.
var superUser = id{"super", ""}

// administrator is the author of what the Server's own methods do.
var administrator = []id{superUser}

// allows reports whether somebody with the identities who has perm under acl.
// An empty list allows everything, as it does in the real server.
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

// matches compares two ids of one scheme.
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

// fixACL returns the list that is stored when somebody with the identities who
// asks for acl: without duplicates, and with the entries of the scheme "auth"
// replaced by who's own identities.
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
			// User and hash. Colons at the end do not count.
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

// identify adds an identity that c's client has proved.
func (c *conn) identify(who id) {
	if !slices.Contains(c.who, who) {
		c.who = append(slices.Clip(c.who), who) // transactions share the list
	}
}

// digestID returns the identity that "user:password" proves.
func digestID(credentials string) id {
	user, _, _ := strings.Cut(credentials, ":")
	sum := sha1.Sum([]byte(credentials)) //nolint:gosec // as above
	return id{"digest", user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// masked returns acl as it is shown to those who may read but not administer:
// the digests' hashes are hidden.
func masked(acl []aclEntry) []aclEntry {
	shown := slices.Clone(acl)
	for i, e := range shown {
		if user, _, ok := strings.Cut(e.id.name, ":"); ok && e.id.scheme == "digest" {
			shown[i].id.name = user + ":x"
		}
	}
	return shown
}
