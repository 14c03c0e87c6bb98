// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// process is what a process with Holdfast writes into a node of this kind.
func process(label, kind string, pid int) string {
	return fmt.Sprintf(`{"host": "db7", "pid": %d, "label": %q, "endpoint": "db7:8080", "kind": %q}`, pid, label, kind)
}

// dashed is a guid as Curator writes it.
const dashed = "00112233-4455-6677-8899-aabbccddeef"

// layouts writes the nodes of each recipe, ours and other clients', as they are while some of
// the processes have something and others wait.
func layouts(t *testing.T, e *ensemble) {
	t.Helper()
	node := func(path, data string) { t.Helper(); must(t, e.CreateAll("/holdfast/"+path, []byte(data))) }
	put := func(path, data string) { t.Helper(); e.put(t, "/holdfast/"+path, data) }

	e.hold(t, "scheduler/lock", "lock-", 1, "web1")
	e.hold(t, "scheduler/lock", "lock-", 2, "web2")
	node("scheduler/leader", "{}")
	e.lead(t, "scheduler", 1, "4001@db7", "at work")
	e.hold(t, "anew/lock", "lock-", 1, "web3") // has not written its record yet
	node("anew/leader", `{"token": 1, "id": "gone"}`)
	node("vacant/leader", `{"token": 1, "id": "gone"}`)
	e.hold(t, "nightly/lock", "lock-", 1, "web1")
	e.hold(t, "nightly/lock", "lock-", 2, "web2")
	node("nightly/record", `{"planned": "2026-03-01T06:00:00+01:00", "state": "begun", "token": 7, "attempt": 2, "id": "4001@db7"}`)
	node("past/record", `{"planned": "2026-03-01T05:00:00Z", "state": "done", "token": 7, "attempt": 1, "id": "gone"}`)
	node("planned/record", `{"planned": "2026-03-01T05:00:00Z", "state": "new", "id": "gone"}`)
	put("theirs/_c_"+dashed+"0-latch-0000000000", "app-7")
	put("theirs/_c_"+dashed+"1-latch-0000000001", "app-8")
	put("selected/_c_"+dashed+"2-lock-0000000000", "app-7")
	put("selected/_c_"+dashed+"3-lock-0000000001", "app-8")
	put("mutex/_c_"+dashed+"4-lock-0000000000", "10.1.2.3")
	put("revoked/_c_"+dashed+"4-lock-0000000000", "__REVOKE__")

	put("workers/w1", "10.0.0.1:80")
	put("workers/w2", "\xff\x1b[31m")
	node("workers/README", "not a member")

	node("boxes/spec", `{"shards": 3, "algorithm": "capped"}`)
	put("boxes/members/w1", "")
	put("boxes/members/w2", "")
	e.hold(t, "boxes/shards/0", "lock-", 1, "w1")
	e.hold(t, "boxes/shards/0", "lock-", 2, "w2")
	e.hold(t, "boxes/shards/2", "lock-", 1, "w2")

	node("db/permits", "\x00\x00\x00\x03")
	for i := range 2 {
		put(fmt.Sprintf("db/leases/_c_%032x-lease-%010d", i, i), process("billing", "lease", 4001))
	}
	put(fmt.Sprintf("db/leases/_c_%032x-lease-%010d", 9, 2), process("billing", "lease", 4001))
	put(fmt.Sprintf("db/leases/_c_%032x-lease-%010d", 9, 3), process("report", "lease", 4003)) // of the first in line
	e.hold(t, "db/locks", "lock-", 3, "report")
	put("pool/leases/_c_"+dashed+"5-lease-0000000000", "10.1.2.3")
	put("pool/locks/_c_"+dashed+"6-lock-0000000007", "10.1.2.4")

	for i := range 3 {
		node(fmt.Sprintf("mails/items/qn-%010d", i), strings.Repeat("x", i))
	}
	put("mails/consumers/1", process("mailer", "consumer", 4711))
	put("mails/items/qn-0000000001/claim", "")
	node("mails/dead/qn-0000000000", "zero")
	node("other/qn-0000000007", "x")
	node("other/qn-0000000008", "xx")

	node("step/round", `{"size": 3, "round": 7, "members": [{"name": "a", "id": "one"}, {"name": "b", "id": "two"}, {"name": "d", "id": "four"}]}`)
	put("step/members/in-a", process("one", "member", 4001))
	put("step/members/in-c", process("three", "member", 4003))
	node("step/members/left-b", "")
	node("shut", process("admin", "gate", 4009))
	node("closed", "10.1.2.3")
}

