// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

// A handed node is what a round that ends leaves to the next one: a node that it
// created at the end of the queue in the request that deleted its own, and what
// it knew about the queue then.
//
// It is passed on by [Lock.handed]: a round's last step stores it there, before
// it sets the flag that makes the next round's turn come, and the next round's
// first step takes it.
type handed struct {
	node   *zkio.Node
	seenAt int64       // when it was seen to be there; 0: the answer was lost
	alone  bool        // it was the only node in the directory
	conn   connection  // before it was made
	listed *listed     // the queue right after it was made; nil if it was not listed then
	tail   *queue.Tail // the end of the queue ahead of it; nil if that is not known
}
