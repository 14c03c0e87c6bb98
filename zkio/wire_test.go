// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// A wireBench is a wire with nothing of go-zookeeper's above it, and a server
// below it that says what the test wants.
type wireBench struct {
	t      testing.TB
	s      *Session
	w      *wire
	server net.Conn
	hello  []byte   // the connect request
	auths  [][]byte // the credentials
}

// newSessionBench returns a session of a client that does nothing by itself.
func newSessionBench(t testing.TB, auth ...Auth) *Session {
	t.Helper()
	cfg, err := Config{Servers: []string{"zk"}, Auth: auth, Logger: quiet, Workers: 9}.resolve("open")
	must(t, err)
	c := &Client{cfg: cfg, clock: newClock(nil), watches: newWatches(), pool: newPool(cfg.Workers), closing: make(chan struct{})}
	c.hosts, c.dispatcher = newHosts(cfg.Servers, c.clock), newDispatcher(c.watches, nil)
	c.pulse = newPulse(c.clock.now, cfg.SessionTimeout, func(time.Duration) {})
	c.pulse.stop() // no goroutine looks
	s := newSession(c, 1)
	t.Cleanup(func() {
		s.end(ErrClosed, false)
		s.group.Wait()
		c.pool.finish()
	})
	return s
}

// dialBench gives the session a server to connect to.
func dialBench(t testing.TB, s *Session) *wireBench {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	s.client.cfg.Dialer = func(context.Context, string, string) (net.Conn, error) { return ours, nil }
	return &wireBench{t: t, s: s, server: theirs}
}

// dial connects to the server, which answers the handshake with frames.
func (b *wireBench) dial(ctx context.Context, frames ...[]byte) (err error) {
	b.t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() { b.w, err = b.s.connect(ctx, "zk:2181") })
	b.hello = b.receive()
	b.send(frames[0])
	for range b.s.client.cfg.Auth {
		if frame, err := nextFrame(b.server); err == nil {
			b.auths = append(b.auths, frame)
		}
	}
	b.send(frames[1:]...)
	wg.Wait()
	return err
}

// packet makes a client's frame.
func packet(xid, op int32, body ...byte) []byte {
	b := jute.AppendInt32(jute.AppendInt32(make([]byte, 4), xid), op)
	return jute.Frame(append(b, body...))
}

// xidOf returns the first field of a frame.
func xidOf(frame []byte) int32 { return int32(binary.BigEndian.Uint32(frame[4:])) }

// root is the body of a sync, and of its answer.
var root = jute.AppendString(nil, "/")

// reply makes a server's frame.
func reply(xid int32, zxid int64, code int32, body ...byte) []byte {
	b := jute.AppendInt32(make([]byte, 4), xid)
	b = jute.AppendInt32(jute.AppendInt64(b, zxid), code)
	return jute.Frame(append(b, body...))
}

// connectAnswer makes the answer to a connect request.
func connectAnswer(id int64, timeout int32) []byte {
	b := jute.AppendInt32(make([]byte, 4), 0)
	b = jute.AppendInt64(jute.AppendInt32(b, timeout), id)
	password := bytes.Repeat([]byte{'0' + byte(id%10)}, 16)
	return jute.Frame(jute.AppendBool(jute.AppendBuffer(b, password), false))
}

// withVersion changes the version of the protocol in such an answer.
func withVersion(version uint32, answer []byte) []byte {
	binary.BigEndian.PutUint32(answer[4:], version)
	return answer
}

var stat = make([]byte, 68)

// ask sends a request, which the server gets.
func (b *wireBench) ask(xid, op int32, body ...byte) *call {
	b.t.Helper()
	c := &call{op: op, xid: xid, body: body, trip: &trip{left: 1, done: make(chan struct{})}}
	var wg sync.WaitGroup
	wg.Go(func() { must(b.t, b.w.post(c)) })
	defer wg.Wait()
	if got := b.receive(); !bytes.Equal(got, packet(xid, op, body...)) {
		b.t.Errorf("the server got %x", got)
	}
	return c
}

// ping sends a ping, which the server gets.
func (b *wireBench) ping() { b.ask(jute.XidPing, jute.OpPing) }

// answered reports whether c was answered.
func (c *call) answered() bool { return isClosed(c.trip.done) }

// neverFails calls Write, whose result is the same whatever happens.
func (b *wireBench) neverFails(p []byte) {
	b.t.Helper()
	if n, err := b.w.Write(p); n != len(p) || err != nil {
		b.t.Errorf("Write returned %d, %v", n, err)
	}
}

