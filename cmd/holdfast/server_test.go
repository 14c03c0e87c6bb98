// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// The server says where it listens, serves with the limits that it was given, and ends at an
// interrupt.
func TestServer(t *testing.T) {
	c := begin(t, "server", "--json", "--port", "0", "--tick-time", "100ms", "--max-session-timeout", "5s", "--four-letter-words", "ruok,srvr")
	c.stdout.await(t, "}\n")
	c.stderr.await(t, "FOR DEVELOPMENT ONLY")
	var at struct{ Address string }
	if err := json.Unmarshal([]byte(c.stdout.String()), &at); err != nil {
		t.Fatalf("%q: %v", c.stdout, err)
	}
	dial := func() net.Conn {
		nc, err := net.Dial("tcp", at.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nc.Close() })
		return nc
	}

	nc := dial()
	hour := int32(time.Hour.Milliseconds())
	b := jute.AppendInt32(make([]byte, 16), hour) // length, version, no zxid seen
	b = jute.AppendBuffer(jute.AppendInt64(b, 0), make([]byte, 16))
	if _, err := nc.Write(jute.Frame(b)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4+4+4+8+4+16)
	if _, err := io.ReadFull(nc, answer); err != nil {
		t.Fatal(err)
	}
	r := jute.NewReader(answer)
	_, _, timeout, session := r.Int32(), r.Int32(), r.Int32(), r.Int64()
	if timeout != 5000 || session == 0 {
		t.Errorf("session %x with a timeout of %d ms, want the longest, 5000", session, timeout)
	}
	for word, want := range map[string]string{"ruok": "imok", "envi": "envi is not executed because it is not in the whitelist.\n"} {
		nc := dial()
		_, _ = io.WriteString(nc, word)
		if got, err := io.ReadAll(nc); string(got) != want {
			t.Errorf("%s: %q, %v", word, got, err)
		}
	}

	if runtime.GOOS == "windows" {
		return // it cannot interrupt another process
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := c.code(); code != 0 {
		t.Errorf("at the interrupt its exit code is %d", code)
	}
}

func TestServerThatCannotServe(t *testing.T) {
	for _, tt := range []struct {
		args []string
		says string
		code int
	}{
		{[]string{"server", "--port", "65536"}, "--port is 65536: it must be between 0 and 65535", exitUsage},
		{[]string{"server", "--port", "0", "--host", "nowhere.invalid"}, "cannot serve: ", exitFailure},
	} {
		c := begin(t, tt.args...)
		c.stderr.await(t, tt.says)
		if code := c.code(); code != tt.code {
			t.Errorf("%q: exit code %d, want %d", tt.args, code, tt.code)
		}
	}
}
