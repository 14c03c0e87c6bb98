// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Contender is an entry of a lock's queue, as ZooKeeper shows it. Own is always false.
type Contender struct {
	manager.Contender

	// Client is which client library created the node: "holdfast", "curator" or "kazoo";
	// empty if its name and data do not tell, as go-zookeeper's do not.
	Client string

	// Unreadable says that this client may not read the node. Then nothing is known of
	// its process but the session.
	Unreadable bool
}

// FromManager returns a contender that package manager has described.
func FromManager(c manager.Contender) *Contender {
	return &Contender{Contender: c, Client: clientOf(&c)}
}

// contenderAt returns what the name of a node in the directory dir tells.
func contenderAt(dir string, entry queue.Contender) Contender {
	c := Contender{Contender: manager.Contender{Path: join(dir, entry.Name), Kind: manager.Kind(entry.Kind), Sequence: entry.Seq}}
	c.Client = clientOf(&c.Contender)
	c.Holds = entry.Turn
	return c
}

// describe fills in what a read of the contender's node has shown.
func (c *Contender) describe(read zkio.Read) {
	holds := c.Holds
	c.Contender = manager.DescribeNode(c.Path, read.Data, read.Stat)
	c.Holds = holds
	c.Client = clientOf(&c.Contender)
}

// clientOf returns which client created c's node.
func clientOf(c *manager.Contender) string {
	name := c.Path[strings.LastIndexByte(c.Path, '/')+1:]
	switch {
	case c.Host != "" || c.PID != 0: // the node's data are of Holdfast's form
		return "holdfast"
	case queue.OfCurator(name):
		return "curator"
	case !strings.HasPrefix(name, "_c_") && (strings.Contains(name, "__lock__") || strings.Contains(name, "__rlock__")):
		return "kazoo"
	}
	return ""
}

// mostNodes is how many nodes are read together. Their data can have a megabyte each.
const mostNodes = 500

// describeAll reads the nodes of all, and fills in what they say. It returns the paths of
// those that are gone.
func describeAll(s *zkio.Session, all []*Contender) (gone map[string]bool, err error) {
	for len(all) > 0 {
		some := all[:min(len(all), mostNodes)]
		all = all[len(some):]
		paths := make([]string, len(some))
		for i, c := range some {
			paths[i] = c.Path
		}
		reads := s.GetAll(paths...)
		lookAtUnreadable(s, reads)
		for i, read := range reads {
			c := some[i]
			switch {
			case read.Err == nil:
				c.describe(read)
				c.Unreadable = read.What == zkio.ReadStat
			case errors.Is(read.Err, zkio.ErrNoNode):
				if gone == nil {
					gone = make(map[string]bool)
				}
				gone[c.Path] = true
			case errors.Is(read.Err, zkio.ErrNoAuth): // it is there, and newer servers tell no more
				c.Unreadable = true
			default:
				return nil, read.Err
			}
		}
	}
	return gone, nil
}

// lookAtUnreadable asks again about the nodes whose data this client may not read. Before
// ZooKeeper 3.8.4 and 3.9.2 it takes no right to learn since when a node exists, and of
// which session.
func lookAtUnreadable(s *zkio.Session, reads []zkio.Read) {
	var denied []*zkio.Read
	for i := range reads {
		if errors.Is(reads[i].Err, zkio.ErrNoAuth) {
			reads[i] = zkio.Read{Path: reads[i].Path, What: zkio.ReadStat}
			denied = append(denied, &reads[i])
		}
	}
	s.Read(denied...)
}