// receive returns the next frame that the server gets.
func (b *wireBench) receive() []byte {
	b.t.Helper()
	frame, err := nextFrame(b.server)
	must(b.t, err)
	return frame
}

func nextFrame(from io.Reader) ([]byte, error) {
	frame := make([]byte, 4)
	if _, err := io.ReadFull(from, frame); err != nil {
		return nil, err
	}
	frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
	_, err := io.ReadFull(from, frame[4:])
	return frame, err
}

// send has the server send frames, as long as the client takes them.
func (b *wireBench) send(frames ...[]byte) {
	for _, f := range frames {
		if _, err := b.server.Write(f); err != nil {
			return
		}
	}
}

// reads has the server send frames, and the wire deal with each, until one ends it.
func (b *wireBench) reads(frames ...[]byte) error {
	b.t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() { b.send(frames...) })
	defer wg.Wait()
	for range frames {
		if err := b.w.next(); err != nil {
			b.w.cut(err)
			return err
		}
	}
	return nil
}

// end reads until the wire ends, and returns why.
func (b *wireBench) end() error {
	_, err := b.w.Read(make([]byte, 4))
	return err
}

// calls runs do, which makes one call, has the server answer it, and returns the
// request.
func (b *wireBench) calls(do func(), answer func(xid int32) []byte) []byte {
	b.t.Helper()
	var wg sync.WaitGroup
	wg.Go(do)
	defer wg.Wait()
	asked := b.receive()
	must(b.t, b.reads(answer(xidOf(asked))))
	return asked
}

// wantCut fails the test unless the connection is closed, and err says why.
func (b *wireBench) wantCut(err error, why string) {
	b.t.Helper()
	if err == nil || !strings.Contains(err.Error(), why) || b.s.link.wire != nil {
		b.t.Errorf("error %v, want %q; in use: %v", err, why, b.s.link.wire)
	}
	if _, err := b.server.Write([]byte{0}); err == nil {
		b.t.Error("the connection is open still")
	}
}

// connect does the handshake, ours and the one that go-zookeeper thinks it does.
func (b *wireBench) connect(id int64, frames ...[]byte) {
	b.t.Helper()
	answer := connectAnswer(id, 6000)
	must(b.t, b.dial(b.t.Context(), append([][]byte{answer}, frames...)...))
	b.neverFails(make([]byte, 48))
	if got, err := nextFrame(b.w); err != nil || !bytes.Equal(got, answer) {
		b.t.Fatalf("go-zookeeper got %x, %v", got, err)
	}
}

// connectedBench returns a bench with an established session.
func connectedBench(t testing.TB) *wireBench {
	b := dialBench(t, newSessionBench(t))
	b.connect(7)
	return b
}

// TestWireHandshake: what is asked for, of the first server and of the next, and
// what is noted of the answer.
func TestWireHandshake(t *testing.T) {
	s := newSessionBench(t)
	for _, old := range []int64{0, 7} {
		b := dialBench(t, s)
		b.connect(7)
		r := jute.NewReader(b.hello[4:])
		asked := fmt.Sprintf("%d %d %d %d %x %t %v", r.Int32(), r.Int64(), r.Int32(), r.Int64(), r.Buffer(), r.Bool(), r.Err())
		want := fmt.Sprintf("0 0 10000 0 %032d false <nil>", 0) // version, zxid, timeout, id, password, read-only
		if old != 0 {
			want = fmt.Sprintf("0 5 6000 7 %x false <nil>", "7777777777777777")
		}
		if asked != want || r.Len() != 0 {
			t.Errorf("asked for: %s, %d left; want %s", asked, r.Len(), want)
		}
		if s.ID() != 7 || s.Timeout() != 6*time.Second || s.Connection() != uint64(1+old/7) || s.link.wire != b.w {
			t.Errorf("session %d, timeout %v, connection %d", s.ID(), s.Timeout(), s.Connection())
		}
		select {
		case <-s.established:
		default:
			t.Error("not established")
		}
		b.ask(1, jute.OpSync)
		must(t, b.reads(reply(1, 5, 0, root...)))
		b.w.Close()
	}
}

