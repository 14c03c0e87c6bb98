// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A session that was reached by TLS is not closed in clear.
func TestNotInClear(t *testing.T) {
	o := New(zkio.Config{Servers: []string{"127.0.0.1:1"}, TLS: new(tls.Config)}, zkio.Ticket{ID: 1, Timeout: time.Millisecond}, Note{})
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var read Order
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if _, err := read.Close(t.Context(), func(*zkio.Config) error { return nil }); !errors.Is(err, errPlain) {
		t.Errorf("without TLS: %v", err)
	}
	secure := func(cfg *zkio.Config) error { cfg.TLS = new(tls.Config); return nil }
	if _, err := read.Close(t.Context(), secure); err == nil || errors.Is(err, errPlain) {
		t.Errorf("with TLS, and without a server: %v", err)
	}
}
