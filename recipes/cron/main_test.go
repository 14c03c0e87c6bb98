// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

func TestMain(m *testing.M) {
	if server := os.Getenv(childServer); server != "" { // a process that a test has started
		run := cronProcess
		if history := os.Getenv(childHistory); history != "" {
			run = func(server string) error { return jobsProcess(server, history) }
		}
		if err := run(server); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(realzk.WithShared(m))
}
