// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// newCall returns both ends of a connection that a relay carries.
func newCall(t *testing.T) (r *Relay, caller, called *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	if r, err = newRelay(listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	r.protocol = r.clientProtocol
	r.serve()
	t.Cleanup(r.Close)
	conn, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accepted.Close() })
	return r, conn.(*net.TCPConn), accepted.(*net.TCPConn)
}

func say(t *testing.T, c net.Conn, what string) {
	t.Helper()
	if _, err := io.WriteString(c, what); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, what string) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(what))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != what {
		t.Fatalf("heard %q (%v), want %q", got, err, what)
	}
}

func hearEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %d bytes (%v), want the end", n, err)
	}
}

func hearNothing(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes (%v), want neither data nor the end", n, err)
	}
}

func TestRelayCarries(t *testing.T) {
	_, caller, called := newCall(t)
	say(t, caller, "ping")
	hear(t, called, "ping")
	say(t, called, "pong")
	hear(t, caller, "pong")
	if err := caller.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	hearEnd(t, called)
	say(t, called, "bye") // the other direction is open yet
	hear(t, caller, "bye")
	called.Close()
	hearEnd(t, caller)
}

// A cut relay forwards nothing, on new connections neither. Once mended, it delivers
// what was sent.
func TestRelayIsCut(t *testing.T) {
	r, caller, called := newCall(t)
	for range 2 {
		r.Cut()
		r.Cut()
		say(t, caller, "ping")
		say(t, called, "pong")
		second, err := net.Dial("tcp", r.Addr())
		if err != nil {
			t.Fatal(err)
		}
		hearNothing(t, called)
		hearNothing(t, caller)
		hearNothing(t, second)
		second.Close()
		r.Mend()
		r.Mend()
		hear(t, called, "ping")
		hear(t, caller, "pong")
	}
	r.Cut()
	called.Close()
	hearNothing(t, caller)
	r.Mend()
	hearEnd(t, caller)
}

// A relay can be closed while it is cut.
func TestRelayEnds(t *testing.T) {
	r, caller, called := newCall(t)
	r.Cut()
	say(t, caller, "ping")
	r.Close()
	hearEnd(t, caller)
	hearEnd(t, called)
}

// A relay closes the connections that it accepts if its server does not listen.
func TestRelayWithoutServer(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	defer releasePort(port)
	r, err := newRelay(fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	r.serve()
	defer r.Close()
	conn, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hearEnd(t, conn)
}

// frame returns a frame with an xid and another number, the opcode of a request.
func frame(xid, opcode int32) string {
	b := binary.BigEndian.AppendUint32(nil, 12)
	b = binary.BigEndian.AppendUint32(b, uint32(xid))
	b = binary.BigEndian.AppendUint32(b, uint32(opcode))
	return string(append(b, "more"...))
}

// A relay drops only the reply to the chosen request.
func TestRelaySwallowsAReply(t *testing.T) {
	const getData, exists, ping = 4, 3, 11
	r, client, server := newCall(t)
	dropped := r.SwallowReply(getData)
	connect := frame(0, getData) // no xid and opcode, whatever its bytes
	for _, request := range []string{connect, frame(1, exists), frame(2, getData), frame(-2, ping), frame(3, getData)} {
		say(t, client, request)
		hear(t, server, request)
	}
	for _, reply := range []string{connect, frame(1, 0), frame(2, 0), frame(-2, 0), frame(3, 0)} {
		say(t, server, reply)
		if reply != frame(2, 0) {
			hear(t, client, reply)
		}
	}
	<-dropped
	_ = server.CloseWrite()
	hearEnd(t, client)
}

func TestIntroduceAs(t *testing.T) {
	greeting := func(version, addr string) string {
		return version + "\x00\x00\x00\x00\x00\x00\x00\x03" + "\x00\x00\x00" + string(rune(len(addr))) + addr
	}
	const v1, v2 = "\xff\xff\xff\xff\xff\xff\x00\x00", "\xff\xff\xff\xff\xff\xff\x00\x01"
	for _, test := range []struct {
		name, in, out string
		fails         bool
	}{
		{"version 1", greeting(v1, "10.0.0.1:3888"), greeting(v1, "127.0.0.1:47"), false},
		{"version 2", greeting(v2, "[::1]:1"), greeting(v2, "127.0.0.1:47"), false},
		{"what follows", greeting(v1, "10.0.0.1:3888") + "more", greeting(v1, "127.0.0.1:47") + "more", false},
		{"ends early", v1 + "\x00", v1 + "\x00", false},
		{"ends in the address", greeting(v1, "10.0.0.1:3888")[:25], "", true},
		{"another version", greeting("\xff\xff\xff\xff\xff\xfe\x00\x00", "10.0.0.1:3888"), "", true},
		{"no version", "GET / HTTP/1.1\r\nHost: a\r\n", "", true},
		{"a giant", v1 + "\x00\x00\x00\x00\x00\x00\x00\x03\x7f\xff\xff\xff", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			err := introduceAs("127.0.0.1:47")(&out, strings.NewReader(test.in))
			if out.String() != test.out || (err != nil) != test.fails {
				t.Errorf("%q (%v), want %q", out.String(), err, test.out)
			}
		})
	}
}
