// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/inspect"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

var silent = slog.New(slog.DiscardHandler)

// An ensemble is what the verbs of these tests read from: an embedded server, with a
// session that owns the nodes there.
type ensemble struct {
	*zktest.Server
	addr  string
	owner *zkio.Client
}

func startEnsemble(t *testing.T) *ensemble {
	t.Helper()
	z := zktest.NewServer(zktest.Config{Logger: silent})
	t.Cleanup(func() { z.Close() })
	addr, err := z.Listen("127.0.0.1:0")
	must(t, err)
	return &ensemble{z, addr, openClient(t, addr)}
}

func openClient(t *testing.T, addr string, auth ...zkio.Auth) *zkio.Client {
	t.Helper()
	c, err := zkio.Open(t.Context(), zkio.Config{Servers: []string{addr}, Auth: auth, Logger: silent})
	must(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put creates an ephemeral node of the owner's session, with what is missing above it.
func (e *ensemble) put(t *testing.T, path, data string) {
	t.Helper()
	if dir := path[:strings.LastIndexByte(path, '/')]; !e.Exists(dir) {
		must(t, e.CreateAll(dir, nil))
	}
	must(t, e.CreateEphemeral(e.owner.Session().ID(), path, []byte(data)))
}

// hold creates the node of a contender that uses Holdfast.
func (e *ensemble) hold(t *testing.T, lock, mark string, seq int, label string) {
	t.Helper()
	kind := map[string]string{"lock-": "exclusive", "__READ__": "read", "__WRIT__": "write"}[mark]
	data, err := json.Marshal(map[string]any{"host": "db7", "pid": 4000 + seq, "label": label, "endpoint": "db7:8080", "kind": kind, "asks": 1})
	must(t, err)
	e.put(t, fmt.Sprintf("/holdfast/%s/_c_%032x-%s%010d", lock, seq+0xabc, mark, seq), string(data))
}

// A result is what one run of the command has printed.
type result struct {
	code           int
	stdout, stderr string
}

// holdfast runs the command in this process.
func (e *ensemble) holdfast(args ...string) result { return holdfastAt(e.addr, args...) }

func holdfastAt(addr string, args ...string) result {
	var out, errs bytes.Buffer
	code := execute(append([]string{"--servers=" + addr}, args...), strings.NewReader(""), &out, &errs)
	return result{code, normal(out.String()), normal(errs.String())}
}

// What differs from run to run.
var (
	ages     = regexp.MustCompile(` +(\d+m)?\d+s\b`)
	sessions = regexp.MustCompile(`0x[0-9a-f]{5,}`)
	times    = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	clocks   = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `)
	tokens   = regexp.MustCompile(`("token":|token )\d+`)
)

// normal replaces what differs from run to run: how old nodes are, sessions, times and
// tokens.
func normal(text string) string {
	text = ages.ReplaceAllString(text, " AGE")
	text = sessions.ReplaceAllString(text, "SESSION")
	text = times.ReplaceAllString(text, "TIME")
	text = clocks.ReplaceAllString(text, "")
	return tokens.ReplaceAllString(text, "${1}7")
}

// wantLines fails the test unless the lines of got are those of want, which are indented.
func wantLines(t *testing.T, what, got, want string) {
	t.Helper()
	clean := func(text string) string {
		var lines []string
		for line := range strings.Lines(strings.TrimSpace(text)) {
			lines = append(lines, strings.TrimSpace(line))
		}
		return strings.Join(lines, "\n")
	}
	if got, want := clean(got), clean(want); got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

// The verbs that only read, on locks of all kinds.
func TestVerbsThatRead(t *testing.T) {
	e := startEnsemble(t)
	e.hold(t, "jobs/nightly", "lock-", 1, "billing")
	e.hold(t, "jobs/nightly", "lock-", 2, "report")
	e.put(t, "/holdfast/jobs/nightly/_c_00112233-4455-6677-8899-aabbccddeeff-lock-0000000003", "10.1.2.3")
	e.put(t, "/holdfast/jobs/nightly/00112233445566778899aabbccddeeff__lock__0000000004", "a\x1b[31m")
	e.hold(t, "reports", "__READ__", 1, "web1")
	e.hold(t, "reports", "__READ__", 2, "web2")
	e.hold(t, "reports", "__WRIT__", 3, "writer")
	e.hold(t, "évil name", "lock-", 1, "\x1b[2J pwned\r")
	must(t, e.CreateAll("/holdfast/stuck/lock-0000000000", nil))
	e.put(t, "/holdfast/leader/_c_00112233-4455-6677-8899-aabbccddeeff-latch-0000000001", "app-7")
	must(t, e.CreateAll("/holdfast/pool/leases", nil))
	must(t, e.CreateAll("/holdfast/jobs/weekly", nil))
	must(t, e.CreateAll("/empty", nil))
	nodes := len(e.Nodes())

	for _, test := range []struct {
		args   string
		stdout string
		stderr string
		code   int
	}{
		{args: "ls", stdout: `
			LOCK          KIND       HELD BY                           PID AGE  WAITING
			jobs/nightly  exclusive  billing@db7                      4001 AGE        3
			leader        latch      app-7 (curator)                     - AGE        0
			pool          semaphore  0 permits                           -      -        0
			reports       read       web1@db7 and 1 more              4001 AGE        1
			stuck         exclusive  (unknown client)                    - AGE        0
			"évil name"   exclusive  "\x1b[2J pwned\r"@db7            4001 AGE        0`},
		{args: "ls /jobs/", stdout: `
			LOCK          KIND       HELD BY       PID AGE  WAITING
			jobs/nightly  exclusive  billing@db7  4001 AGE        3`},
		{args: "ls jobs/weekly", stdout: "no locks under /holdfast/jobs/weekly"},
		{args: "--root /empty ls", stdout: "no locks under /empty"},
		{args: "--root /missing ls", stdout: "no locks under /missing"},
		{args: "--root /missing ps", stdout: "no process holds a lock under /missing or waits for one"},
		{args: "ls jobs//nightly", code: 2, stderr: "holdfast: jobs//nightly: bad lock name: it has an empty segment (a slash at its end, or two in a row)"},
		{args: "who jobs/nightly", stdout: `
			jobs/nightly (exclusive): 1 process holds it, 3 wait
			#  STATE  KIND       WHO                      PID AGE  ENDPOINT  SESSION
			1  holds  exclusive  billing@db7             4001 AGE  db7:8080  SESSION
			2  waits  exclusive  report@db7              4002 AGE  db7:8080  SESSION
			3  waits  exclusive  10.1.2.3 (curator)         - AGE  -         SESSION
			4  waits  exclusive  "a\x1b[31m" (kazoo)        - AGE  -         SESSION`},
		{args: "who --limit 1 jobs/nightly", stdout: `
			jobs/nightly (exclusive): 1 process holds it, 3 wait
			#  STATE  KIND       WHO           PID AGE  ENDPOINT  SESSION
			1  holds  exclusive  billing@db7  4001 AGE  db7:8080  SESSION
			… and 3 more`},
		{args: "who stuck", stdout: `
			stuck (exclusive): 1 process holds it, none waits
			#  STATE  KIND       WHO               PID AGE  ENDPOINT  SESSION
			1  holds  exclusive  (unknown client)    - AGE  -         -
			#1: its node is not ephemeral, so it stays when its process is gone: holdfast break --node lock-0000000000 stuck`},
		{args: "who jobs/weekly", stdout: "jobs/weekly is free: no process holds it or waits for it"},
		{args: "who leader", stdout: `
			leader (latch): 1 process holds it, none waits
			#  STATE  KIND       WHO               PID AGE  ENDPOINT  SESSION
			1  holds  exclusive  app-7 (curator)     - AGE  -         SESSION`},
		{args: "who pool", stdout: `
			pool (semaphore): 0 permits in use, none waits`},
		{args: "who --limit=-1 x", code: 2, stderr: "holdfast: --limit must not be negative"},
		{args: "who _asks_", code: 2, stderr: `holdfast: _asks_: bad lock name: segment "_asks_" is reserved for questions to holders`},
		{args: "who _taken_", code: 2, stderr: `holdfast: _taken_: bad lock name: segment "_taken_" is reserved for notes of killed processes`},
		{args: "ps", stdout: `
			WHO                       PID  HOLDS  WAITS  ASKS AGE  ENDPOINT  SESSION
			"\x1b[2J pwned\r"@db7    4001      1      0     0 AGE  db7:8080  SESSION
			billing@db7              4001      1      0     0 AGE  db7:8080  SESSION
			web1@db7                 4001      1      0     0 AGE  db7:8080  SESSION
			report@db7               4002      0      1     0 AGE  db7:8080  SESSION
			web2@db7                 4002      1      0     0 AGE  db7:8080  SESSION
			writer@db7               4003      0      1     0 AGE  db7:8080  SESSION
			(unknown client)            -      1      0     0 AGE  -         none: its nodes stay
			10.1.2.3 (curator)          -      0      1     0 AGE  -         SESSION
			"a\x1b[31m" (kazoo)         -      0      1     0 AGE  -         SESSION
			app-7 (curator)             -      1      0     0 AGE  -         SESSION`},
		{args: "top", code: 2, stderr: "holdfast: top draws on a terminal; for facts, see holdfast ls --json and holdfast watch --json"},
	} {
		t.Run(test.args, func(t *testing.T) {
			r := e.holdfast(strings.Fields(test.args)...)
			if r.code != test.code {
				t.Errorf("code %d, want %d", r.code, test.code)
			}
			wantLines(t, "stdout", spaced(r.stdout), spaced(test.stdout))
			wantLines(t, "stderr", r.stderr, test.stderr)
			if strings.ContainsAny(r.stdout+r.stderr, "\x1b\r") {
				t.Error("a control character is printed raw")
			}
		})
	}
	if now := len(e.Nodes()); now != nodes {
		t.Errorf("%d nodes, %d before: reading leaves a trace", now, nodes)
	}
}

// spaced replaces each run of spaces by one: how wide a column is depends on ages.
func spaced(text string) string {
	text = strings.ReplaceAll(text, "SINCE", "AGE")
	return regexp.MustCompile(` +`).ReplaceAllString(text, " ")
}

// The JSON of each verb has the documented fields.
func TestJSON(t *testing.T) {
	e := startEnsemble(t)
	must(t, e.CreateAll("/holdfast/none", nil))
	e.hold(t, "l", "lock-", 1, "billing")
	e.hold(t, "l", "lock-", 2, "report")
	const (
		billing = `{"node":"/holdfast/l/_c_00000000000000000000000000000abd-lock-0000000001",%s"holds":true,"kind":"exclusive","client":"holdfast","label":"billing","host":"db7","pid":4001,"endpoint":"db7:8080","since":"TIME","session":"SESSION","token":7}`
		report  = `{"node":"/holdfast/l/_c_00000000000000000000000000000abe-lock-0000000002",%s"holds":false,"kind":"exclusive","client":"holdfast","label":"report","host":"db7","pid":4002,"endpoint":"db7:8080","since":"TIME","session":"SESSION","token":7}`
	)
	lock := `"lock":"l","path":"/holdfast/l","kind":"exclusive","holders":1,"waiting":1,"holder":` + fmt.Sprintf(billing, "") + `,"next":` + fmt.Sprintf(report, "")
	for _, test := range []struct{ args, want string }{
		{"ls", `{"root":"/holdfast","locks":[{` + lock + `}],"recipes":[]}`},
		{"ls none", `{"root":"/holdfast","prefix":"none","locks":[],"recipes":[]}`},
		{"who l", `{` + lock + `,"contenders":[` + fmt.Sprintf(billing, `"position":1,`) + `,` + fmt.Sprintf(report, `"position":2,`) + `]}`},
		{"who none", `{"lock":"none","path":"/holdfast/none","holders":0,"waiting":0,"contenders":[]}`},
		{"ps", `{"root":"/holdfast","processes":[` +
			`{"label":"billing","host":"db7","pid":4001,"client":"holdfast","endpoint":"db7:8080","session":"SESSION","holds":1,"waits":0,"asks":0,"since":"TIME"},` +
			`{"label":"report","host":"db7","pid":4002,"client":"holdfast","endpoint":"db7:8080","session":"SESSION","holds":0,"waits":1,"asks":0,"since":"TIME"}]}`},
	} {
		r := e.holdfast(append([]string{"--json"}, strings.Fields(test.args)...)...)
		if got := strings.TrimSpace(r.stdout); got != test.want || r.code != 0 || r.stderr != "" {
			t.Errorf("%s: code %d, stderr %q, stdout\n%s\nwant\n%s", test.args, r.code, r.stderr, got, test.want)
		}
	}
}

// What is not as it should be, or is not there, has a mark in JSON, and nothing else has.
func TestJSONMarks(t *testing.T) {
	e := startEnsemble(t)
	must(t, e.CreateAll("/holdfast/idle", nil))
	must(t, e.CreateAll("/holdfast/stuck/lock-0000000000", nil))
	e.hold(t, "held", "lock-", 1, "billing")
	for _, test := range []struct {
		args, want string
		code       int
	}{
		{"who gone", `"missing":true`, exitMissing},
		{"who idle", "", 0},
		{"who held", "", 0},
		{"who stuck", `"persistent":true`, 0},
	} {
		r := e.holdfast(append([]string{"--json"}, strings.Fields(test.args)...)...)
		marks := regexp.MustCompile(`"(missing|persistent|unreadable)":[^,}]*`).FindAllString(r.stdout, -1)
		marks = slices.Compact(marks) // a holder is a contender, too
		if got := strings.Join(marks, ","); got != test.want || r.code != test.code || test.want != "" && strings.Contains(r.stdout, `"session"`) {
			t.Errorf("%s: code %d, stderr %q, stdout %s", test.args, r.code, r.stderr, r.stdout)
		}
	}
}

// What other processes say of themselves cannot control the terminal through JSON either.
func TestJSONControlsNoTerminal(t *testing.T) {
	e := startEnsemble(t)
	e.hold(t, "l", "lock-", 1, "\x1b[31m\u009b31m\x7f")
	for _, args := range []string{"ls", "who l", "ps"} {
		r := e.holdfast(append([]string{"--json"}, strings.Fields(args)...)...)
		if r.code != 0 || !strings.Contains(r.stdout, `"label":"\u001b[31m\u009b31m\u007f"`) {
			t.Errorf("%s: code %d, stdout %q, stderr %q", args, r.code, r.stdout, r.stderr)
		}
		for _, c := range strings.ReplaceAll(r.stdout, "\n", "") {
			if unicode.IsControl(c) {
				t.Errorf("%s: stdout has the control character %q", args, c)
			}
		}
	}
}

// With the right to read only, or not even that, the verbs show what they can, and say
// what they could not see.
func TestVerbsWithFewRights(t *testing.T) {
	e := startEnsemble(t)
	admin := openClient(t, e.addr, zkio.Auth{Scheme: "digest", Data: []byte("admin:secret")}).Session()
	all := zkio.ACL{Perms: zkio.PermAll, Scheme: "auth"}
	readable := []zkio.ACL{all, {Perms: zkio.PermRead, Scheme: "world", ID: "anyone"}}
	hidden := []zkio.ACL{all}
	for _, dir := range []struct {
		path string
		acl  []zkio.ACL
	}{{"/holdfast", readable}, {"/holdfast/open", readable}, {"/holdfast/secret", hidden}} {
		must(t, admin.Create(dir.path, nil, dir.acl))
	}
	must(t, admin.CreateEphemeral("/holdfast/open/lock-0000000001", []byte("me"), hidden))
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"ls", 0, `
			LOCK  KIND       HELD BY            PID AGE  WAITING
			open  exclusive  (may not be read)    - AGE        0`,
			"holdfast: may not list 1 directory, so what is there does not show: /holdfast/secret"},
		{"who open", 0, `
			open (exclusive): 1 process holds it, none waits
			#  STATE  KIND       WHO                PID AGE  ENDPOINT  SESSION
			1  holds  exclusive  (may not be read)    - AGE  -         SESSION`, ""},
		{"who secret", 1, "", "holdfast: cannot show the queue of secret: this client may not see the queue: zkio: list /holdfast/secret: not authorized"},
	} {
		r := e.holdfast(strings.Fields(test.args)...)
		if r.code != test.code {
			t.Errorf("%s: code %d, want %d", test.args, r.code, test.code)
		}
		wantLines(t, test.args, spaced(r.stdout), spaced(test.stdout))
		if lines := strings.Split(strings.TrimSpace(r.stderr), "\n"); lines[len(lines)-1] != test.stderr {
			t.Errorf("%s: stderr %q, want %q", test.args, r.stderr, test.stderr)
		}
	}
	if r := e.holdfast("--json", "who", "open"); !strings.Contains(r.stdout, `"unreadable":true`) {
		t.Errorf("as JSON: %s", r.stdout)
	}
}