// lead has the contender with this number be the leader in an election's record.
func (e *ensemble) lead(t *testing.T, name string, seq int, id, data string) {
	t.Helper()
	s := e.owner.Session()
	_, st, err := s.Get(fmt.Sprintf("/holdfast/%s/lock/_c_%032x-lock-%010d", name, seq+0xabc, seq))
	must(t, err)
	text, err := json.Marshal(map[string]any{"token": st.Czxid, "id": id, "data": []byte(data)})
	must(t, err)
	_, err = s.Set("/holdfast/"+name+"/leader", text, -1)
	must(t, err)
}

// ls has a line for each recipe, ours and other clients', and who shows those that take part.
func TestRecipesShow(t *testing.T) {
	e := startEnsemble(t)
	layouts(t, e)
	nodes := len(e.Nodes())
	for _, test := range []struct{ args, stdout string }{
		{"ls", `
			LOCK       KIND       HELD BY                         PID  SINCE  WAITING
			anew       election   web3@db7                       4001 AGE        0
			boxes      shards     2 of 3 shards, 2 members          - AGE        1
			closed     gate       shut by 10.1.2.3 (curator)        - AGE        0
			db         semaphore  3 of 3 permits                    - AGE        1
			mails      queue      3 elements, 1 taken, 1 buried     - AGE        2
			mutex      exclusive  10.1.2.3 (curator)                - AGE        0
			nightly    cron       web1@db7                       4001 AGE        1
			other      queue      2 elements, 0 taken               - AGE        2
			past       cron       (no process)                      -      -        0
			planned    cron       (no process)                      -      -        0
			pool       semaphore  1 permit                          - AGE        1
			revoked    exclusive  __REVOKE__ (curator)              - AGE        0
			scheduler  election   web1@db7                       4001 AGE        1
			selected   selector   app-7 (curator)                   - AGE        1
			shut       gate       shut by admin@db7              4009 AGE        0
			step       barrier    1 of 3 inside                     - AGE        1
			theirs     latch      app-7 (curator)                   - AGE        1
			vacant     election   (no leader)                       -      -        0
			workers    members    2 members                         - AGE        0`},
		{"who scheduler", `
			scheduler (election): 1 process leads, 1 waits
			the leader is 4001@db7, token 7, and says "at work"
			#  STATE  WHO        PID  SINCE  ENDPOINT  SESSION
			1  leads  web1@db7  4001 AGE  db7:8080  SESSION
			2  waits  web2@db7  4002 AGE  db7:8080  SESSION`},
		{"who anew", `
			anew (election): 1 process leads, none waits
			the record is of an earlier leader, gone: the present one has not written it yet, or uses another client
			#  STATE  WHO        PID  SINCE  ENDPOINT  SESSION
			1  leads  web3@db7  4001 AGE  db7:8080  SESSION`},
		{"who vacant", `
			vacant (election): no process leads, none waits
			the last leader was gone`},
		{"who nightly", `
			nightly (cron): 1 process runs it, 1 waits
			the run planned for TIME has begun: attempt 2, by 4001@db7, token 7
			#  STATE  WHO        PID  SINCE  ENDPOINT  SESSION
			1  runs   web1@db7  4001 AGE  db7:8080  SESSION
			2  waits  web2@db7  4002 AGE  db7:8080  SESSION`},
		{"who past", `
			past (cron): no process runs it, none waits
			the last run was planned for TIME: attempt 1, by gone, token 7`},
		{"who planned", `
			planned (cron): no process runs it, none waits
			nothing has run yet; what is planned after TIME will`},
		{"who --json past", `
			{"name":"past","path":"/holdfast/past","kind":"cron","holders":0,"waiting":0,"run":{"planned":"TIME","state":"done","token":7,"attempt":1,"id":"gone"},"entries":[]}`},
		{"who theirs", `
			theirs (latch): 1 process holds it, 1 waits
			#  STATE  KIND       WHO              PID  SINCE  ENDPOINT  SESSION
			1  holds  exclusive  app-7 (curator)    - AGE  -         SESSION
			2  waits  exclusive  app-8 (curator)    - AGE  -         SESSION`},
		{"who selected", `
			selected (selector): 1 process holds it, 1 waits
			#  STATE  KIND       WHO              PID  SINCE  ENDPOINT  SESSION
			1  holds  exclusive  app-7 (curator)    - AGE  -         SESSION
			2  waits  exclusive  app-8 (curator)    - AGE  -         SESSION`},
		{"who mutex", `
			mutex (exclusive): 1 process holds it, none waits
			#  STATE  KIND       WHO                 PID  SINCE  ENDPOINT  SESSION
			1  holds  exclusive  10.1.2.3 (curator)    - AGE  -         SESSION`},
		{"who workers", `
			workers (members): 2 members
			#  STATE   MEMBER  SINCE  SESSION            DATA
			1  member  w1 AGE  SESSION  10.0.0.1:80
			2  member  w2 AGE  SESSION  "\xff\x1b[31m"`},
		{"who boxes", `
			boxes (shards): 2 of 3 shards owned, 2 members, 1 waits
			#  STATE  SHARD  WAITING  WHO      PID  SINCE  ENDPOINT  SESSION
			1  owned      0        1  w1@db7  4001 AGE  db7:8080  SESSION
			2  free       1        0  -          -      -  -         -
			3  owned      2        0  w2@db7  4001 AGE  db7:8080  SESSION`},
		{"who db", `
			db (semaphore): 3 of 3 permits in use, 1 waits
			#  STATE  WHO           PID  SINCE  ENDPOINT  SESSION
			1  holds  billing@db7  4001 AGE  db7:8080  SESSION
			2  holds  billing@db7  4001 AGE  db7:8080  SESSION
			3  holds  billing@db7  4001 AGE  db7:8080  SESSION
			4  waits  report@db7   4003 AGE  db7:8080  SESSION`},
		{"who pool", `
			pool (semaphore): 1 permit in use, 1 waits
			#  STATE  WHO                 PID  SINCE  ENDPOINT  SESSION
			1  holds  10.1.2.3 (curator)    - AGE  -         SESSION
			2  waits  10.1.2.4 (curator)    - AGE  -         SESSION`},
		{"who mails", `
			mails (queue): 3 elements, 1 taken, 1 buried, 1 consumer
			#  STATE  ELEMENT        BYTES  ATTEMPT  WHO          PID  SINCE  ENDPOINT  SESSION
			1  waits  qn-0000000000      0        0  -              - AGE  -         -
			2  taken  qn-0000000001      1        1  mailer@db7  4711 AGE  db7:8080  SESSION
			3  waits  qn-0000000002      2        0  -              - AGE  -         -`},
		{"who other", `
			other (queue, ZooKeeper's DistributedQueue): 2 elements, 0 taken
			#  STATE  ELEMENT        BYTES  ATTEMPT  WHO  PID  SINCE  ENDPOINT  SESSION
			1  waits  qn-0000000007      1        0  -      - AGE  -         -
			2  waits  qn-0000000008      2        0  -      - AGE  -         -`},
		{"who step", `
			step (barrier): round 7: 1 of 3 inside, 1 waits
			#  STATE   ID    WHO         PID  SINCE  ENDPOINT  SESSION
			1  inside  -     one@db7    4001 AGE  db7:8080  SESSION
			2  waits   -     three@db7  4003 AGE  db7:8080  SESSION
			3  left    two   -             -      -  -         -
			4  died    four  -             -      -  -         -`},
		{"who shut", `
			shut (gate): shut by admin@db7
			#  STATE  WHO         PID  SINCE  ENDPOINT  SESSION
			1  shut   admin@db7  4009 AGE  db7:8080  -`},
		{"who closed", `
			closed (gate, Curator's DistributedBarrier): shut by 10.1.2.3 (curator)
			#  STATE  WHO                 PID  SINCE  ENDPOINT  SESSION
			1  shut   10.1.2.3 (curator)    - AGE  -         -`},
		{"ls boxes", `
			LOCK   KIND    HELD BY                   PID  SINCE  WAITING
			boxes  shards  2 of 3 shards, 2 members    - AGE        1`},
		{"ls boxes/shards", `
			LOCK            KIND       HELD BY   PID  SINCE  WAITING
			boxes/shards/0  exclusive  w1@db7   4001 AGE        1
			boxes/shards/2  exclusive  w2@db7   4001 AGE        0`},
		{"who --limit 1 mails", `
			mails (queue): 3 elements, 1 taken, 1 buried, 1 consumer
			#  STATE  ELEMENT        BYTES  ATTEMPT  WHO  PID  SINCE  ENDPOINT  SESSION
			1  waits  qn-0000000000      0        0  -      - AGE  -         -
			… and 2 more`},
		{"who --json scheduler", `
			{"name":"scheduler","path":"/holdfast/scheduler","kind":"election","holders":1,"waiting":1,"since":"TIME","leader":{"id":"4001@db7","token":7,"present":true,"data":"at work"},"holder":{"node":"/holdfast/scheduler/lock/_c_00000000000000000000000000000abd-lock-0000000001","holds":true,"client":"holdfast","label":"web1","host":"db7","pid":4001,"endpoint":"db7:8080","since":"TIME","session":"SESSION","token":7},"entries":[{"position":1,"state":"leads","id":"4001@db7","node":"/holdfast/scheduler/lock/_c_00000000000000000000000000000abd-lock-0000000001","client":"holdfast","label":"web1","host":"db7","pid":4001,"endpoint":"db7:8080","since":"TIME","session":"SESSION","token":7},{"position":2,"state":"waits","node":"/holdfast/scheduler/lock/_c_00000000000000000000000000000abe-lock-0000000002","client":"holdfast","label":"web2","host":"db7","pid":4002,"endpoint":"db7:8080","since":"TIME","session":"SESSION","token":7}]}`},
		{"who --json mails", `
			{"name":"mails","path":"/holdfast/mails","kind":"queue","holders":1,"waiting":2,"members":1,"dead":1,"since":"TIME","entries":[{"position":1,"state":"waits","id":"qn-0000000000","bytes":0,"node":"/holdfast/mails/items/qn-0000000000","since":"TIME","token":7},{"position":2,"state":"taken","id":"qn-0000000001","bytes":1,"attempt":1,"node":"/holdfast/mails/items/qn-0000000001","client":"holdfast","label":"mailer","host":"db7","pid":4711,"endpoint":"db7:8080","since":"TIME","session":"SESSION","token":7},{"position":3,"state":"waits","id":"qn-0000000002","bytes":2,"node":"/holdfast/mails/items/qn-0000000002","since":"TIME","token":7}]}`},
		{"who --json workers", `
			{"name":"workers","path":"/holdfast/workers","kind":"members","holders":2,"waiting":0,"since":"TIME","entries":[{"position":1,"state":"member","id":"w1","node":"/holdfast/workers/w1","since":"TIME","session":"SESSION","token":7,"data":"10.0.0.1:80"},{"position":2,"state":"member","id":"w2","node":"/holdfast/workers/w2","since":"TIME","session":"SESSION","token":7,"base64":"/xtbMzFt"}]}`},
		{"who --json boxes", `
			{"name":"boxes","path":"/holdfast/boxes","kind":"shards","holders":2,"of":3,"waiting":1,"members":2,"since":"TIME","entries":[{"position":1,"state":"owned","id":"0","waiting":1,"node":"/holdfast/boxes/shards/0/_c_00000000000000000000000000000abd-lock-0000000001","client":"holdfast","label":"w1","host":"db7","pid":4001,"endpoint":"db7:8080","since":"TIME","session":"SESSION","token":7},{"position":2,"state":"free","id":"1","node":"/holdfast/boxes/shards/1"},{"position":3,"state":"owned","id":"2","node":"/holdfast/boxes/shards/2/_c_00000000000000000000000000000abd-lock-0000000001","client":"holdfast","label":"w2","host":"db7","pid":4001,"endpoint":"db7:8080","since":"TIME","session":"SESSION","token":7}]}`},
	} {
		r := e.holdfast(strings.Fields(test.args)...)
		wantLines(t, test.args, spaced(r.stdout), spaced(test.stdout))
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%s: exit code %d, %s", test.args, r.code, r.stderr)
		}
	}
	if len(e.Nodes()) != nodes {
		t.Errorf("%d nodes, before %d", len(e.Nodes()), nodes)
	}
}

