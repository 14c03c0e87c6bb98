// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(realzk.WithShared(m)) }

var quiet = slog.New(slog.DiscardHandler)

// Guids as the clients write them.
const (
	guid1   = "00112233445566778899aabbccddee01"
	guid2   = "00112233445566778899aabbccddee02"
	guid3   = "00112233445566778899aabbccddee03"
	guid4   = "00112233445566778899aabbccddee04"
	curator = "00112233-4455-6677-8899-aabbccddeeff"
)

// bubble runs fn in a bubble, where time is virtual, with an embedded server.
func bubble(t *testing.T, fn func(t *testing.T, z *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		z := zktest.NewServer(zktest.Config{TickTime: 500 * time.Millisecond, Logger: quiet})
		t.Cleanup(func() { z.Close() })
		fn(t, z)
	})
}

// open opens a client of z, which the end of the test closes.
func open(t *testing.T, z *zktest.Server, auth ...zkio.Auth) *zkio.Client {
	t.Helper()
	return openClient(t, zkio.Config{Servers: []string{"zk"}, SessionTimeout: 4 * time.Second, Dialer: z.Dial, Logger: quiet, Auth: auth})
}

func openClient(t *testing.T, cfg zkio.Config) *zkio.Client {
	t.Helper()
	c, err := zkio.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// reader returns a Reader of z's /holdfast.
func reader(t *testing.T, z *zktest.Server) *Reader {
	t.Helper()
	r, err := NewReader(open(t, z), "/holdfast")
	must(t, err)
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put creates nodes, each from "path" or "path data", with what is missing above them. If
// session is not 0 the nodes are ephemeral.
func put(t *testing.T, z *zktest.Server, session int64, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		path, data, _ := strings.Cut(node, " ")
		if dir := path[:strings.LastIndexByte(path, '/')]; !z.Exists(dir) {
			must(t, z.CreateAll(dir, nil))
		}
		if session == 0 {
			must(t, z.Create(path, []byte(data)))
		} else {
			must(t, z.CreateEphemeral(session, path, []byte(data)))
		}
	}
}

// says returns what a process of ours writes into its nodes.
func says(label, kind string) string {
	return fmt.Sprintf(`{"host":"db7","pid":4711,"label":%q,"endpoint":"db7:8080","kind":%q,"since":"2026-01-02T03:04:05Z"}`, label, kind)
}

// brief describes a contender for a table of these tests.
func brief(c *Contender) string {
	if c == nil {
		return "-"
	}
	name := c.Label
	switch {
	case name == "" && c.Identity != "":
		name = fmt.Sprintf("%q", c.Identity)
	case name == "":
		name = "?"
	}
	if c.Client != "" && c.Client != "holdfast" {
		name += "/" + c.Client
	}
	if c.Unreadable {
		name += "/unreadable"
	}
	if c.Persistent && c.Token != 0 {
		name += "/persistent"
	}
	return name
}

// queueText describes a queue: "+" holds, "-" waits.
func queueText(q Queue) string {
	var all []string
	for i := range q.Contenders {
		c := &q.Contenders[i]
		sign := "-"
		if c.Holds {
			sign = "+"
		}
		all = append(all, sign+brief(c))
	}
	return strings.Join(all, " ")
}

// same fails the test unless the lines of got are those of want.
func same(t *testing.T, what string, got []string, want string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if !slices.Equal(got, lines) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

// viewText has a line for each lock of a view.
func viewText(v View) (lines []string) {
	for i := range v.Locks {
		l := &v.Locks[i]
		line := fmt.Sprintf("%s %s %d+%d %s %s", l.Name, l.Kind, l.Holders, l.Waiting, brief(l.Holder), brief(l.Next))
		if l.Strangers > 0 {
			line += fmt.Sprintf(" strangers=%d %s", l.Strangers, l.Recipe)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	for _, path := range v.Denied {
		lines = append(lines, "denied "+path)
	}
	return lines
}

func TestSurvey(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		owner := open(t, z).Session()
		put(t, z, owner.ID(),
			"/holdfast/jobs/nightly/_c_"+guid1+"-lock-0000000007 "+says("billing", "exclusive"),
			"/holdfast/jobs/nightly/_c_"+guid2+"-lock-0000000008 "+says("report", "exclusive"),
			"/holdfast/jobs/nightly/_c_"+curator+"-lock-0000000009 10.1.2.3",
			"/holdfast/reports/_c_"+guid1+"-__READ__0000000001 "+says("web1", "read"),
			"/holdfast/reports/_c_"+guid2+"-__READ__0000000002 "+says("web2", "read"),
			"/holdfast/reports/_c_"+guid3+"-__WRIT__0000000003 "+says("writer", "write"),
			"/holdfast/reports/_c_"+guid4+"-__READ__0000000004 "+says("web3", "read"),
			"/holdfast/mixed/"+guid1+"__lock__0000000001 me",
			"/holdfast/mixed/_c_"+guid2+"-__READ__0000000002 "+says("web", "read"),
			"/holdfast/leader/_c_"+curator+"-latch-0000000000 x",
			"/holdfast/leader/_c_"+curator+"-latch-0000000001 x",
			"/holdfast/_asks_/0123456789abcdef/0123 "+says("asker", "ask"),
		)
		put(t, z, 0,
			"/holdfast/stuck/lock-0000000000",
			"/holdfast/empty",
			"/holdfast/semaphore/leases",
			"/holdfast/semaphore/locks/_c_"+curator+"-lock-0000000000",
			"/holdfast/_held_/jobs/nightly",
			"/holdfast/_taken_/0000000000001-0000000000000007",
			"/holdfast/_taken_/lock-0000000000",
		)
		r := reader(t, z)
		all := `
			jobs/nightly exclusive 1+2 billing report
			leader latch 1+1 "x"/curator "x"/curator
			mixed mixed 1+1 "me"/kazoo web
			reports read/write 2+2 web1 writer
			semaphore  0+0 - - strangers=2 Curator's InterProcessSemaphoreV2 or InterProcessSemaphoreMutex
			stuck exclusive 1+0 ?/persistent -`
		for _, test := range []struct{ prefix, want string }{
			{"", all},
			{"jobs", "jobs/nightly exclusive 1+2 billing report"},
			{"/jobs/nightly", "jobs/nightly exclusive 1+2 billing report"},
			{"empty", ""},
			{"missing", ""},
		} {
			v, err := r.Survey(test.prefix).Look(t.Context())
			must(t, err)
			same(t, "below "+test.prefix, viewText(v), test.want)
		}
		if _, err := r.Survey("a//b").Look(t.Context()); !errors.Is(err, manager.ErrBadName) {
			t.Errorf("a bad prefix: %v", err)
		}

		before := len(z.Nodes())
		survey := r.Survey("")
		first, err := survey.Look(t.Context())
		must(t, err)
		second, err := survey.Look(t.Context())
		must(t, err)
		same(t, "again", viewText(second), all)
		if first.Reads-second.Reads != 8 { // the holders and waiters, but for those whose names can recur
			t.Errorf("%d reads, and then %d: want 8 contenders read once only", first.Reads, second.Reads)
		}
		if now := len(z.Nodes()); now != before {
			t.Errorf("%d nodes, %d before: a look leaves a trace", now, before)
		}
	})
}

// Later looks read only the contenders that are new.
func TestSurveyReadsContendersOnce(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		owner := open(t, z).Session()
		put(t, z, owner.ID(), "/holdfast/a/_c_"+guid1+"-lock-0000000000 "+says("a", "exclusive"))
		survey := reader(t, z).Survey("")
		var asked []string
		z.OnRequest(func(_ int64, op zktest.Op, path string) {
			if op == zktest.OpMultiRead || op == zktest.OpGetData {
				asked = append(asked, op.String())
			}
		})
		for look, want := range []int{1, 1, 2} {
			if look == 2 {
				put(t, z, owner.ID(), "/holdfast/a/_c_"+guid2+"-lock-0000000001 "+says("b", "exclusive"))
			}
			if _, err := survey.Look(t.Context()); err != nil || len(asked) != want {
				t.Fatalf("look %d: %v, and contenders read by %v; want %d requests", look, err, asked, want)
			}
		}
	})
}

