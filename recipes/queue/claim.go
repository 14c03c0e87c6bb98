// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/own"
	"github.com/holdfast-go/holdfast/zkio"
)

// A claim is the try to claim one element. The worker that carries it out uses it; then
// the caller does.
type claim struct {
	q    *consumer
	name string
	path string // of the element
	id   string // the data of the claim's node

	tried   *zkio.Session // the session in which the node may be there; nil: in none
	sent    time.Time     // when the request that may have created it was sent
	data    []byte        // of the element
	attempt int           // which this is
	kept    *own.Node     // the claim's; nil if this process has not got the element
	refused error
}

func (q *consumer) newClaim(name string) *claim {
	return &claim{q: q, name: name, path: q.dirs.items + "/" + name, id: q.access.GUID()}
}

// do is called by a worker, until it returns nil or a definite error.
func (c *claim) do(s *zkio.Session) error {
	q := c.q
	switch {
	case c.tried != nil && c.tried != s:
		return c.undo(s) // the session has ended, and the claim with it
	case c.tried == nil && !q.seated(s):
		return nil // the list is of an earlier session
	}
	content := zkio.Read{Path: c.path, What: zkio.ReadData}
	created, err := c.create(s, &content)
	if created == 0 {
		return err
	}
	if content.Err != nil {
		return access.Unless(content.Err, zkio.ErrNoNode)
	}
	c.data, c.attempt = content.Data, attempts(content.Stat)
	if most := q.options.MaxAttempts; most > 0 && c.attempt > most {
		return c.bury(s)
	}
	c.kept, err = q.keeper.Keep(s, c.node(), created)
	return access.Unless(err, zkio.ErrNoNode) // an administrator has deleted it
}

// create creates the claim's node, and reads the element. It returns the transaction that
// has created the node, or 0 if this process has not got the element.
func (c *claim) create(s *zkio.Session, content *zkio.Read) (created int64, err error) {
	again := c.tried == s
	sent := time.Now()
	if !again {
		c.tried, c.sent = s, sent
	}
	results, err := s.MultiAndRead([]*zkio.Read{content},
		zkio.CreateOp(c.node(), nil, c.q.access.ACL()).Ephemeral(),
		zkio.SetOp(c.node(), []byte(c.id), 0)) // its Stat has the transaction
	switch {
	case err == nil:
		c.q.clock.set(results[1].Stat.Mtime, sent)
		return results[1].Stat.Czxid, nil
	case errors.Is(err, zkio.ErrNodeExists) && again:
		data, stat, err := s.Get(c.node())
		if err != nil || string(data) != c.id {
			return 0, access.Unless(err, zkio.ErrNoNode)
		}
		c.q.clock.set(stat.Mtime, c.sent)
		s.Read(content)
		return stat.Czxid, nil
	case zkio.ClassOf(err) == zkio.Definite:
		c.tried = nil
		return 0, access.Unless(err, zkio.ErrNodeExists, zkio.ErrNoNode)
	case errors.Is(err, zkio.ErrNotSent) && !again:
		c.tried = nil
	}
	return 0, err
}

// bury moves the element to dead/.
func (c *claim) bury(s *zkio.Session) error {
	ops, err := c.q.burial(s, c.path, c.data)
	if err == nil {
		err = c.q.transact(s, ops)
	}
	if errors.Is(err, ErrFull) || zkio.ClassOf(err) == zkio.Definite && !errors.Is(err, zkio.ErrNoNode) {
		c.refused = err
		return c.undo(s)
	}
	return access.Unless(err, zkio.ErrNoNode) // moved by a try whose answer was lost
}

// undo takes the claim back, of which no caller has heard: it deletes the claim's node, if it is
// there, and has the attempt not count. A worker calls it, until it returns nil or a definite
// error.
func (c *claim) undo(s *zkio.Session) error {
	if c.kept != nil {
		c.kept.Forget()
	}
	switch c.tried {
	case nil:
		return nil
	case s:
		// The session may be at another server than the one that got the request.
		if err := s.Sync(c.path); err != nil {
			return err
		}
		data, _, err := s.Get(c.node())
		if err != nil || string(data) != c.id {
			return access.Unless(err, zkio.ErrNoNode)
		}
		return access.Unless(c.takeBack(s, c.q.giveBack(c.path)), zkio.ErrNoNode)
	}
	// The claim goes with its session, or was never made. An attempt too many would bury the
	// element one attempt early, unseen; one too few is harmless. So what is in doubt counts
	// as taken back, and is not tried twice.
	if err := c.takeBack(s, nil); !errors.Is(err, zkio.ErrUnknown) {
		return access.Unless(err, zkio.ErrNoNode)
	}
	return nil
}

// takeBack carries out the operations, and has the attempt not count.
func (c *claim) takeBack(s *zkio.Session, ops []zkio.Op) error {
	uncount, err := uncounted(s, c.path)
	if err != nil {
		return err
	}
	return c.q.transact(s, append(ops, uncount))
}

// node returns the path of the claim's node.
func (c *claim) node() string { return c.path + claimName }
