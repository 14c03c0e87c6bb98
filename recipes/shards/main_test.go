// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

func TestMain(m *testing.M) {
	if server := os.Getenv(childServer); server != "" { // a process that a test has started
		if err := ownerProcess(server); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(realzk.WithShared(m))
}
