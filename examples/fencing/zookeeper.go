// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// UpdateNode replaces a node's data by what change makes of them, under the lock that h
// holds. It needs no token: ZooKeeper carries the write out only while the lock is held.
func UpdateNode(ctx context.Context, h manager.Hold, path string, change func([]byte) []byte) error {
	data, stat, err := h.Get(ctx, path)
	if err != nil {
		return err
	}
	_, err = h.Guard(ctx, zkio.SetOp(path, change(data), stat.Version))
	return err
}
