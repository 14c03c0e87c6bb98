// SPDX-License-Identifier: Apache-2.0

package election_test

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
	if servers := os.Getenv(childServers); servers != "" { // a process that a test has started
		if err := candidateProcess(servers); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(realzk.WithShared(m))
}
