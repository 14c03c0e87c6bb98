// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/zkio"
)

// Peers remembers what other processes say about themselves in their nodes. The name
// of a node tells which Manager made it, and a Manager writes the same into all of
// them. So of a process whose node was read once, the next is known by its name.
type peers struct {
	mu sync.Mutex // protects what follows
	// When recent is full, it becomes older. A process that is asked for there moves
	// to recent, so what is forgotten was not asked for since recent was empty.
	recent, older map[string]author
}

// maxRecentPeers is how many processes are remembered, at least; twice that at most.
const maxRecentPeers = 2048

// makerOf returns the id of the Manager that made the node called name; "" if another
// client made it. Some of those choose names like ours, but their nodes do not say
// what ours do: see note.
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

// describe completes c by what its node says, and what the server says about it. If
// the data are not ours, although the name is that of a Manager that this process has
// met, another client has written into the node, and c gets what that Manager has said
// before. describe reports whether this package wrote the data.
func (p *peers) describe(c *Contender, data []byte, stat zkio.Stat) (ours bool) {
	name := c.Path[strings.LastIndexByte(c.Path, '/')+1:]
	if ours = c.describe(data, stat); ours {
		p.note(name, c.author())
	} else if by, known := p.find(name); known {
		c.by(by)
	}
	return ours
}

// author returns what c says about its process.
func (c *Contender) author() author {
	return author{c.Host, c.Label, c.Endpoint, c.PID, c.Identity}
}

// by fills in what a contender says about its process.
func (c *Contender) by(a author) {
	c.Host, c.Label, c.Endpoint, c.PID, c.Identity = a.host, a.label, a.endpoint, a.pid, a.identity
}
