// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/stress/internal/options"
)

// The servers of a run that lasts for days remove what they do not need any more.
func TestEnsembleLimitsItsDisk(t *testing.T) {
	realzk.Require(t)
	t.Parallel()
	var o options.Options
	o.Ensemble, o.SessionTimeout = 1, 4*time.Second
	e, err := startEnsemble(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(e.Members()[0].LogFile())
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(log), "Purge task started") {
		t.Errorf("the server keeps all:\n%s", log)
	}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
}
