// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/sentinel"
)

func TestMain(m *testing.M) {
	sentinel.Main()
	if os.Getenv(childServer) != "" {
		holderProcess() // a process that a test has started
		os.Exit(0)
	}
	if addr := os.Getenv(childMeter); addr != "" { // likewise
		if err := meterProcess(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(realzk.WithShared(m))
}
