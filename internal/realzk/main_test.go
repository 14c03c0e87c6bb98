// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// envChild makes the test binary play the process that dies; see
// TestServerDiesWithItsStarter and TestEnsembleOfAKilledCommand.
const envChild = "REALZK_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(envChild) {
	case "":
	case "ensemble":
		playOwner()
	default:
		playStarter()
	}
	goleak.VerifyTestMain(WithShared(m))
}
