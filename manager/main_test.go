// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

func TestMain(m *testing.M) {
	if os.Getenv(childServer) != "" {
		holderProcess() // this is not a test but a process that one has started
		os.Exit(0)
	}
	if locks, ok := os.LookupEnv(childLender); ok { // another such process
		if err := lenderProcess(locks); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(realzk.WithShared(m))
}