// Below a chroot the verbs see what is there, and the root can be that of the tree.
func TestVerbsBelowChroot(t *testing.T) {
	e := startEnsemble(t)
	must(t, e.CreateAll("/prod/app/locks/l/lock-0000000001", nil))
	must(t, e.CreateAll("/lone/lock-0000000001", nil))
	for _, test := range []struct{ servers, root, want string }{
		{e.addr + "/prod/app", "/locks", "l"},
		{e.addr, "/prod/app/locks", "l"},
		{e.addr, "/", "lone prod/app/locks/l"},
	} {
		r := holdfastAt(test.servers, "--json", "--root", test.root, "ls")
		var facts struct{ Locks []struct{ Lock string } }
		must(t, json.Unmarshal([]byte(r.stdout), &facts))
		var names []string
		for _, l := range facts.Locks {
			names = append(names, l.Lock)
		}
		if got := strings.Join(names, " "); got != test.want || r.code != 0 {
			t.Errorf("servers %s, root %s: %q, code %d, %s; want %q", test.servers, test.root, got, r.code, r.stderr, test.want)
		}
	}
}

// The verbs stay quick with long queues and many locks.
func TestVerbsWithTenThousand(t *testing.T) {
	e := startEnsemble(t)
	const n = 10_000
	for i := range n {
		e.hold(t, "long", "lock-", i, "p")
		e.hold(t, fmt.Sprintf("many/%d/%d", i/100, i), "lock-", 0, "p")
	}
	r := e.holdfast("who", "--limit", "2", "long")
	wantLines(t, "who", spaced(r.stdout), spaced(`
		long (exclusive): 1 process holds it, 9,999 wait
		# STATE KIND      WHO    PID AGE ENDPOINT SESSION
		1 holds exclusive p@db7 4000 AGE db7:8080 SESSION
		2 waits exclusive p@db7 4001 AGE db7:8080 SESSION
		… and 9,998 more`))
	if r := e.holdfast("ls", "many"); strings.Count(r.stdout, "\n") != n+1 || r.code != 0 {
		t.Errorf("ls: %d lines, code %d, %s", strings.Count(r.stdout, "\n"), r.code, r.stderr)
	}
	if r := e.holdfast("--json", "ps"); strings.Count(r.stdout, `"holds":`) != n || r.code != 0 {
		t.Errorf("ps: %d processes, code %d, %s", strings.Count(r.stdout, `"holds":`), r.code, r.stderr)
	}
}

