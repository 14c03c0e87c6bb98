// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
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
	if timeout := granted(t, at.Address, time.Hour); timeout != 5*time.Second {
		t.Errorf("a timeout of %v, want the longest, 5s", timeout)
	}
	if timeout := granted(t, at.Address, time.Millisecond); timeout != 200*time.Millisecond {
		t.Errorf("a timeout of %v, want the shortest, 2 ticks", timeout)
	}
	for word, want := range map[string]string{"ruok": "imok", "envi": "envi is not executed because it is not in the whitelist.\n"} {
		nc := dial(t, at.Address)
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

// The bounds of session timeouts are as the flags say: by default 2 and 20 ticks.
func TestServerSessionTimeouts(t *testing.T) {
	for _, test := range []struct {
		flags             string
		shortest, longest time.Duration
	}{
		{"--tick-time 100ms", 200 * time.Millisecond, 2 * time.Second},
		{"--tick-time 100ms --min-session-timeout 300ms", 300 * time.Millisecond, 2 * time.Second},
	} {
		c := begin(t, append([]string{"server", "--json", "--port", "0"}, strings.Fields(test.flags)...)...)
		c.stdout.await(t, "}\n")
		var at struct{ Address string }
		if err := json.Unmarshal([]byte(c.stdout.String()), &at); err != nil {
			t.Fatal(err)
		}
		shortest, longest := granted(t, at.Address, time.Millisecond), granted(t, at.Address, time.Hour)
		if shortest != test.shortest || longest != test.longest {
			t.Errorf("%s: from %v to %v", test.flags, shortest, longest)
		}
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return nc
}

// granted returns the session timeout that a client gets who asks for that one.
func granted(t *testing.T, addr string, asked time.Duration) time.Duration {
	t.Helper()
	nc := dial(t, addr)
	b := jute.AppendInt32(make([]byte, 16), int32(asked.Milliseconds())) // length, version, no zxid seen
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
	if session == 0 {
		t.Error("no session")
	}
	return time.Duration(timeout) * time.Millisecond
}
