// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// A dialogue is a client that sends requests frame by frame and writes down
// what is answered, in a form that does not depend on the server: zxids count
// from the start of the dialogue, sessions are numbered in the order of their
// appearance. So the records of two servers can be compared as texts.
type dialogue struct {
	t    testing.TB
	dial func() (net.Conn, error)
	*record
	name string // of this connection, in the record
	nc   net.Conn
	xid  int32

	patience time.Duration // how long it waits for what comes next

	session  int64
	password []byte
}

// A record is what the dialogues of one script have written down.
type record struct {
	text      strings.Builder
	base      int64 // zxid from which others are counted
	last      int64 // last zxid seen in a header
	sessions  map[int64]string
	passwords map[int64][]byte
	brief     bool // show no Stats
}

// newDialogue connects under a name.
func newDialogue(t testing.TB, name string, dial func() (net.Conn, error)) *dialogue {
	d := &dialogue{t: t, dial: dial, record: &record{base: -1, sessions: map[int64]string{0: "none"}, passwords: map[int64][]byte{}}, name: name, patience: 10 * time.Second}
	d.reconnect()
	return d
}

// other returns a further dialogue, on a connection of its own, that writes
// into the same record.
func (d *dialogue) other(name string) *dialogue {
	o := &dialogue{t: d.t, dial: d.dial, record: d.record, name: name, patience: d.patience}
	o.reconnect()
	return o
}

// reconnect leaves the connection and makes a new one.
func (d *dialogue) reconnect() {
	d.t.Helper()
	nc, err := d.dial()
	if err != nil {
		d.t.Fatal(err)
	}
	d.nc = nc
	d.t.Cleanup(func() { _ = nc.Close() })
}

// note writes a line into the record.
func (d *dialogue) note(format string, args ...any) {
	fmt.Fprintf(&d.text, "%s: %s\n", d.name, fmt.Sprintf(format, args...))
}

// comment writes a remark into the record.
func (d *dialogue) comment(format string, args ...any) {
	fmt.Fprintf(&d.text, "\n# %s\n", fmt.Sprintf(format, args...))
}

// zxid shows a zxid relative to the dialogue's start.
func (d *dialogue) rel(zxid int64) string {
	switch {
	case zxid == 0 || zxid == -1:
		return fmt.Sprintf("%d", zxid)
	case d.base < 0:
		d.base = zxid
	}
	return fmt.Sprintf("z%+d", zxid-d.base)
}

func (d *dialogue) sess(id int64) string {
	if id == -1<<63 {
		return "container"
	}
	if _, ok := d.sessions[id]; !ok {
		d.sessions[id] = fmt.Sprintf("S%d", len(d.sessions))
	}
	return d.sessions[id]
}

// write sends bytes as they are. If the peer is about to close the connection, it
// is a matter of time whether that fails: what is read next tells in any case.
func (d *dialogue) write(b []byte) { _, _ = d.nc.Write(b) }

// readFrame reads a frame, or reports how the connection ended.
func (d *dialogue) readFrame() ([]byte, string) {
	_ = d.nc.SetReadDeadline(time.Now().Add(d.patience))
	head := make([]byte, 4)
	if _, err := io.ReadFull(d.nc, head); err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil, "nothing"
		}
		return nil, "connection closed"
	}
	body := make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(d.nc, body); err != nil {
		return nil, "connection closed inside a frame"
	}
	return body, ""
}

// connect does the handshake, with the readOnly byte if readOnly is 0 or 1.
func (d *dialogue) connect(timeout time.Duration, session int64, password []byte, lastZxid int64, readOnly int) {
	d.t.Helper()
	b := make([]byte, 4)
	b = jute.AppendInt32(b, 0)
	b = jute.AppendInt64(b, lastZxid)
	b = jute.AppendInt32(b, int32(timeout.Milliseconds()))
	b = jute.AppendInt64(b, session)
	b = jute.AppendBuffer(b, password)
	if readOnly >= 0 {
		b = jute.AppendBool(b, readOnly == 1)
	}
	d.write(jute.Frame(b))
	frame, end := d.readFrame()
	if end != "" {
		d.note("connect: %s", end)
		return
	}
	r := jute.NewReader(frame)
	version, got, id, pw := r.Int32(), r.Int32(), r.Int64(), r.Buffer()
	rest := r.Rest()
	d.note("connect: version %d, timeout %d ms, session %s, password of %d bytes, zero %v, then %x", version, got, d.sess(id), len(pw), strings.Trim(string(pw), "\x00") == "", rest)
	d.session, d.password = id, append([]byte(nil), pw...)
	if id != 0 {
		d.passwords[id] = d.password
	}
}