func TestWireHandshakeFaults(t *testing.T) {
	digest := Auth{"digest", []byte("u:p")}
	for _, tt := range []struct {
		name   string
		resume bool // the session was 7
		auth   []Auth
		frames [][]byte
		want   string
		over   error
		gone   bool
	}{
		{"no session", false, nil, [][]byte{connectAnswer(0, 0)}, "opened no session", nil, false},
		{"expired", true, nil, [][]byte{connectAnswer(0, 0)}, "over", ErrSessionOver, true},
		{"another session", true, nil, [][]byte{connectAnswer(8, 6000)}, "over", ErrSessionOver, false},
		{"no timeout", false, nil, [][]byte{connectAnswer(7, 0)}, "timeout of 0s", nil, false},
		{"a negative timeout", false, nil, [][]byte{connectAnswer(7, -1)}, "timeout of -1ms", nil, false},
		{"expired, told by the timeout", true, nil, [][]byte{withVersion(42, connectAnswer(7, -1))}, "over", ErrSessionOver, true},
		{"no leader", false, nil, [][]byte{withVersion(42, connectAnswer(-1, 6000))}, "no leader", nil, false},
		{"no leader, on a resumed session", true, nil, [][]byte{withVersion(42, connectAnswer(7, 6000))}, "no leader", nil, false},
		{"no leader, and no word of the session", true, nil, [][]byte{withVersion(42, connectAnswer(-1, 6000))}, "no leader", nil, false},
		{"too short", false, nil, [][]byte{connectAnswer(7, 6000)[:12]}, "EOF", nil, false},
		{"malformed", false, nil, [][]byte{jute.Frame(make([]byte, 12))}, "malformed", nil, false},
		{"empty", false, nil, [][]byte{{0, 0, 0, 0}}, "malformed", nil, false},
		{"too long", false, nil, [][]byte{{0x7f, 0, 0, 0}}, "client port", nil, false},
		{"longer than long", false, nil, [][]byte{{0xff, 0xff, 0xff, 0xff}}, "client port", nil, false},
		{"credentials refused", false, []Auth{digest}, [][]byte{connectAnswer(7, 6000), reply(jute.XidAuth, 0, jute.ErrAuthFailed)},
			"refused the credentials", ErrAuthFailed, false},
		{"the second ones refused, on a resumed session", true, []Auth{digest, digest},
			[][]byte{connectAnswer(7, 6000), reply(jute.XidAuth, 0, 0), reply(jute.XidAuth, 0, jute.ErrAuthFailed)},
			"refused the credentials", ErrAuthFailed, false},
		{"something else in place of the verdict", false, []Auth{digest}, [][]byte{connectAnswer(7, 6000), reply(1, 0, 0)}, "xid 1", nil, false},
		{"a malformed verdict", false, []Auth{digest}, [][]byte{connectAnswer(7, 6000), {0, 0, 0, 1, 0}}, "malformed", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSessionBench(t, tt.auth...)
			if tt.resume {
				s.id.Store(7)
			}
			b := dialBench(t, s)
			if len(tt.frames[len(tt.frames)-1]) == 12 {
				time.AfterFunc(50*time.Millisecond, func() { b.server.Close() })
			}
			err := b.dial(t.Context(), tt.frames...)
			b.wantCut(err, tt.want)
			if !is(s.Err(), tt.over) || s.Gone() != tt.gone || s.Lease().InForce() {
				t.Errorf("session %v, gone %v; want %v, %v", s.Err(), s.Gone(), tt.over, tt.gone)
			}
		})
	}
}

