// SPDX-License-Identifier: Apache-2.0

package yield

// The weave command puts other files in the place of this one.

// Woven reports whether this program is woven: whether there are points, and the
// runtime's choices follow the seed.
const Woven = false

// Branches are the names of all branches that woven code counts.
var Branches []string

func seedRuntime(uint64) {}
