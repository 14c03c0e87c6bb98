// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A script is a dialogue between clients and a server. Each line is a command
// of one client, followed by what happened when it was carried out:
//
//	A: create "/zt/a" data="x" flags=1 -> z+1 0 /zt/a
//	B: getData "/zt/a" watch -> z+1 0 "x" {c z+1 m z+1 p z+1 …}
//	A! delete "/zt/a"
//	B: event 2 /zt/a
//	B: ping -> z+2 0
//
// An answer is its zxid, its error code and its body; events that arrive before
// it come first. "!" instead of ":" leaves out what happened. Zxids count from
// the first that the script sees, and sessions are numbered, so that the same
// script has the same result on every server.
//
// The commands are the requests by ZooKeeper's names, and
//
//	connect [timeout=3s] [session=S1] [password=zero|none] [seen=ZXID] [readonly=0|1]
//	connected           wait for the answer to a connect that got none
//	disconnect          break the connection
//	ended               wait until the server closes it
//	events N            wait for N events
//	bytes HEX           send bytes that are no request
//	op N HEX            send the request number N with this body
//	word WORD           send a four-letter word, with then=HEX more, on a
//	                    connection of its own; with "…" show which beginnings
//	                    of lines the answer lacks
//	removeAll PATH      delete a node and everything below it
//	send REQUEST        without waiting for its reply
//	answer              wait for the reply to the first REQUEST that was sent and got none
//
// A request with then=HEX has those bytes at its end. Before a request, "code"
// shows only the code of its answer, "brief" leaves out Stats, and "sorted" sorts
// the events before it, where a server sends them in any order.

// A record is a script in progress: its clients, what they have seen, and its text.
type record struct {
	t         testing.TB
	dial      func(client string) (net.Conn, error)
	command   func(a args) (string, bool) // further commands; may be nil
	peers     map[string]*peer
	text      strings.Builder
	base      int64 // zxid from which others are counted; -1: not known yet
	last      int64 // the last zxid in an answer
	sessions  map[int64]string
	passwords map[int64][]byte
	patience  time.Duration // for what the server sends next
	brief     bool
}

// A peer is a client in a script.
type peer struct {
	*record
	name    string
	nc      net.Conn
	greeted bool // the handshake on nc has been sent
	xid     int32
	session int64
	sent    []sent // by the command send
	astray  bool   // a request was answered that should not have been: what follows depends on the time
}

type sent struct {
	xid  int32
	verb string
}

func newRecord(t testing.TB, dial func(client string) (net.Conn, error)) *record {
	return &record{
		t: t, dial: dial, base: -1, patience: 10 * time.Second,
		peers: map[string]*peer{}, sessions: map[int64]string{0: "none"}, passwords: map[int64][]byte{},
	}
}

// dialing returns a function that connects to srv, for newRecord.
func dialing(srv *zktest.Server) func(string) (net.Conn, error) {
	return func(client string) (net.Conn, error) { return srv.Dial(context.Background(), "tcp", client) }
}

// rawSession opens a session on a connection that sends nothing by itself, not
// even pings.
func rawSession(t *testing.T, srv *zktest.Server, timeout time.Duration) *peer {
	t.Helper()
	p := newRecord(t, dialing(srv)).peer("A")
	p.do("connect timeout=" + timeout.String())
	return p
}

func (r *record) peer(name string) *peer {
	if r.peers[name] == nil {
		r.peers[name] = &peer{record: r, name: name}
	}
	return r.peers[name]
}

var scriptLine = regexp.MustCompile(`^(\w+)([:!]) (.*)$`)

// play carries out a script and returns it with what happened.
func (r *record) play(script string) string {
	r.t.Helper()
	r.text.Reset()
	for line := range strings.Lines(script) {
		line = strings.TrimRight(strings.TrimLeft(line, "\t"), "\n")
		m := scriptLine.FindStringSubmatch(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			fmt.Fprintln(&r.text, line)
			continue
		case strings.HasPrefix(line, "  "):
			continue // what happened the last time
		case m == nil:
			r.t.Fatalf("not a line of a script: %q", line)
		case strings.HasPrefix(m[3], "event "):
			continue
		}
		command, _, _ := strings.Cut(m[3], " -> ")
		before := r.text.String()
		result := r.peer(m[1]).do(command)
		switch {
		case m[2] == "!":
			r.text.Reset()
			r.text.WriteString(before)
			result = ""
		case result != "":
			result = " -> " + result
		}
		fmt.Fprintf(&r.text, "%s%s %s%s\n", m[1], m[2], command, result)
	}
	return r.text.String()
}

