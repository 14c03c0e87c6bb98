// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/manager/internal/queue"
)

// A Kind says what a contender asks for.
type Kind uint8

// The kinds of contenders. All of them are understood in every lock's directory,
// since other clients and other versions may queue there too.
const (
	KindExclusive = Kind(queue.Exclusive)
	KindRead      = Kind(queue.Read)
	KindWrite     = Kind(queue.Write)
)

// String returns "exclusive", "read" or "write".
func (k Kind) String() string { return queue.Kind(k).String() }

// A Contender is an entry of a lock's queue, as far as it is known.
type Contender struct {
	Path     string // its node
	Kind     Kind
	Sequence int64 // its number in the queue

	// What the contender says about itself; empty if it belongs to another
	// client.
	Host  string
	PID   int
	Label string
	Since time.Time

	// Persistent reports that the node is not ephemeral: it outlives its owner's
	// session and has to be deleted by hand.
	Persistent bool
}

// String describes the contender for a person: label@host, its process id, and
// since when it has been in the queue.
func (c *Contender) String() string {
	if c == nil {
		return "no contender"
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

// nodeData is what a contender writes into its node, as JSON, for people and
// tools.
type nodeData struct {
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Label string    `json:"label,omitempty"`
	Kind  string    `json:"kind"`
	Since time.Time `json:"since"`
}

// describe fills in what the contender's node says, and reports whether this
// package wrote it. It ignores the data of other clients.
func (c *Contender) describe(data []byte) bool {
	var d nodeData
	if json.Unmarshal(data, &d) != nil || d.Kind == "" {
		return false
	}
	c.Host, c.Label, c.PID, c.Since = d.Host, d.Label, d.PID, d.Since
	return true
}
