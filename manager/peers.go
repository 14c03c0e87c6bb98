// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"sync"
	"unique"

	"github.com/holdfast-go/holdfast/zkio"
)

// Peers remembers what other processes say about themselves in their nodes. A Manager
// writes the same into all of its nodes, and its id is a part of their names. So once a
// node of a process was read, the name of any other tells what that says, if both belong
// to the same session. The session counts because any client can choose a name, and could
// pose as another process in locks that it may not even queue for; but only the server
// says to which session a node belongs.
type peers struct {
	mu sync.Mutex // protects what follows
	// When recent is full, it becomes older, and the old older is forgotten. find moves
	// an entry of older to recent, so only processes that find has not returned for a
	// whole recent are forgotten.
	recent, older map[string]peer
}

// A peer is what a process has said in a node of that session; 0: this process, in any.
type peer struct {
	author
	session int64
}

// maxRecentPeers is the least number of processes that a full memory keeps. It never
// keeps more than twice as many.
const maxRecentPeers = 2048

// maxAuthor is the largest number of bytes that is remembered of what a process says.
const maxAuthor = 4096

// makerOf returns the id of the Manager that made the node called name, or "" if another
// client made it. Go-zookeeper's names look like ours, but note is never called for its
// nodes, because their data do not.
func makerOf(name string) string {
	guid, ok := strings.CutPrefix(name, "_c_")
	if !ok {
		return ""
	}
	const half = guidLength / 2
	switch id, rest, cut := strings.Cut(guid, "-"); {
	case len(id) == guidLength && cut:
		return id[:half]
	case len(id) == half && strings.IndexByte(rest, '-') == half:
		return id // an upgradable's: see queue.UpgradableGUID
	}
	return ""
}

// guidLength is the length of the names' unique part, of which the first half is the
// Manager's id: see identity.guid.
const guidLength = 32

// note remembers what the node called name says, which belongs to the session. The
// caller has found that the data are of this package's form.
func (p *peers) note(name string, by author, session int64) {
	id := makerOf(name)
	if id == "" || session == 0 || len(by.host)+len(by.label)+len(by.endpoint) > maxAuthor {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, known := p.findLocked(id); !known || old.session != 0 { // of itself this process knows
		p.putLocked(strings.Clone(id), peer{by, session})
	}
}

func (p *peers) putLocked(id string, by peer) {
	if p.recent == nil || len(p.recent) >= maxRecentPeers {
		p.recent, p.older = make(map[string]peer), p.recent
	}
	p.recent[id] = by
}

// find returns what the process that the node's name names has said last, if that is
// known: a hint for people, since another client may have made the node.
func (p *peers) find(name string) (by author, known bool) {
	found, known := p.findAny(name)
	return found.author, known
}

// findIn returns what the node called name says, which belongs to the session, if that is
// known.
func (p *peers) findIn(name string, session int64) (by author, known bool) {
	found, known := p.findAny(name)
	if !known || found.session != 0 && found.session != session {
		return author{}, false
	}
	return found.author, true
}

func (p *peers) findAny(name string) (by peer, known bool) {
	id := makerOf(name)
	if id == "" {
		return peer{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.findLocked(id)
}

func (p *peers) findLocked(id string) (by peer, known bool) {
	if by, known = p.recent[id]; known {
		return by, true
	}
	if by, known = p.older[id]; known {
		p.putLocked(strings.Clone(id), by)
	}
	return by, known
}

// describe completes c by what its node says, and what the server says about it. If
// the data are not ours, although the node's session is that of a process that this one
// has met, another client has written into the node, and c gets what that process has
// said before. describe reports whether the data are of this package's form.
func (p *peers) describe(c *Contender, data []byte, stat zkio.Stat) (ours bool) {
	name := lastSegment(c.Path)
	if ours = c.describe(data, stat); ours {
		p.note(name, c.author(), c.Session)
	} else if by, known := p.findIn(name, c.Session); known {
		c.by(by)
	}
	return ours
}

// author returns what c says about its process.
func (c *Contender) author() author {
	return author{c.Host, c.Label, c.Endpoint, c.PID, c.Identity, c.guarded}
}

// by fills in what a contender says about its process.
func (c *Contender) by(a author) {
	c.Host, c.Label, c.Endpoint, c.PID, c.Identity, c.guarded = a.host, a.label, a.endpoint, a.pid, a.identity, a.guarded
}

// said is what a contender's node says, in little space.
type said struct {
	by         unique.Handle[peer] // its zero value: it says nothing, or is not readable
	since      int64               // in nanoseconds since 1970; 0: not known
	persistent bool
}

// guarded reports whether the contender's process says that another one closes its session: see Contender.
func (s said) guarded() bool { return s.by != (unique.Handle[peer]{}) && s.by.Value().guarded }

// An author is what a contender says about the process that it belongs to. A process
// often waits behind many contenders of few others.
type author struct {
	host, label, endpoint string
	pid                   int
	identity              string // of another client
	guarded               bool   // see Contender
}

// sayingOf returns what c says.
func sayingOf(c *Contender) said {
	s := said{persistent: c.Persistent}
	if by := (peer{c.author(), c.Session}); by != (peer{}) {
		s.by = unique.Make(by)
	}
	if !c.Since.IsZero() {
		s.since = c.Since.UnixNano()
	}
	return s
}