// What is about a lock refuses the name of a recipe: the lock of that name is free, which says
// nothing of the recipe.
func TestRecipesAreNoLocks(t *testing.T) {
	e := startEnsemble(t)
	layouts(t, e)
	nodes := len(e.Nodes())
	for _, test := range []struct{ args, want string }{
		{"ask scheduler", "scheduler is an election: name its lock, scheduler/lock, or see holdfast who scheduler"},
		{"revoke scheduler", "scheduler is an election: name its lock, scheduler/lock, or see holdfast who scheduler"},
		{"watch nightly", "nightly is a job at planned times: name its lock, nightly/lock, or see holdfast who nightly"},
		{"break --yes boxes", "boxes is divided work: name the lock of a shard, such as boxes/shards/0, or see holdfast who boxes"},
		{"revoke mails", "mails is a queue, and no lock to revoke: see holdfast who mails"},
		{"revoke db", "db is a semaphore, and no lock to revoke: see holdfast who db"},
		{"break --yes workers", "workers is a group of members, and no lock to break: see holdfast who workers"},
		{"watch step", "step is a barrier, and no lock to watch: see holdfast who step"},
		{"ask shut", "shut is a gate, and no lock to ask: see holdfast who shut"},
		{"run scheduler -- true", "scheduler is an election: a lock of that name would not keep its processes out; choose another name"},
		{"run --read mails -- true", "mails is a queue: a lock of that name would not keep its processes out; choose another name"},
	} {
		r := e.holdfast(strings.Fields(test.args)...)
		wantLines(t, test.args, r.stderr, "holdfast: "+test.want)
		if r.code != exitUsage || r.stdout != "" {
			t.Errorf("%s: exit code %d, %s", test.args, r.code, r.stdout)
		}
	}
	if len(e.Nodes()) != nodes {
		t.Errorf("%d nodes, before %d", len(e.Nodes()), nodes)
	}
	r := e.holdfast("break", "--yes", "scheduler/lock")
	wantLines(t, "break an election's lock", r.stdout, "deleted the node of web1@db7, pid 4001, at db7:8080\nscheduler/lock is held by web2@db7; none waits")
}

