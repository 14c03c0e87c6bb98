// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if servers := os.Getenv(envWorker); servers != "" {
		work(servers)
	}
	goleak.VerifyTestMain(m)
}