// expect plays a script, in which what happens must be what it says.
func (r *record) expect(script string) {
	r.t.Helper()
	if diff := diffLines(script, r.play(script)); diff != "" {
		r.t.Errorf("the script (-) and what happened (+) differ:\n%s", diff)
	}
}

// do carries out one command, and returns what happened.
func (c *peer) do(command string) string {
	c.t.Helper()
	a := parse(c.t, command)
	switch a.verb {
	case "connect":
		return c.connect(a)
	case "connected":
		return c.connected()
	case "disconnect":
		_ = c.nc.Close()
		return ""
	case "ended":
		frame, end := c.readFrame()
		if end == "" {
			end = fmt.Sprintf("frame %x", frame)
		}
		return end
	case "events":
		for range a.number(0) {
			frame, end := c.readFrame()
			if end != "" {
				return end
			}
			r := jute.NewReader(frame)
			if r.Int32() != jute.XidWatchEvent {
				return fmt.Sprintf("frame %x", frame)
			}
			c.event(r)
		}
		return ""
	case "bytes":
		c.write(a.hex(0))
		return ""
	case "word":
		return c.word(a)
	case "removeAll":
		c.removeAll(a.path(0))
		return ""
	case "send":
		op, body := c.encode(a.rest())
		c.sent = append(c.sent, sent{c.request(op, body), a.rest().verb})
		return ""
	case "answer":
		if len(c.sent) == 0 {
			c.t.Fatalf("%s waits for an answer, and has sent nothing", c.name)
		}
		result := c.answer(c.sent[0].xid, c.sent[0].verb)
		if result != "nothing" {
			c.sent = c.sent[1:]
		}
		return result
	case "code":
		_, code, _ := strings.Cut(c.do(a.after()), " ")
		code, _, _ = strings.Cut(code, " ")
		return code
	case "brief":
		c.brief = true
		defer func() { c.brief = false }()
		return c.do(a.after())
	case "sorted":
		before := c.text.String()
		c.text.Reset()
		result := c.do(a.after())
		lines := slices.Sorted(strings.Lines(c.text.String()))
		c.text.Reset()
		c.text.WriteString(before + strings.Join(lines, ""))
		return result
	}
	if c.command != nil {
		if result, ok := c.command(a); ok {
			return result
		}
	}
	op, body := c.encode(a)
	result := c.answer(c.request(op, body), a.verb)
	if a.verb == "close" {
		result += ", " + c.do("ended")
	}
	return result
}

// An args is a command taken apart.
type args struct {
	t     testing.TB
	line  string
	verb  string
	words []string          // that are not options
	opts  map[string]string // NAME=VALUE
}

var token = regexp.MustCompile(`(?:"(?:[^"\\]|\\.)*"|[^ "])+`)

func parse(t testing.TB, line string) args {
	a := args{t: t, line: line, opts: map[string]string{}}
	for i, word := range token.FindAllString(line, -1) {
		name, value, isOption := strings.Cut(word, "=")
		switch {
		case i == 0:
			a.verb = word
		case isOption && !strings.HasPrefix(word, `"`):
			a.opts[name] = value
		default:
			a.words = append(a.words, word)
		}
	}
	return a
}

// after returns the line without its first word, and rest parses that.
func (a args) after() string { _, after, _ := strings.Cut(a.line, " "); return after }
func (a args) rest() args    { return parse(a.t, a.after()) }

func (a args) has(word string) bool { return slices.Contains(a.words, word) }

func (a args) number(i int) int64 { return parseNumber(a.t, a.words[i]) }

func parseNumber(t testing.TB, s string) int64 {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (a args) duration(i int) time.Duration {
	d, err := time.ParseDuration(a.words[i])
	if err != nil {
		a.t.Fatal(err)
	}
	return d
}

func (a args) option(name string, otherwise int64) int64 {
	if s, ok := a.opts[name]; ok {
		return parseNumber(a.t, s)
	}
	return otherwise
}

func (a args) hex(i int) []byte {
	if i >= len(a.words) {
		return nil
	}
	return a.decode(a.words[i])
}

func (a args) decode(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		a.t.Fatal(err)
	}
	return b
}