// TestWireHandshakeDeadline: the time for an attempt covers all of the handshake.
func TestWireHandshakeDeadline(t *testing.T) {
	b := dialBench(t, newSessionBench(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := b.dial(ctx, connectAnswer(7, 6000)[:8]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// TestWireCredentials: they go out with the handshake.
func TestWireCredentials(t *testing.T) {
	b := dialBench(t, newSessionBench(t, Auth{"digest", []byte("u:p")}, Auth{"x", nil}))
	b.connect(7, reply(-4, 0, 0), reply(-4, 0, 0))
	for i, want := range []string{"-4 100 0 digest u:p", "-4 100 0 x "} {
		r := jute.NewReader(b.auths[i][4:])
		if got := fmt.Sprintf("%d %d %d %s %s", r.Int32(), r.Int32(), r.Int32(), r.String(), r.Buffer()); got != want || r.Err() != nil {
			t.Errorf("got %s, %v; want %s", got, r.Err(), want)
		}
	}
}

// TestWireWatchBit: reads of armed paths ask for a watch, and the reply tells
// which the server has then.
func TestWireWatchBit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		op    int32
		armed bool
		code  int32
		body  []byte
		bit   byte
		want  watchKind
	}{
		{"get", jute.OpGetData, true, 0, jute.AppendBuffer(nil, nil), 1, dataWatch},
		{"get, nothing there", jute.OpGetData, true, jute.ErrNoNode, nil, 1, 0},
		{"get, unarmed", jute.OpGetData, false, 0, jute.AppendBuffer(nil, nil), 0, 0},
		{"exists", jute.OpExists, true, 0, nil, 1, dataWatch},
		{"exists, nothing there", jute.OpExists, true, jute.ErrNoNode, nil, 1, existWatch},
		{"exists, forbidden", jute.OpExists, true, jute.ErrNoAuth, nil, 1, 0},
		{"list", jute.OpGetChildren2, true, 0, jute.AppendInt32(nil, 0), 1, childWatch},
		{"list, unarmed", jute.OpGetChildren2, false, 0, jute.AppendInt32(nil, 0), 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := connectedBench(t)
			if tt.armed {
				b.s.client.Watch("/p", &recorder{})
			}
			body := tt.body
			if tt.code == 0 {
				body = append(body, stat...)
			}
			read := Read{Path: "/p", What: Question(tt.op)}
			asked := b.calls(func() { b.s.Read(&read) }, func(xid int32) []byte { return reply(xid, 5, tt.code, body...) })
			want := packet(xidOf(asked), tt.op, append(jute.AppendString(nil, "/p"), tt.bit)...)
			if !bytes.Equal(asked, want) {
				t.Errorf("the server got %x, want %x", asked, want)
			}
			if (read.Err == nil) != (tt.code == 0) {
				t.Errorf("error %v of code %d", read.Err, tt.code)
			}
			var kinds watchKind
			b.s.client.watches.each(func(_ string, k watchKind) { kinds = k })
			if kinds != tt.want {
				t.Errorf("noted %03b, want %03b", kinds, tt.want)
			}
		})
	}
}

// TestWireRearm: on a resumed session the watches go first, in frames of
// bounded size.
func TestWireRearm(t *testing.T) {
	s := newSessionBench(t)
	b := dialBench(t, s)
	b.connect(7)
	want := map[string]watchKind{noSuchNode: childWatch}
	for i, k := range []watchKind{dataWatch, existWatch, childWatch, dataWatch | childWatch} {
		for _, c := range "abcdefgh" {
			path := "/" + strings.Repeat(string(c), 10_000) + string(rune('0'+i))
			s.client.Watch(path, &recorder{})
			s.client.watches.note(path, k)
			want[path] = k
		}
	}
	s.client.Watch("/not-set", &recorder{})
	b.ask(1, jute.OpSync, root...)
	must(t, b.reads(reply(1, 99, 0, root...)))
	b.w.Close()

	b = dialBench(t, s)
	b.connect(7)
	var first sync.WaitGroup
	then := &call{op: jute.OpSync, xid: 2, body: root, trip: &trip{left: 1, done: make(chan struct{})}}
	first.Go(func() { must(t, b.w.post(then)) })
	got := make(map[string]watchKind)
	frames := 0
	for len(got) < len(want) {
		frame := b.receive()
		frames++
		if len(frame) > rearmFrame {
			t.Errorf("a frame of %d bytes", len(frame))
		}
		r := jute.NewReader(frame[4:])
		if xid, op, zxid := r.Int32(), r.Int32(), r.Int64(); xid != -8 || op != 101 || zxid != 99 {
			t.Fatalf("xid %d, op %d, zxid %d", xid, op, zxid)
		}
		for _, k := range []watchKind{dataWatch, existWatch, childWatch} {
			for _, path := range r.Strings() {
				got[path] |= k
			}
		}
		must(t, r.Err())
	}
	if !maps.Equal(got, want) || frames < 4 {
		t.Errorf("%d watches in %d frames, want the %d that there were", len(got), frames, len(want))
	}
	if frame := b.receive(); xidOf(frame) != 2 {
		t.Errorf("then came %x", frame)
	}
	first.Wait()
	must(t, b.reads(append(slices.Repeat([][]byte{reply(-8, 100, 0)}, frames), reply(2, 101, 0, root...))...))
	if !then.answered() {
		t.Error("the request behind them is not answered")
	}
}

// TestWireProofs: which answers extend the lease.
func TestWireProofs(t *testing.T) {
	str := jute.AppendString(nil, "/p")
	result := func(kind int32, body ...byte) []byte {
		b := jute.AppendInt32(nil, kind)
		b = jute.AppendInt32(jute.AppendBool(b, false), 0)
		return append(b, body...)
	}
	done := jute.AppendInt32(jute.AppendBool(jute.AppendInt32(nil, -1), true), -1)
	for _, tt := range []struct {
		name string
		op   int32
		code int32
		body []byte
		want bool
	}{
		{"create", jute.OpCreate, 0, str, true},
		{"create container", jute.OpCreateContainer, 0, str, true},
		{"delete", jute.OpDelete, 0, nil, true},
		{"set", jute.OpSetData, 0, stat, true},
		{"check", jute.OpMulti, 0, append(result(jute.OpCheck), done...), true},
		{"transaction", jute.OpMulti, 0, slices.Concat(result(jute.OpCreate, str...), result(jute.OpSetData, stat...), result(jute.OpDelete), done), true},
		{"create, refused", jute.OpCreate, jute.ErrNodeExists, nil, false},
		{"delete, refused", jute.OpDelete, jute.ErrNoNode, nil, false},
		{"check, refused", jute.OpMulti, 0, append(result(-1, jute.AppendInt32(nil, jute.ErrNoNode)...), done...), false},
		{"transaction, refused in the middle", jute.OpMulti, 0,
			slices.Concat(result(-1, 0, 0, 0, 0), result(-1, jute.AppendInt32(nil, jute.ErrNoNode)...), done), false},
		{"transaction, refused in the header", jute.OpMulti, jute.ErrNoNode, nil, false},
		{"an empty transaction", jute.OpMulti, 0, done, false},
		{"ping", jute.OpPing, 0, nil, false},
		{"get", jute.OpGetData, 0, append(jute.AppendBuffer(nil, []byte("x")), stat...), false},
		{"exists", jute.OpExists, 0, stat, false},
		{"get the ACL", jute.OpGetACL, 0, slices.Concat(jute.AppendInt32(nil, 1), jute.AppendInt32(nil, 31), jute.AppendStrings(nil, []string{"world", "anyone"})[4:], stat), false},
		{"list", jute.OpGetChildren2, 0, append(jute.AppendStrings(nil, []string{"a", "b"}), stat...), false},
		{"sync", jute.OpSync, 0, str, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := connectedBench(t)
			xid := int32(1)
			if tt.op == jute.OpPing {
				xid = jute.XidPing
			}
			c := b.ask(xid, tt.op)
			must(t, b.reads(reply(xid, 5, tt.code, tt.body...)))
			if !c.answered() || c.code != tt.code {
				t.Errorf("answered: %v, with code %d, want %d", c.answered(), c.code, tt.code)
			}
			if proof := b.s.Lease().InForce(); proof != tt.want {
				t.Errorf("a proof: %v, want %v", proof, tt.want)
			}
		})
	}
}

