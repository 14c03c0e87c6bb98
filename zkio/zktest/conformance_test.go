// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// The conformance scripts are dialogues between clients and a server. What a
// real ZooKeeper answered (Debian's 3.8.0-11+deb12u2, standalone) is kept in
// testdata/conformance; zktest and whatever real server is installed must answer
// the same, byte for byte but for session ids, passwords, times and the number at
// which zxids start. Where the two differ the real one is right.
//
// With -update TestConformanceReal keeps what the real server answers.
var update = flag.Bool("update", false, "keep what the real server answers as the truth")

// minAnswers is how many answers all scripts together compare, at least: a case
// each. Scripts that are cut short must not go unnoticed.
const minAnswers = 1000

const newServerScript = "a new server"

func sortStrings(s []string) { slices.Sort(s) }

// TestConformance plays the scripts on embedded servers.
func TestConformance(t *testing.T) {
	for _, sc := range scripts {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			srv := newServer(t, zktest.Config{TickTime: 500 * time.Millisecond})
			addr, err := srv.Listen("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, sc, addr)
		})
	}
}

// TestConformanceReal plays the same scripts on a real server, one after the other.
func TestConformanceReal(t *testing.T) {
	addr := realzk.Start(t, realzk.TickTime(500*time.Millisecond), realzk.SessionTimeouts(time.Second, 10*time.Second)).Addr()
	answers := 0
	for _, sc := range scripts {
		t.Run(sc.name, func(t *testing.T) { answers += compare(t, sc, addr) })
	}
	t.Logf("%d answers in %d scripts", answers, len(scripts))
	if answers < minAnswers {
		t.Errorf("%d answers were compared, want at least %d", answers, minAnswers)
	}
}