func TestQueueChanges(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	queue := func(text string) *inspect.Queue { // "a+ b-": a holds, b waits
		q := &inspect.Queue{Lock: inspect.Lock{Name: "l"}}
		for _, word := range strings.Fields(text) {
			c := inspect.Contender{Contender: manager.Contender{Path: "/" + word[:1], Kind: manager.KindExclusive, Host: word[:1], Token: 7, Since: now.Add(-time.Minute)}}
			if c.Holds = word[1] == '+'; !c.Holds {
				q.Waiting++
			}
			q.Contenders = append(q.Contenders, c)
		}
		return q
	}
	for _, test := range []struct{ before, after, want string }{
		{"none", "", "free     no process holds l or waits for it"},
		{"none", "a+ b-", "holds    a, exclusive, token 7; 1 waits\nwaits    b, as #2"},
		{"a+ b-", "a+ b-", ""},
		{"a+ b-", "b+", "gone     a, after 1m00s in the queue\ngranted  b, exclusive, token 7; none waits"},
		{"a+ b- c-", "a+ c-", "left     b, after 1m00s in the queue"},
		{"a+", "", "gone     a, after 1m00s in the queue\nfree     no process holds l or waits for it"},
		{"", "", ""},
		{"", "a+ b-", "granted  a, exclusive, token 7; 1 waits\njoined   b, as #2"},
		{"a+ b+", "c+ a- b-", "granted  c, exclusive, token 7; 2 wait\nput back a\nput back b"},
	} {
		after := queue(test.after)
		var before *inspect.Queue
		if test.before != "none" {
			before = queue(test.before)
		}
		var lines []string
		for _, c := range queueChanges(before, after) {
			lines = append(lines, c.line(after, now))
		}
		if got := strings.Join(lines, "\n"); got != test.want {
			t.Errorf("from %q to %q:\n%s\nwant:\n%s", test.before, test.after, got, test.want)
		}
	}
}