// TestWireReplies: which frames answer a request, which do not, and which end the
// connection or the session.
func TestWireReplies(t *testing.T) {
	event := jute.AppendString(jute.AppendInt32(jute.AppendInt32(nil, jute.EventNodeDeleted), 3), "/p")
	texts := func(n int32) []byte { return append(jute.AppendInt32(nil, n), make([]byte, 200)...) }
	for _, tt := range []struct {
		name string
		op   int32 // of the request with xid 1, or of the one before it
		in   []byte
		// want is "answer", "no answer", or what the error says.
		want string
		over error
	}{
		{"ping", jute.OpPing, reply(-2, 5, 0), "answer", nil},
		{"event", jute.OpSync, reply(-1, -1, 0, event...), "no answer", nil},
		{"an error", jute.OpCreate, reply(1, 5, jute.ErrNoNode), "answer", nil},
		{"an error with a body that is not looked at", jute.OpCreate, reply(1, 5, jute.ErrNoNode, 1), "answer", nil},
		{"session moved", jute.OpCreate, reply(1, 5, jute.ErrSessionMoved), "answer", nil},
		{"auth", jute.OpSync, reply(-4, 0, 0), "no answer", nil},
		{"watches set", jute.OpSetWatches, reply(-8, 0, 0), "answer", nil},

		{"watches not set", jute.OpSetWatches, reply(-8, 0, jute.ErrNoAuth), "refused to set the watches", nil},
		{"session closed", jute.OpClose, reply(closeXid, 5, 0), "closed", ErrClosed},
		{"a ping is passed over", jute.OpPing, reply(1, 5, 0, root...), "a later request, but not ping", nil},
		{"a change of watches is passed over", jute.OpSetWatches, reply(1, 5, 0, root...), "a later request, but not setWatches", nil},
		{"session expired", jute.OpCreate, reply(1, 5, jute.ErrSessionExpired), "over", ErrSessionOver},
		{"too short", jute.OpSync, jute.Frame(make([]byte, 4+15)), "malformed", nil},
		{"empty", jute.OpSync, []byte{0, 0, 0, 0}, "malformed", nil},
		{"too long for any answer", jute.OpSync, []byte{0x80, 0, 0, 0}, "frame of 2147483648 bytes", nil},
		{"event that is too long", jute.OpSync, append([]byte{4, 0, 0, 1}, reply(-1, -1, 0)[4:]...), "frame of 67108865 bytes", nil},
		{"event without path", jute.OpSync, reply(-1, -1, 0, event[:8]...), "malformed", nil},
		{"event with a path too long", jute.OpSync, reply(-1, -1, 0, append(event[:8:8], 0, 0, 1, 0, 'x')...), "malformed", nil},

		{"create without path", jute.OpCreate, reply(1, 5, 0), "create", nil},
		{"create with the null path", jute.OpCreate, reply(1, 5, 0, 255, 255, 255, 255), "no string", nil},
		{"set without stat", jute.OpSetData, reply(1, 5, 0, stat[1:]...), "setData", nil},
		{"get with data too long", jute.OpGetData, reply(1, 5, 0, append([]byte{0, 0, 1, 0}, stat...)...), "getData", nil},
		{"get with data of negative length", jute.OpGetData, reply(1, 5, 0, append([]byte{255, 255, 255, 254}, stat...)...), "getData", nil},
		{"list of two billion", jute.OpGetChildren2, reply(1, 5, 0, texts(math.MaxInt32)...), "2147483647 strings", nil},
		{"list of -1", jute.OpGetChildren2, reply(1, 5, 0, texts(-1)...), "-1 strings", nil},
		{"list with a null string", jute.OpGetChildren2, reply(1, 5, 0, append([]byte{0, 0, 0, 1, 255, 255, 255, 255}, stat...)...), "no string", nil},
		{"ACL of two billion", jute.OpGetACL, reply(1, 5, 0, texts(math.MaxInt32)...), "2147483647 entries", nil},
		{"ACL of -1", jute.OpGetACL, reply(1, 5, 0, texts(-1)...), "-1 entries", nil},
		{"ACL with a null scheme", jute.OpGetACL, reply(1, 5, 0, append([]byte{0, 0, 0, 1, 0, 0, 0, 31, 255, 255, 255, 255}, stat...)...), "no string", nil},
		{"ACL without stat", jute.OpGetACL, reply(1, 5, 0, 0, 0, 0, 0), "getACL", nil},
		{"transaction without end", jute.OpMulti, reply(1, 5, 0, 0, 0, 0, 13, 0, 0, 0, 0, 0), "multi", nil},
		{"transaction with a strange result", jute.OpMulti, reply(1, 5, 0, 0, 0, 0, 15, 0, 0, 0, 0, 0), "type 15", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := connectedBench(t)
			var c *call // the request that in may answer
			xid, first := map[int32]int32{jute.OpPing: jute.XidPing, jute.OpSetWatches: jute.XidSetWatches, jute.OpClose: closeXid}[tt.op]
			if first {
				c = b.ask(xid, tt.op)
				tt.op = jute.OpSync
			}
			last := b.ask(1, tt.op)
			if !first {
				c = last
			}
			err := b.reads(tt.in)
			switch tt.want {
			case "answer", "no answer":
				must(t, err)
				if c.answered() != (tt.want == "answer") {
					t.Errorf("answered: %v", c.answered())
				}
				if !last.answered() {
					must(t, b.reads(reply(1, 6, 0, root...)))
				}
				if !last.answered() {
					t.Error("the last one is not answered")
				}
			default:
				b.wantCut(err, tt.want)
			}
			if !is(b.s.Err(), tt.over) || b.s.Gone() != (tt.over != nil) {
				t.Errorf("session %v, gone %v; want %v", b.s.Err(), b.s.Gone(), tt.over)
			}
		})
	}
}

