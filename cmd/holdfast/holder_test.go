// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// manage opens a Manager for a lock's holder.
func manage(t *testing.T, addr, label string, onAsk func(context.Context, manager.Question) ([]byte, error)) *manager.Manager {
	t.Helper()
	m, err := manager.Open(t.Context(), manager.Config{Servers: []string{addr}, Label: label, Endpoint: "db7:8080", Logger: silent, OnAsk: onAsk})
	must(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// eventually waits until ok.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	late := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it did not happen")
		}
	}
}

func lock(t *testing.T, m *manager.Manager, name string) manager.Hold {
	t.Helper()
	l, err := m.Exclusive(name)
	must(t, err)
	h, err := l.Lock(t.Context())
	must(t, err)
	return h
}

var (
	hosts = regexp.MustCompile(`@\S+, pid \d+`)
	took  = regexp.MustCompile(`after ([0-9.]+m?s|AGE)`)
)

// anyHost replaces the name of this machine and of this process.
func anyHost(text string) string {
	return took.ReplaceAllString(hosts.ReplaceAllString(text, "@HOST, pid PID"), "after D")
}

func TestAsk(t *testing.T) {
	e := startEnsemble(t)
	m := manage(t, e.addr, "billing", func(_ context.Context, q manager.Question) ([]byte, error) {
		if string(q.Text) == "fail" {
			return nil, fmt.Errorf("out of \x1b[31mdata")
		}
		return append([]byte("half way, "), q.Text...), nil
	})
	lock(t, m, "jobs/nightly")
	e.hold(t, "silent", "lock-", 1, "report") // no process reads its mailbox
	must(t, e.CreateAll("/holdfast/free", nil))
	e.put(t, "/holdfast/curator/_c_00112233-4455-6677-8899-aabbccddeeff-lock-0000000000", "10.1.2.3")
	for _, test := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"ask", "jobs/nightly"}, 0, `
			billing@HOST, pid PID, at db7:8080 answers for jobs/nightly:
			state    retained, 1 holder inside for AGE
			waiting  0 callers in that process`, ""},
		{[]string{"ask", "jobs/nightly", "really?"}, 0, `
			billing@HOST, pid PID, at db7:8080 answers for jobs/nightly:
			state    retained, 1 holder inside for AGE
			waiting  0 callers in that process
			reply    half way, really?`, ""},
		{[]string{"ask", "jobs/nightly", "fail"}, 1, `
			billing@HOST, pid PID, at db7:8080 answers for jobs/nightly:
			state    retained, 1 holder inside for AGE
			waiting  0 callers in that process`,
			`holdfast: billing@HOST, pid PID, at db7:8080 answers with an error: out of "\x1b[31mdata"`},
		{[]string{"ask", "free"}, 1, "", `holdfast: ask "free": no answer: no process holds the lock`},
		{[]string{"ask", "curator"}, 1, "", `holdfast: ask "curator": no answer: the holder uses another ZooKeeper client and cannot be asked: /holdfast/curator/_c_00112233-4455-6677-8899-aabbccddeeff-lock-0000000000, which says "10.1.2.3", since TIME`},
		{[]string{"ask", "--wait", "300ms", "silent"}, 4, "", `holdfast: ask "silent": no answer: asked report@HOST, pid PID, at db7:8080, since TIME`},
		{[]string{"ask", "--wait", "0s", "jobs/nightly"}, 2, "", "holdfast: --wait must be positive"},
	} {
		r := e.holdfast(test.args...)
		if r.code != test.code {
			t.Errorf("%q: code %d, want %d", test.args, r.code, test.code)
		}
		wantLines(t, fmt.Sprintf("%q", test.args), spaced(anyHost(r.stdout)), spaced(test.stdout))
		wantLines(t, fmt.Sprintf("%q, stderr", test.args), anyHost(r.stderr), test.stderr)
	}
	var facts map[string]any
	must(t, json.Unmarshal([]byte(e.holdfast("--json", "ask", "jobs/nightly", "x").stdout), &facts))
	from, _ := facts["from"].(map[string]any)
	if facts["reply"] != "half way, x" || facts["phase"] != "retained" || facts["holders"] != 1.0 || from["label"] != "billing" || from["client"] != "holdfast" {
		t.Errorf("as JSON: %v", facts)
	}
}

