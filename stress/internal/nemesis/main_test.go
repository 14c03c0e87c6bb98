// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/sentinel"
)

func TestMain(m *testing.M) {
	sentinel.Main()
	if servers := os.Getenv(envWorker); servers != "" {
		work(servers)
	}
	goleak.VerifyTestMain(m)
}