// The JSON of ls has each recipe, and says of each lock which recipe it belongs to.
func TestRecipesAsJSON(t *testing.T) {
	e := startEnsemble(t)
	layouts(t, e)
	r := e.holdfast("ls", "--json")
	var facts struct {
		Locks []struct {
			Lock   string
			PartOf string `json:"part_of"`
		}
		Recipes []struct {
			Name, Path, Kind, Foreign                  string
			Holders, Of, Waiting, Members, Dead, Round int
			Leader                                     *struct{ ID, Data string }
			Holder                                     *struct{ Label, Host, Client, Identity string }
		}
	}
	text := strings.ReplaceAll(r.stdout, "TIME", "2026-01-01T00:00:00Z")
	must(t, json.Unmarshal([]byte(text), &facts))
	for _, l := range facts.Locks {
		want, _, _ := strings.Cut(l.Lock, "/")
		if slices.Contains([]string{"mutex", "revoked", "selected", "theirs"}, want) {
			want = ""
		}
		if l.PartOf != want {
			t.Errorf("%s is part of %q, want %q", l.Lock, l.PartOf, want)
		}
	}
	var got []string
	for _, r := range facts.Recipes {
		line := fmt.Sprintf("%s %s %d/%d +%d %d %d #%d %s", r.Name, r.Kind, r.Holders, r.Of, r.Waiting, r.Members, r.Dead, r.Round, r.Foreign)
		if r.Leader != nil {
			line += r.Leader.ID + ": " + r.Leader.Data
		}
		if r.Holder != nil {
			line += " by " + r.Holder.Label + r.Holder.Identity
		}
		got = append(got, line)
	}
	wantLines(t, "the recipes", strings.Join(got, "\n"), `
		anew election 1/0 +0 0 0 #0 gone:  by web3
		boxes shards 2/3 +1 2 0 #0
		closed gate 0/0 +0 0 0 #0 Curator's DistributedBarrier by 10.1.2.3
		db semaphore 3/3 +1 0 0 #0  by billing
		mails queue 1/0 +2 1 1 #0
		nightly cron 1/0 +1 0 0 #0  by web1
		other queue 0/0 +2 0 0 #0 ZooKeeper's DistributedQueue
		past cron 0/0 +0 0 0 #0
		planned cron 0/0 +0 0 0 #0
		pool semaphore 1/0 +1 0 0 #0  by 10.1.2.3
		scheduler election 1/0 +1 0 0 #0 4001@db7: at work by web1
		shut gate 0/0 +0 0 0 #0  by admin
		step barrier 1/3 +1 0 0 #7
		vacant election 0/0 +0 0 0 #0 gone:
		workers members 2/0 +0 0 0 #0`)
}

