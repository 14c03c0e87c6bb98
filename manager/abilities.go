// SPDX-License-Identifier: Apache-2.0

package manager

import "github.com/holdfast-go/holdfast/internal/queue"

// abilities are what locks can do, by their kinds.
var abilities = [queue.NumKinds]struct {
	// traits are those of the lock's rounds, in the order in which they are called. So only what
	// can be together is.
	traits []trait

	lingers   bool   // it can linger: see SetLinger
	unmarked  string // why it cannot report abandonment; "": it can
	unbundled string // why LockAll cannot take it; "": it can
}{
	queue.Exclusive: {traits: []trait{heir{}, robust{}, idling{}}, lingers: true},
	queue.Read: {
		traits: []trait{heir{}, paired{}, idling{}}, lingers: true,
		unmarked: "a read lock cannot be abandoned; call it for the write lock",
	},
	queue.Write: {traits: []trait{heir{}, robust{}, paired{}, idling{}}, lingers: true},
	// It never lingers: its idle round would have to see to the end of an upgrade.
	queue.Upgradable: {
		traits:    []trait{heir{}, raised{}, paired{}},
		unmarked:  "an upgradable read lock reports no abandonment; call it for the write lock, and write under that",
		unbundled: "is an upgradable read lock, which can only be acquired alone",
	},
}

// traitsOfPlace are those of a place of a LockAll, whatever its lock is.
var traitsOfPlace = []trait{placed{}}
