// SPDX-License-Identifier: Apache-2.0

package small

import "testing"

func TestDoor(t *testing.T) { new(door).shut() }