// compare plays sc on the server at addr and compares what it answers with
// what is kept. It returns the number of answers.
func compare(t *testing.T, sc script, addr string) (answers int) {
	dial := func() (net.Conn, error) { return net.Dial("tcp", addr) }
	if sc.name != newServerScript {
		setUp := newDialogue(t, "setup", dial).start()
		setUp.auth("digest", "joe:secret") // an earlier script may have left nodes of hers
		setUp.removeAll("/zt")
		setUp.create("/zt", "", 0)
		setUp.close()
	}
	d := newDialogue(t, "A", dial)
	sc.play(d)
	got := d.text.String()
	d.closeAll() // sessions left behind would take zxids when they expire
	file := filepath.Join("testdata", "conformance", strings.ReplaceAll(sc.name, " ", "-")+".txt")
	if *update && strings.HasPrefix(t.Name(), "TestConformanceReal/") {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := diffLines(string(want), got); diff != "" {
		t.Errorf("answers differ from what is kept (-) here (+):\n%s", diff)
	}
	for line := range strings.SplitSeq(got, "\n") {
		if who, _, ok := strings.Cut(line, ": "); ok && who != "" && !strings.ContainsAny(who, " #") {
			answers++
		}
	}
	return answers
}

// closeAll closes the sessions of all dialogues that share d's record.
func (d *dialogue) closeAll() {
	for id, password := range d.passwords {
		d.reconnect()
		if d.connect(10*time.Second, id, password, 0, -1); d.session != 0 {
			d.call(jute.OpClose, "close", nil, nil)
		}
	}
}

// removeAll deletes path and everything below it.
func (d *dialogue) removeAll(path string) {
	var names []string
	d.call(jute.OpGetChildren, "", jute.AppendBool(jute.AppendString(nil, path), false), func(r *jute.Reader) string {
		names = r.Strings()
		return ""
	})
	for _, name := range names {
		d.removeAll(path + "/" + name)
	}
	d.delete(path, -1)
}

// diffLines shows the lines in which two texts differ, in order; it pairs them
// by position, which is good enough for records of the same script.
func diffLines(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	for i := range max(len(w), len(g)) {
		var x, y string
		if i < len(w) {
			x = w[i]
		}
		if i < len(g) {
			y = g[i]
		}
		if x != y {
			fmt.Fprintf(&b, "%d\n- %s\n+ %s\n", i+1, x, y)
		}
	}
	return b.String()
}

// A script is one dialogue.
type script struct {
	name string
	play func(d *dialogue)
}

var scripts = []script{
	{newServerScript, func(d *dialogue) { // first: it finds the server as it starts
		d.start()
		for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
			d.children(jute.OpGetChildren, path, false)
			d.get(path, false)
			d.getACL(path)
		}
		d.get("", false)
		d.create("/a-", "", 3)
		d.create("/zookeeper", "", 3)
		d.create("/zookeeper/quota", "", 3)
		d.exists("/", false)
		d.exists("/zookeeper", false)
		d.set("/", []byte("root"), -1)
		d.set("/", []byte{}, -1)
		d.set("/zookeeper/config", []byte("x"), -1)
		d.delete("/zookeeper/config", -1)
	}},
	{"handshake", func(d *dialogue) {
		d.comment("a new session, by an old client")
		d.connect(3*time.Second, 0, make([]byte, 16), 0, -1)
		d.ping()
		d.comment("with the readOnly byte")
		d.reconnect()
		d.connect(3*time.Second, 0, make([]byte, 16), 0, 0)
		d.reconnect()
		d.connect(3*time.Second, 0, make([]byte, 16), 0, 1)
		d.comment("timeouts out of bounds, no password")
		d.reconnect()
		d.connect(1*time.Millisecond, 0, make([]byte, 16), 0, 0)
		d.reconnect()
		d.connect(-1*time.Second, 0, make([]byte, 16), 0, 0)
		d.reconnect()
		d.connect(time.Hour, 0, nil, 0, 0)
		d.comment("resumed, on another connection")
		o := d.other("B")
		o.connect(3*time.Second, d.session, d.password, d.last, 0)
		o.ping()
		d.ended()
		d.comment("a wrong password closes the connection that the session has, too")
		w := d.other("C")
		w.connect(3*time.Second, o.session, make([]byte, 16), 0, 0)
		w.ended()
		o.ended()
		d.comment("an unknown session")
		w.reconnect()
		w.connect(3*time.Second, 0x1234, make([]byte, 16), 0, -1)
		w.ended()
		d.comment("a client that has seen more than the server")
		w.reconnect()
		w.connect(3*time.Second, 0, make([]byte, 16), 1<<40, 0)
		d.comment("no request at all: too short")
		w.reconnect()
		w.write([]byte{0, 0, 0, 3, 1, 2, 3})
		w.ended()
	}},
	{"hostile", func(d *dialogue) {
		for _, bytes := range [][]byte{
			{0xff, 0xff, 0xff, 0xff},          // length -1
			{0x80, 0, 0, 0},                   // the most negative length
			{0x7f, 0xff, 0xff, 0xff},          // the largest length
			{0, 0x10, 0, 0},                   // one more than is allowed
			{0, 0, 0, 0},                      // no header
			{0, 0, 0, 4, 0, 0, 0, 1},          // half a header
			{0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0}, // nearly a header
		} {
			d.comment("% x", bytes)
			d.start()
			d.write(bytes)
			d.ended()
			d.reconnect()
		}
		d.start()
		d.comment("bodies that end too early or lie about lengths")
		for _, op := range []int32{jute.OpCreate, jute.OpDelete, jute.OpExists, jute.OpGetData, jute.OpSetData, jute.OpGetACL, jute.OpSetACL,
			jute.OpGetChildren, jute.OpSync, jute.OpGetChildren2, jute.OpCheck, jute.OpMulti, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpSetWatches} {
			for _, body := range [][]byte{nil, {0, 0, 0, 9, '/'}, {0x7f, 0xff, 0xff, 0xff}, {0x80, 0, 0, 0}} {
				if !d.call(op, fmt.Sprintf("op %d, body % x", op, body), body, func(r *jute.Reader) string { return fmt.Sprintf("%x", r.Rest()) }) {
					d.quietly(func() {
						if !d.ping() {
							d.reconnect()
							d.start()
						}
					})
				}
			}
		}
		d.comment("more than asked for")
		d.call(jute.OpExists, "exists /zt and garbage", append(jute.AppendBool(jute.AppendString(nil, "/zt"), false), "garbage"...), d.stat)
		d.ping()
	}},
	{"unknown operations", func(d *dialogue) {
		for _, op := range []int32{0, -1, 10, 21 + 100, 10000} {
			d.start()
			d.call(op, fmt.Sprintf("op %d", op), jute.AppendString(nil, "/zt"), func(r *jute.Reader) string { return fmt.Sprintf("%x", r.Rest()) })
			d.ended() // the server closes it after its answer, at some moment
			d.reconnect()
		}
	}},
	{"ping and sync", func(d *dialogue) {
		d.start()
		d.ping()
		d.create("/zt/a", "", 0)
		d.ping()
		for _, path := range []string{"/zt/a", "/zt/missing", "", "relative"} {
			d.call(jute.OpSync, fmt.Sprintf("sync %q", path), jute.AppendString(nil, path), showPath)
		}
		d.call(jute.OpPing, "ping with a body", []byte("body"), nil)
	}},
	{"create", func(d *dialogue) {
		d.start()
		d.create("/zt/a", "data", 0)
		d.get("/zt/a", false)
		d.create("/zt/a", "data", 0)
		d.create("/zt/missing/a", "", 0)
		d.comment("ephemeral")
		d.create("/zt/e", "", 1)
		d.exists("/zt/e", false)
		d.create("/zt/e/child", "", 0)
		d.create("/zt/e/child-", "", 3)
		d.comment("flags")
		for flags := int32(-1); flags < 9; flags++ {
			d.create("/zt/flags", "", flags)
			d.exists("/zt/flags", false)
			d.quietly(func() { d.delete("/zt/flags", -1) })
		}
		d.comment("null and empty data")
		d.call(jute.OpCreate, "create without data", createBody("/zt/null", nil, anyone, 0), showPath)
		d.get("/zt/null", false)
		d.create("/zt/empty", "", 0)
		d.get("/zt/empty", false)
		d.comment("replies with a Stat")
		d.create2(jute.OpCreate2, "/zt/two", 0)
		d.create2(jute.OpCreate2, "/zt/two", 0)
		d.create2(jute.OpCreate2, "/zt/two-", 3)
		d.comment("containers")
		for flags := int32(-1); flags < 9; flags++ {
			d.create2(jute.OpCreateContainer, "/zt/c", flags)
			d.quietly(func() { d.delete("/zt/c", -1) })
		}
		d.create2(jute.OpCreateContainer, "/zt/c", 4)
		d.create("/zt/c/child", "", 1)
		d.exists("/zt/c", false)
		d.comment("time to live")
		for _, ttl := range []int64{-1, 0, 1000} {
			for flags := int32(-1); flags < 9; flags++ {
				if ttl < 0 && flags >= 0 && flags <= 4 {
					continue // the real server does not survive this
				}
				body := jute.AppendInt64(createBody("/zt/t", nil, anyone, flags), ttl)
				d.call(jute.OpCreateTTL, fmt.Sprintf("createTTL flags %d ttl %d", flags, ttl), body, func(r *jute.Reader) string { return r.String() + " " + d.stat(r) })
				d.quietly(func() { d.delete("/zt/t", -1) })
			}
		}
	}},
	{"paths", func(d *dialogue) {
		d.start()
		for _, path := range []string{"", "/", "//", "zt", "zt/a", "/zt/", "/zt//a", "//zt", "/zt/.", "/zt/..", "/zt/./a", "/zt/../a", "/zt/.a", "/zt/..a", "/zt/a.", "/zt/a..", "/zt/...",
			"/zt/\x00", "/zt/\x01", "/zt/\x1f", "/zt/ ", "/zt/~", "/zt/\x7f", "/zt/\u0080", "/zt/\u009f", "/zt/\u00a0", "/zt/\u00e9", "/zt/\ud7ff", "/zt/\ue000", "/zt/\uf8ff", "/zt/\uf900",
			"/zt/\uffef", "/zt/\ufff0", "/zt/\uffff", "/zt/\U0001f600", "/zt/\xff", "/zt/a\xc3", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/missing/."} {
			d.comment("%q", path)
			d.create(path, "", 0)
			d.brief = !strings.HasPrefix(path, "/zt")
			if !d.brief { // numbers and Stats elsewhere are not the script's own
				d.create(path, "", 2)
			}
			d.exists(path, false)
			d.get(path, false)
			d.set(path, nil, 77)
			d.children(jute.OpGetChildren, path+"/x", false)
			d.getACL(path + "/x")
			d.setACL(path, anyone, 77)
			d.setACL(path, nil, 77)
			d.delete(path, 77)
		}
		d.comment("the null path")
		null := jute.AppendInt32(nil, -1)
		tail := createBody("", nil, anyone, 0)[4:]
		for _, op := range []int32{jute.OpCreate, jute.OpDelete, jute.OpExists, jute.OpGetData, jute.OpSetData, jute.OpGetACL, jute.OpSetACL,
			jute.OpGetChildren, jute.OpGetChildren2, jute.OpCheck, jute.OpCreate2} {
			d.call(op, fmt.Sprintf("op %d", op), append(null[:4:4], tail...), nil)
		}
	}},
	{"sequences", func(d *dialogue) {
		d.start()
		d.create("/zt/s", "", 0)
		seq := func() { d.create("/zt/s/n-", "", 2) }
		seq()
		seq()
		d.comment("any child counts, its deletion does not")
		d.create("/zt/s/plain", "", 0)
		seq()
		d.exists("/zt/s", false)
		d.delete("/zt/s/plain", -1)
		d.delete("/zt/s/n-0000000000", -1)
		d.exists("/zt/s", false)
		seq()
		d.create("/zt/s/n-", "", 3)
		d.create("/zt/s/", "", 2)
		d.comment("a failed create does not count")
		d.create("/zt/s/n-0000000001", "", 0)
		seq()
		d.comment("a failed multi does not count")
		d.multi(mCreate("/zt/s/n-", 2), mCreate("/zt/s/n-", 2), mCheck("/zt/missing", -1))
		d.exists("/zt/s", false)
		seq()
		d.multi(mCreate("/zt/s/n-", 2), mCreate("/zt/s/n-", 3), mDelete("/zt/s/n-0000000001", -1))
		d.exists("/zt/s", false)
		seq()
		d.comment("the name that the sequence would get exists")
		d.create("/zt/s/x-0000000012", "", 0)
		d.create("/zt/s/x-", "", 2)
		d.create("/zt/s/x-", "", 2)
		d.comment("a new directory begins anew")
		d.removeQuietly("/zt/s")
		d.create("/zt/s", "", 0)
		seq()
	}},
	{"stats", func(d *dialogue) {
		d.start()
		d.create("/zt/p", "one", 0)
		d.exists("/zt/p", false)
		d.set("/zt/p", []byte("three"), -1)
		d.set("/zt/p", nil, 1)
		d.get("/zt/p", false)
		d.set("/zt/p", []byte{}, 2)
		d.get("/zt/p", false)
		d.setACL("/zt/p", anyone, -1)
		d.setACL("/zt/p", anyone, 1)
		d.setACL("/zt/p", anyone, 1)
		d.exists("/zt/p", false)
		d.create("/zt/p/a", "", 0)
		d.exists("/zt/p", false)
		d.create("/zt/p/b", "", 1)
		d.exists("/zt/p", false)
		d.exists("/zt/p/b", false)
		d.set("/zt/p/a", []byte("x"), -1)
		d.exists("/zt/p", false)
		d.delete("/zt/p/a", -1)
		d.exists("/zt/p", false)
		d.children(jute.OpGetChildren2, "/zt/p", false)
		d.children(jute.OpGetChildren, "/zt/p", false)
		d.comment("failures take a zxid too, reads and pings do not")
		d.create("/zt/p", "", 0)
		d.delete("/zt/missing", -1)
		d.set("/zt/missing", nil, -1)
		d.exists("/zt/missing", false)
		d.children(jute.OpGetChildren, "/zt/missing", false)
		d.get("/zt/missing", false)
		d.ping()
	}},
	{"delete and set", func(d *dialogue) {
		d.start()
		d.create("/zt/a", "", 0)
		d.create("/zt/a/b", "", 0)
		d.delete("/zt/a", -1)
		d.delete("/zt/a", 5)
		d.delete("/zt/a/b", 5)
		d.delete("/zt/a/b", -2)
		d.delete("/zt/a/b", 0)
		d.delete("/zt/a/b", 0)
		d.delete("/zt/a/b/c", 0)
		d.set("/zt/a", []byte("x"), 3)
		d.set("/zt/a", []byte("x"), -2)
		d.set("/zt/a", []byte("x"), 0)
		d.set("/zt/a", []byte("x"), 0)
		d.delete("/zt/a", 0)
		d.delete("/zt/a", 1)
	}},
	{"check alone", func(d *dialogue) {
		d.start()
		d.comment("one that succeeds is not answered at all")
		d.request(jute.OpCheck, mCheck("/zt", -1).body)
		d.ping()
		d.call(jute.OpCheck, "check a missing node", mCheck("/zt/missing", -1).body, nil)
		d.call(jute.OpCheck, "check version", mCheck("/zt", 7).body, nil)
		d.ping()
	}},
	{"delete container", func(d *dialogue) {
		d.start()
		d.create2(jute.OpCreateContainer, "/zt/c", 4)
		d.create("/zt/c/x", "", 0)
		d.create("/zt/plain", "", 0)
		d.create("/zt/e", "", 1)
		for _, path := range []string{"/zt/c", "/zt/c/x", "/zt/c", "/zt/plain", "/zt/e", "/zt/missing"} {
			d.call(jute.OpDeleteContainer, "deleteContainer "+path, jute.AppendString(nil, path), func(r *jute.Reader) string { return fmt.Sprintf("%x", r.Rest()) })
		}
		d.ping()
	}},
	{"multi", func(d *dialogue) {
		d.start()
		d.comment("all kinds")
		d.multi(mCreate("/zt/m", 0), mCreateOp(jute.OpCreate2, "/zt/m/two", 0), mCreateOp(jute.OpCreateContainer, "/zt/m/c", 4), mCheck("/zt/m", 0), mSet("/zt/m", 0), mSet("/zt/m", 1), mDelete("/zt/m/two", -1), mCheck("/zt/m", 2))
		d.get("/zt/m", false)
		d.exists("/zt/m/c", false)
		d.comment("the lock's transaction")
		d.multi(mCreate("/zt/m/n-", 3), mSet("/zt/m", -1))
		d.multi(mCreate("/zt/m/n-", 3), mSet("/zt/m", -1))
		d.multi(mCheck("/zt/m", -1))
		d.comment("failures")
		d.multi(mCheck("/zt/missing", -1), mCreate("/zt/m/x", 0), mDelete("/zt/m/c", -1))
		d.multi(mCreate("/zt/m/x", 0), mCheck("/zt/m", 99), mDelete("/zt/m/c", -1))
		d.multi(mSet("/zt/m", -1), mDelete("/zt/m/c", -1), mCreate("/zt/m/x", 0), mCreate("/zt/m/x", 0))
		d.get("/zt/m", false)
		d.children(jute.OpGetChildren2, "/zt/m", false)
		d.comment("nothing to do")
		d.multi()
		d.comment("an empty container again, parent and child in one")
		d.multi(mDelete("/zt/m/c", -1), mCreate("/zt/m/c", 0), mCreate("/zt/m/c/d", 0), mDelete("/zt/m/c/d", -1), mDelete("/zt/m/c", -1))
		d.exists("/zt/m", false)
		d.comment("what is not allowed inside")
		d.multi(mCreate("bad", 0))
		d.multi(step{jute.OpSync, jute.AppendString(nil, "/zt"), "sync"})
		d.multi(mCreate("/zt/m/y", 0), step{jute.OpSetACL, jute.AppendString(nil, "/zt"), "setACL"})
		d.multi(step{jute.OpMulti, multiBody(nil), "multi"})
		d.multi(step{jute.OpDeleteContainer, jute.AppendString(nil, "/zt/m"), "deleteContainer"})
		d.exists("/zt/m/y", false)
		d.comment("ends too early")
		d.call(jute.OpMulti, "multi without an end", multiBody([]step{mCheck("/zt", -1)})[:20], nil)
		d.ping()
	}},
	{"multi and the flags of create", func(d *dialogue) {
		d.start()
		for flags := int32(-1); flags < 9; flags++ {
			for _, op := range []int32{jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer} {
				d.multi(mCreateOp(op, "/zt/f", flags))
				d.quietly(func() { d.delete("/zt/f", -1) })
			}
			for _, ttl := range []int64{-1, 0, 1000, 1 << 50} {
				d.multi(mCreateTTL("/zt/f", flags, ttl), mCheck("/zt", -1))
				d.quietly(func() { d.delete("/zt/f", -1) })
			}
		}
	}},
	{"watches", func(d *dialogue) {
		d.start()
		o := d.other("B").start()
		d.comment("data watches, on another's change and on one's own: the event comes before the reply")
		d.create("/zt/w", "", 0)
		o.get("/zt/w", true)
		d.get("/zt/w", true)
		d.set("/zt/w", nil, -1)
		o.ping()
		d.comment("once only")
		d.set("/zt/w", nil, -1)
		o.ping()
		d.comment("twice is once")
		d.get("/zt/w", true)
		d.exists("/zt/w", true)
		d.set("/zt/w", nil, -1)
		d.ping()
		d.comment("children do not fire data watches, data does not fire child watches")
		d.get("/zt/w", true)
		d.create("/zt/w/a", "", 0)
		d.children(jute.OpGetChildren, "/zt/w", true)
		d.set("/zt/w", nil, -1)
		d.set("/zt/w/a", nil, -1)
		d.comment("but both kinds of change of a child fire the parent's")
		d.delete("/zt/w/a", -1)
		d.children(jute.OpGetChildren2, "/zt/w", true)
		d.create("/zt/w/a", "", 0)
		d.comment("deletion: data and child watch on one path give one event, the parent's comes after")
		d.get("/zt/w/a", true)
		d.children(jute.OpGetChildren, "/zt/w/a", true)
		d.children(jute.OpGetChildren, "/zt/w", true)
		o.children(jute.OpGetChildren, "/zt/w/a", true)
		d.delete("/zt/w/a", -1)
		o.ping()
		d.comment("existence")
		d.exists("/zt/w/a", true)
		d.exists("/zt/w/a", true)
		d.create("/zt/w/a", "", 0)
		d.exists("/zt/w/a", true)
		d.set("/zt/w/a", nil, -1)
		d.exists("/zt/w/a", true)
		d.delete("/zt/w/a", -1)
		d.comment("reads of a missing node leave no watch")
		d.get("/zt/w/a", true)
		d.children(jute.OpGetChildren, "/zt/w/a", true)
		d.children(jute.OpGetChildren2, "/zt/w/a", true)
		d.create("/zt/w/a", "", 0)
		d.delete("/zt/w/a", -1)
		d.comment("a failed change fires nothing")
		d.get("/zt/w", true)
		d.children(jute.OpGetChildren, "/zt/w", true)
		d.set("/zt/w", nil, 99)
		d.multi(mSet("/zt/w", -1), mCreate("/zt/w/a", 0), mCheck("/zt/w", 0))
		d.comment("a multi fires once per watch, in the order of its operations")
		d.multi(mCreate("/zt/w/a", 0), mSet("/zt/w", -1), mCreate("/zt/w/b", 0), mSet("/zt/w", -1))
		d.comment("an ACL is not data")
		d.get("/zt/w", true)
		d.setACL("/zt/w", anyone, -1)
		d.ping()
		d.comment("watches on odd paths")
		d.exists("/zt/", true)
		d.exists("relative", true)
		d.ping()
	}},
	{"watches end with the connection", func(d *dialogue) {
		d.start()
		o := d.other("B").start()
		o.get("/zt", true)
		o.children(jute.OpGetChildren, "/zt", true)
		id, pw := o.session, o.password
		o.reconnect()
		o.connect(10*time.Second, id, pw, 0, -1)
		d.set("/zt", nil, -1)
		d.create("/zt/a", "", 0)
		o.ping()
	}},
	{"setWatches", func(d *dialogue) {
		d.start()
		for _, path := range []string{"/zt/same", "/zt/changed", "/zt/deleted", "/zt/children", "/zt/recreated"} {
			d.create(path, "", 0)
		}
		d.create("/zt/children/a", "", 0)
		seen := d.last
		d.set("/zt/changed", nil, -1)
		d.delete("/zt/deleted", -1)
		d.delete("/zt/children/a", -1)
		d.create("/zt/created", "", 0)
		d.delete("/zt/recreated", -1)
		d.create("/zt/recreated", "", 0)
		all := []string{"/zt/same", "/zt/changed", "/zt/deleted", "/zt/children", "/zt/recreated", "/zt/created", "/zt/missing"}
		o := d.other("B").start()
		d.comment("data")
		o.setWatches(seen, all, nil, nil)
		d.comment("existence")
		o.setWatches(seen, nil, all, nil)
		d.comment("children")
		o.setWatches(seen, nil, nil, all)
		d.comment("what was set")
		for _, path := range all {
			d.create(path, "", 0)
			d.create(path+"/x", "", 0)
			d.set(path, nil, -1)
		}
		o.ping()
		d.comment("nothing has happened since")
		o.setWatches(d.last, all, nil, nil)
		o.setWatches(d.last, nil, nil, all)
		d.comment("nothing at all")
		o.setWatches(0, nil, nil, nil)
		o.call(jute.OpSetWatches, "setWatches without lists", jute.AppendInt32(jute.AppendInt32(jute.AppendInt32(jute.AppendInt64(nil, 0), -1), -1), -1), nil)
	}},
	{"close", func(d *dialogue) {
		d.start()
		o := d.other("B").start()
		d.create("/zt/keep", "", 0)
		d.create("/zt/e", "", 1)
		d.exists("/zt/e", true)
		o.exists("/zt/e", true)
		d.close()
		o.ping()
		o.children(jute.OpGetChildren2, "/zt", false)
		d.comment("the session is gone")
		id, pw := d.session, d.password
		d.reconnect()
		d.connect(10*time.Second, id, pw, 0, -1)
		d.ended()
	}},
	{"ephemerals of a closed session", func(d *dialogue) {
		d.start()
		o := d.other("B").start()
		d.create("/zt/p", "", 0)
		for i := range 3 {
			d.create(fmt.Sprintf("/zt/p/%d", i), "", 1)
		}
		o.children(jute.OpGetChildren2, "/zt/p", true)
		o.exists("/zt/p/1", false)
		d.close()
		o.ping()
		o.children(jute.OpGetChildren2, "/zt/p", false)
	}},
	{"expiry", func(d *dialogue) {
		d.connect(time.Second, 0, make([]byte, 16), 0, -1)
		d.ping()
		d.create("/zt/e", "", 1)
		o := d.other("B").start()
		o.exists("/zt/e", true)
		o.expectEvents(1)
		o.ping()
		d.ended()
	}},
	{"auth", func(d *dialogue) {
		d.start()
		d.auth("digest", "joe:secret")
		d.auth("digest", "joe:secret")
		d.auth("digest", "nocolon")
		d.auth("digest", "")
		d.createACL("/zt/mine", []entry{{31, "auth", ""}})
		d.getACL("/zt/mine")
		d.auth("ip", "")
		d.ping()
		d.auth("nonsense", "x")
		d.ended()
		d.comment("the session lives on, without the identities")
		id, pw := d.session, d.password
		d.reconnect()
		d.connect(10*time.Second, id, pw, 0, -1)
		d.get("/zt/mine", false)
		d.getACL("/zt/mine")
	}},
	{"acl lists", func(d *dialogue) {
		d.start()
		for _, acl := range [][]entry{
			nil,
			{{31, "world", "someone"}},
			{{31, "", ""}},
			{{31, "nonsense", "x"}},
			{{31, "auth", ""}},
			{{31, "digest", "joe"}},
			{{31, "digest", "joe:"}},
			{{31, "digest", ":hash"}},
			{{31, "digest", ":"}},
			{{31, "digest", ""}},
			{{31, "digest", "joe:a:b"}},
			{{31, "digest", "joe:a:"}},
			{{31, "digest", "joe:hash"}},
			{{31, "ip", "127.0.0.1"}},
			{{31, "ip", "127.0.0.0/8"}},
			{{31, "ip", "127.0.0.0/33"}},
			{{31, "ip", "127.0.0.300"}},
			{{31, "ip", "nonsense"}},
			{{31, "super", "x"}},
			{{31, "sasl", "x"}},
			{{31, "x509", "x"}},
			{{0, "world", "anyone"}},
			{{-1, "world", "anyone"}},
			{{32, "world", "anyone"}},
			{{1, "world", "anyone"}, {1, "world", "anyone"}, {2, "world", "anyone"}},
			{{31, "world", "anyone"}, {31, "nonsense", "x"}},
		} {
			d.createACL("/zt/a", acl)
			d.getACL("/zt/a")
			d.quietly(func() { d.delete("/zt/a", -1) })
		}
		d.call(jute.OpCreate, "create without an ACL", jute.AppendInt32(jute.AppendInt32(jute.AppendBuffer(jute.AppendString(nil, "/zt/a"), nil), -1), 0), showPath)
		d.comment("auth stands for all of one's own identities")
		d.auth("digest", "joe:secret")
		d.auth("digest", "ann:secret")
		d.createACL("/zt/b", []entry{{31, "auth", "whatever"}, {1, "world", "anyone"}})
		d.getACL("/zt/b")
		d.setACL("/zt/b", []entry{{31, "auth", ""}, {31, "digest", "joe:x"}}, -1)
		d.getACL("/zt/b")
	}},
	{"permissions", func(d *dialogue) {
		d.start()
		d.auth("digest", "joe:secret")
		d.comment("one permission for everybody at a time, the rest for joe")
		o := d.other("B").start()
		o.auth("digest", "ann:secret")
		for _, perm := range []int32{0, 1, 2, 4, 8, 16} {
			base := fmt.Sprintf("/zt/p%d", perm)
			d.comment("permission %d", perm)
			d.createACL(base, append([]entry{{perm, "world", "anyone"}}, entry{31, "auth", ""}))
			d.create(base+"/child", "", 0)
			o.exists(base, false)
			o.get(base, false)
			o.children(jute.OpGetChildren, base, false)
			o.children(jute.OpGetChildren2, base, false)
			o.set(base, nil, -1)
			o.set(base, nil, 99)
			o.create(base+"/new", "", 0)
			o.create(base+"/child", "", 0)
			o.delete(base+"/child", 99)
			o.delete(base+"/child", -1)
			o.delete(base+"/missing", -1)
			o.getACL(base)
			o.multi(mCheck(base, -1), mSet(base, -1))
			o.multi(mSet(base, -1))
			o.setACL(base, anyone, 99)
			o.setACL(base, nil, 99)
			o.call(jute.OpSync, "sync", jute.AppendString(nil, base), showPath)
		}
		d.comment("a node may be deleted by whoever may delete below its parent")
		d.createACL("/zt/locked", []entry{{31, "digest", "joe:hash"}})
		o.get("/zt/locked", false)
		o.set("/zt/locked", nil, -1)
		o.delete("/zt/locked", -1)
		d.comment("watches on what one may not read")
		d.create("/zt/secret", "", 0)
		o.get("/zt/secret", true)
		o.exists("/zt/secret2", true)
		d.setACL("/zt/secret", []entry{{31, "auth", ""}}, -1)
		d.createACL("/zt/secret2", []entry{{31, "auth", ""}})
		d.set("/zt/secret", []byte("x"), -1)
		o.ping()
		o.exists("/zt/secret", true)
		d.set("/zt/secret", []byte("x"), -1)
		o.ping()
		o.exists("/zt/secret", true)
		d.delete("/zt/secret", -1)
		o.ping()
		d.comment("setWatches needs no permission")
		d.createACL("/zt/secret", []entry{{31, "auth", ""}})
		o.setWatches(0, []string{"/zt/secret"}, nil, []string{"/zt/secret"})
	}},
}

func (d *dialogue) removeQuietly(path string) { d.quietly(func() { d.removeAll(path) }) }
