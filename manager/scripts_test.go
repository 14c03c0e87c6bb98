// SPDX-License-Identifier: Apache-2.0

package manager

import "testing"

// The tests below are cases of the scripts in testdata/scripts. Their names are
// those that docs/faults.md knows.

func TestF009_DirectoryMadeByTwo(t *testing.T)          { playScript(t) }
func TestF029_ExpiredWaiterQueuesAtTheEnd(t *testing.T) { playScript(t) }