// A look with a rate takes the time that the rate demands.
func TestSurveyKeepsItsRate(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		owner := open(t, z).Session()
		const locks = 450
		for i := range locks {
			put(t, z, owner.ID(), fmt.Sprintf("/holdfast/l%d/_c_%s-lock-0000000000 %s", i, guid1, says("a", "exclusive")))
		}
		survey := reader(t, z).Survey("")
		survey.Rate = 100
		began := time.Now()
		v, err := survey.Look(t.Context())
		must(t, err)
		if took := time.Since(began); len(v.Locks) != locks || took < 9*time.Second || took > 10*time.Second {
			t.Errorf("%d locks, %d reads in %v; want %d in about 9s", len(v.Locks), v.Reads, took, locks)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := survey.Look(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a look that ctx ends: %v", err)
		}
	})
}

func TestQueue(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		owner := open(t, z).Session()
		at := "/holdfast/l/"
		read := func(seq int, label string) string {
			return fmt.Sprintf("%s_c_%032d-__READ__%010d %s", at, seq, seq, says(label, "read"))
		}
		write := func(seq int, label string) string {
			return fmt.Sprintf("%s_c_%032d-__WRIT__%010d %s", at, seq+100, seq, says(label, "write"))
		}
		r := reader(t, z)
		for _, test := range []struct {
			what    string
			nodes   []string
			details int
			want    string
		}{
			{"no directory", nil, -1, ""},
			{"readers and a writer", []string{read(3, "c"), write(2, "b"), read(1, "a")}, -1, "+a -b -c"},
			{"a downgraded read beside its write", []string{write(1, "a"), read(1, "a'"), read(2, "b")}, -1, "+a +a' -b"},
			{"the first only", []string{write(1, "a"), write(2, "b")}, 1, "+a -?"},
			{"names only", []string{write(1, "a"), write(2, "b")}, 0, "+? -?"},
			{"other clients", []string{at + "_c_" + curator + "-lock-0000000001 10.1.2.3", at + guid1 + "__lock__0000000002 kaz", at + "lock-0000000003"}, -1,
				`+"10.1.2.3"/curator -"kaz"/kazoo -?`},
			{"exhausted numbers go by transactions", []string{at + "_c_" + guid2 + "-lock--000000005 " + says("a", "exclusive"), at + "_c_" + guid1 + "-lock--000000009 " + says("b", "exclusive")}, -1, "+a -b"},
			{"junk is no contender", []string{at + "README hello", write(1, "a")}, -1, "+a"},
		} {
			put(t, z, owner.ID(), test.nodes...)
			q, err := r.Queue(t.Context(), "l", test.details)
			must(t, err)
			if got := queueText(q); got != test.want {
				t.Errorf("%s: %s, want %s", test.what, got, test.want)
			}
			if z.Exists("/holdfast/l") {
				must(t, z.DeleteAll("/holdfast/l"))
			}
		}
		if _, err := r.Queue(t.Context(), "", -1); !errors.Is(err, manager.ErrBadName) {
			t.Errorf("no name: %v", err)
		}
	})
}

