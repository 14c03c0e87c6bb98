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
// With -update TestConformanceReal… keep what the real server answers.
var update = flag.Bool("update", false, "keep what the real server answers as the truth")

// minAnswers is how many answers all scripts together compare, at least: a case
// each. Scripts that are cut short must not go unnoticed.
const minAnswers = 1900

const newServerScript = "a new server"

// checkInterval is the time between two looks for containers and nodes with a
// time to live, of the servers that play the scripts about those.
const checkInterval = 200 * time.Millisecond

func sortStrings(s []string) { slices.Sort(s) }

// TestConformance plays the scripts on embedded servers.
func TestConformance(t *testing.T) {
	for _, sc := range slices.Concat(scripts, extendedScripts) {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			cfg := zktest.Config{TickTime: 500 * time.Millisecond}
			if sc.extended {
				cfg.ExtendedTypes, cfg.ContainerCheckInterval = true, checkInterval
			}
			srv := newServer(t, cfg)
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

// TestConformanceRealExtended plays the scripts about nodes with a time to live,
// which need a server that is told to know them.
func TestConformanceRealExtended(t *testing.T) {
	addr := realzk.Start(t, realzk.JavaOption("-Dzookeeper.extendedTypesEnabled=true"),
		realzk.JavaOption(fmt.Sprintf("-Dznode.container.checkIntervalMs=%d", checkInterval.Milliseconds()))).Addr()
	for _, sc := range extendedScripts {
		t.Run(sc.name, func(t *testing.T) { compare(t, sc, addr) })
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
	keepOrCompare(t, sc.name, got)
	for line := range strings.SplitSeq(got, "\n") {
		if who, _, ok := strings.Cut(line, ": "); ok && who != "" && !strings.ContainsAny(who, " #") {
			answers++
		}
	}
	return answers
}

// keepOrCompare compares what a script was answered with what is kept, or keeps
// it, with -update, if it was a real server that answered.
func keepOrCompare(t *testing.T, script, got string) {
	t.Helper()
	file := filepath.Join("testdata", "conformance", strings.ReplaceAll(script, " ", "-")+".txt")
	if *update && strings.HasPrefix(t.Name(), "TestConformanceReal") {
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
	name     string
	play     func(d *dialogue)
	extended bool // for a server with nodes with a time to live
}

var scripts = []script{
	{name: newServerScript, play: func(d *dialogue) { // first: it finds the server as it starts
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
	{name: "handshake", play: func(d *dialogue) {
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
	{name: "hostile", play: func(d *dialogue) {
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
	{name: "unknown operations", play: func(d *dialogue) {
		for _, op := range []int32{0, -1, 10, 21 + 100, 10000} {
			d.start()
			d.call(op, fmt.Sprintf("op %d", op), jute.AppendString(nil, "/zt"), func(r *jute.Reader) string { return fmt.Sprintf("%x", r.Rest()) })
			d.ended() // the server closes it after its answer, at some moment
			d.reconnect()
		}
	}},
	{name: "ping and sync", play: func(d *dialogue) {
		d.start()
		d.ping()
		d.create("/zt/a", "", 0)
		d.ping()
		for _, path := range []string{"/zt/a", "/zt/missing", "", "relative"} {
			d.call(jute.OpSync, fmt.Sprintf("sync %q", path), jute.AppendString(nil, path), showPath)
		}
		d.call(jute.OpPing, "ping with a body", []byte("body"), nil)
	}},
	{name: "create", play: func(d *dialogue) {
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
	{name: "paths", play: func(d *dialogue) {
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
	{name: "sequences", play: func(d *dialogue) {
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
	{name: "stats", play: func(d *dialogue) {
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
	{name: "delete and set", play: func(d *dialogue) {
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
	{name: "check alone", play: func(d *dialogue) {
		d.start()
		d.comment("one that succeeds is not answered at all")
		d.request(jute.OpCheck, mCheck("/zt", -1).body)
		d.ping()
		d.call(jute.OpCheck, "check a missing node", mCheck("/zt/missing", -1).body, nil)
		d.call(jute.OpCheck, "check version", mCheck("/zt", 7).body, nil)
		d.ping()
	}},
	{name: "delete container", play: func(d *dialogue) {
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
	{name: "multi", play: func(d *dialogue) {
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
	{name: "multi and the flags of create", play: func(d *dialogue) {
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
	{name: "watches", play: func(d *dialogue) {
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
	{name: "watches end with the connection", play: func(d *dialogue) {
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
	{name: "setWatches", play: func(d *dialogue) {
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
	{name: "close", play: func(d *dialogue) {
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
	{name: "ephemerals of a closed session", play: func(d *dialogue) {
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
	{name: "expiry", play: func(d *dialogue) {
		d.connect(time.Second, 0, make([]byte, 16), 0, -1)
		d.ping()
		d.create("/zt/e", "", 1)
		o := d.other("B").start()
		o.exists("/zt/e", true)
		o.expectEvents(1)
		o.ping()
		d.ended()
	}},
	{name: "auth", play: func(d *dialogue) {
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
	{name: "acl lists", play: func(d *dialogue) {
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
	{name: "permissions", play: func(d *dialogue) {
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
	{name: "what fires which watch", play: func(d *dialogue) {
		d.start()
		const w = "/zt/w"
		for _, watch := range []struct {
			what    string
			set     func(o *dialogue)
			missing bool // on a node that is not there
		}{
			{"get", func(o *dialogue) { o.get(w, true) }, false},
			{"exists", func(o *dialogue) { o.exists(w, true) }, false},
			{"getChildren", func(o *dialogue) { o.children(jute.OpGetChildren, w, true) }, false},
			{"getChildren2", func(o *dialogue) { o.children(jute.OpGetChildren2, w, true) }, false},
			{"exists, of nothing", func(o *dialogue) { o.exists(w, true) }, true},
			{"get, of nothing", func(o *dialogue) { o.get(w, true) }, true},
			{"getChildren, of nothing", func(o *dialogue) { o.children(jute.OpGetChildren, w, true) }, true},
		} {
			for _, change := range []struct {
				what string
				make func()
			}{
				{"create", func() { d.create(w, "", 0) }},
				{"set", func() { d.set(w, nil, -1) }},
				{"set a version that it has not", func() { d.set(w, nil, 77) }},
				{"setACL", func() { d.setACL(w, anyone, -1) }},
				{"create a child", func() { d.create(w+"/x", "", 0) }},
				{"create an ephemeral child", func() { d.create(w+"/e", "", 3) }},
				{"delete a child", func() { d.delete(w+"/c", -1) }},
				{"set a child", func() { d.set(w+"/c", nil, -1) }},
				{"create a grandchild", func() { d.create(w+"/c/g", "", 0) }},
				{"delete it and its child", func() { d.multi(mDelete(w+"/c", -1), mDelete(w, -1)) }},
				{"delete it and make it anew", func() { d.multi(mDelete(w+"/c", -1), mDelete(w, -1), mCreate(w, 0)) }},
				{"set it twice", func() { d.multi(mSet(w, -1), mSet(w, -1)) }},
				{"make, set and delete it", func() { d.multi(mCreate(w, 0), mSet(w, -1), mDelete(w, -1)) }},
				{"a multi that fails", func() { d.multi(mSet(w, -1), mCreate(w+"/x", 0), mCheck("/zt/missing", -1)) }},
			} {
				d.comment("%s, %s", watch.what, change.what)
				var o *dialogue
				d.quietly(func() {
					d.removeAll(w)
					if !watch.missing {
						d.create(w, "", 0)
						d.create(w+"/c", "", 0)
					}
					o = d.other("B").start()
				})
				watch.set(o)
				change.make()
				o.ping()
				change.make() // a watch tells once
				o.ping()
				d.quietly(o.close)
			}
		}
	}},
	{name: "setWatches to the transaction", play: func(d *dialogue) {
		d.start()
		d.create("/zt/a", "", 0)
		made := d.last
		d.create("/zt/a/b", "", 0)
		child := d.last
		d.set("/zt/a", nil, -1)
		set := d.last
		d.setACL("/zt/a", anyone, -1)
		acl := d.last
		d.delete("/zt/a/b", -1)
		gone := d.last
		a := []string{"/zt/a"}
		for _, seen := range []int64{made - 1, made, child - 1, child, set - 1, set, acl - 1, acl, gone - 1, gone, gone + 1000} {
			var o *dialogue
			d.quietly(func() { o = d.other("B").start() })
			o.setWatches(seen, a, nil, nil)
			o.setWatches(seen, nil, nil, a)
			d.quietly(o.close)
		}
		d.comment("all lists name the same nodes, twice")
		o := d.other("C").start()
		both := []string{"/zt/a", "/zt/missing", "/zt/a", "/zt/missing"}
		o.setWatches(gone+1000, both, both, both)
		d.set("/zt/a", nil, -1)
		d.create("/zt/a/x", "", 0)
		d.create("/zt/missing", "", 0)
		o.ping()
		d.comment("set twice, told once")
		o.setWatches(d.last, a, nil, a)
		o.setWatches(d.last, a, nil, a)
		o.get("/zt/a", true)
		d.multi(mSet("/zt/a", -1), mDelete("/zt/a/x", -1), mSet("/zt/a", -1))
		o.ping()
		d.comment("what is no path")
		odd := []string{"", "/", "relative", "/zt/", "//"}
		o.setWatches(d.last, odd, nil, nil)
		o.setWatches(d.last, nil, odd, nil)
		o.setWatches(d.last, nil, nil, odd)
		o.ping()
	}},
	{name: "resume", play: func(d *dialogue) {
		d.start()
		o := d.other("B").start()
		d.create("/zt/e", "", 1)
		d.get("/zt", true)
		d.comment("the connection breaks; nothing is lost but the watches")
		again := func(timeout time.Duration, seen int64) {
			id, password := d.session, d.password
			_ = d.nc.Close()
			d.reconnect()
			d.connect(timeout, id, password, seen, 0)
			d.session, d.password = id, password
		}
		again(10*time.Second, d.last)
		d.exists("/zt/e", false)
		o.set("/zt", nil, -1)
		d.ping()
		d.setWatches(d.last, []string{"/zt"}, []string{"/zt/new"}, []string{"/zt"})
		o.create("/zt/new", "", 0)
		o.set("/zt", nil, -1)
		d.ping()
		d.comment("the timeout is negotiated anew, and takes no transaction")
		for _, timeout := range []time.Duration{2 * time.Second, 0, time.Hour, 7777 * time.Millisecond, 10 * time.Second} {
			again(timeout, d.last)
			d.ping()
		}
		d.comment("from the future: refused, but not over")
		again(10*time.Second, d.last+1)
		again(10*time.Second, d.last)
		d.exists("/zt/e", false)
		d.comment("a client that has seen nothing")
		again(10*time.Second, 0)
		again(10*time.Second, -1)
		d.ping()
		d.comment("on a second connection: the first one is closed")
		c := d.other("C")
		c.connect(10*time.Second, d.session, d.password, 0, 0)
		d.ended()
		c.delete("/zt/e", -1)
		c.create("/zt/e", "", 1)
		d.comment("identities belong to the connection")
		c.auth("digest", "joe:secret")
		c.createACL("/zt/mine", []entry{{31, "auth", ""}})
		c.get("/zt/mine", false)
		_ = c.nc.Close()
		c.reconnect()
		c.connect(10*time.Second, d.session, d.password, 0, 0)
		c.get("/zt/mine", false)
		c.close()
		o.exists("/zt/e", false)
	}},
	{name: "requests on their way together", play: func(d *dialogue) {
		d.start()
		type sent struct {
			xid  int32
			what string
			show func(*jute.Reader) string
		}
		var all []sent
		ask := func(op int32, what string, body []byte, show func(*jute.Reader) string) {
			all = append(all, sent{d.request(op, body), what, show})
		}
		path := func(p string) []byte { return jute.AppendString(nil, p) }
		watched := func(p string) []byte { return jute.AppendBool(path(p), true) }
		names := func(r *jute.Reader) string { s := r.Strings(); sortStrings(s); return fmt.Sprintf("%q", s) }
		ask(jute.OpCreate, "create", createBody("/zt/p", nil, anyone, 0), showPath)
		ask(jute.OpExists, "exists and watch", watched("/zt/p"), d.stat)
		for range 3 {
			ask(jute.OpCreate, "create", createBody("/zt/p/s-", nil, anyone, 3), showPath)
		}
		ask(jute.OpGetChildren, "children and watch", watched("/zt/p"), names)
		ask(jute.OpSetData, "set", jute.AppendInt32(jute.AppendBuffer(path("/zt/p"), []byte("x")), 0), d.stat)
		ask(jute.OpSetData, "set", jute.AppendInt32(jute.AppendBuffer(path("/zt/p"), []byte("x")), 0), d.stat)
		ask(jute.OpPing, "ping", nil, nil)
		ask(jute.OpMulti, "multi", multiBody([]step{mDelete("/zt/p/s-0000000000", -1), mDelete("/zt/p/s-0000000001", 5)}), func(r *jute.Reader) string { return fmt.Sprintf("%x", r.Rest()[:9]) + skip(r) })
		ask(jute.OpMulti, "multi", multiBody([]step{mDelete("/zt/p/s-0000000000", -1)}), func(r *jute.Reader) string { return fmt.Sprintf("%x", r.Rest()[:9]) + skip(r) })
		ask(jute.OpSync, "sync", path("/zt"), showPath)
		ask(jute.OpGetChildren, "children", jute.AppendBool(path("/zt/p"), false), names)
		ask(jute.OpDelete, "delete", jute.AppendInt32(path("/zt/p"), -1), nil)
		for _, s := range all {
			d.answer(s.xid, s.what, s.show)
		}
		d.comment("behind a close nothing is executed")
		o := d.other("B").start()
		xid := d.request(jute.OpClose, nil)
		d.request(jute.OpCreate, createBody("/zt/late", nil, anyone, 0))
		d.answer(xid, "close", nil)
		// What comes too late may take a transaction's number on the real
		// server, or not.
		var late, ephemeral bool
		o.quietly(func() {
			o.ping()
			late = o.exists("/zt/late", false)
			ephemeral = o.exists("/zt/p/s-0000000001", false)
		})
		o.note("the node that was to be made is there: %v; the session's: %v", late, ephemeral)
	}},
	{name: "multi and errors", play: func(d *dialogue) {
		d.start()
		d.auth("digest", "joe:secret")
		d.create("/zt/m", "", 0)
		d.create("/zt/m/full", "", 0)
		d.create("/zt/m/full/x", "", 0)
		d.create("/zt/m/e", "", 1)
		d.createACL("/zt/m/mine", []entry{{31, "auth", ""}})
		d.create("/zt/m/mine/x", "", 0)
		o := d.other("B").start()
		o.exists("/zt/m", false)
		noACL := step{jute.OpCreate, createBody("/zt/m/n", nil, nil, 0), "create without an ACL"}
		noAuth := step{jute.OpCreate, createBody("/zt/m/n", nil, []entry{{31, "auth", ""}}, 0), "create with auth"}
		for _, bad := range []step{
			mCreate("/zt/missing/n", 0), mCreate("/zt/m/full", 0), mCreate("/zt/m/e/n", 0), mCreate("/zt/m/n/", 0), mCreate("/zt/m/mine/n", 0),
			mCreateOp(jute.OpCreate2, "/zt/m/full", 0), mCreateOp(jute.OpCreateContainer, "/zt/m/e/n", 4), mCreateOp(jute.OpCreate, "/zt/m/n", 7),
			mCreate("/zt/m/first", 0), // which the first operation makes
			noACL, noAuth,
			mDelete("/zt/missing", -1), mDelete("/zt/m/full", -1), mDelete("/zt/m/e", 3), mDelete("/zt/m/mine/x", -1), mDelete("/", -1), mDelete("/zookeeper", -1), mDelete("relative", -1),
			mDelete("/zt/m", -1),
			mSet("/zt/missing", -1), mSet("/zt/m/full", 9), mSet("/zt/m/mine", -1), mSet("relative", -1), mSet("/zookeeper/config", -1),
			mCheck("/zt/missing", -1), mCheck("/zt/m/full", 9), mCheck("/zt/m/mine", -1), mCheck("relative", -1),
			mCheck("/zt/m/first", 1),
		} {
			o.multi(mCreate("/zt/m/first", 0), mCreate("/zt/m/s-", 2), mSet("/zt/m", 0), mDelete("/zt/m/e", -1), bad, mSet("/zt/m/full", -1))
		}
		d.comment("nothing of it is left")
		o.get("/zt/m", false)
		o.children(jute.OpGetChildren2, "/zt/m", false)
		o.exists("/zt/m/e", false)
		o.create("/zt/m/s-", "", 2)
		d.comment("what one multi makes, changes and deletes")
		o.multi(mCreate("/zt/m/t", 1), mSet("/zt/m/t", 0), mCheck("/zt/m/t", 1), mDelete("/zt/m/t", 1), mCreate("/zt/m/t", 0), mCheck("/zt/m/t", 0), mCreate("/zt/m/t/u", 1), mCreate("/zt/m/s-", 3))
		o.get("/zt/m/t", false)
		o.exists("/zt/m/t/u", false)
		o.multi(mDelete("/zt/m/t/u", 0), mDelete("/zt/m/t", 0), mCheck("/zt/m", 0), mSet("/zt/m", 0), mSet("/zt/m", 1), mCheck("/zt/m", 2))
		o.exists("/zt/m", false)
		o.close()
		d.children(jute.OpGetChildren2, "/zt/m", false)
	}},
	{name: "ephemerals of several sessions", play: func(d *dialogue) {
		d.start()
		b, c, w := d.other("B").start(), d.other("C").start(), d.other("W").start()
		d.create("/zt/p", "", 0)
		d.create("/zt/q", "", 0)
		d.create("/zt/p/a", "", 1)
		b.create("/zt/p/b", "", 1)
		c.create("/zt/p/c", "", 1)
		d.create("/zt/q/s-", "", 3)
		b.create("/zt/q/s-", "", 3)
		c.multi(mCreate("/zt/q/s-", 3), mCreate("/zt/p/c2", 1))
		c.multi(mCreate("/zt/p/c3", 1), mCheck("/zt/missing", -1))
		d.comment("anybody may change and delete them, and make them anew")
		b.set("/zt/p/a", []byte("b's"), 0)
		b.exists("/zt/p/a", false)
		b.delete("/zt/p/a", -1)
		b.create("/zt/p/a", "", 1)
		c.delete("/zt/q/s-0000000000", -1)
		d.exists("/zt/p/a", false)
		d.comment("the first session ends: it has none left")
		w.children(jute.OpGetChildren2, "/zt/p", true)
		w.children(jute.OpGetChildren2, "/zt/q", true)
		d.close()
		w.ping()
		d.comment("the second one")
		w.exists("/zt/p/a", true)
		w.exists("/zt/p/c", true)
		b.close()
		w.answerInAnyOrder("ping", func() int32 { return w.request(jute.OpPing, nil) })
		w.children(jute.OpGetChildren2, "/zt/p", false)
		w.children(jute.OpGetChildren2, "/zt/q", false)
		d.comment("the third one, whose node is deleted and persistent now")
		w.delete("/zt/p/c", -1)
		w.create("/zt/p/c", "", 0)
		c.close()
		w.children(jute.OpGetChildren2, "/zt/p", false)
		w.children(jute.OpGetChildren2, "/zt/q", false)
	}},
	{name: "sizes", play: func(d *dialogue) {
		d.start()
		size := func(r *jute.Reader) string { return fmt.Sprintf("%d bytes %s", len(r.Buffer()), d.stat(r)) }
		const frame = 0xfffff // the largest that is allowed, without its length
		body := func(data int) []byte { return createBody("/zt/a", make([]byte, data), anyone, 0) }
		least := 8 + len(body(0))
		for _, data := range []int{0, 1, 1000, frame - least - 1, frame - least, frame - least + 1} {
			create := func() bool {
				return d.call(jute.OpCreate, fmt.Sprintf("create with %d bytes", data), body(data), showPath)
			}
			if data <= frame-least {
				create()
			} else {
				// It may end while it is being sent, or afterwards.
				done := false
				d.quietly(func() {
					done = create()
					d.reconnect()
					d.start()
				})
				d.note("create with %d bytes: done %v", data, done)
			}
			d.call(jute.OpGetData, "get", jute.AppendBool(jute.AppendString(nil, "/zt/a"), false), size)
			d.quietly(func() { d.delete("/zt/a", -1) })
		}
		d.comment("an answer may be longer than a request")
		d.create("/zt/d", "", 0)
		d.quietly(func() {
			for i := range 6 {
				d.create(fmt.Sprintf("/zt/d/%0200000d", i), "", 0)
			}
		})
		d.call(jute.OpGetChildren2, "children", jute.AppendBool(jute.AppendString(nil, "/zt/d"), false), func(r *jute.Reader) string {
			total := 0
			names := r.Strings()
			for _, name := range names {
				total += len(name)
			}
			return fmt.Sprintf("%d names of %d bytes %s", len(names), total, d.stat(r))
		})
	}},
}

// skip reads to the end of an answer whose bytes are shown as they are.
func skip(r *jute.Reader) string {
	for r.Len() > 0 {
		r.Byte()
	}
	return ""
}

// extendedScripts are for servers that know nodes with a time to live, and look
// for what is to be deleted at every checkInterval.
var extendedScripts = []script{
	{name: "time to live", extended: true, play: func(d *dialogue) {
		d.start()
		const longest = 1<<40 - 1
		d.comment("times and flags")
		for flags := int32(-1); flags < 9; flags++ {
			for _, ttl := range []int64{-1 << 63, -1, 0, 1000, 3_600_000, longest, longest + 1, 1<<63 - 1} {
				if ttl < 0 && flags >= 0 && flags <= 4 {
					continue // the real server does not survive this
				}
				if d.createTTL("/zt/t", flags, ttl); flags == 6 {
					continue
				}
				d.exists("/zt/t", false)
				d.quietly(func() { d.delete("/zt/t", -1) })
			}
		}
		d.children(jute.OpGetChildren2, "/zt", false)
		d.comment("the flags need the request that goes with them")
		for _, op := range []int32{jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer} {
			d.create2(op, "/zt/u", 5)
			d.create2(op, "/zt/u", 6)
		}
		d.createTTL("/zt/missing/t", 5, 1000)
		d.createTTL("bad", 5, 1000)
		d.createTTL("/zt", 5, 1000)
		d.comment("a node like others")
		const hour = 3_600_000
		d.createTTL("/zt/n", 5, hour)
		d.createTTL("/zt/n", 5, hour)
		d.createTTL("/zt/n/s-", 6, hour)
		d.createTTL("/zt/n/s-", 6, hour)
		d.create("/zt/n/e-", "", 3)
		d.create2(jute.OpCreateContainer, "/zt/n/c", 4)
		d.createTTL("/zt/n/e-0000000002/x", 5, hour)
		d.get("/zt/n", true)
		d.set("/zt/n", []byte("x"), 0)
		d.setACL("/zt/n", anyone, -1)
		d.children(jute.OpGetChildren2, "/zt/n", false)
		d.getACL("/zt/n")
		d.delete("/zt/n", -1)
		d.delete("/zt/n/s-0000000000", 0)
		d.exists("/zt/n", false)
		d.comment("multi")
		d.multi(mCreateTTL("/zt/m", 5, hour), mCreateTTL("/zt/m/s-", 6, hour), mCreate("/zt/m/s-", 2), mSet("/zt/m", 0))
		d.exists("/zt/m", false)
		d.exists("/zt/m/s-0000000000", false)
		d.multi(mCreateTTL("/zt/m/x", 5, hour), mCreateTTL("/zt/m/y", 5, 0), mCreate("/zt/m/z", 0))
		d.multi(mCreateTTL("/zt/m/x", 5, longest+1))
		d.multi(mCreateTTL("/zt/m/x", 0, hour))
		d.multi(mCreateOp(jute.OpCreate, "/zt/m/x", 5))
		d.children(jute.OpGetChildren2, "/zt/m", false)
	}},
	{name: "time to live is over", extended: true, play: func(d *dialogue) {
		d.start()
		o := d.other("B").start()
		d.multi(mCreateTTL("/zt/busy", 5, 1), mCreate("/zt/busy/child", 1))
		d.createTTL("/zt/long", 5, 3_600_000)
		d.children(jute.OpGetChildren, "/zt", true)
		d.createTTL("/zt/t", 5, 2000) // B has that long for its request
		o.exists("/zt/t", true)
		o.expectEvents(1)
		o.exists("/zt/t", false)
		o.children(jute.OpGetChildren2, "/zt", true)
		d.comment("one with children goes after them")
		o.get("/zt/busy", true)
		d.delete("/zt/busy/child", -1)
		o.expectEvents(2)
		o.children(jute.OpGetChildren2, "/zt", false)
		d.comment("so do containers, but not those that have never had a child")
		d.create2(jute.OpCreateContainer, "/zt/fresh", 4)
		d.create2(jute.OpCreateContainer, "/zt/c", 4)
		d.create("/zt/c/e", "", 1)
		o.get("/zt/c", true)
		o.children(jute.OpGetChildren2, "/zt/c", true)
		d.close()
		o.expectEvents(2)
		o.children(jute.OpGetChildren2, "/zt", false)
	}},
}

func (d *dialogue) removeQuietly(path string) { d.quietly(func() { d.removeAll(path) }) }
