// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestQueueVerbs: what is put into a queue is listed, and taken in that order.
func TestQueueVerbs(t *testing.T) {
	e := startEnsemble(t)
	holdfast := func(args string, in string) result {
		var out, errs bytes.Buffer
		all := append([]string{"--servers=" + e.addr, "queue"}, strings.Fields(args)...)
		code := execute(all, strings.NewReader(in), &out, &errs)
		return result{code, out.String(), errs.String()}
	}
	want := func(args, in string, code int, stdout, stderr string) {
		t.Helper()
		r := holdfast(args, in)
		wantLines(t, "queue "+args, normal(r.stdout), stdout)
		if r.code != code || !strings.Contains(r.stderr, stderr) || stderr == "" && r.stderr != "" {
			t.Errorf("queue %s: exit code %d, stderr %q; want %d, %q", args, r.code, r.stderr, code, stderr)
		}
	}
	for _, args := range []string{"take --try nope", "dead nope", "requeue --all nope", "drop nope x"} {
		code := exitMissing
		if args == "take --try nope" {
			code = exitNotGranted
		}
		want(args, "", code, "", "there is no queue nope: the name is mistyped, or no process has used it lately")
		if e.Exists("/holdfast/nope") {
			t.Errorf("%s has made the queue", args)
		}
	}
	want("take --wait 100ms mails", "", exitNotGranted, "", "or no process has used it lately; waiting for it\nholdfast: mails: no element within 100ms")
	want("take --try mails", "", exitNotGranted, "", "queue is empty")
	want("put mails one two", "", 0, "mails: 2 elements put", "")
	want("put --json mails", "three\nfour\n", 0, `{"offered":2,"queue":"mails"}`, "")
	want("ls mails", "", 0, `
		mails: 4 elements
		ELEMENT        BYTES  SINCE  ATTEMPT  TAKEN BY  SESSION
		qn-0000000000      3 AGE        0  -         -
		qn-0000000001      3 AGE        0  -         -
		qn-0000000002      5 AGE        0  -         -
		qn-0000000003      4 AGE        0  -         -`, "")
	want("ls --limit 1 mails", "", 0, `
		mails: 4 elements
		ELEMENT        BYTES  SINCE  ATTEMPT  TAKEN BY  SESSION
		qn-0000000000      3 AGE        0  -         -
		… and 3 more`, "")
	want("take mails", "", 0, "one", "")
	want("take --try mails", "", 0, "two", "")

	r := holdfast("take --count 0 --wait 100ms --json mails", "")
	var data []string
	for line := range strings.Lines(r.stdout) {
		var facts takenFacts
		if err := json.Unmarshal([]byte(line), &facts); err != nil || facts.Queue != "mails" || facts.Attempt != 1 || facts.Token == 0 || facts.Data == nil {
			t.Errorf("%v: %s", err, line)
			continue
		}
		data = append(data, *facts.Data)
	}
	if r.code != 0 || r.stderr != "" || strings.Join(data, " ") != "three four" {
		t.Errorf("exit code %d, %q, %s", r.code, data, r.stderr)
	}
	want("ls --json mails", "", 0, `{"queue":"mails","path":"/holdfast/mails/items","length":0,"elements":[]}`, "")
	want("ls none", "", exitMissing, "", "there is no queue none")
	want("ls mail", "", exitMissing, "", "like it: mails")

	// A queue of ZooKeeper's DistributedQueue.
	must(t, e.CreateAll("/holdfast/other/qn-0000000007", []byte("x")))
	want("ls other", "", 0, `
		other: 1 element
		ELEMENT        BYTES  SINCE  ATTEMPT  TAKEN BY  SESSION
		qn-0000000007      1 AGE        0  -         -`, "")
}