// start is connect as most scripts need it. The first sets the record's base.
func (d *dialogue) start() *dialogue {
	d.t.Helper()
	d.connect(10*time.Second, 0, make([]byte, 16), 0, -1)
	d.quietly(func() { d.call(jute.OpPing, "", nil, nil) })
	return d
}

// quietly runs fn and takes back what it writes down.
func (d *dialogue) quietly(fn func()) {
	before := d.text.String()
	fn()
	d.text.Reset()
	d.text.WriteString(before)
}

// request sends a request without waiting for its answer.
func (d *dialogue) request(op int32, body []byte) int32 {
	d.xid++
	xid := d.xid
	switch op {
	case jute.OpPing:
		xid = jute.XidPing
	case jute.OpAuth:
		xid = jute.XidAuth
	case jute.OpSetWatches:
		xid = jute.XidSetWatches
	}
	b := make([]byte, 4)
	b = jute.AppendInt32(b, xid)
	b = jute.AppendInt32(b, op)
	d.write(jute.Frame(append(b, body...)))
	return xid
}

// call sends a request and writes down everything up to its answer, whose body
// show takes apart. It reports whether the request succeeded.
func (d *dialogue) call(op int32, what string, body []byte, show func(*jute.Reader) string) bool {
	d.t.Helper()
	xid := d.request(op, body)
	return d.answer(xid, what, show)
}

func (d *dialogue) answer(xid int32, what string, show func(*jute.Reader) string) bool {
	d.t.Helper()
	for {
		frame, end := d.readFrame()
		if end != "" {
			d.note("%s -> %s", what, end)
			return false
		}
		r := jute.NewReader(frame)
		gotXid, zxid, code := r.Int32(), r.Int64(), r.Int32()
		if gotXid == jute.XidWatchEvent {
			d.event(zxid, code, r)
			continue
		}
		if gotXid != xid {
			d.t.Errorf("%s: reply to xid %d, want %d", what, gotXid, xid)
		}
		text := ""
		if code == 0 && show != nil {
			text = " " + show(r)
		}
		if r.Err() != nil || r.Len() > 0 {
			text += fmt.Sprintf(" (%d bytes left, %v)", r.Len(), r.Err())
		}
		if zxid > 0 {
			d.last = zxid
		}
		d.note("%s -> %s %d%s", what, d.rel(zxid), code, text)
		return code == 0
	}
}

// answerInAnyOrder writes down the events before the answer to a request in the
// order of their paths: the real server goes through a session's ephemeral nodes
// in the order of a hash table.
func (d *dialogue) answerInAnyOrder(what string, send func() int32) {
	d.t.Helper()
	before := d.text.String()
	d.text.Reset()
	d.answer(send(), what, nil)
	lines := strings.SplitAfter(d.text.String(), "\n")
	slices.Sort(lines[:len(lines)-2]) // the answer, and what is behind the last line's end
	d.text.Reset()
	d.text.WriteString(before + strings.Join(lines, ""))
}

func (d *dialogue) event(zxid int64, code int32, r *jute.Reader) {
	kind, state, path := r.Int32(), r.Int32(), r.String()
	d.note("event %d %s, state %d, header %s %d", kind, path, state, d.rel(zxid), code)
}

// expectEvents writes down the next n frames, which are events, or how the
// connection ended.
func (d *dialogue) expectEvents(n int) {
	d.t.Helper()
	for range n {
		frame, end := d.readFrame()
		if end != "" {
			d.note("-> %s", end)
			return
		}
		r := jute.NewReader(frame)
		if xid := r.Int32(); xid != jute.XidWatchEvent {
			d.t.Errorf("frame with xid %d, want an event", xid)
		}
		d.event(r.Int64(), r.Int32(), r)
	}
}

// ping writes down what is left on the connection before the answer to a ping.
func (d *dialogue) ping() bool { return d.call(jute.OpPing, "ping", nil, nil) }

// ended writes down whether the server has closed the connection.
func (d *dialogue) ended() {
	frame, end := d.readFrame()
	if end == "" {
		end = fmt.Sprintf("frame %x", frame)
	}
	d.note("then %s", end)
}

type entry struct {
	perms      int32
	scheme, id string
}

var anyone = []entry{{31, "world", "anyone"}}

func appendACL(b []byte, acl []entry) []byte {
	b = jute.AppendInt32(b, int32(len(acl)))
	for _, e := range acl {
		b = jute.AppendInt32(b, e.perms)
		b = jute.AppendString(b, e.scheme)
		b = jute.AppendString(b, e.id)
	}
	return b
}

