// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"strings"
	"testing"
)

// What is done is forgotten at last, and the verdict says so.
func TestManyElements(t *testing.T) {
	j := New(header())
	j.once.lost = 7
	if v := j.Interim(); !strings.Contains(v.Checks[6].Note, "the names of 7 that were done are forgotten") {
		t.Errorf("the note of %q is %q", v.Checks[6].Name, v.Checks[6].Note)
	}
}
