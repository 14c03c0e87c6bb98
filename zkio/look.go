// SPDX-License-Identifier: Apache-2.0

package zkio

import "errors"

// Look is Get for a watcher of path. If the session may not read the node it
// returns no data, but still the Stat, and leaves a watch all the same. If the
// node is gone it returns ErrNoNode and has the watchers told so, in order with
// the events that the server has sent before.
func (s *Session) Look(path string) ([]byte, Stat, error) {
	data, st, err := s.Get(path)
	if errors.Is(err, ErrNoAuth) {
		var there bool
		if st, there, err = s.Exists(path); err == nil && !there {
			err = &opError{op: "get", path: path, kind: ErrNoNode}
		}
	}
	if errors.Is(err, ErrNoNode) {
		s.client.dispatcher.push(notice{path: path, event: NodeDeleted})
	}
	return data, st, err
}
