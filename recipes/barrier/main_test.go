// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

func TestMain(m *testing.M) {
	if server := os.Getenv(childServer); server != "" {
		child(server, os.Getenv(childRoot))
		os.Exit(0)
	}
	goleak.VerifyTestMain(realzk.WithShared(m))
}