// path returns the ith word, a quoted string; with the option long=N it has N
// zeros more.
func (a args) path(i int) string {
	s, err := strconv.Unquote(a.words[i])
	if err != nil {
		a.t.Fatalf("%s: %v", a.line, err)
	}
	return s + strings.Repeat("0", int(a.option("long", 0)))
}

func (a args) appendPath(b []byte, i int) []byte {
	if a.words[i] == "null" {
		return jute.AppendInt32(b, -1)
	}
	return jute.AppendString(b, a.path(i))
}

// appendData appends data="…", or a number of zero bytes, size=N.
func (a args) appendData(b []byte) []byte {
	data, ok := a.opts["data"]
	switch {
	case data == "null":
		return jute.AppendBuffer(b, nil)
	case ok:
		data, _ = strconv.Unquote(data)
		return jute.AppendString(b, data)
	}
	return jute.AppendBuffer(b, make([]byte, a.option("size", 0)))
}

// appendACL appends acl=PERMS:SCHEME:ID,…, by default 31:world:anyone.
func (a args) appendACL(b []byte) []byte {
	acl, ok := a.opts["acl"]
	switch {
	case !ok:
		acl = "31:world:anyone"
	case acl == "null":
		return jute.AppendInt32(b, -1)
	case acl == "":
		return jute.AppendInt32(b, 0)
	}
	entries := strings.Split(acl, ",")
	b = jute.AppendInt32(b, int32(len(entries)))
	for _, e := range entries {
		parts := strings.SplitN(e, ":", 3)
		b = jute.AppendInt32(b, int32(parseNumber(a.t, parts[0])))
		b = jute.AppendString(jute.AppendString(b, parts[1]), parts[2])
	}
	return b
}

// appendList appends NAME="…","…".
func (a args) appendList(b []byte, name string) []byte {
	var list []string
	for rest := a.opts[name]; rest != ""; rest = strings.TrimPrefix(rest, ",") {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			a.t.Fatalf("%s: %v", a.line, err)
		}
		s, _ := strconv.Unquote(quoted)
		list = append(list, s)
		rest = rest[len(quoted):]
	}
	return jute.AppendStrings(b, list)
}

var opNumbers = func() map[string]int32 {
	numbers := map[string]int32{}
	for op := int32(-11); op < 200; op++ {
		if name := zktest.Op(op).String(); !strings.HasPrefix(name, "op(") {
			numbers[name] = op
		}
	}
	return numbers
}()

// encode returns the number and the body of the request that a describes.
func (c *peer) encode(a args) (op int32, body []byte) {
	var b []byte
	switch a.verb {
	case "op":
		return int32(a.number(0)), a.hex(1)
	case "create", "create2", "createContainer", "createTTL":
		b = jute.AppendInt32(a.appendACL(a.appendData(a.appendPath(b, 0))), int32(a.option("flags", 0)))
		if a.verb == "createTTL" {
			b = jute.AppendInt64(b, a.option("ttl", 0))
		}
	case "delete", "check":
		b = jute.AppendInt32(a.appendPath(b, 0), int32(a.option("version", -1)))
	case "setData":
		b = jute.AppendInt32(a.appendData(a.appendPath(b, 0)), int32(a.option("version", -1)))
	case "setACL":
		b = jute.AppendInt32(a.appendACL(a.appendPath(b, 0)), int32(a.option("version", -1)))
	case "exists", "getData", "getChildren", "getChildren2":
		b = jute.AppendBool(a.appendPath(b, 0), a.has("watch"))
	case "getACL", "sync", "getEphemerals", "getAllChildrenNumber", "deleteContainer":
		b = a.appendPath(b, 0)
	case "addWatch":
		b = jute.AppendInt32(a.appendPath(b, 0), int32(a.option("mode", 0)))
	case "checkWatches", "removeWatches":
		b = jute.AppendInt32(a.appendPath(b, 0), int32(a.option("type", 3)))
	case "auth":
		b = jute.AppendString(jute.AppendString(jute.AppendInt32(b, 0), a.words[0]), a.path(1))
	case "setWatches", "setWatches2":
		b = jute.AppendInt64(b, c.zxid(a.words[0]))
		for _, list := range []string{"data", "exist", "child", "persistent", "recursive"}[:3+2*strings.Count(a.verb, "2")] {
			b = a.appendList(b, list)
		}
	case "multi", "multiRead":
		for _, part := range strings.Split(a.after(), " | ") {
			if part != "" {
				op, body := c.encode(parse(a.t, part))
				b = append(jute.AppendInt32(jute.AppendBool(jute.AppendInt32(b, op), false), -1), body...)
			}
		}
		b = jute.AppendInt32(jute.AppendBool(jute.AppendInt32(b, -1), true), -1)
	case "reconfig":
		b = jute.AppendInt64(jute.AppendString(jute.AppendString(jute.AppendString(b, "server.9=x"), ""), ""), -1)
	case "sasl":
		b = jute.AppendString(b, a.path(0))
	case "ping", "close", "whoAmI":
	default:
		a.t.Fatalf("no such command: %s", a.line)
	}
	return opNumbers[a.verb], append(b, a.decode(a.opts["then"])...)
}