// TestF096_UnaskedReplies: an answer to a request that was not made costs the
// connection, and not the session.
func TestF096_UnaskedReplies(t *testing.T) {
	for name, xid := range map[string]int32{
		"close": closeXid, "set watches": jute.XidSetWatches, "ping": jute.XidPing, "a later request": 2, "an unknown mark": -77,
	} {
		t.Run(name, func(t *testing.T) {
			b := connectedBench(t)
			b.ask(1, jute.OpSync)
			b.wantCut(b.reads(reply(xid, 5, 0)), "request that was not made")
			if b.s.Err() != nil {
				t.Errorf("the session is over: %v", b.s.Err())
			}
		})
	}
}

// TestWireNeverFailsAWrite: go-zookeeper learns from its reader that the
// connection is gone.
func TestWireNeverFailsAWrite(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(b *wireBench)
	}{
		{"the server is gone", func(b *wireBench) { b.server.Close() }},
		{"closed here", func(b *wireBench) { b.w.Close(); b.w.Close() }},
		{"the server takes nothing", func(b *wireBench) { b.s.timeout.Store(int64(30 * time.Millisecond)) }}, // the pipe has no buffer
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := connectedBench(t)
			tt.do(b)
			for range 2 {
				b.neverFails(packet(jute.XidPing, jute.OpPing))
				if b.end() == nil {
					t.Error("Read does not tell")
				}
			}
		})
	}
}