// A watch tells of changes, in text and in JSON, and ends well with its context.
func TestWatch(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		e := startEnsemble(t)
		e.hold(t, "l", "lock-", 1, "billing")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out bytes.Buffer
		a := &app{
			globals: &globals{Servers: e.addr, Root: "/holdfast", SessionTimeout: 10 * time.Second, ConnectTimeout: time.Minute, ACL: "open", LogLevel: "warn", JSON: asJSON},
			ctx:     ctx,
			stderr:  io.Discard,
			stdout: writerFunc(func(line []byte) (int, error) {
				switch n := strings.Count(out.String(), "\n"); n {
				case 0:
					e.hold(t, "l", "lock-", 2, "report")
				case 1:
					must(t, e.Delete("/holdfast/l/_c_00000000000000000000000000000abd-lock-0000000001"))
				case 3:
					cancel()
				}
				return out.Write(line)
			}),
		}
		must(t, (&watchCmd{Name: "l"}).Run(a))
		want := `
			holds    billing@db7, pid 4001, at db7:8080, exclusive, token 7; none waits
			joined   report@db7, pid 4002, at db7:8080, as #2
			gone     billing@db7, pid 4001, at db7:8080, after AGE in the queue
			granted  report@db7, pid 4002, at db7:8080, exclusive, token 7; none waits`
		got := normal(out.String())
		if asJSON {
			want = "holds 1+0 billing\njoined 1+1 report\ngone 1+0 billing\ngranted 1+0 report"
			got = ""
			for line := range strings.Lines(out.String()) {
				var f watchFacts
				must(t, json.Unmarshal([]byte(line), &f))
				got += fmt.Sprintf("%s %d+%d %s\n", f.Event, f.Holders, f.Waiting, f.Contender.Label)
			}
		}
		wantLines(t, fmt.Sprintf("JSON %t", asJSON), spaced(got), spaced(want))
	}
}

// A writerFunc is a writer that gets a line at a time.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(line []byte) (int, error) { return f(line) }

// Without a server each verb says so, and exits with 3.
func TestVerbsWithoutServer(t *testing.T) {
	for _, args := range []string{"ls", "who x", "watch x", "ps", "ask x", "revoke x", "break --yes x"} {
		r := holdfastAt("127.0.0.1:1", append([]string{"--connect-timeout=200ms"}, strings.Fields(args)...)...)
		if r.code != exitNoConnection || r.stdout != "" || !strings.Contains(r.stderr, "127.0.0.1:1: connection refused") || strings.Count(r.stderr, "holdfast: ") != 1 {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

// Help has examples for each verb.
func TestHelpHasExamples(t *testing.T) {
	for _, verb := range []interface{ Help() string }{&lsCmd{}, &whoCmd{}, &watchCmd{}, &topCmd{}, &psCmd{}, &askCmd{}, &revokeCmd{}, &breakCmd{}} {
		if !strings.Contains(verb.Help(), "Examples:\n  holdfast ") {
			t.Errorf("%s has no examples", reflect.TypeOf(verb))
		}
	}
}