// A contender that goes between the list and the read makes the Reader list again; if
// that happens all the time, those that are left are told.
func TestQueueThatChanges(t *testing.T) {
	for _, test := range []struct {
		what string
		gone int // how many contenders go, one behind each list
		want string
	}{
		{"once", 1, "+b -c -d -e -f -g"},
		{"all the time", 9, "+f -g"},
	} {
		bubble(t, func(t *testing.T, z *zktest.Server) {
			owner := open(t, z).Session()
			var nodes []string
			for i, label := range []string{"a", "b", "c", "d", "e", "f", "g"} {
				nodes = append(nodes, fmt.Sprintf("/holdfast/l/_c_%032d-lock-%010d", i, i))
				put(t, z, owner.ID(), nodes[i]+" "+says(label, "exclusive"))
			}
			left := test.gone
			z.OnRequest(func(_ int64, op zktest.Op, _ string) {
				if op == zktest.OpMultiRead && left > 0 {
					left--
					z.Delete(nodes[0])
					nodes = nodes[1:]
				}
			})
			q, err := reader(t, z).Queue(t.Context(), "l", 1)
			must(t, err)
			got := make([]string, len(q.Contenders))
			for i := range q.Contenders {
				got[i] = q.Contenders[i].Path
			}
			want := 7 - min(test.gone, looksAtOnce)
			if len(got) != want || !q.Contenders[0].Holds || q.Holders != 1 || q.Holder.Path != got[0] {
				t.Errorf("%s: %d contenders %v, want %d of which the first holds the lock", test.what, len(got), got, want)
			}
		})
	}
}

