// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// checkTree reports what is inconsistent in the server's state.
func checkTree(t testing.TB, s *Server) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	reached, containers, ephemerals := 0, 0, 0
	var walk func(n *znode)
	walk = func(n *znode) {
		reached++
		if s.tree.nodes[n.path] != n {
			t.Errorf("%s: not in the index of nodes", n.path)
		}
		if n.owner == containerOwner {
			containers++
		} else if n.owner != 0 {
			ephemerals++
			if _, ok := s.tree.ephemerals[n.owner][n]; !ok {
				t.Errorf("%s: not among its session's nodes", n.path)
			}
			if s.sessions[n.owner] == nil {
				t.Errorf("%s: its session is over", n.path)
			}
			if len(n.children) > 0 {
				t.Errorf("%s: an ephemeral node with children", n.path)
			}
		}
		for i, child := range n.children {
			if child.parent != n || child.index != i {
				t.Errorf("%s: not linked to its parent", child.path)
			}
			if want := strings.TrimSuffix(n.path, "/") + "/" + child.name; child.path != want {
				t.Errorf("%s: should be called %s", child.path, want)
			}
			walk(child)
		}
		if names := n.names(); len(names) != len(n.children) {
			t.Errorf("%s: %d names of %d children", n.path, len(names), len(n.children))
		} else if slices.Sort(names); len(slices.Compact(names)) != len(n.children) {
			t.Errorf("%s: two children of one name", n.path)
		}
		if n.czxid > s.tree.zxid || n.mzxid > s.tree.zxid || n.pzxid > s.tree.zxid {
			t.Errorf("%s: from the future", n.path)
		}
	}
	walk(s.tree.root)
	if reached != len(s.tree.nodes) {
		t.Errorf("%d nodes in the tree, %d in the index", reached, len(s.tree.nodes))
	}
	if containers != len(s.tree.containers) {
		t.Errorf("%d containers in the tree, %d in the index", containers, len(s.tree.containers))
	}
	for _, own := range s.tree.ephemerals {
		ephemerals -= len(own)
	}
	if ephemerals != 0 {
		t.Errorf("%d ephemeral nodes more in the tree than in the index", ephemerals)
	}
	for kind, side := range map[watchKinds]map[string][]*conn{watchData: s.watches.data, watchChild: s.watches.child} {
		for path, conns := range side {
			for _, c := range conns {
				if c.watches[path]&kind == 0 || c.gone {
					t.Errorf("%s: a watch that its connection does not know of", path)
				}
			}
		}
	}
	for c := range s.conns {
		for path, kinds := range c.watches {
			for kind, side := range map[watchKinds]map[string][]*conn{watchData: s.watches.data, watchChild: s.watches.child} {
				if kinds&kind != 0 && !slices.Contains(side[path], c) {
					t.Errorf("%s: a watch that only its connection knows of", path)
				}
			}
		}
	}
	for tick, bucket := range s.expiry.buckets {
		for sess := range bucket {
			if sess.bucket != tick || s.sessions[sess.id] != sess {
				t.Errorf("session %x: in a bucket where it does not belong", sess.id)
			}
		}
	}
}

// bareServer returns a server and a connection with a session on it whose
// goroutines do not run: the caller hands requests to the server itself.
func bareServer(t testing.TB) (*Server, *conn) {
	s := NewServer(Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = s.Close() })
	_, end := newPipe(pipeAddr("client"), pipeAddr("server"))
	c := newConn(s, end)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	if err := s.connect(c, connectRequest{timeout: s.cfg.MaxSessionTimeout}); err != nil {
		t.Fatal(err)
	}
	return s, c
}

// take returns the answers that are queued on c, taken apart as far as their
// headers.
func (c *conn) take() []answered {
	c.mu.Lock()
	defer c.mu.Unlock()
	var got []answered
	for _, o := range c.queue {
		r := jute.NewReader(o.frame)
		size := int(r.Int32())
		if size != r.Len() {
			panic("a frame whose length is wrong")
		}
		got = append(got, answered{r.Int32(), r.Int64(), Code(r.Int32())})
	}
	c.queue = nil
	return got
}

type answered struct {
	xid  int32
	zxid int64
	err  Code
}

func frame(xid int32, op Op, body []byte) []byte {
	return append(jute.AppendInt32(jute.AppendInt32(nil, xid), int32(op)), body...)
}