func createBody(path string, data []byte, acl []entry, flags int32) []byte {
	b := jute.AppendString(nil, path)
	b = jute.AppendBuffer(b, data)
	b = appendACL(b, acl)
	return jute.AppendInt32(b, flags)
}

func showPath(r *jute.Reader) string { return r.String() }

// stat decodes and shows a Stat; of times only whether they are plausible.
func (d *dialogue) stat(r *jute.Reader) string {
	czxid, mzxid, ctime, mtime := r.Int64(), r.Int64(), r.Int64(), r.Int64()
	version, cversion, aversion := r.Int32(), r.Int32(), r.Int32()
	owner := r.Int64()
	dataLength, numChildren := r.Int32(), r.Int32()
	pzxid := r.Int64()
	if d.brief {
		return "{}"
	}
	times := "fresh"
	for _, ms := range []int64{ctime, mtime} {
		if age := time.Since(time.UnixMilli(ms)); age < -time.Second || age > time.Minute {
			times = "old"
		}
	}
	return fmt.Sprintf("{c %s m %s p %s v %d cv %d av %d owner %s data %d children %d %s}",
		d.rel(czxid), d.rel(mzxid), d.rel(pzxid), version, cversion, aversion, d.sess(owner), dataLength, numChildren, times)
}

func (d *dialogue) create(path, data string, flags int32) bool {
	d.t.Helper()
	return d.call(jute.OpCreate, fmt.Sprintf("create %q flags %d", path, flags), createBody(path, []byte(data), anyone, flags), showPath)
}

func (d *dialogue) createACL(path string, acl []entry) bool {
	d.t.Helper()
	return d.call(jute.OpCreate, fmt.Sprintf("create %q with %v", path, acl), createBody(path, nil, acl, 0), showPath)
}

func (d *dialogue) create2(op int32, path string, flags int32) bool {
	d.t.Helper()
	return d.call(op, fmt.Sprintf("op %d %q flags %d", op, path, flags), createBody(path, nil, anyone, flags), func(r *jute.Reader) string {
		return r.String() + " " + d.stat(r)
	})
}

func (d *dialogue) delete(path string, version int32) bool {
	d.t.Helper()
	return d.call(jute.OpDelete, fmt.Sprintf("delete %q version %d", path, version), jute.AppendInt32(jute.AppendString(nil, path), version), nil)
}

func (d *dialogue) set(path string, data []byte, version int32) bool {
	d.t.Helper()
	b := jute.AppendBuffer(jute.AppendString(nil, path), data)
	return d.call(jute.OpSetData, fmt.Sprintf("set %q version %d", path, version), jute.AppendInt32(b, version), d.stat)
}

func (d *dialogue) watched(op int32, verb, path string, watch bool, show func(*jute.Reader) string) bool {
	d.t.Helper()
	if watch {
		verb += " and watch"
	}
	return d.call(op, fmt.Sprintf("%s %q", verb, path), jute.AppendBool(jute.AppendString(nil, path), watch), show)
}

func (d *dialogue) exists(path string, watch bool) bool {
	d.t.Helper()
	return d.watched(jute.OpExists, "exists", path, watch, d.stat)
}

func (d *dialogue) get(path string, watch bool) bool {
	d.t.Helper()
	return d.watched(jute.OpGetData, "get", path, watch, func(r *jute.Reader) string {
		data := r.Buffer()
		if data == nil {
			return "null " + d.stat(r)
		}
		return fmt.Sprintf("%q %s", data, d.stat(r))
	})
}

func (d *dialogue) children(op int32, path string, watch bool) bool {
	d.t.Helper()
	return d.watched(op, fmt.Sprintf("children (op %d)", op), path, watch, func(r *jute.Reader) string {
		names := r.Strings()
		sortStrings(names)
		text := fmt.Sprintf("%q", names)
		if op == jute.OpGetChildren2 {
			text += " " + d.stat(r)
		}
		return text
	})
}

func (d *dialogue) getACL(path string) bool {
	d.t.Helper()
	return d.call(jute.OpGetACL, fmt.Sprintf("getACL %q", path), jute.AppendString(nil, path), func(r *jute.Reader) string {
		var acl []entry
		for range r.Count(12) {
			acl = append(acl, entry{r.Int32(), r.String(), r.String()})
		}
		// The entries that "auth" was replaced by come in the order of a hash table.
		slices.SortFunc(acl, func(a, b entry) int { return cmp.Or(strings.Compare(a.id, b.id), cmp.Compare(a.perms, b.perms)) })
		return fmt.Sprintf("%v %s", acl, d.stat(r))
	})
}