// rel shows a zxid, and zxid reads one, also "last" and "last+1".
func (r *record) rel(zxid int64) string {
	switch {
	case zxid == 0 || zxid == -1:
		return fmt.Sprintf("%d", zxid)
	case r.base < 0:
		r.base = zxid
	case zxid>>32 < r.base>>32:
		return "earlier" // in an epoch before
	}
	return fmt.Sprintf("z%+d", zxid-r.base)
}

func (r *record) zxid(s string) int64 {
	base := int64(0)
	if rest, ok := strings.CutPrefix(s, "z"); ok {
		s, base = rest, r.base
	} else if rest, ok := strings.CutPrefix(s, "last"); ok {
		s, base = "0"+rest, r.last
		s = strings.TrimPrefix(s, "0+")
	}
	return base + parseNumber(r.t, s)
}

func (r *record) sess(id int64) string {
	if id == -1<<63 {
		return "container"
	}
	if _, ok := r.sessions[id]; !ok {
		r.sessions[id] = fmt.Sprintf("S%d", len(r.sessions))
	}
	return r.sessions[id]
}

// sessionID returns the id of the session that is shown under a name.
func (r *record) sessionID(name string) int64 {
	for id, n := range r.sessions {
		if n == name {
			return id
		}
	}
	return parseNumber(r.t, name)
}

// write sends b. It ignores errors: if the server is about to close the connection,
// only timing decides whether a write fails, and the next read shows the end.
func (c *peer) write(b []byte) {
	if c.nc == nil {
		if end := c.open(); end != "" {
			c.t.Fatal(end)
		}
	}
	_, _ = c.nc.Write(b)
}

// open makes a new connection, or reports that the server refuses it. The one
// before it stays open.
func (c *peer) open() (end string) {
	nc, err := c.dial(c.name)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET): // while the kernel makes the connection
		return "connection closed"
	case err != nil:
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = nc.Close() })
	c.nc, c.greeted, c.sent = nc, false, nil
	return ""
}

// readFrame reads a frame, or reports how the connection ended.
func (c *peer) readFrame() (frame []byte, end string) {
	_ = c.nc.SetReadDeadline(time.Now().Add(c.patience))
	head := make([]byte, 4)
	if _, err := io.ReadFull(c.nc, head); err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil, "nothing"
		}
		return nil, "connection closed"
	}
	frame = make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(c.nc, frame); err != nil {
		return nil, "connection closed inside a frame"
	}
	return frame, ""
}

func (c *peer) connect(a args) string {
	if c.nc == nil || c.greeted {
		if end := c.open(); end != "" {
			return end
		}
	}
	c.greeted = true
	timeout, password, session, seen := 10*time.Second, make([]byte, 16), int64(0), int64(0)
	if s, ok := a.opts["timeout"]; ok {
		timeout, _ = time.ParseDuration(s)
	}
	if s, ok := a.opts["session"]; ok {
		session = c.sessionID(s)
		password = c.passwords[session]
	}
	switch a.opts["password"] {
	case "zero":
		password = make([]byte, 16)
	case "none":
		password = nil
	}
	if s, ok := a.opts["seen"]; ok {
		seen = c.zxid(s)
	}
	b := jute.AppendInt64(make([]byte, 8), seen)
	b = jute.AppendInt32(b, int32(timeout.Milliseconds()))
	b = jute.AppendBuffer(jute.AppendInt64(b, session), password)
	if readonly := a.option("readonly", -1); readonly >= 0 {
		b = jute.AppendBool(b, readonly == 1)
	}
	c.write(jute.Frame(b))
	return c.connected()
}