// TestWireReads: go-zookeeper may read what it gets in pieces of any size.
func TestWireReads(t *testing.T) {
	b := dialBench(t, newSessionBench(t))
	want := connectAnswer(7, 6000)
	must(t, b.dial(t.Context(), want))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(iotest.OneByteReader(b.w), got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("go-zookeeper got %x, %v", got, err)
	}
}

// TestWirePieces: frames may arrive in pieces of any size.
func TestWirePieces(t *testing.T) {
	b := connectedBench(t)
	var sent []byte
	var calls []*call
	for xid := int32(1); xid <= 5; xid++ {
		calls = append(calls, b.ask(xid, jute.OpCreate))
		sent = append(sent, reply(xid, int64(xid), 0, jute.AppendString(nil, strings.Repeat("x", int(xid)*5_000))...)...)
	}
	go func() {
		for piece := range slices.Chunk(sent, 999) {
			_, _ = b.server.Write(piece)
		}
	}()
	for i, c := range calls {
		must(t, b.w.next())
		if !c.answered() || len(c.answer.path) != (i+1)*5_000 {
			t.Errorf("request %d: answered: %v, a path of %d bytes", i, c.answered(), len(c.answer.path))
		}
	}
	if b.s.zxid.Load() != 5 {
		t.Errorf("zxid %d, want 5", b.s.zxid.Load())
	}
}

// TestWireMemory: a length that is claimed allocates little.
func TestWireMemory(t *testing.T) {
	b := connectedBench(t)
	go func() {
		_, _ = b.server.Write(append([]byte{3, 0xff, 0xff, 0xff}, make([]byte, 1000)...))
		b.server.Close()
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := b.w.Read(make([]byte, 4))
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 || !is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes allocated; error %v", got, err)
	}
}

// An answer that is too long arrives for longer than a server may be silent. The caller has its
// error at the beginning, so the request is not repeated whatever becomes of the rest, which is
// passed over unless a request that waits behind it has waited for too long.
func TestF328_TooLongAnswerIsSlow(t *testing.T) {
	const chunks = 16
	for _, behind := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := connectedBench(t)
			began := time.Now()
			var wg sync.WaitGroup
			defer wg.Wait()
			wg.Go(func() {
				_, _, err := b.s.Get("/d")
				if took := time.Since(began); !errors.Is(err, ErrTooLarge) || took != 0 {
					t.Errorf("after %v: %v", took, err)
				}
			})
			asked := b.receive()
			if behind {
				b.ping()
			}
			wg.Go(func() {
				header := reply(xidOf(asked), 5, 0)
				binary.BigEndian.PutUint32(header, maxFrame*2+replyHeader)
				b.send(header)
				for range chunks {
					time.Sleep(b.w.patience() / 4)
					b.send(make([]byte, maxFrame*2/chunks))
				}
				if !behind {
					b.receive()
				}
				b.send(reply(jute.XidPing, 5, 0))
			})
			if behind {
				b.wantCut(b.end(), "no answer to ping for 4s")
				return
			}
			ping := &call{op: jute.OpPing, xid: jute.XidPing, trip: &trip{left: 1, done: make(chan struct{})}}
			wg.Go(func() {
				time.Sleep(chunks * b.w.patience() / 4)
				must(t, b.w.post(ping))
			})
			must(t, b.w.next()) // the beginning
			must(t, b.w.next()) // the rest, and what comes after it
			if !ping.answered() {
				t.Error("the ping behind it is not answered")
			}
		})
	}
}

func TestWireAddresses(t *testing.T) {
	b := connectedBench(t)
	must(t, errors.Join(b.w.SetDeadline(time.Time{}), b.w.SetWriteDeadline(time.Time{})))
	if b.w.LocalAddr() != b.w.conn.LocalAddr() || b.w.RemoteAddr() != b.w.conn.RemoteAddr() {
		t.Error("not the connection's")
	}
}