func (d *dialogue) setACL(path string, acl []entry, version int32) bool {
	d.t.Helper()
	b := appendACL(jute.AppendString(nil, path), acl)
	return d.call(jute.OpSetACL, fmt.Sprintf("setACL %q %v version %d", path, acl, version), jute.AppendInt32(b, version), d.stat)
}

func (d *dialogue) auth(scheme, data string) bool {
	d.t.Helper()
	b := jute.AppendString(jute.AppendInt32(nil, 0), scheme)
	return d.call(jute.OpAuth, fmt.Sprintf("auth %s %q", scheme, data), jute.AppendBuffer(b, []byte(data)), nil)
}

func (d *dialogue) setWatches(relative int64, data, exist, child []string) bool {
	d.t.Helper()
	b := jute.AppendInt64(nil, relative)
	for _, paths := range [][]string{data, exist, child} {
		b = jute.AppendStrings(b, paths)
	}
	return d.call(jute.OpSetWatches, fmt.Sprintf("setWatches %s data %q exist %q child %q", d.rel(relative), data, exist, child), b, nil)
}

// close ends the session in the proper way.
func (d *dialogue) close() {
	d.t.Helper()
	d.call(jute.OpClose, "close", nil, nil)
	d.ended()
}

// A step is one operation of a multi.
type step struct {
	op   int32
	body []byte
	name string
}

func mCreate(path string, flags int32) step {
	return step{jute.OpCreate, createBody(path, []byte("m"), anyone, flags), fmt.Sprintf("create %q %d", path, flags)}
}

func (d *dialogue) createTTL(path string, flags int32, ttl int64) bool {
	d.t.Helper()
	body := jute.AppendInt64(createBody(path, nil, anyone, flags), ttl)
	return d.call(jute.OpCreateTTL, fmt.Sprintf("createTTL %q flags %d ttl %d", path, flags, ttl), body, func(r *jute.Reader) string {
		return r.String() + " " + d.stat(r)
	})
}

func mCreateTTL(path string, flags int32, ttl int64) step {
	s := mCreateOp(jute.OpCreateTTL, path, flags)
	s.name += fmt.Sprintf(" ttl %d", ttl)
	s.body = jute.AppendInt64(s.body, ttl)
	return s
}

func mCreateOp(op int32, path string, flags int32) step {
	b := createBody(path, []byte("m"), anyone, flags)
	return step{op, b, fmt.Sprintf("op %d %q %d", op, path, flags)}
}

func mDelete(path string, version int32) step {
	return step{jute.OpDelete, jute.AppendInt32(jute.AppendString(nil, path), version), fmt.Sprintf("delete %q %d", path, version)}
}

func mCheck(path string, version int32) step {
	return step{jute.OpCheck, jute.AppendInt32(jute.AppendString(nil, path), version), fmt.Sprintf("check %q %d", path, version)}
}

func mSet(path string, version int32) step {
	b := jute.AppendBuffer(jute.AppendString(nil, path), []byte("set"))
	return step{jute.OpSetData, jute.AppendInt32(b, version), fmt.Sprintf("set %q %d", path, version)}
}

func multiBody(steps []step) []byte {
	var b []byte
	for _, s := range steps {
		b = jute.AppendInt32(jute.AppendBool(jute.AppendInt32(b, s.op), false), -1)
		b = append(b, s.body...)
	}
	return jute.AppendInt32(jute.AppendBool(jute.AppendInt32(b, -1), true), -1)
}

func (d *dialogue) multi(steps ...step) bool {
	d.t.Helper()
	var names []string
	for _, s := range steps {
		names = append(names, s.name)
	}
	return d.call(jute.OpMulti, fmt.Sprintf("multi %s", strings.Join(names, ", ")), multiBody(steps), func(r *jute.Reader) string {
		text := ""
		for r.Err() == nil {
			op, done, code := r.Int32(), r.Bool(), r.Int32()
			text += fmt.Sprintf("\n      [%d %v %d]", op, done, code)
			if done {
				break
			}
			switch op {
			case jute.OpCreate:
				text += " " + r.String()
			case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
				text += " " + r.String() + " " + d.stat(r)
			case jute.OpSetData:
				text += " " + d.stat(r)
			case jute.OpError:
				text += fmt.Sprintf(" %d", r.Int32())
			}
		}
		return text
	})
}
