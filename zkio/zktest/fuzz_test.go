// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// checkTree reports inconsistencies of the server's state.
func checkTree(t testing.TB, s *Server) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.views() {
		checkView(t, s, v)
	}
	for c := range s.conns {
		for path, modes := range c.watches {
			for side, mode := range modes {
				if mode != unwatched && !slices.Contains(c.view().watches[side].conns[path], c) {
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

// checkView reports inconsistencies of a view.
func checkView(t testing.TB, s *Server, v *view) {
	t.Helper()
	reached, containers, ephemerals, mortals := 0, 0, 0, 0
	var walk func(n *znode)
	walk = func(n *znode) {
		reached++
		if v.tree.nodes[n.path] != n {
			t.Errorf("%s: not in the index of nodes", n.path)
		}
		switch {
		case n.owner == containerOwner:
			containers++
		case n.ttl != 0:
			mortals++
			if n.owner != ttlOwner|n.ttl {
				t.Errorf("%s: its owner is %x", n.path, n.owner)
			}
		case n.owner != 0:
			ephemerals++
			if _, ok := v.tree.ephemerals[n.owner][n]; !ok {
				t.Errorf("%s: not among its session's nodes", n.path)
			}
			if v == &s.view && s.sessions[n.owner] == nil {
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
		if n.czxid > v.tree.zxid || n.mzxid > v.tree.zxid || n.pzxid > v.tree.zxid {
			t.Errorf("%s: from the future", n.path)
		}
	}
	walk(v.tree.root)
	if reached != len(v.tree.nodes) {
		t.Errorf("%d nodes in the tree, %d in the index", reached, len(v.tree.nodes))
	}
	if containers != len(v.tree.containers) {
		t.Errorf("%d containers in the tree, %d in the index", containers, len(v.tree.containers))
	}
	if mortals != len(v.tree.mortals) {
		t.Errorf("%d nodes with a time to live in the tree, %d in the index", mortals, len(v.tree.mortals))
	}
	for _, own := range v.tree.ephemerals {
		ephemerals -= len(own)
	}
	if ephemerals != 0 {
		t.Errorf("%d ephemeral nodes more in the tree than in the index", ephemerals)
	}
	for side, table := range v.watches {
		recursives := 0
		for path, conns := range table.conns {
			for _, c := range conns {
				if c.watches[path][side] == unwatched || c.gone || c.view() != v {
					t.Errorf("%s: a watch that its connection does not know of", path)
				}
				if c.watches[path][side] == recursive {
					recursives++
				}
			}
		}
		if recursives != table.recursive {
			t.Errorf("%d recursive watches, counted as %d", recursives, table.recursive)
		}
	}
}

func bareServer(t testing.TB) *Server {
	s := NewServer(Config{ExtendedTypes: true, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// bareConn returns a connection to s with a session. Its goroutines do not run:
// the caller passes requests to the server itself.
func bareConn(t testing.TB, s *Server) *conn {
	_, end := newPipe(pipeAddr("client"), pipeAddr("server"))
	c := newConn(s, end)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	if err := s.connect(c, connectRequest{timeout: s.cfg.MaxSessionTimeout}); err != nil {
		t.Fatal(err)
	}
	c.take()
	return c
}

// take removes the answers queued on c and returns their headers.
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

// FuzzRequest passes two arbitrary requests to the server. It must not panic or
// corrupt its state, and must answer each request at most once.
func FuzzRequest(f *testing.F) {
	path := func(s string) []byte { return jute.AppendString(nil, s) }
	create := jute.AppendInt32(appendACL(jute.AppendBuffer(path("/a"), []byte("x")), openACL), flagEphemeral|flagSequential)
	multi := appendMultiHeader(nil, OpCreate, false, -1)
	multi = append(multi, create...)
	multi = append(appendMultiHeader(multi, OpDelete, false, -1), jute.AppendInt32(path("/a"), -1)...)
	multi = appendMultiHeader(multi, opError, true, -1)
	watches := jute.AppendInt64(nil, 0)
	for range 5 {
		watches = jute.AppendStrings(watches, []string{"/", "/a", "/missing"})
	}
	reads := append(appendMultiHeader(nil, OpGetData, false, -1), jute.AppendBool(path("/"), true)...)
	reads = append(appendMultiHeader(reads, OpGetChildren, false, -1), jute.AppendBool(path("/a"), false)...)
	reads = appendMultiHeader(reads, opError, true, -1)
	for op, body := range map[Op][]byte{
		OpPing:                 nil,
		OpClose:                nil,
		OpCreate:               create,
		OpCreateTTL:            jute.AppendInt64(jute.AppendInt32(create[:len(create)-4:len(create)-4], flagSequentialTTL), 1),
		OpMulti:                multi,
		OpSetWatches:           watches,
		OpSetWatches2:          watches,
		OpAddWatch:             jute.AppendInt32(path("/"), addRecursive),
		OpCheckWatches:         jute.AppendInt32(path("/"), 3),
		OpRemoveWatches:        jute.AppendInt32(path("/"), 3),
		OpMultiRead:            reads,
		OpGetEphemerals:        path("/"),
		OpGetAllChildrenNumber: path("/"),
		OpWhoAmI:               nil,
		OpReconfig:             make([]byte, 20),
		OpSASL:                 jute.AppendBuffer(nil, []byte("token")),
		OpGetData:              jute.AppendBool(path("/"), true),
		OpGetChildren2:         jute.AppendBool(path("/"), true),
		OpSetACL:               jute.AppendInt32(appendACL(path("/"), openACL), -1),
		OpAuth:                 jute.AppendBuffer(jute.AppendString(jute.AppendInt32(nil, 0), "digest"), []byte("a:b")),
		1000:                   path("/"),
	} {
		f.Add(frame(1, op, body), frame(2, OpDelete, jute.AppendInt32(path("/a0000000000"), -1)))
		f.Add(frame(1, OpAddWatch, jute.AppendInt32(path("/"), addRecursive)), frame(2, op, body))
	}
	f.Add([]byte{0, 0}, []byte{})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s := bareServer(t)
		c := bareConn(t, s)
		for _, b := range [][]byte{first, second} {
			if err := s.handle(c, b); err != nil && !errors.Is(err, jute.ErrMalformed) && !errors.Is(err, CodeAuthFailed) {
				t.Errorf("handle: %v", err)
			}
			// A reply to a request with an event's xid looks like an event.
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

// FuzzFrames splits an arbitrary byte stream into frames, however it arrives. No
// frame is longer than allowed, nothing is lost or invented, and the buffer only
// grows with what has arrived.
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

// TestFrameReaderGoesOn: a read that fails at a deadline loses nothing.
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

// TestNamesAreComplete: children are listed in an odd order, but each once.
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

// TestRandomRequests runs random sequences of well-formed requests from several
// connections and checks the state after each. A failed multi must change nothing
// but the zxid. Two of the connections lag, and always see the tree as it was at
// some transaction.
func TestRandomRequests(t *testing.T) {
	stale := 0 // answers that were behind
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		s := bareServer(t)
		conns := []*conn{bareConn(t, s), bareConn(t, s), bareConn(t, s)}
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
			case OpCreateTTL:
				b = jute.AppendBuffer(b, []byte("data"))
				b = appendACL(b, openACL)
				return jute.AppendInt64(jute.AppendInt32(b, int32(5+rnd.IntN(2))), int64(1+rnd.IntN(1000)))
			case OpSetData:
				b = jute.AppendBuffer(b, []byte("new"))
			case OpSetACL:
				b = appendACL(b, []aclEntry{{permAll, anyone}, {int32(rnd.IntN(32)), id{"ip", "127.0.0.1"}}})
			case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
				return jute.AppendBool(b, rnd.IntN(2) == 0)
			case OpAddWatch:
				return jute.AppendInt32(b, int32(rnd.IntN(2)))
			case OpRemoveWatches:
				return jute.AppendInt32(b, int32(1+rnd.IntN(3)))
			case OpGetAllChildrenNumber:
				return b
			}
			return jute.AppendInt32(b, int32(rnd.IntN(4)/3-1))
		}
		lags := []*Lag{s.Faults().Lag(-1, conns[1].sid), s.Faults().Lag(3, conns[2].sid)}
		history := map[int64]string{s.Zxid(): dump(s)} // the lead's tree after each transaction
		changes := []Op{OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpDelete, OpSetData, OpCheck}
		for i := range 300 {
			c := conns[rnd.IntN(len(conns))]
			before, zxid := dump(s), s.Zxid()
			var err error
			multi := false
			switch n := rnd.IntN(10); {
			case n < 5:
				op := append(changes, OpSetACL)[rnd.IntN(len(changes)+1)]
				err = s.handle(c, frame(1, op, body(op)))
			case n < 7:
				ops := []Op{OpExists, OpGetData, OpGetChildren, OpGetChildren2, OpAddWatch, OpRemoveWatches, OpGetAllChildrenNumber}
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
			sequenceSet := int64(0)
			if rnd.IntN(10) == 0 {
				sequenceSet = 1 // transactions since the answer
				history[s.Zxid()] = dump(s)
				if err := s.SetSequence("/", int32(i*1000)); err != nil {
					t.Fatal(err)
				}
			}
			history[s.Zxid()] = dump(s)
			behind := int64(0)
			for _, a := range c.take() {
				if a.xid == 1 { // not an event
					behind = s.Zxid() - sequenceSet - a.zxid
				}
			}
			for _, c := range conns {
				c.take()
			}
			if c == conns[0] && behind != 0 {
				t.Errorf("a client that does not lag is behind by %d", behind)
			}
			if behind > 0 {
				stale++
			}
			for _, l := range lags {
				if rnd.IntN(5) == 0 {
					l.Advance(rnd.IntN(3))
				}
				if got, want := dumpTree(l.view.tree), history[l.view.tree.zxid]; got != want {
					t.Errorf("at %x the lagging view is\n%swant\n%s", l.view.tree.zxid, got, want)
				}
			}
			if n := lags[1].Pending(); n > 3 {
				t.Errorf("%d transactions are pending, want 3 at most", n)
			}
			checkTree(t, s)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, i)
			}
		}
	}
	if stale < 100 {
		t.Errorf("%d answers were behind, which shows little", stale)
	}
}

// multiFailed reports whether the last answer on c is of a failed multi.
func multiFailed(c *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := jute.NewReader(c.queue[len(c.queue)-1].frame[replyHeader:])
	first, done := Op(r.Int32()), r.Bool()
	return first == opError && !done
}

// dump returns the lead's tree as text.
func dump(s *Server) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return dumpTree(s.tree)
}

func dumpTree(t *tree) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(t.nodes)) {
		n := t.nodes[path]
		fmt.Fprintf(&b, "%s %q %+v owner %x ttl %d acl %v\n", path, n.data, n.stat(), n.owner, n.ttl, n.acl)
	}
	return b.String()
}
