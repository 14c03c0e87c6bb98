// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"sync"
)

// Peers remembers what other processes say about themselves in their nodes. A Manager
// writes the same into all of its nodes, and its id is a part of their names. So once a
// node of a process was read, the name of any other tells what that says.
type peers struct {
	mu sync.Mutex // protects what follows
	// When recent is full, it becomes older, and the old older is forgotten. find moves
	// an entry of older to recent, so only processes that find has not returned for a
	// whole recent are forgotten.
	recent, older map[string]author
}

// maxRecentPeers is the least number of processes that a full memory keeps. It never
// keeps more than twice as many.
const maxRecentPeers = 2048

// makerOf returns the id of the Manager that made the node called name, or "" if another
// client made it. Go-zookeeper's names look like ours, but note is never called for its
// nodes, because their data do not.
func makerOf(name string) string {
	guid, ok := strings.CutPrefix(name, "_c_")
	if !ok || len(guid) <= guidLength || guid[guidLength] != '-' || strings.Contains(guid[:guidLength], "-") {
		return ""
	}
	return guid[:guidLength/2]
}

// guidLength is the length of the names' unique part, of which the first half is the
// Manager's id: see Manager.guid.
const guidLength = 32

// note remembers what the node called name says. The caller has found that this
// package wrote it.
func (p *peers) note(name string, by author) {
	if id := makerOf(name); id != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.putLocked(strings.Clone(id), by)
	}
}

func (p *peers) putLocked(id string, by author) {
	if p.recent == nil || len(p.recent) >= maxRecentPeers {
		p.recent, p.older = make(map[string]author), p.recent
	}
	p.recent[id] = by
}

// find returns what the node called name says, if it is known.
func (p *peers) find(name string) (by author, known bool) {
	id := makerOf(name)
	if id == "" {
		return author{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if by, known = p.recent[id]; known {
		return by, true
	}
	if by, known = p.older[id]; known {
		p.putLocked(strings.Clone(id), by)
	}
	return by, known
}

// author returns what c says about its process.
func (c *Contender) author() author {
	return author{c.Host, c.Label, c.Endpoint, c.PID, c.Identity}
}

// by fills in what a contender says about its process.
func (c *Contender) by(a author) {
	c.Host, c.Label, c.Endpoint, c.PID, c.Identity = a.host, a.label, a.endpoint, a.pid, a.identity
}