// connected reads and shows the answer to the handshake.
func (c *peer) connected() string {
	frame, end := c.readFrame()
	if end != "" {
		return end
	}
	r := jute.NewReader(frame)
	version, granted, id, pw := r.Int32(), r.Int32(), r.Int64(), slices.Clone(r.Buffer())
	if c.session = id; id != 0 {
		c.passwords[id] = pw
		if c.base < 0 {
			c.answer(c.request(jute.OpPing, nil), "ping")
		}
	}
	text := fmt.Sprintf("%s for %d ms", c.sess(id), granted)
	if zero := strings.Trim(string(pw), "\x00") == ""; version != 0 || len(pw) != 16 || zero != (id == 0) {
		text += fmt.Sprintf(", version %d, password of %d bytes, zero: %v", version, len(pw), zero)
	}
	if r.Len() > 0 {
		text += fmt.Sprintf(", then %x", r.Rest())
	}
	return text
}

// request sends a request without waiting for its answer.
func (c *peer) request(op int32, body []byte) (xid int32) {
	c.xid++
	xid = c.xid
	switch op {
	case jute.OpPing:
		xid = jute.XidPing
	case jute.OpAuth:
		xid = jute.XidAuth
	case jute.OpSetWatches, jute.OpSetWatches2:
		xid = jute.XidSetWatches
	}
	b := jute.AppendInt32(jute.AppendInt32(make([]byte, 4), xid), op)
	c.write(jute.Frame(append(b, body...)))
	return xid
}

// answer waits for the answer to a request, and records the events before it.
func (c *peer) answer(xid int32, verb string) string {
	c.t.Helper()
	if c.astray {
		return "not compared"
	}
	for {
		frame, end := c.readFrame()
		if end != "" {
			return end
		}
		r := jute.NewReader(frame)
		got := r.Int32()
		if got == jute.XidWatchEvent {
			c.event(r)
			continue
		}
		if got != xid {
			c.astray = true
			return fmt.Sprintf("answer to xid %d, and not to %d", got, xid)
		}
		zxid, code := r.Int64(), r.Int32()
		text := ""
		if code == 0 {
			text = c.show(verb, r)
		}
		if r.Err() != nil || r.Len() > 0 {
			text += fmt.Sprintf(" (%d bytes left, %v)", r.Len(), r.Err())
		}
		if zxid > 0 {
			c.last = zxid
		}
		return fmt.Sprintf("%s %d%s", c.rel(zxid), code, text)
	}
}

// event records an event, whose header's xid has been read.
func (c *peer) event(r *jute.Reader) {
	zxid, code, kind, state, path := r.Int64(), r.Int32(), r.Int32(), r.Int32(), r.String()
	fmt.Fprintf(&c.text, "%s: event %d %s", c.name, kind, path)
	if zxid != -1 || code != 0 || state != 3 {
		fmt.Fprintf(&c.text, " with zxid %d, code %d, state %d", zxid, code, state)
	}
	fmt.Fprintln(&c.text)
}

// show reads and shows the body of an answer.
func (c *peer) show(verb string, r *jute.Reader) string {
	switch verb {
	case "create", "sync":
		return " " + r.String()
	case "create2", "createContainer", "createTTL":
		return " " + r.String() + c.stat(r)
	case "exists", "setData", "setACL":
		return c.stat(r)
	case "getData":
		switch data := r.Buffer(); {
		case data == nil:
			return " null" + c.stat(r)
		case len(data) > 100:
			return fmt.Sprintf(" %d bytes", len(data)) + c.stat(r)
		default:
			return fmt.Sprintf(" %q", data) + c.stat(r)
		}
	case "getChildren", "getEphemerals":
		return showNames(r)
	case "getChildren2":
		return showNames(r) + c.stat(r)
	case "getACL":
		return showACL(r) + c.stat(r)
	case "getAllChildrenNumber", "addWatch":
		return fmt.Sprintf(" %d", r.Int32())
	case "whoAmI":
		var who []string
		for range r.Count(8) {
			who = append(who, r.String()+":"+r.String())
		}
		slices.Sort(who)
		return fmt.Sprintf(" %q", who)
	case "multi", "multiRead":
		return c.results(r)
	case "op", "deleteContainer", "sasl", "reconfig":
		text := fmt.Sprintf(" %x", r.Rest())
		for r.Len() > 0 {
			r.Byte()
		}
		return text
	}
	return ""
}