// With the right to read some of the nodes only, ls and who show what they can, and say what
// they could not see.
func TestRecipesWithFewRights(t *testing.T) {
	e := startEnsemble(t)
	admin := openClient(t, e.addr, zkio.Auth{Scheme: "digest", Data: []byte("admin:secret")}).Session()
	hidden := []zkio.ACL{{Perms: zkio.PermAll, Scheme: "auth"}}
	hide := func(path, data string) {
		t.Helper()
		dir := "/holdfast/" + path[:strings.LastIndexByte(path, '/')]
		if !e.Exists(dir) {
			must(t, e.CreateAll(dir, nil))
		}
		must(t, admin.Create("/holdfast/"+path, []byte(data), hidden))
	}
	hide("boxes/spec", `{"shards": 3, "algorithm": "capped"}`)
	e.hold(t, "boxes/shards/0", "lock-", 1, "w1")
	hide("db/permits", "\x00\x00\x00\x03")
	e.put(t, "/holdfast/db/leases/_c_"+dashed+"0-lease-0000000000", "10.1.2.3")
	hide("mails/items", "")
	must(t, e.CreateAll("/holdfast/mails/consumers", nil))
	hide("scheduler/leader", `{"token": 7, "id": "x"}`)
	e.hold(t, "scheduler/lock", "lock-", 1, "web1")
	hide("nightly/record", `{"planned": "2026-03-01T05:00:00Z", "state": "done"}`)
	e.hold(t, "nightly/lock", "lock-", 1, "web1")
	hide("step/round", `{"size": 2, "round": 7}`)
	e.put(t, "/holdfast/step/members/in-a", process("one", "member", 4001))
	must(t, e.CreateAll("/holdfast/workers", nil))
	must(t, admin.CreateEphemeral("/holdfast/workers/w1", []byte("secret"), hidden))
	e.put(t, "/holdfast/workers/w2", "10.0.0.1:80")
	for _, test := range []struct{ args, stdout, stderr string }{
		{"ls", `
			LOCK KIND HELD BY PID AGE WAITING
			boxes shards 1 shard, 0 members - AGE 0
			db semaphore 1 permit - AGE 0
			mails queue 0 elements, 0 taken - - 0
			nightly cron web1@db7 4001 AGE 0
			scheduler election web1@db7 4001 AGE 0
			step barrier 0 inside - - 1
			workers members 2 members - AGE 0`,
			"holdfast: may not read 6 nodes of recipes, so what they tell does not show: /holdfast/boxes/spec, /holdfast/db/permits, /holdfast/mails/items and 3 more"},
		{"who boxes", `
			boxes (shards): 1 shard owned, 0 members, none waits
			# STATE SHARD WAITING WHO PID AGE ENDPOINT SESSION
			1 owned 0 0 w1@db7 4001 AGE db7:8080 SESSION`,
			"holdfast: may not read 1 node of recipes, so what they tell does not show: /holdfast/boxes/spec"},
		{"who db", `
			db (semaphore): 1 permit in use, none waits
			# STATE WHO PID AGE ENDPOINT SESSION
			1 holds 10.1.2.3 (curator) - AGE - SESSION`,
			"holdfast: may not read 1 node of recipes, so what they tell does not show: /holdfast/db/permits"},
		{"who mails", `
			mails (queue): 0 elements, 0 taken, 0 consumers`,
			"holdfast: may not read 1 node of recipes, so what they tell does not show: /holdfast/mails/items"},
		{"who scheduler", `
			scheduler (election): 1 process leads, none waits
			# STATE WHO PID AGE ENDPOINT SESSION
			1 leads web1@db7 4001 AGE db7:8080 SESSION`,
			"holdfast: may not read 1 node of recipes, so what they tell does not show: /holdfast/scheduler/leader"},
		{"who step", `
			step (barrier): round 0: 0 inside, 1 waits
			# STATE ID WHO PID AGE ENDPOINT SESSION
			1 waits - one@db7 4001 AGE db7:8080 SESSION`,
			"holdfast: may not read 1 node of recipes, so what they tell does not show: /holdfast/step/round"},
		{"who workers", `
			workers (members): 2 members
			# STATE MEMBER AGE SESSION DATA
			1 member w1 AGE SESSION (may not be read)
			2 member w2 AGE SESSION 10.0.0.1:80`,
			""},
	} {
		r := e.holdfast(strings.Fields(test.args)...)
		wantLines(t, test.args, spaced(r.stdout), spaced(test.stdout))
		wantLines(t, test.args+", stderr", r.stderr, test.stderr)
	}
	if r := e.holdfast("--json", "who", "boxes"); !strings.Contains(r.stdout, `"unreadable":["/holdfast/boxes/spec"]`) {
		t.Errorf("as JSON: %s", r.stdout)
	}
}

