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

	"github.com/holdfast-go/holdfast/internal/realzk/port"
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
	free, err := port.Free()
	if err != nil {
		t.Fatal(err)
	}
	defer port.Release(free)
	r, err := newRelay(fmt.Sprintf("127.0.0.1:%d", free))
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

// A delayed relay is a link on which data takes a time, however much of it there is.
func TestRelayDelays(t *testing.T) {
	const delay = 60 * time.Millisecond
	r, caller, called := newCall(t)
	say(t, caller, "ping") // before that, the connection might not be made yet
	hear(t, called, "ping")
	r.Delay(delay)
	began := time.Now()
	for i := range 20 { // in flight at the same time
		say(t, caller, fmt.Sprintf("%02d", i))
	}
	for i := range 20 {
		hear(t, called, fmt.Sprintf("%02d", i))
	}
	forth := time.Since(began)
	say(t, called, "pong")
	hear(t, caller, "pong")
	both := time.Since(began)
	if forth < delay || forth > 10*delay || both < 2*delay {
		t.Errorf("there after %v, back after %v; a direction takes %v", forth, both, delay)
	}
	r.Delay(0)
	began = time.Now()
	say(t, caller, "ping")
	hear(t, called, "ping")
	if took := time.Since(began); took >= delay {
		t.Errorf("without a delay: %v", took)
	}
}

// A throttled relay delivers so much per second and no more.
func TestRelayThrottles(t *testing.T) {
	r, caller, called := newCall(t)
	r.Throttle(1000)
	began := time.Now()
	text := strings.Repeat("x", 200)
	say(t, caller, text)
	hear(t, called, text[:50])
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("50 bytes after %v", took)
	}
	hear(t, called, text[50:])
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("200 bytes after %v", took)
	}
	r.Throttle(0)
	text = strings.Repeat("y", 100_000)
	began = time.Now()
	go func() { _, _ = io.WriteString(caller, text) }() // ends when it has been heard, or with the connection
	hear(t, called, text)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("without a limit: %v", took)
	}
}

// Sever ends the present connections, and no later ones, also while the relay is cut.
func TestRelaySevers(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut=%v", cut), func(t *testing.T) {
			r, caller, called := newCall(t)
			say(t, caller, "ping")
			hear(t, called, "ping")
			if cut {
				r.Cut()
				say(t, caller, "lost")
			}
			if n := r.Connections(); n != 1 {
				t.Errorf("%d connections", n)
			}
			if n := r.Sever(); n != 1 {
				t.Errorf("%d connections severed", n)
			}
			hearEnd(t, caller)
			hearEnd(t, called)
			r.Mend()
			again, err := net.Dial("tcp", r.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			say(t, again, "hello")
		})
	}
}

// A relay drops the reply to any request but a ping, and forgets what was taken back.
func TestRelaySwallowsAnyReply(t *testing.T) {
	const getData, exists, ping = 4, 3, 11
	r, client, server := newCall(t)
	exchange := func(xid, opcode int32, answered bool) {
		t.Helper()
		say(t, client, frame(xid, opcode))
		hear(t, server, frame(xid, opcode))
		say(t, server, frame(xid, 0))
		if answered {
			hear(t, client, frame(xid, 0))
		}
	}
	exchange(0, getData, true) // the handshake
	r.SwallowReply(AnyRequest)
	r.StopSwallowing()
	exchange(1, getData, true)
	dropped := r.SwallowReply(AnyRequest)
	exchange(-2, ping, true)
	exchange(2, exists, false)
	<-dropped
	exchange(3, exists, true)
}

// What happens to one client's links does not happen to another's.
func TestLinks(t *testing.T) {
	var servers [2]net.Listener
	var addrs []string
	for i := range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		servers[i] = l
		addrs = append(addrs, l.Addr().String())
	}
	mine, others := links(t, addrs), links(t, addrs)
	dial := func(l *Links, server int) (caller, called net.Conn) {
		caller, err := net.Dial("tcp", l.Addrs()[server])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { caller.Close() })
		if called, err = servers[server].Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { called.Close() })
		say(t, caller, "hello")
		hear(t, called, "hello")
		return caller, called
	}
	caller, called := dial(mine, 1)
	other, otherCalled := dial(others, 1)

	mine.BlackholeUsed()
	say(t, caller, "ping")
	hearNothing(t, called)
	second, _ := dial(mine, 0) // to the other server
	second.Close()
	mine.Blackhole()
	if third, err := net.Dial("tcp", mine.Addrs()[0]); err != nil {
		t.Error(err)
	} else {
		say(t, third, "ping")
		hearNothing(t, third)
		third.Close()
	}
	say(t, other, "ping")
	hear(t, otherCalled, "ping")
	mine.Mend()
	hear(t, called, "ping")
	if n := mine.Sever(); n == 0 {
		t.Error("nothing was severed")
	}
	hearEnd(t, caller)
	say(t, other, "ping")
	hear(t, otherCalled, "ping")
}

func links(t *testing.T, to []string) *Links {
	t.Helper()
	l, err := RunLinks(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}
