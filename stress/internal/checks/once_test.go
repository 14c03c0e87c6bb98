// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"strings"
	"testing"
)

// What is done is forgotten at last, and the note says so.
func TestManyElements(t *testing.T) {
	c := Once{lost: 7}
	if c.Explain(nil); !strings.Contains(c.Note, "the names of 7 that were done are forgotten") {
		t.Errorf("the note is %q", c.Note)
	}
}
