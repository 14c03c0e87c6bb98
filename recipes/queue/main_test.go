// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

func TestMain(m *testing.M) {
	if os.Getenv(processServer) != "" {
		runProcess() // a process that a test has started
		os.Exit(0)
	}
	goleak.VerifyTestMain(realzk.WithShared(m))
}