func TestRevoke(t *testing.T) {
	e := startEnsemble(t)
	must(t, e.CreateAll("/holdfast/free", nil))
	e.put(t, "/holdfast/curator/_c_00112233-4455-6677-8899-aabbccddeeff-lock-0000000000", "10.1.2.3")
	m := manage(t, e.addr, "billing", nil)
	heeds, ignores := lock(t, m, "heeds"), lock(t, m, "ignores")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		<-heeds.Revoked()
		r, _ := heeds.Revocation()
		if r.Reason != "make room" || r.Until.IsZero() {
			t.Errorf("the holder is told %+v", r)
		}
		heeds.Release()
	}()
	for _, test := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"revoke", "--reason", "make room", "heeds"}, 0, `
			asking billing@HOST, pid PID, at db7:8080 to give heeds up within AGE
			given up after D`, ""},
		{[]string{"revoke", "--grace", "200ms", "ignores"}, 4,
			"asking billing@HOST, pid PID, at db7:8080 to give ignores up within 200ms",
			`holdfast: revoke "ignores": not given up: told billing@HOST, pid PID, at db7:8080, since TIME (1 holder inside); it had 200ms: give it more by --grace, or see holdfast break --help`},
		{[]string{"revoke", "free"}, 0, "free is free", ""},
		{[]string{"revoke", "curator"}, 1,
			"asking 10.1.2.3 (curator) to give curator up within AGE",
			`holdfast: revoke "curator": no answer: the holder uses another ZooKeeper client and cannot be asked: /holdfast/curator/_c_00112233-4455-6677-8899-aabbccddeeff-lock-0000000000, which says "10.1.2.3", since TIME`},
		{[]string{"revoke", "--grace=-1s", "free"}, 2, "", "holdfast: --grace must be positive"},
	} {
		r := e.holdfast(test.args...)
		if r.code != test.code {
			t.Errorf("%q: code %d, want %d", test.args, r.code, test.code)
		}
		wantLines(t, fmt.Sprintf("%q", test.args), anyHost(r.stdout), test.stdout)
		wantLines(t, fmt.Sprintf("%q, stderr", test.args), anyHost(r.stderr), test.stderr)
	}
	<-gone
	must(t, ignores.Err())
}

func TestBreak(t *testing.T) {
	e := startEnsemble(t)
	m := manage(t, e.addr, "billing", nil)
	h := lock(t, m, "held")
	e.put(t, "/holdfast/held/_c_00112233-4455-6677-8899-aabbccddeeff-lock-0000000001", "10.1.2.3")
	e.hold(t, "read", "__READ__", 1, "web1")
	e.hold(t, "read", "__READ__", 2, "web2")
	must(t, e.CreateAll("/holdfast/stuck/lock-0000000000", []byte("by hand")))

	r := e.holdfast("break", "held")
	if r.code != 2 || !strings.Contains(r.stderr, "standard input is no terminal: give --yes") || h.Err() != nil {
		t.Fatalf("without a terminal: %+v, %v", r, h.Err())
	}
	r = e.holdfast("break", "--yes", "held")
	wantLines(t, "break", anyHost(r.stdout), `
		deleted the node of billing@HOST, pid PID, at db7:8080
		held is held by 10.1.2.3 (curator); none waits`)
	if !strings.Contains(anyHost(r.stderr), "billing@HOST, pid PID, at db7:8080 holds held (exclusive), in the queue for") || r.code != 0 {
		t.Errorf("code %d, stderr %s", r.code, r.stderr)
	}
	select {
	case <-h.Lost():
	case <-time.After(time.Minute):
		t.Error("the holder is not told")
	}

	r = e.holdfast("break", "--yes", "stuck")
	wantLines(t, "break a persistent node", r.stdout, "deleted the node of \"by hand\" (another client)\nstuck is free")
	if !strings.Contains(r.stderr, "not ephemeral") || e.Exists("/holdfast/stuck/lock-0000000000") {
		t.Errorf("stderr %s", r.stderr)
	}
	r = e.holdfast("break", "--yes", "read")
	if r.code != 2 || !strings.Contains(r.stderr, "2 processes hold read: give --all, or one of --node _c_") {
		t.Errorf("of two readers: %+v", r)
	}
	r = e.holdfast("break", "--yes", "--node", "_c_00000000000000000000000000000abe-__READ__0000000002", "read")
	wantLines(t, "break one of two", r.stdout, "deleted the node of web2@db7, pid 4002, at db7:8080\nread is held by web1@db7; none waits")
	r = e.holdfast("break", "--yes", "--node", "x", "read")
	wantLines(t, "break an unknown node", r.stderr, "holdfast: cannot break read: no contender has the node x: see holdfast who --json")
	r = e.holdfast("break", "--yes", "--all", "read")
	wantLines(t, "break all", r.stdout, "deleted the node of web1@db7, pid 4001, at db7:8080\nread is free")
	r = e.holdfast("break", "--yes", "--all", "read")
	wantLines(t, "break a free lock", r.stdout, "read is free: there is nothing to break")
}