// FuzzRequest hands the server two arbitrary requests. It may refuse them, but
// must not panic or break its state, and answers each at most once.
func FuzzRequest(f *testing.F) {
	path := func(s string) []byte { return jute.AppendString(nil, s) }
	create := jute.AppendInt32(appendACL(jute.AppendBuffer(path("/a"), []byte("x")), openACL), flagEphemeral|flagSequential)
	multi := appendMultiHeader(nil, OpCreate, false, -1)
	multi = append(multi, create...)
	multi = append(appendMultiHeader(multi, OpDelete, false, -1), jute.AppendInt32(path("/a"), -1)...)
	multi = appendMultiHeader(multi, opError, true, -1)
	watches := jute.AppendInt64(nil, 0)
	for range 3 {
		watches = jute.AppendStrings(watches, []string{"/", "/a", "/missing"})
	}
	for op, body := range map[Op][]byte{
		OpPing:         nil,
		OpClose:        nil,
		OpCreate:       create,
		OpMulti:        multi,
		OpSetWatches:   watches,
		OpGetData:      jute.AppendBool(path("/"), true),
		OpGetChildren2: jute.AppendBool(path("/"), true),
		OpSetACL:       jute.AppendInt32(appendACL(path("/"), openACL), -1),
		OpAuth:         jute.AppendBuffer(jute.AppendString(jute.AppendInt32(nil, 0), "digest"), []byte("a:b")),
		1000:           path("/"),
	} {
		f.Add(frame(1, op, body), frame(2, OpDelete, jute.AppendInt32(path("/a0000000000"), -1)))
	}
	f.Add([]byte{0, 0}, []byte{})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s, c := bareServer(t)
		c.take()
		for _, b := range [][]byte{first, second} {
			if err := s.handle(c, b); err != nil && !errors.Is(err, jute.ErrMalformed) && !errors.Is(err, CodeAuthFailed) {
				t.Errorf("handle: %v", err)
			}
			// A client that numbers its request like an event cannot tell the
			// two apart, nor can this test.
			asEvent := len(b) >= 4 && int32(binary.BigEndian.Uint32(b)) == jute.XidWatchEvent
			replies := 0
			for _, a := range c.take() {
				if a.xid != jute.XidWatchEvent {
					replies++
				}
			}
			if replies > 1 || replies > 0 && asEvent {
				t.Errorf("%d answers to one request", replies)
			}
			// pathsOf reads the same bytes for hooks and faults.
			if len(b) >= 8 {
				_ = pathsOf(Op(binary.BigEndian.Uint32(b[4:])), b[8:])
			}
			checkTree(t, s)
		}
	})
}

// FuzzFrames cuts an arbitrary byte stream into frames, however it arrives: no
// frame is longer than allowed, nothing is lost or invented, and the buffer
// grows with what has arrived only.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x00\x00\x01c"), true)
	f.Add([]byte("\x00\x00\x03\xe8too little"), false)
	f.Add([]byte("\x7f\xff\xff\xff"), false)
	f.Add([]byte("\xff\xff\xff\xff"), false)
	f.Add([]byte("ruok"), false)
	f.Fuzz(func(t *testing.T, stream []byte, slowly bool) {
		const limit = 1000
		var r io.Reader = bytes.NewReader(stream)
		if slowly {
			r = iotest.OneByteReader(r)
		}
		fr := frameReader{r: r, limit: limit}
		rest := stream
		for {
			got, err := fr.next()
			if cap(fr.buf) > 4096+2*len(stream) {
				t.Fatalf("a buffer of %d bytes for %d bytes of input", cap(fr.buf), len(stream))
			}
			if err != nil {
				if err == io.EOF != (len(rest) == 0) {
					t.Fatalf("error %v with %d bytes left", err, len(rest))
				}
				if err != io.EOF && !errors.Is(err, errFrame) {
					t.Fatalf("error %v", err)
				}
				return
			}
			size := int(binary.BigEndian.Uint32(rest))
			if size > limit || !bytes.Equal(got, rest[4:4+size]) {
				t.Fatalf("frame % x, want % x", got, rest[4:4+size])
			}
			rest = rest[4+size:]
		}
	})
}

// TestFrameReaderGoesOn: a read that fails, as at a deadline, loses nothing.
func TestFrameReaderGoesOn(t *testing.T) {
	input := "\x00\x00\x00\x03abc\x00\x00\x00\x01d"
	fr := frameReader{r: iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(input))), limit: 10}
	var got []string
	timeouts := 0
	for {
		frame, err := fr.next()
		switch {
		case err == iotest.ErrTimeout:
			timeouts++
			continue
		case err == io.EOF:
		case err != nil:
			t.Fatal(err)
		default:
			got = append(got, string(frame))
			continue
		}
		break
	}
	if !slices.Equal(got, []string{"abc", "d"}) || timeouts != 1 {
		t.Errorf("frames %q after %d timeouts", got, timeouts)
	}
}

