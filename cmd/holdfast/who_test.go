// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/inspect"
)

// A takeover has a line, which says what is known of the process, and when it ended.
func TestTakeoverText(t *testing.T) {
	ended := time.Date(2026, 1, 2, 12, 0, 1, 0, time.Local)
	worker := manager.Contender{Label: "worker-2", Host: "host", PID: 17, Session: 0x10000abcd}
	located := worker
	located.Endpoint = "host:8080"
	for _, test := range []struct {
		from  manager.Contender
		since time.Duration
		after time.Duration
		want  string
	}{
		{worker, 3*time.Minute + 9*time.Second, 4 * time.Millisecond,
			"taken over: worker-2@host, pid 17, which held it or waited for it, ended at 12:00:01 (3m09s ago); its session 0x10000abcd was closed 4ms later"},
		{located, 26 * time.Hour, 1234567 * time.Microsecond,
			"taken over: worker-2@host, pid 17, at host:8080, which held it or waited for it, ended at 2026-01-02 12:00:01 (1d02h ago); its session 0x10000abcd was closed 1.235s later"},
		{manager.Contender{Session: -1}, -time.Hour, 0, // its clock is ahead of ours
			"taken over: (unknown client), which held it or waited for it, ended at 12:00:01 (0s ago); its session 0xffffffffffffffff was closed 0s later"},
		{manager.Contender{Label: "\x1b[2J\r", Host: "a b", Endpoint: "\n", Session: 7}, 0, 0,
			`taken over: "\x1b[2J\r"@"a b", at "\n", which held it or waited for it, ended at 12:00:01 (0s ago); its session 0x7 was closed 0s later`},
	} {
		last := &inspect.Takeover{From: *inspect.FromManager(test.from), Ended: ended, After: test.after}
		if got := takeoverText(last, ended.Add(test.since)); got != test.want {
			t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
		}
	}
}

// leaveNote leaves the note that this session was closed for a process with nodes in directories.
func (e *ensemble) leaveNote(t *testing.T, session int64, process, ended string, directories ...string) {
	t.Helper()
	nodes := make([]string, 0, len(directories))
	for _, dir := range directories {
		nodes = append(nodes, dir+"/lock-0000000007")
	}
	text, err := json.Marshal(nodes)
	must(t, err)
	must(t, e.CreateAll(fmt.Sprintf("%s/note-%010d", takeover.Directory("/holdfast"), session),
		fmt.Appendf(nil, `{"process":%s,"session":%d,"ended":%q,"after":4000000,"nodes":%s}`, process, session, ended, text)))
}

// who shows the takeover below the queue, and in its JSON.
func TestWhoShowsTakeover(t *testing.T) {
	e := startEnsemble(t)
	const ended = "2026-01-02T03:04:05.678Z"
	e.leaveNote(t, 0x100017, process("billing", "takeover", 17), ended, "/holdfast/busy", "/holdfast/free", "/holdfast/gone", "/holdfast/elect")
	e.leaveNote(t, 0x100018, `{"host":"db7","pid":18,"label":"\u001b\u009b","kind":"takeover"}`, ended, "/holdfast/evil")
	e.leaveNote(t, 0x100019, `"10.1.2.3"`, "9999-12-31T23:59:59-01:00", "/holdfast/strange")
	e.hold(t, "busy", "lock-", 1, "report")
	e.hold(t, "other", "lock-", 1, "report")
	e.hold(t, "elect/lock", "lock-", 1, "report")
	for _, path := range []string{"elect/leader", "free", "evil", "strange", "stuck/lock-0000000000"} {
		must(t, e.CreateAll("/holdfast/"+path, []byte(`{"token": 1, "id": "gone"}`)))
	}
	const facts = `"takeover":{"label":"billing","host":"db7","pid":17,"endpoint":"db7:8080","session":"SESSION","ended":"TIME","after_seconds":0.004}`
	for _, test := range []struct {
		args   string
		code   int
		stdout string // "…" stands for anything
	}{
		{"who busy", 0, "1 holds exclusive report@db7 …\ntaken over: billing@db7, pid 17, at db7:8080, which held it or waited for it, ended at …; its session SESSION was closed 4ms later\n"},
		{"who free", 0, "free is free: no process holds it or waits for it\ntaken over: billing@db7, pid 17, …\n"},
		{"who gone", exitMissing, "taken over: billing@db7, pid 17, …\n"},
		{"who evil", 0, "evil is free: no process holds it or waits for it\ntaken over: \"\\x1b\\u009b\"@db7, pid 18, …\n"},
		{"who strange", 0, "taken over: \"\\\"10.1.2.3\\\"\" (another client), which held it or waited for it, ended at …\n"},
		{"who other", 0, "db7:8080 SESSION\n"},
		{"who elect", 0, "db7:8080 SESSION\n"},
		{"who --json busy", 0, `}],` + facts + "}\n"},
		{"who --json free", 0, `{"lock":"free","path":"/holdfast/free","holders":0,"waiting":0,"contenders":[],` + facts + "}\n"},
		{"who --json gone", exitMissing, `"contenders":[],` + facts + "}\n"},
		{"who --json evil", 0, `"takeover":{"label":"\u001b\u009b","host":"db7","pid":18,…}}` + "\n"},
		{"who --json strange", 0, `"takeover":{"identity":"\"10.1.2.3\"","session":"SESSION","ended":"9999-12-31T23:59:59-01:00","after_seconds":0.004}}` + "\n"},
		{"who --json other", 0, `"token":7}]}` + "\n"},
		{"who --json elect", 0, `"token":7}]}` + "\n"},
	} {
		r := e.holdfast(strings.Fields(test.args)...)
		if r.code != test.code {
			t.Errorf("%s: exit code %d, want %d; %s", test.args, r.code, test.code, r.stderr)
		}
		rest := spaced(r.stdout)
		for part := range strings.SplitSeq(test.stdout, "…") {
			_, after, found := strings.Cut(rest, part)
			if rest = after; !found {
				t.Errorf("%s: no %q in\n%s", test.args, part, r.stdout)
				break
			}
		}
		if rest != "" || strings.Count(r.stdout, "taken over") > 1 {
			t.Errorf("%s: stdout\n%s\nwant it to end with\n%s", test.args, r.stdout, test.stdout)
		}
		if strings.ContainsFunc(strings.ReplaceAll(r.stdout, "\n", ""), unicode.IsControl) {
			t.Errorf("%s: a control character is printed raw", test.args)
		}
	}
}

// The takeover comes behind all contenders, and before what is wrong with the queue.
func TestTakeoverIsBelowTheQueue(t *testing.T) {
	q := &inspect.Queue{Lock: inspect.Lock{Name: "l", Kind: "mixed", Holders: 1, Waiting: 2}, Contenders: make([]inspect.Contender, 3), Takeover: &inspect.Takeover{}}
	var text bytes.Buffer
	writeQueue(&text, q, 1, time.Time{}.Add(time.Hour))
	var lines []string
	for line := range strings.Lines(text.String()) {
		lines = append(lines, strings.Join(strings.Fields(line)[:2], " "))
	}
	if got, want := strings.Join(lines, "\n"), "l (mixed):\n# STATE\n1 waits\n… and\ntaken over:\nmutexes and"; got != want {
		t.Errorf("the lines begin with\n%s\nwant\n%s", got, want)
	}
}