// A holder that cannot be told, or does not answer in time, is broken all the same. break then
// says by what its log and the servers' can be matched. Of several readers, the others do not
// hear of it.
func TestF314_BreakWithoutNotice(t *testing.T) {
	e := startEnsemble(t)
	e.hold(t, "old", "lock-", 1, "billing")
	path := "/holdfast/old/" + e.Children("/holdfast/old")[0]
	_, q, err := openClient(t, e.addr).Session().Get(path)
	must(t, err)
	_, stderr, code := do(t, "break", "--servers", e.addr, "--yes", "--grace", "300ms", "old") // no process reads its mailbox
	if code != 0 || !strings.Contains(stderr, "holdfast: broken without notice: ") || e.Exists(path) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, want := range []string{fmt.Sprintf("  node %s, token %d\n", path, q.Czxid), fmt.Sprintf("  session %#x: alive", uint64(q.EphemeralOwner))} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr %s; want %q", stderr, want)
		}
	}

	reads := func(label string) manager.Hold {
		rw, err := manage(t, e.addr, label, nil).ReadWrite("read")
		must(t, err)
		h, err := rw.Reader().Lock(t.Context())
		must(t, err)
		return h
	}
	one, other := reads("one"), reads("other")
	g, err := one.Grant()
	must(t, err)
	r := e.holdfast("break", "--yes", "--grace", "300ms", "--node", g.Path[len("/holdfast/read/"):], "read")
	<-one.Lost()
	if _, revoked := other.Revocation(); r.code != 0 || revoked || other.Err() != nil || strings.Contains(one.Err().Error(), "revoked") {
		t.Errorf("%+v; %v; %v", r, one.Err(), other.Err())
	}
}

func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "  y": true, "y": true, "\n": false, "": false, "no\n": false, "yesterday\n": false} {
		if got, err := confirm(strings.NewReader(answer), io.Discard, "?"); got != want || err != nil {
			t.Errorf("%q: %t, %v", answer, got, err)
		}
	}
}

// The verbs say as JSON that a lock is free.
func TestHolderVerbsOfFreeLock(t *testing.T) {
	e := startEnsemble(t)
	must(t, e.CreateAll("/holdfast/none", nil))
	for args, want := range map[string]string{
		"break --yes none": `{"lock":"none","deleted":[],"waiting":0}`,
		"revoke none":      `{"lock":"none","given_up":true,"holders":[],"seconds":0}`,
	} {
		r := e.holdfast(append([]string{"--json"}, strings.Fields(args)...)...)
		got := regexp.MustCompile(`"seconds":[0-9.e-]+`).ReplaceAllString(strings.TrimSpace(r.stdout), `"seconds":0`)
		if got != want || r.code != 0 || r.stderr != "" {
			t.Errorf("%s: code %d, stderr %q, stdout %s, want %s", args, r.code, r.stderr, got, want)
		}
	}
}

// Without the right to delete, break says so and deletes nothing.
func TestBreakWithoutRight(t *testing.T) {
	e := startEnsemble(t)
	admin := openClient(t, e.addr, zkio.Auth{Scheme: "digest", Data: []byte("admin:secret")}).Session()
	readable := []zkio.ACL{{Perms: zkio.PermAll, Scheme: "auth"}, {Perms: zkio.PermRead, Scheme: "world", ID: "anyone"}}
	for _, dir := range []string{"/holdfast", "/holdfast/l"} {
		must(t, admin.Create(dir, nil, readable))
	}
	must(t, admin.CreateEphemeral("/holdfast/l/lock-0000000001", nil, readable))
	r := e.holdfast("break", "--yes", "l")
	if r.code != 1 || !strings.Contains(r.stderr, "holdfast: cannot break l: zkio: delete /holdfast/l/lock-0000000001: not authorized") || !e.Exists("/holdfast/l/lock-0000000001") {
		t.Errorf("%+v", r)
	}
}

// The verbs, on a real server.
func TestVerbsOnRealServer(t *testing.T) {
	addr := realzk.Shared(t).Addr()
	m := manage(t, addr, "billing", nil)
	h := lock(t, m, "cmdsee/"+manager.Escape(t.Name()))
	name := h.Lock().Name()
	for _, args := range [][]string{{"ls", "cmdsee"}, {"who", name}, {"ps"}, {"ask", name}} {
		if r := holdfastAt(addr, args...); r.code != 0 || !strings.Contains(r.stdout, "billing@") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := holdfastAt(addr, "break", "--yes", name); r.code != 0 {
		t.Errorf("break: %+v", r)
	}
	<-h.Lost()
}