// FuzzWire sends arbitrary bytes to a wire with one request of each kind under
// way. Whatever they are, go-zookeeper gets nothing of them, and the wire gives up at the
// first frame that is malformed.
func FuzzWire(f *testing.F) {
	ops := []int32{jute.OpCreate, jute.OpDelete, jute.OpExists, jute.OpGetData, jute.OpSetData, jute.OpSync,
		jute.OpGetChildren2, jute.OpGetACL, jute.OpMulti, jute.OpCreateContainer}
	str := jute.AppendString(nil, "/p")
	for _, seed := range [][]byte{
		reply(1, 5, 0, str...),
		reply(4, 5, 0, append(jute.AppendBuffer(nil, []byte("data")), stat...)...),
		reply(7, 5, 0, append(jute.AppendStrings(nil, []string{"a", "b"}), stat...)...),
		reply(7, 5, 0, 255, 255, 255, 255),
		reply(8, 5, 0, 0, 0, 0, 13, 0, 0, 0, 0, 0, 255, 255, 255, 255, 1, 255, 255, 255, 255),
		append(reply(-2, 5, 0), reply(-8, 0, 0)...),
		reply(-1, -1, 0, jute.AppendString([]byte{0, 0, 0, 2, 0, 0, 0, 3}, "/p")...),
		reply(3, 5, jute.ErrNoNode),
		reply(3, 5, jute.ErrSessionExpired),
		{3, 255, 255, 255},
	} {
		for at := range ops {
			f.Add(byte(at), seed)
		}
	}
	f.Fuzz(func(t *testing.T, first byte, in []byte) {
		s := newSessionBench(t)
		w := newWire(s, "zk:2181", nopCloser{}, nopCloser{})
		w.in.Reset(bytes.NewReader(in))
		if !s.connected(w, greeting{id: 7, timeout: time.Second}) {
			t.Fatal("over")
		}
		s.client.Watch("/p", &recorder{})
		for i := range ops { // first is the next that the server has to answer
			at := (i + int(first)) % len(ops)
			w.note([]*call{{xid: int32(at + 1), op: ops[at], watch: "/p"}})
		}
		w.note([]*call{{xid: jute.XidPing, op: jute.OpPing}})
		// ReadAll takes io.EOF for the end, as it is after a whole frame.
		if out, _ := io.ReadAll(w); len(out) > 0 {
			t.Fatalf("go-zookeeper got %x", out)
		}
		if s.link.wire != nil {
			t.Fatal("the wire goes on")
		}
	})
}

type nopCloser struct{ net.Conn }

func (nopCloser) Close() error { return nil }

func (nopCloser) SetReadDeadline(time.Time) error { return nil }

// FuzzClient sends arbitrary bytes in answer to the requests of a whole client.
func FuzzClient(f *testing.F) {
	str := jute.AppendString(nil, "/p")
	for call, bodies := range [][][]byte{
		{str},
		{append(jute.AppendBuffer(nil, []byte("data")), stat...)},
		{append(jute.AppendStrings(nil, []string{"a", "b"}), stat...), {255, 255, 255, 255}, {127, 255, 255, 255}},
		{{0, 0, 0, 13, 0, 0, 0, 0, 0, 255, 255, 255, 255, 1, 255, 255, 255, 255}, {0, 0, 0, 1, 0, 0, 0, 0, 0},
			{255, 255, 255, 255, 0, 0, 0, 0, 0, 255, 255, 255, 155, 255, 255, 255, 255, 1, 255, 255, 255, 255}},
		{stat}, {stat}, {str},
	} {
		for _, body := range bodies {
			f.Add(byte(call), body)
		}
	}
	calls := []func(s *Session) error{
		func(s *Session) error { return s.Create("/p", nil, nil) },
		func(s *Session) error { _, _, err := s.Get("/p"); return err },
		func(s *Session) error { _, _, err := s.Children("/p"); return err },
		func(s *Session) error { _, err := s.Multi(CheckOp("/p", -1), CreateOp("/q", nil, nil)); return err },
		func(s *Session) error { _, _, err := s.Exists("/p"); return err },
		func(s *Session) error { _, err := s.Set("/p", nil, -1); return err },
		func(s *Session) error { return s.Sync("/p") },
		func(s *Session) error { return s.Delete("/p", -1) },
	}
	// In virtual time, since the client waits before it comes back.
	f.Fuzz(func(t *testing.T, call byte, body []byte) {
		synctest.Test(t, func(t *testing.T) {
			cfg := Config{Servers: []string{"zk"}, Logger: quiet, Workers: 9, Dialer: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					_, _ = nextFrame(theirs)
					_, _ = theirs.Write(connectAnswer(7, 6000))
					for frame, err := nextFrame(theirs); err == nil; frame, err = nextFrame(theirs) {
						if xidOf(frame) == closeXid {
							body = nil
						}
						_, _ = theirs.Write(reply(xidOf(frame), 5, 0, body...))
					}
				}()
				return ours, nil
			}}
			c, err := Open(t.Context(), cfg)
			must(t, err)
			_ = calls[int(call)%len(calls)](c.Session()) // may well fail
			_ = c.Close(t.Context())                     // the connection may be broken, and not be back in time
		})
	})
}
