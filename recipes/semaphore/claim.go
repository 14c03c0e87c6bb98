// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// A claim is the nodes of one attempt to get permits: one for each permit, all made by one
// transaction. Their names are chosen here and never used again. So the transaction can be
// sent again when its answer was lost, and the nodes deleted by their names.
type claim struct {
	session *zkio.Session
	turn    bool // it is made by the first in line
	paths   []string
	last    []byte // the guid of the claim that was the last in turn: this one, or what the directory has
	sent    bool   // a transaction that makes them was sent, perhaps
	made    bool   // they are known to have been made
	czxid   int64  // by this transaction
	counted int64  // the last transaction that counted all nodes; that of the grant, in the end
}

// name chooses the names of c's nodes.
func (c *claim) name(s *Semaphore, w int) {
	c.paths = make([]string, w)
	guid := s.access.GUID()
	for i := range c.paths {
		// As Curator's, where the number is the server's.
		c.paths[i] = fmt.Sprintf("%s/_c_%s-lease-%010d", s.leases, guid, i)
	}
	c.last = []byte(guid)
}

// ops returns what makes the nodes, or checks them if they are made.
func (c *claim) ops(a manager.Access) []zkio.Op {
	ops := make([]zkio.Op, len(c.paths), len(c.paths)+1)
	data, acl := a.Describe("lease"), a.ACL()
	for i, path := range c.paths {
		if c.made {
			ops[i] = zkio.CheckOp(path, -1)
		} else {
			ops[i] = zkio.CreateOp(path, data, acl).Ephemeral()
		}
	}
	return ops
}

// find finds out which transaction made the nodes, which were made.
func (c *claim) find() error {
	stat, there, err := c.session.Exists(c.paths[0])
	if err == nil && there {
		c.czxid = stat.Czxid
	}
	c.made = err == nil // if one is gone by now, the next transaction tells
	return err
}

// remove deletes those of the nodes that are there.
func (c *claim) remove(session *zkio.Session) error {
	if len(c.paths) > 1 {
		ops := make([]zkio.Op, len(c.paths))
		for i, path := range c.paths {
			ops[i] = zkio.DeleteOp(path, -1)
		}
		if _, err := session.Multi(ops...); !errors.Is(err, zkio.ErrNoNode) {
			return err
		}
	}
	for _, path := range c.paths {
		if err := session.Delete(path, -1); err != nil && !errors.Is(err, zkio.ErrNoNode) {
			return err
		}
	}
	return nil
}
