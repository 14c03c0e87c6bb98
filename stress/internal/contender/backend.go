// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"github.com/holdfast-go/holdfast/internal/daemon"
)

// A Backend is what has the locks of a contender that does not use ZooKeeper.
type Backend struct {
	Servers daemon.Kind
	Lacks   []string // the kinds of faults that its servers do not have
}

var (
	etcd = &Backend{daemon.Etcd, []string{"isolate-follower", "isolate-leader", "slow-disk", "swallow-answer"}}
	// A lock of redsync is held that most of several servers have granted, of which none leads.
	redis = &Backend{daemon.RedisDurable, append([]string{"kill-leader", "pause-leader"}, etcd.Lacks...)}
)

// BackendOf returns the backend of a contender; nil: ZooKeeper.
func BackendOf(text string) *Backend {
	if i := indexOf(text); i >= 0 {
		return all[i].library.backend
	}
	return nil
}
