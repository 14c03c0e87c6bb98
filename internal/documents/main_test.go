// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/realzk/child"
)

func TestMain(m *testing.M) {
	child.CatchIgnoredSignals() // the commands of the documents end by Ctrl-C
	goleak.VerifyTestMain(m)
}
