// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

// An entry is a call of Enter. The present step uses it, and after the last one its
// goroutine.
type entry struct {
	*Double
	lookout *lookout

	node    string        // the name of its node; "": the next step makes one
	session *zkio.Session // of the node
	created bool          // the node is known to have been created
	fresh   bool          // its node has not waited yet
	stage   *Stage        // the result
}

// step does what can be done now. Then either the stage is there, or the lookout tells when there
// is more to do. The record changes when a round begins, and mostly when one has ended.
// Besides, the entry watches the one node on whose end it may be up to it to begin a round.
func (e *entry) step(s *zkio.Session) error {
	for {
		if err := e.create(s); err != nil {
			return err
		}
		v, err := e.look(s)
		switch {
		case errors.Is(err, zkio.ErrNoNode): // another client has deleted the record
			if err := e.discard(s); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case v.rec.Size != e.members: // it was deleted, and others have made another
			return e.mismatch(v.rec)
		case !v.among(e.node): // or our node
			e.node = ""
			continue
		}
		watch := ""
		switch {
		case v.rec.has(e.node):
			err := e.begun(s, v)
			if errors.Is(err, zkio.ErrNoNode) {
				e.node = ""
				continue
			}
			return err
		case len(v.inside) > 0:
			watch = v.next(e.node)
		case len(v.waiting) < e.members: // who makes up the number begins the round
		case e.fresh || v.waiting[0] == e.node:
			if err := e.begin(s, v); err != nil {
				return err
			}
			continue
		default:
			watch = v.waiting[0] // it begins the round, unless it goes
		}
		if watch != "" {
			there, err := e.lookout.watch(s, watch)
			if err != nil {
				return err
			}
			if !there {
				continue
			}
		}
		e.fresh = false
		return nil
	}
}

// create makes sure that the entry has a node of this session.
func (e *entry) create(s *zkio.Session) error {
	if e.session != s {
		if err := e.discard(s); err != nil {
			return err
		}
	}
	if e.node == "" {
		if err := e.agree(s); err != nil {
			return err
		}
		// A new node may make up the number, even if an earlier one has waited.
		// The names decide which member watches which, so they must not be in the order in
		// which processes come: those that share a Manager would all watch the same one.
		e.node = fmt.Sprintf("%08x%s", rand.Uint32(), e.access.GUID())
		e.session, e.created, e.fresh = s, false, true
	}
	if e.created {
		return nil
	}
	err := access.InDir(e.access, s, e.dir, func() error {
		return s.CreateEphemeral(e.in(e.node), e.access.Describe("member"), e.access.ACL())
	})
	// If it exists, an earlier request was carried out.
	err = access.Unless(err, zkio.ErrNodeExists)
	e.created = err == nil
	return err
}

// agree makes sure that there is a record, for the same number of members.
func (e *entry) agree(s *zkio.Session) error {
	data, _, err := s.Get(e.record)
	if errors.Is(err, zkio.ErrNoNode) {
		data = record{Size: e.members}.encode()
		err = access.InDir(e.access, s, path.Dir(e.record), func() error { return s.Create(e.record, data, e.access.ACL()) })
		if errors.Is(err, zkio.ErrNodeExists) {
			data, _, err = s.Get(e.record)
		}
	}
	if err != nil {
		return err
	}
	rec, err := decode(e.record, data)
	if err == nil && rec.Size != e.members {
		err = e.mismatch(rec)
	}
	return err
}

// mismatch is what an entry ends with if the record says another number of members than its
// process.
func (e *entry) mismatch(rec record) error {
	return access.Verdict(fmt.Errorf("%w: %d, and this process says %d", ErrMismatch, rec.Size, e.members))
}

// begin begins a round with those of the waiting processes that came first, and ends the last
// one, of which no member is inside. If it cannot, since something has changed, a look shows
// what.
func (e *entry) begin(s *zkio.Session, v view) error {
	type candidate struct {
		member
		czxid int64
	}
	var all []candidate
	err := access.Each(s, v.waiting, e.in, func(name string, node *zkio.Read) {
		if e.owned(name, node.Stat) {
			all = append(all, candidate{member{name, describe(node)}, node.Stat.Czxid})
		}
	})
	if err != nil || len(all) < e.members {
		return err
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.czxid, b.czxid) })
	members := make([]member, e.members)
	ops := make([]zkio.Op, e.members)
	for i, c := range all[:e.members] {
		members[i] = c.member
		ops[i] = zkio.CheckOp(e.in(c.Name), -1)
	}
	return e.change(s, v, v.rec.begin(v.outcome(), members), ops...)
}

// maxID is how many bytes of what a process says about itself the record has.
const maxID = 128

// describe returns what a process says about itself in its node.
func describe(r *zkio.Read) string {
	data := manager.DescribeNode(r.Path, r.Data, zkio.Stat{EphemeralOwner: r.Stat.EphemeralOwner})
	about := manager.Contender{Path: data.Path, Host: data.Host, PID: data.PID, Label: data.Label, Identity: data.Identity}.String()
	return strings.ToValidUTF8(about[:min(len(about), maxID)], "")
}

// begun makes the stage of a round that has begun with the entry.
func (e *entry) begun(s *zkio.Session, v view) error {
	p := e.in(e.node)
	stat, there, err := s.Exists(p)
	if err == nil && !there {
		err = zkio.ErrNoNode
	}
	if err != nil {
		return err
	}
	node, err := e.keeper.Keep(s, p, stat.Czxid)
	if err != nil {
		return err
	}
	e.lookout.Forget(e.record) // the server's watch ends with the round
	e.stage = newStage(e.Double, e.node, node, v.rec)
	return nil
}

// withdraw undoes what the entry has done. If a round has begun with it, it has entered, and
// leaves.
func (e *entry) withdraw(s *zkio.Session) error {
	for e.node != "" {
		data, stat, err := s.Get(e.record)
		if err != nil && !errors.Is(err, zkio.ErrNoNode) {
			return err
		}
		rec, bad := decode(e.record, data)
		if err != nil || bad != nil {
			return e.discard(s)
		}
		if rec.has(e.node) {
			err = e.leave(s, e.node)
		} else {
			_, err = s.Multi(zkio.CheckOp(e.record, stat.Version), zkio.DeleteOp(e.in(e.node), -1))
		}
		switch {
		case errors.Is(err, zkio.ErrBadVersion): // the record has changed: look again
		case zkio.ClassOf(err) == zkio.Definite: // a node has gone, or ZooKeeper refuses
			return e.discard(s)
		default:
			return err
		}
	}
	return nil
}

// discard deletes the entry's node, if it has one.
func (e *entry) discard(s *zkio.Session) error {
	if e.node == "" {
		return nil
	}
	if !e.session.Gone() {
		if err := access.Unless(s.Delete(e.in(e.node), -1), zkio.ErrNoNode); err != nil {
			return err
		}
	}
	e.node = ""
	return nil
}