// TestNamesAreComplete: the order in which children are listed is odd, but each
// is listed once.
func TestNamesAreComplete(t *testing.T) {
	for _, count := range []int{0, 1, 2, 3, 10, 7918, 7919, 7920, 2 * 7919} {
		dir := new(znode)
		for i := range count {
			dir.add(&znode{name: strconv.Itoa(i)})
		}
		names := dir.names()
		if count > 2 && slices.IsSorted(names) {
			t.Errorf("%d children are listed in order, which clients must not rely on", count)
		}
		slices.Sort(names)
		if len(names) != count || len(slices.Compact(names)) != count {
			t.Errorf("%d children, but %d names", count, len(names))
		}
	}
}

// TestRandomRequests runs random sequences of well-formed requests, multis
// among them, from several connections, and looks at the state after each. A
// multi that fails must leave no trace but its zxid.
func TestRandomRequests(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		s, c := bareServer(t)
		conns := []*conn{c}
		for range 2 {
			_, end := newPipe(pipeAddr("client"), pipeAddr("server"))
			c := newConn(s, end)
			s.mu.Lock()
			s.conns[c] = struct{}{}
			s.mu.Unlock()
			if err := s.connect(c, connectRequest{timeout: s.cfg.MaxSessionTimeout}); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		path := func() string {
			p := "/" + string(rune('a'+rnd.IntN(3)))
			for rnd.IntN(2) == 0 {
				p += "/" + string(rune('a'+rnd.IntN(3)))
			}
			return p
		}
		body := func(op Op) []byte {
			b := jute.AppendString(nil, path())
			switch op {
			case OpCreate, OpCreate2, OpCreateContainer:
				b = jute.AppendBuffer(b, []byte("data"))
				b = appendACL(b, openACL)
				return jute.AppendInt32(b, int32(rnd.IntN(5)))
			case OpSetData:
				b = jute.AppendBuffer(b, []byte("new"))
			case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
				return jute.AppendBool(b, rnd.IntN(2) == 0)
			}
			return jute.AppendInt32(b, int32(rnd.IntN(4)/3-1))
		}
		changes := []Op{OpCreate, OpCreate2, OpCreateContainer, OpDelete, OpDelete, OpSetData, OpCheck}
		for i := range 500 {
			c := conns[rnd.IntN(len(conns))]
			before, zxid := dump(s), s.Zxid()
			var err error
			multi := false
			switch n := rnd.IntN(10); {
			case n < 5:
				op := changes[rnd.IntN(len(changes))]
				err = s.handle(c, frame(1, op, body(op)))
			case n < 7:
				ops := []Op{OpExists, OpGetData, OpGetChildren, OpGetChildren2}
				op := ops[rnd.IntN(len(ops))]
				err = s.handle(c, frame(1, op, body(op)))
				if after := dump(s); after != before {
					t.Fatalf("seed %d, step %d: %v changed\n%sinto\n%s", seed, i, op, before, after)
				}
			default:
				multi = true
				var b []byte
				for range rnd.IntN(6) {
					op := changes[rnd.IntN(len(changes))]
					b = append(appendMultiHeader(b, op, false, -1), body(op)...)
				}
				err = s.handle(c, frame(1, OpMulti, appendMultiHeader(b, opError, true, -1)))
			}
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, i, err)
			}
			if multi && s.Zxid() != zxid+1 {
				t.Fatalf("seed %d, step %d: a multi took %d zxids", seed, i, s.Zxid()-zxid)
			}
			if multi && multiFailed(c) {
				if after := dump(s); after != before {
					t.Fatalf("seed %d, step %d: a failed multi changed\n%sinto\n%s", seed, i, before, after)
				}
			}
			for _, c := range conns {
				c.take()
			}
			checkTree(t, s)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, i)
			}
		}
	}
}

// multiFailed reports whether the last answer on c is that of a failed multi.
func multiFailed(c *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := jute.NewReader(c.queue[len(c.queue)-1].frame[replyHeader:])
	first, done := Op(r.Int32()), r.Bool()
	return first == opError && !done
}

// dump writes the whole tree down.
func dump(s *Server) string {
	var b strings.Builder
	for _, path := range append(s.Nodes(), "/") {
		data, stat, _ := s.Get(path)
		s.mu.Lock()
		n := s.tree.node(path)
		b.WriteString(path)
		b.WriteString(" ")
		b.WriteString(string(data))
		b.Write(stat.append(nil))
		b.Write(jute.AppendInt64(nil, n.owner))
		b.WriteString("\n")
		s.mu.Unlock()
	}
	return b.String()
}