// Of a queue, a group and an election with very many nodes ls and who read few.
func TestRecipesOfManyNodes(t *testing.T) {
	e := startEnsemble(t)
	const many = 10_000
	must(t, e.CreateAll("/holdfast/mails/items", nil))
	must(t, e.CreateAll("/holdfast/mails/consumers", nil))
	must(t, e.CreateAll("/holdfast/other", nil))
	for i := range many {
		must(t, e.Create(fmt.Sprintf("/holdfast/mails/items/qn-%010d", i), nil))
		must(t, e.Create(fmt.Sprintf("/holdfast/other/qn-%010d", i), nil))
		e.put(t, fmt.Sprintf("/holdfast/workers/w%05d", i), "")
		e.put(t, fmt.Sprintf("/holdfast/scheduler/lock/lock-%010d", i), "")
	}
	must(t, e.CreateAll("/holdfast/scheduler/leader", []byte(`{"token": 1, "id": "x"}`)))
	for _, test := range []struct {
		args  string
		lines int
		most  uint64 // reads
	}{
		{"ls", 5, many + 1000}, // each member is looked at: whether it is one
		{"ls mails", 2, 300},
		{"ls other", 2, 300},
		{"who mails", 53, 300},
		{"who other", 53, 300},
		{"who workers", 53, many + 300},
		{"who scheduler", 54, 100},
	} {
		before := reads(e)
		r := e.holdfast(strings.Fields(test.args)...)
		if n := strings.Count(r.stdout, "\n"); n != test.lines || r.code != 0 {
			t.Errorf("%s: %d lines, want %d; exit code %d, %s", test.args, n, test.lines, r.code, r.stderr)
		}
		if n := reads(e) - before; n > test.most {
			t.Errorf("%s takes %d reads, want %d at most", test.args, n, test.most)
		}
	}
}

// reads returns how many reads the server has answered.
func reads(e *ensemble) (n uint64) {
	counts := e.RequestCounts()
	for _, op := range []zktest.Op{zktest.OpExists, zktest.OpGetData, zktest.OpGetChildren2, zktest.OpMultiRead} {
		n += counts[op]
	}
	return n
}