// A contender whose number does not order it, and that goes before the Reader has asked by which
// transaction it came, is not the first of those that stay.
func TestQueueOfExhaustedNumbersThatChanges(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		owner := open(t, z).Session()
		goes := "/holdfast/l/_c_" + guid1 + "-lock--000000005"
		put(t, z, owner.ID(), "/holdfast/l/_c_"+guid2+"-lock-2147483647 "+says("a", "exclusive"), goes+" "+says("b", "exclusive"))
		z.OnRequest(func(_ int64, op zktest.Op, path string) {
			if op == zktest.OpExists && path == goes {
				z.Delete(goes)
			}
		})
		q, err := reader(t, z).Queue(t.Context(), "l", 0)
		must(t, err)
		if got := queueText(q); got != "+?" {
			t.Errorf("%s, want +?", got)
		}
	})
}

// What this client may not read shows as such, and hides nothing else.
func TestDenied(t *testing.T) {
	for _, told := range []bool{true, false} { // newer servers do not tell the Stat of such a node
		synctest.Test(t, func(t *testing.T) {
			z := zktest.NewServer(zktest.Config{TickTime: 500 * time.Millisecond, Logger: quiet, Quirks: zktest.Quirks{ExistsTakesRead: !told}})
			t.Cleanup(func() { z.Close() })
			checkDenied(t, z, told)
		})
	}
}

func checkDenied(t *testing.T, z *zktest.Server, told bool) {
	auth := zkio.Auth{Scheme: "digest", Data: []byte("user:password")}
	owner := open(t, z, auth).Session()
	private := []zkio.ACL{{Perms: zkio.PermAll, Scheme: "auth"}}
	put(t, z, owner.ID(), "/holdfast/open/_c_"+guid1+"-lock-0000000000 "+says("a", "exclusive"))
	must(t, owner.CreateEphemeral("/holdfast/open/_c_"+guid2+"-lock-0000000001", []byte(says("b", "exclusive")), private))
	must(t, owner.Create("/holdfast/secret", nil, private))
	must(t, owner.CreateEphemeral("/holdfast/secret/_c_"+guid3+"-lock-0000000000", nil, private))
	must(t, owner.Create("/holdfast/_asks_", nil, private))

	r := reader(t, z)
	v, err := r.Survey("").Look(t.Context())
	must(t, err)
	same(t, "the view", viewText(v), `
			open exclusive 1+1 a ?/unreadable
			denied /holdfast/secret`)
	if next := v.Locks[0].Next; (next.Session == owner.ID()) != told || next.Since.IsZero() == told || (next.Token != 0) != told {
		t.Errorf("of an unreadable node: %+v", next)
	}
	if _, err := r.Queue(t.Context(), "secret", -1); !errors.Is(err, zkio.ErrNoAuth) {
		t.Errorf("the queue of a lock that may not be listed: %v", err)
	}
	p, err := r.Processes(t.Context())
	must(t, err)
	if want := []string{"/holdfast/_asks_", "/holdfast/secret"}; len(p.All) != 2 || !slices.Equal(p.Denied, want) {
		t.Errorf("processes %+v, want two, and %v denied", p, want)
	}
	same(t, "with the credentials", viewText(func() View {
		r, err := NewReader(owner.Client(), "/holdfast")
		must(t, err)
		v, err := r.Survey("").Look(t.Context())
		must(t, err)
		return v
	}()), `
			open exclusive 1+1 a b
			secret exclusive 1+0 ? -`)
}

func TestWatch(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		r := reader(t, z)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		steps := []struct {
			what string
			do   func()
			want string
		}{
			{"no directory", nil, ""},
			{"the first", func() {
				put(t, z, 0, "/holdfast/l/_c_"+guid1+"-lock-0000000000 "+says("a", "exclusive"))
			}, "+a"},
			{"a waiter", func() {
				put(t, z, 0, "/holdfast/l/_c_"+guid2+"-lock-0000000001 "+says("b", "exclusive"))
			}, "+a -b"},
			{"a hand-over", func() { must(t, z.Delete("/holdfast/l/_c_"+guid1+"-lock-0000000000")) }, "+b"},
			{"the session of the reader ends", func() {
				z.ExpireSession(r.client.Session().ID())
				put(t, z, 0, "/holdfast/l/_c_"+guid3+"-lock-0000000002 "+says("c", "exclusive"))
			}, "+b -c"},
			{"an outage", func() {
				f := z.Faults().BlackholeAll()
				put(t, z, 0, "/holdfast/l/_c_"+guid4+"-lock-0000000003 "+says("d", "exclusive"))
				time.Sleep(10 * time.Second)
				f.Remove()
			}, "+b -c -d"},
		}
		i := 0
		for q, err := range r.Watch(ctx, "l") {
			if err != nil {
				if i != len(steps) || !errors.Is(err, context.Canceled) {
					t.Fatalf("step %d: %v", i, err)
				}
				return
			}
			got := strings.ReplaceAll(queueText(q), "/persistent", "")
			if got != steps[i].want {
				if i == 4 && got == steps[3].want {
					continue // the new session has seen nothing new yet
				}
				t.Fatalf("%s: %q, want %q", steps[i].what, got, steps[i].want)
			}
			if i++; i == len(steps) {
				cancel()
			} else {
				steps[i].do()
			}
		}
		t.Error("the loop has ended without an error")
	})
}