func showNames(r *jute.Reader) string {
	names := r.Strings()
	slices.Sort(names)
	if all := strings.Join(names, ""); len(all) > 1000 {
		return fmt.Sprintf(" %d names of %d bytes", len(names), len(all))
	}
	return fmt.Sprintf(" %q", names)
}

// showACL sorts the entries: a server replaces "auth" in any order.
func showACL(r *jute.Reader) string {
	var acl []string
	for range r.Count(12) {
		acl = append(acl, fmt.Sprintf("%d:%s:%s", r.Int32(), r.String(), r.String()))
	}
	slices.SortFunc(acl, func(a, b string) int {
		_, x, _ := strings.Cut(a, ":")
		_, y, _ := strings.Cut(b, ":")
		return cmp.Or(strings.Compare(x, y), strings.Compare(a, b))
	})
	return fmt.Sprintf(" %s", acl)
}

// results shows the body of the answer to a multi.
func (c *peer) results(r *jute.Reader) (text string) {
	for r.Err() == nil {
		op, done, code := r.Int32(), r.Bool(), r.Int32()
		text += fmt.Sprintf("\n      [%d %v %d]", op, done, code)
		switch {
		case done:
			return text
		case op == jute.OpError:
			text += fmt.Sprintf(" %d", r.Int32())
		default:
			text += c.show(zktest.Op(op).String(), r)
		}
	}
	return text
}

// stat shows a Stat. Of its times it shows only whether they are plausible.
func (c *peer) stat(r *jute.Reader) string {
	czxid, mzxid, ctime, mtime := r.Int64(), r.Int64(), r.Int64(), r.Int64()
	version, cversion, aversion := r.Int32(), r.Int32(), r.Int32()
	owner, length, children, pzxid := r.Int64(), r.Int32(), r.Int32(), r.Int64()
	if c.brief {
		return ""
	}
	times := "fresh"
	for _, ms := range []int64{ctime, mtime} {
		if age := time.Since(time.UnixMilli(ms)); age < -time.Second || age > time.Minute {
			times = "old"
		}
	}
	return fmt.Sprintf(" {c %s m %s p %s v %d cv %d av %d owner %s data %d children %d %s}",
		c.rel(czxid), c.rel(mzxid), c.rel(pzxid), version, cversion, aversion, c.sess(owner), length, children, times)
}

func (c *peer) removeAll(path string) {
	frame := func(op int32, body []byte) *jute.Reader {
		c.request(op, body)
		frame, _ := c.readFrame()
		return jute.NewReader(frame[min(16, len(frame)):])
	}
	for _, name := range frame(jute.OpGetChildren, jute.AppendBool(jute.AppendString(nil, path), false)).Strings() {
		c.removeAll(path + "/" + name)
	}
	frame(jute.OpDelete, jute.AppendInt32(jute.AppendString(nil, path), -1))
}

// word sends a four-letter word. It shows the answer, with sessions by their
// names, or, given the beginnings of lines, which of them the answer lacks.
func (c *peer) word(a args) string {
	nc, err := c.dial(c.name)
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	_, _ = nc.Write(append([]byte(a.words[0]), a.decode(a.opts["then"])...))
	_ = nc.SetReadDeadline(time.Now().Add(c.patience))
	b, err := io.ReadAll(nc)
	if err != nil {
		return err.Error()
	}
	text := string(b)
	for id, name := range c.sessions {
		text = strings.ReplaceAll(text, fmt.Sprintf("%#x", uint64(id)), name)
	}
	if len(a.words) == 1 {
		return fmt.Sprintf("%q", text)
	}
	var missing []string
	for i := range a.words[1:] {
		if start := a.path(i + 1); !strings.HasPrefix(text, start) && !strings.Contains(text, "\n"+start) {
			missing = append(missing, start)
		}
	}
	return fmt.Sprintf("without %q", missing)
}
