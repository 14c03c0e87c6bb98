// SPDX-License-Identifier: Apache-2.0

package port

import (
	"net"
	"strconv"
	"testing"
)

// A port that was reserved is not given away, although no server listens on it yet.
func TestReservedPort(t *testing.T) {
	port, err := Free()
	if err != nil {
		t.Fatal(err)
	}
	if err := reserve(port); err == nil {
		t.Fatal("reserved twice")
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatalf("a server cannot listen on it: %v", err)
	}
	_ = l.Close()
	Release(port)
	if err := reserve(port); err != nil {
		t.Errorf("after its release: %v", err)
	}
	Release(port)
}