func TestProcesses(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		one, two := open(t, z).Session(), open(t, z).Session()
		put(t, z, one.ID(),
			"/holdfast/a/_c_"+guid1+"-lock-0000000000 "+says("billing", "exclusive"),
			"/holdfast/b/_c_"+guid1+"-lock-0000000000 "+says("billing", "exclusive"),
			"/holdfast/c/_c_"+guid1+"-lock-0000000001 "+says("billing", "exclusive"))
		put(t, z, two.ID(),
			"/holdfast/c/_c_"+guid2+"-lock-0000000000 "+says("report", "exclusive"),
			"/holdfast/_asks_/0123456789abcdef/4567 "+says("report", "ask"),
			"/holdfast/c/_c_"+curator+"-lock-0000000002 10.1.2.3")
		put(t, z, 0, "/holdfast/d/lock-0000000000")
		p, err := reader(t, z).Processes(t.Context())
		must(t, err)
		var lines []string
		for _, p := range p.All {
			lines = append(lines, fmt.Sprintf("%s@%s %d %s holds %d waits %d asks %d session %t", p.Label, p.Host, p.PID, p.Identity, p.Holds, p.Waits, p.Asks, p.Session != 0))
		}
		same(t, "processes", lines, `
			billing@db7 4711  holds 2 waits 1 asks 0 session true
			report@db7 4711  holds 1 waits 0 asks 1 session true
			@ 0  holds 1 waits 0 asks 0 session false
			@ 0 10.1.2.3 holds 0 waits 1 asks 0 session true`)
	})
}

// Delete deletes the node that was seen, and no successor of the same name.
func TestDelete(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		r := reader(t, z)
		const node = "/holdfast/l/lock-0000000000"
		for _, test := range []struct {
			what    string
			between func()
			deleted bool
			left    bool
		}{
			{"as seen", func() {}, true, false},
			{"gone", func() { must(t, z.Delete(node)) }, false, false},
			{"made again", func() { must(t, z.Delete(node)); put(t, z, 0, node) }, false, true},
			{"its data changed", func() { must(t, z.Set(node, []byte("x"))) }, true, false},
			{"the answer is lost", func() { z.Faults().DropReply(zktest.Match{Op: zktest.OpDelete, Times: 1}) }, true, false},
		} {
			if !z.Exists(node) {
				put(t, z, 0, node)
			}
			q, err := r.Queue(t.Context(), "l", -1)
			must(t, err)
			test.between()
			deleted, err := r.Delete(t.Context(), &q.Contenders[0])
			must(t, err)
			if deleted != test.deleted || z.Exists(node) != test.left {
				t.Errorf("%s: deleted %t, still there %t; want %t, %t", test.what, deleted, z.Exists(node), test.deleted, test.left)
			}
		}
	})
}

// Without an answer the Reader gives up, and says why.
func TestOutage(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		r := reader(t, z)
		z.Faults().Refuse()
		z.Faults().CutAll()
		began := time.Now()
		_, err := r.Queue(t.Context(), "l", -1)
		if took := time.Since(began); !errors.Is(err, ErrOutage) || !strings.Contains(err.Error(), "zk:2181") || took > 10*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Queue(ctx, "l", -1); !errors.Is(err, context.Canceled) {
			t.Errorf("with a ctx that has ended: %v", err)
		}
	})
}

func TestNewReaderRefusesBadRoots(t *testing.T) {
	for _, root := range []string{"", "holdfast", "/a//b", "/a/", "/_asks_", "/_taken_"} {
		if _, err := NewReader(nil, root); err == nil {
			t.Errorf("root %q is taken", root)
		}
	}
}