// TestQueueBuried: what was buried is listed, and put back or deleted.
func TestQueueBuried(t *testing.T) {
	e := startEnsemble(t)
	for i, data := range []string{"one", "two words", "\xff", "four"} {
		must(t, e.CreateAll(fmt.Sprintf("/holdfast/mails/dead/qn-%010d", i), []byte(data)))
	}
	for _, tt := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"dead mails", 0, `
			mails: 4 elements buried
			ELEMENT        BYTES  SINCE  DATA
			qn-0000000000      3 AGE  one
			qn-0000000001      9 AGE  "two words"
			qn-0000000002      1 AGE  "\xff"
			qn-0000000003      4 AGE  four`, ""},
		{"dead --limit 1 mails", 0, `
			mails: the first 1 element buried
			ELEMENT        BYTES  SINCE  DATA
			qn-0000000000      3 AGE  one`, ""},
		{"dead --limit=-1 mails", exitUsage, "", "must not be negative"},
		{"requeue mails", exitUsage, "", "name the elements, or give --all"},
		{"requeue --all mails qn-0000000001", exitUsage, "", "name the elements, or give --all"},
		{"requeue mails qn-0000000001", 0, "mails: 1 element requeued", ""},
		{"requeue mails qn-0000000003 qn-0000000001", exitFailure, "mails: 1 element requeued", "no such buried element"},
		{"drop --json mails qn-0000000000", 0, `{"dropped":1,"queue":"mails"}`, ""},
		{"dead --json mails", 0, `{"queue":"mails","elements":[{"element":"qn-0000000002","bytes":1,"since":"TIME","base64":"/w=="}]}`, ""},
		{"drop --all mails", 0, "mails: 1 element dropped", ""},
		{"dead mails", 0, "mails: 0 elements buried", ""},
		{"take --try mails", 0, "two words", ""},
		{"take --try mails", 0, "four", ""},
		{"take --try mails", exitNotGranted, "", "queue is empty"},
	} {
		r := e.holdfast(append([]string{"queue"}, strings.Fields(tt.args)...)...)
		wantLines(t, "queue "+tt.args, r.stdout, tt.stdout)
		if r.code != tt.code || !strings.Contains(r.stderr, tt.stderr) || tt.stderr == "" && r.stderr != "" {
			t.Errorf("queue %s: exit code %d, stderr %q; want %d, %q", tt.args, r.code, r.stderr, tt.code, tt.stderr)
		}
	}
}

// TestQueuePutAsItComes: a line is put when it is there, and not when more have come or the
// input has ended.
func TestQueuePutAsItComes(t *testing.T) {
	e := startEnsemble(t)
	in, lines := io.Pipe()
	var out, errs bytes.Buffer
	code := make(chan int)
	go func() { code <- execute([]string{"--servers=" + e.addr, "queue", "put", "mails"}, in, &out, &errs) }()
	for i, line := range []string{"one\n", "two\nthree\n", "four"} {
		_, err := io.WriteString(lines, line)
		must(t, err)
		if i == 2 {
			must(t, lines.Close())
		}
		eventually(t, func() bool { return len(e.Children("/holdfast/mails/items")) == []int{1, 3, 4}[i] })
	}
	if got := <-code; got != 0 || out.String() != "mails: 4 elements put\n" || errs.Len() > 0 {
		t.Errorf("exit code %d, %q, %q", got, out.String(), errs.String())
	}
}

// TestQueuePutInterrupted: a signal ends it while it waits for a line, and it knows what it has
// put.
func TestQueuePutInterrupted(t *testing.T) {
	in, lines := io.Pipe()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	p := &putter{offer: func(_ context.Context, data ...[]byte) error {
		cancel(why)
		return nil
	}}
	ended := make(chan error, 1)
	go func() { ended <- p.putLines(ctx, in) }()
	_, err := io.WriteString(lines, "one\n")
	must(t, err)
	if err := <-ended; !errors.Is(err, why) || p.offered != 1 {
		t.Errorf("%d put, and then %v", p.offered, err)
	}
	must(t, lines.Close()) // the goroutine that reads ends
}

// TestQueueLsReadsNoData: the list costs the same however large the elements are.
func TestQueueLsReadsNoData(t *testing.T) {
	e := startEnsemble(t)
	must(t, e.CreateAll("/holdfast/mails/items", nil))
	const n = 1500 // more than one packet
	for i := range n {
		must(t, e.Create(fmt.Sprintf("/holdfast/mails/items/qn-%010d", i), make([]byte, 1000)))
	}
	e.put(t, fmt.Sprintf("/holdfast/mails/items/qn-%010d/claim", n-1), "")
	before := e.RequestCounts()
	r := e.holdfast("queue", "ls", "--json", "--limit", "0", "mails")
	after := e.RequestCounts()
	var facts queueFacts
	if err := json.Unmarshal([]byte(strings.ReplaceAll(r.stdout, "TIME", "2026-01-01T00:00:00Z")), &facts); err != nil || len(facts.Elements) != n {
		t.Fatalf("%d elements: %v", len(facts.Elements), err)
	}
	if first, last := facts.Elements[0], facts.Elements[n-1]; first.Bytes != 1000 || first.Attempt != 0 || first.Session != "" || last.Attempt != 1 || last.Session == "" {
		t.Errorf("listed %+v … %+v", first, last)
	}
	for _, op := range []zktest.Op{zktest.OpGetData, zktest.OpMultiRead} {
		if n := after[op] - before[op]; n > 0 {
			t.Errorf("%d requests %v", n, op)
		}
	}
}

