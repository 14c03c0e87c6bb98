// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/zkio"
)

// Delete deletes the node of c, and no other: it reports false if that node is gone. c
// must come from this package, with its node read.
//
// A process that holds the lock by the node loses it. It is told at once if it is
// connected, and otherwise when its lease ends. In any case the next contender can be
// granted the lock first, and work beside it: only the fencing token keeps the two apart.
//
// Delete takes the right to delete in the lock's directory. ZooKeeper cannot delete on the
// condition that a node is the same as before. So Delete looks first, and then deletes.
// Between the two, the node could be replaced only by one whose name has no unique part,
// in a directory that was removed and made again.
//
// If Delete fails although ZooKeeper has not refused, the node may have been deleted.
func (r *Reader) Delete(ctx context.Context, c *Contender) (deleted bool, err error) {
	sent := false // by an earlier try, whose outcome is not known; used by do only
	return ask(ctx, r, func(s *zkio.Session) (deleted bool, err error) {
		stat, there, err := s.Exists(c.Path)
		if err != nil {
			return false, err
		}
		if !there || uint64(stat.Czxid) != c.Token {
			return sent, nil
		}
		err = s.Delete(c.Path, stat.Version)
		if errors.Is(err, zkio.ErrNoNode) { // it has gone meanwhile
			return false, nil
		}
		sent = true
		return err == nil, err
	})
}