// TestQueueLsTaken: the list shows which process has an element.
func TestQueueLsTaken(t *testing.T) {
	e := startEnsemble(t)
	e.put(t, "/holdfast/mails/consumers/1", `{"host": "db7", "pid": 4711, "label": "mailer", "kind": "consumer"}`)
	must(t, e.CreateAll("/holdfast/mails/items/qn-0000000000", []byte("one")))
	e.put(t, "/holdfast/mails/items/qn-0000000000/claim", "")
	must(t, e.CreateAll("/holdfast/mails/dead/qn-0000000000", []byte("zero")))
	r := e.holdfast("queue", "ls", "mails")
	wantLines(t, "ls", r.stdout, `
		mails: 1 element, 1 buried
		ELEMENT        BYTES  SINCE  ATTEMPT  TAKEN BY              SESSION
		qn-0000000000      3 AGE        1  mailer@db7, pid 4711  SESSION`)
}

// TestMembers: the members of a group are its ephemeral nodes.
func TestMembers(t *testing.T) {
	e := startEnsemble(t)
	e.put(t, "/holdfast/workers/w1", "10.0.0.1:80")
	e.put(t, "/holdfast/workers/w2", "\xff\x1b[31m")
	must(t, e.CreateAll("/holdfast/workers/README", nil))
	r := e.holdfast("members", "workers")
	wantLines(t, "members", r.stdout, `
		workers: 2 members
		MEMBER  SINCE  SESSION            DATA
		w1 AGE  SESSION  10.0.0.1:80
		w2 AGE  SESSION  "\xff\x1b[31m"`)
	must(t, e.CreateAll("/holdfast/none", nil))
	r = e.holdfast("members", "none")
	wantLines(t, "no members", r.stdout, "none: 0 members")
	r = e.holdfast("members", "--json", "workers")
	wantLines(t, "as JSON", r.stdout, `{"group":"workers","path":"/holdfast/workers","members":[`+
		`{"node":"w1","since":"TIME","token":7,"session":"SESSION","data":"10.0.0.1:80"},`+
		`{"node":"w2","since":"TIME","token":7,"session":"SESSION","base64":"/xtbMzFt"}]}`)
}

// TestShards: each shard is listed with its owner.
func TestShards(t *testing.T) {
	e := startEnsemble(t)
	must(t, e.CreateAll("/holdfast/boxes/spec", []byte(`{"shards": 3, "algorithm": "capped"}`)))
	e.put(t, "/holdfast/boxes/members/w1", "")
	e.hold(t, "boxes/shards/0", "lock-", 1, "w1")
	e.hold(t, "boxes/shards/0", "lock-", 2, "w2")
	e.hold(t, "boxes/shards/2", "lock-", 1, "w2")
	e.hold(t, "boxes/shards/7", "lock-", 1, "none of them")
	r := e.holdfast("shards", "boxes")
	wantLines(t, "shards", r.stdout, `
		boxes: 3 shards, 2 of them owned, 1 member
		SHARD  OWNER    PID  SINCE  WAITING
		0  w1@db7  4001 AGE        1
		1  -          -      -        -
		2  w2@db7  4001 AGE        0`)
	r = e.holdfast("shards", "--json", "boxes")
	var facts shardsFacts
	if err := json.Unmarshal([]byte(strings.ReplaceAll(r.stdout, "TIME", "2026-01-01T00:00:00Z")), &facts); err != nil || len(facts.Shards) != 3 || facts.Shards[0].Owner.Label != "w1" || facts.Shards[1].Owner != nil {
		t.Errorf("%v: %s", err, r.stdout)
	}
	for _, name := range []string{"none", "boxes/members"} {
		if r = e.holdfast("shards", name); r.code != exitMissing || !strings.Contains(r.stderr, "there is no divided work "+name) {
			t.Errorf("%s: exit code %d, %s", name, r.code, r.stderr)
		}
	}
}
