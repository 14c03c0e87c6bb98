// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

const (
	second = time.Second
	tick   = 2 * time.Second
)

// answers returns the server zk<n> of a healthy ensemble, changed by changes: "conf
// tickTime=4000", "mntr -" (not answered), "srvr Mode=leader".
func answers(n int, changes ...string) server {
	s := server{
		addr: fmt.Sprintf("zk%d:2181", n),
		srvr: map[string]string{"Zookeeper version": "3.9.4-7246445ec281f3dbf53dc54e970c914f39713903, built on 2025-08-19", "Mode": "follower"},
		conf: map[string]string{"tickTime": "2000", "syncLimit": "2", "minSessionTimeout": "4000", "maxSessionTimeout": "40000"},
		mntr: map[string]string{"zk_synced_observers": "0"},
	}
	for _, change := range changes {
		word, setting, _ := strings.Cut(change, " ")
		answer := map[string]*map[string]string{"srvr": &s.srvr, "conf": &s.conf, "mntr": &s.mntr}[word]
		if setting == "-" {
			*answer = nil
			s.untold = append(s.untold, word)
			continue
		}
		key, value, _ := strings.Cut(setting, "=")
		(*answer)[key] = value
	}
	s.least, s.most = milliseconds(s.conf["minSessionTimeout"]), milliseconds(s.conf["maxSessionTimeout"])
	return s
}

// healthy returns the facts of a healthy ensemble, changed by change.
func healthy(change func(f *facts)) *facts {
	f := &facts{
		root: "/holdfast", asked: 10 * second, granted: 10 * second, named: 3,
		servers: []server{answers(1), answers(2, "srvr Mode=leader"), answers(3)},
		members: members{voters: 3},
		tree:    tree{dirs: []directory{{path: "/holdfast"}, {path: "/holdfast/jobs", kinds: []string{kindMutex}}}},
		trial:   trial{dir: "/holdfast", container: true, writes: took(time.Millisecond), reads: []time.Duration{time.Millisecond}},
	}
	start := time.Now()
	for i := range 3 {
		now := start.Add(time.Duration(i) * second)
		f.trial.stamps = append(f.trial.stamps, stamp{now, now.Add(time.Millisecond), now})
	}
	f.trial.wall = 2 * second
	if change != nil {
		change(f)
	}
	return f
}

// took returns writes that were due every so often, and took that long.
func took(all ...time.Duration) (writes []timed) {
	begin := time.Now()
	for i, d := range all {
		writes = append(writes, timed{begin.Add(time.Duration(i) * every), d})
	}
	return writes
}

// stopped returns what the writes of five seconds take if the server is stopped in the
// first part of each period.
func stopped(part, period time.Duration) []timed {
	var all []time.Duration
	for due := time.Duration(0); due < 5*second; due += every {
		all = append(all, max(time.Millisecond, part-due%period))
	}
	return took(all...)
}

// Of a healthy ensemble each check has one finding, which is OK.
func TestHealthy(t *testing.T) {
	for i, finding := range diagnose(healthy(nil)) {
		if finding.Level != OK || finding.Check != checks[i].id || finding.Found == "" {
			t.Errorf("%+v", finding)
		}
	}
}

// Each ailment is found, by the one check that looks for it.
func TestChecks(t *testing.T) {
	servers := func(all ...server) func(*facts) { return func(f *facts) { f.servers = all } }
	timeout := func(d time.Duration) func(*facts) { return func(f *facts) { f.asked, f.granted = d, d } }
	both := func(changes ...func(*facts)) func(*facts) {
		return func(f *facts) {
			for _, change := range changes {
				change(f)
			}
		}
	}
	dead := answers(3)
	dead.err = errors.New("connection refused")
	lock := func(d directory) func(*facts) {
		return func(f *facts) { f.tree.dirs = append(f.tree.dirs, d) }
	}
	world := []zkio.ACL{{Perms: zkio.PermAll, Scheme: "world", ID: "anyone"}}
	master := answers(1, "mntr zk_synced_observers=1", "conf tickTime=3000")
	master.least = 6 * second

	for _, test := range []struct {
		name, check string
		level       Level
		where       string
		found       string // part of Found
		change      string // part of Change
		facts       func(f *facts)
	}{
		{"a server is down", "servers", Warn, "zk3:2181", "connection refused", "start it", servers(answers(1), answers(2), dead)},
		{"one server, and it is down", "servers", Fail, "zk3:2181", "connection refused", "start it", servers(dead)},
		{"a single server", "servers", Note, "zk1:2181", "single server", "three servers", servers(answers(1, "srvr Mode=standalone"))},

		{"conf and mntr not allowed", "four-letter-words", Note, "zk1:2181", "conf, mntr", "4lw.commands.whitelist=srvr,conf,mntr", servers(answers(1, "conf -", "mntr -"), answers(2))},

		{"without containers", "version", Fail, "zk1:2181", "3.4.14", "upgrade", servers(answers(1, "srvr Zookeeper version=3.4.14-x"))},
		{"the future", "version", Note, "zk1:2181", "3.10.0", "make test", servers(answers(1, "srvr Zookeeper version=3.10.0-x"))},
		{"embedded", "version", Warn, "zk1:2181", "embedded", "tests only", servers(answers(1, "srvr Zookeeper version=3.8.0-zktest, built on"))},
		{"another product", "version", Note, "zk1:2181", `"v24.1"`, "find out", servers(answers(1, "srvr Zookeeper version=v24.1"))},
		{"mixed versions", "version", Note, "", "3.9.4, 3.9.5", "finish the upgrade", servers(answers(1), answers(2, "srvr Zookeeper version=3.9.5-x"))},
		{"no version", "version", Note, "", "no server", "srvr", servers(answers(1, "srvr -"))},

		{"not all servers named", "members", Note, "", "has 5 servers, and the connection string names 3", "name all", func(f *facts) { f.members.voters = 5 }},
		{"members not told", "members", Note, "", "not authorized", "/zookeeper/config", func(f *facts) { f.members.err = errors.New("not authorized") }},

		{"different ticks", "tick-time", Fail, "zk2:2181", "2s at zk1:2181, zk3:2181; 1s at zk2:2181", "same tickTime", servers(answers(1), answers(2, "conf tickTime=1000"), answers(3))},
		{"ticks not told", "tick-time", Note, "", "no server", "conf", servers(answers(1, "conf -"))},

		{"another greatest timeout", "session-bounds", Fail, "zk3:2181", "maxSessionTimeout differs: 40s at zk1:2181, zk2:2181; 1m0s at zk3:2181", "same maxSessionTimeout", servers(answers(1), answers(2), answers(3, "conf maxSessionTimeout=60000"))},
		{"another least timeout", "session-bounds", Fail, "zk1:2181", "minSessionTimeout differs", "same minSessionTimeout", servers(answers(1, "conf minSessionTimeout=5000"), answers(2), answers(3))},
		{"less than two ticks allowed", "session-bounds", Warn, "zk1:2181", "1s, less than two ticks of 2s", "minSessionTimeout=4000", servers(answers(1, "conf minSessionTimeout=1000"))},

		{"another timeout is granted", "session-timeout", Warn, "", "grant a session timeout of 10s, and 1m0s was asked for", "ask for 10s", func(f *facts) { f.asked = time.Minute }},
		{"less than two ticks", "session-timeout", Fail, "", "less than two ticks of 4s", "at least 8s", both(timeout(7*second), servers(answers(1, "conf tickTime=4000", "conf minSessionTimeout=8000", "conf syncLimit=0")))},
		{"short", "session-timeout", Warn, "", "3s is short", "at least 4s", both(timeout(3*second), servers(answers(1, "conf tickTime=500", "conf syncLimit=2")))},

		{"syncLimit beyond the timeout", "sync-limit", Warn, "", "40s, longer than the session timeout of 10s", "syncLimit=2", servers(answers(1, "conf syncLimit=20"))},
		{"syncLimit beyond half of it", "sync-limit", Note, "", "10s, longer than half", "syncLimit=2 or less on all servers, or ask for a session timeout of at least 20s", servers(answers(1, "conf syncLimit=5"))},

		{"an ObserverMaster", "observers", Fail, "zk1:2181", "less than four ticks", "at least 12s", servers(master)},
		{"observers of some kind", "observers", Warn, "", "may follow an ObserverMaster", "mntr", both(timeout(7*second), servers(answers(1, "mntr -", "conf syncLimit=1")), func(f *facts) { f.members = members{voters: 1, observers: 1} })},

		{"a mistyped chroot", "chroot", Fail, "/prdo", "no such node", "correct the connection string", func(f *facts) { f.chroot, f.noChroot = "/prdo", true }},
		{"no right to create", "permissions", Fail, "/holdfast", "may not create nodes", "setAcl", func(f *facts) { f.trial = trial{dir: "/holdfast", refused: "create nodes"} }},
		{"a lock out of reach", "permissions", Warn, "/holdfast/secret", "may not list 1 directory", "right to read", func(f *facts) { f.tree.denied = []string{"/holdfast/secret"} }},
		{"the trial failed", "permissions", Warn, "/holdfast", "connection lost", "again", func(f *facts) { f.trial.err = errors.New("connection lost") }},
		{"the search failed", "permissions", Warn, "/holdfast", "connection lost", "again", func(f *facts) { f.tree.err = errors.New("connection lost") }},

		{"no containers", "containers", Note, "", "no container nodes", "upgrade", func(f *facts) { f.trial.container = false }},

		{"a pause", "latency", Warn, "", "a write took 2s, more than a seventh of the session timeout of 10s; writes stood still for 2s of 2.05s, for 2s at most", "dataLogDir", func(f *facts) { f.trial.writes = took(1, 1, 2*second) }},
		{"a slow disk", "latency", Note, "", "half of the writes took more than 300ms", "dataLogDir", func(f *facts) { f.trial.writes = took(300 * time.Millisecond) }},
		{"stopped for most of each second", "latency", Warn, "", "writes stood still for 4.5s of 4.98s, for 900ms at most", "garbage collection", func(f *facts) { f.trial.writes = stopped(900*time.Millisecond, second) }},
		{"stopped for half of the time", "latency", Warn, "", "writes stood still for 2.6s of 5s, for 200ms at most", "garbage collection", func(f *facts) { f.trial.writes = stopped(200*time.Millisecond, 400*time.Millisecond) }},
		{"one hiccup", "latency", Note, "", "writes stood still for 300ms of 4.98s, for 300ms at most", "garbage collection", func(f *facts) { f.trial.writes = stopped(300*time.Millisecond, 5*second) }},
		{"doctor stood still", "latency", Note, "this machine", "doctor itself stood still for 1s", "less busy", func(f *facts) { f.trial.late = second }},

		{"this clock was set", "clocks", Warn, "this machine", "set by 5s in 2s", "slew", func(f *facts) { f.trial.wall += 5 * second }},
		{"the leader's clock was set", "clocks", Warn, "the leader", "by 997ms in 2s", "again", func(f *facts) { f.trial.stamps[2].leader = f.trial.stamps[2].leader.Add(-second) }},
		{"clocks apart", "clocks", Note, "the leader", "1h0m0s apart", "NTP", func(f *facts) {
			for i := range f.trial.stamps {
				f.trial.stamps[i].leader = f.trial.stamps[i].leader.Add(time.Hour + time.Millisecond)
			}
		}},

		{"a port for all", "admission", Note, "zk2:2181", "every client that reaches the port is admitted", "ssl.clientAuth=need", func(f *facts) { f.servers[1].strangers = true }},

		{"open", "open-directories", Note, "/holdfast/open", "1 directory (world:anyone:cdrwa)", "Config.ACL", lock(directory{path: "/holdfast/open", acl: world})},
		{"open, although there are credentials", "open-directories", Warn, "/holdfast/open", "1 directory", "Config.ACL", both(lock(directory{path: "/holdfast/open", acl: world}), func(f *facts) { f.credentials = true })},

		{"another recipe", "foreign-recipes", Note, "/holdfast/x", "nodes of Curator's LeaderLatch (latch-0000000000)", "nothing, unless", lock(directory{path: "/holdfast/x", recipes: []string{"Curator's LeaderLatch (latch-0000000000)"}})},
		{"another recipe beside locks", "foreign-recipes", Warn, "/holdfast/x", "nodes of Curator's LeaderLatch (latch-0000000000) and of exclusive locks", "another path", lock(directory{path: "/holdfast/x", recipes: []string{"Curator's LeaderLatch (latch-0000000000)"}, kinds: []string{kindMutex}})},
		{"mutex and write lock", "mixed-kinds", Warn, "/holdfast/x", "exclusive locks and read/write locks", "one kind", lock(directory{path: "/holdfast/x", kinds: []string{kindMutex, kindReadWrite}})},
		{"Curator beside kazoo", "mixed-kinds", Warn, "/holdfast/x", "exclusive locks and kazoo's locks", "extra_lock_patterns", lock(directory{path: "/holdfast/x", kinds: []string{kindMutex, kindKazoo}})},

		{"half of the numbers", "sequence-numbers", Note, "/holdfast/x", "1500000000 of 2146435072", "delete", lock(directory{path: "/holdfast/x", next: 1_500_000_000})},
		{"all of the numbers", "sequence-numbers", Warn, "/holdfast/x", "2147483647", "delete", lock(directory{path: "/holdfast/x", next: 1<<31 - 1})},
		{"too much", "sequence-numbers", Note, "/holdfast", "more than 20000 nodes", "--root", func(f *facts) { f.tree.more = true }},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := diagnose(healthy(test.facts))
			of := slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.Check != test.check || f.Level == OK })
			if len(of) != 1 {
				t.Fatalf("%d findings by %s, want 1: %+v", len(of), test.check, found)
			}
			f := of[0]
			if f.Level != test.level || f.Where != test.where || !strings.Contains(f.Found, test.found) || !strings.Contains(f.Change, test.change) || f.Why == "" {
				t.Errorf("%v at %q: %s\nwhy: %s\ndo: %s", f.Level, f.Where, f.Found, f.Why, f.Change)
			}
			for _, other := range found {
				if other.Check != test.check && other.Level > max(Note, test.level) {
					t.Errorf("found as well: %+v", other)
				}
			}
		})
	}
}

// The advised release has no bug of the table, and the ones before have some.
func TestAdvised(t *testing.T) {
	for _, b := range bugs {
		if b.has(advised) {
			t.Errorf("%v has ZOOKEEPER-%d", advised, b.issue)
		}
	}
	if !slices.ContainsFunc(bugs, func(b bug) bool { return b.has(release{advised[0], advised[1], advised[2] - 1}) }) {
		t.Error("the release before it would do as well")
	}
}

// Of directories whose ACLs it has not seen, doctor does not say that they are closed.
func TestUnseenDirectories(t *testing.T) {
	closed := []zkio.ACL{{Perms: zkio.PermAll, Scheme: "digest", ID: "anna:x"}}
	for name, test := range map[string]struct {
		tree tree
		want string
	}{
		"no root yet":    {tree{missing: true}, "there is no directory yet"},
		"not readable":   {tree{dirs: []directory{{path: "/holdfast"}}}, "there is no directory whose ACL this client may read"},
		"partly so":      {tree{dirs: []directory{{path: "/holdfast"}, {path: "/holdfast/x", acl: closed}}}, "in 1 directory, no client can delete nodes unless it has credentials"},
		"all is visible": {tree{dirs: []directory{{path: "/holdfast", acl: closed}, {path: "/holdfast/x", acl: closed}}}, "in 2 directories, no client can delete nodes unless it has credentials"},
	} {
		if f := checkOpenDirectories(&facts{tree: test.tree}); len(f) != 1 || f[0].Level != OK || f[0].Found != test.want {
			t.Errorf("%s: %+v, want %q", name, f, test.want)
		}
	}
}

// What suits is not reported.
func TestSuits(t *testing.T) {
	for name, facts := range map[string]func(f *facts){
		"an observer":               func(f *facts) { f.members.observers = 1; f.named = 4 },
		"behind an ObserverMaster":  func(f *facts) { f.servers[0].mntr["zk_synced_observers"] = "2" },
		"no root yet":               func(f *facts) { f.tree = tree{missing: true}; f.trial.dir = "/" },
		"versions since the repair": func(f *facts) { f.servers[0].srvr["Zookeeper version"] = "3.9.4" },
		"four ticks":                func(f *facts) { f.asked, f.granted = 4*tick, 4*tick; f.servers[0].mntr["zk_synced_observers"] = "1" },
		"a slewed clock": func(f *facts) {
			f.trial.stamps[2].leader = f.trial.stamps[2].leader.Add(50 * time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, finding := range diagnose(healthy(facts)) {
				if finding.Level != OK {
					t.Errorf("%+v", finding)
				}
			}
		})
	}
}

// Many findings of a kind are cut short.
func TestShortened(t *testing.T) {
	f := healthy(func(f *facts) {
		for i := range 25 {
			f.tree.dirs = append(f.tree.dirs, directory{path: fmt.Sprintf("/holdfast/%d", i), recipes: []string{"a recipe"}})
		}
	})
	found := checkForeignRecipes(f)
	if last := found[len(found)-1].Found; len(found) != most || !strings.HasSuffix(last, "(and 15 more directories like it)") {
		t.Errorf("%d, the last says %q", len(found), last)
	}
}

// Without a session only the servers are judged.
func TestWithoutSession(t *testing.T) {
	for _, finding := range diagnose(&facts{servers: []server{answers(1)}}) {
		if finding.Check == "latency" || finding.Check == "permissions" {
			t.Errorf("%+v", finding)
		}
	}
}

func TestNames(t *testing.T) {
	const guid = "_c_0123456789abcdef0123456789abcdef-"
	for name, want := range map[string]string{
		guid + "lock-0000000001":                                  kindMutex,
		"_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000001": kindMutex,
		"lock--2147483648":                                        kindMutex,
		guid + "__READ__0000000001":                               kindReadWrite,
		guid + "__WRIT__0000000001":                               kindReadWrite,
		"0123456789abcdef0123456789abcdef__lock__0000000001":      kindKazoo,
		"0123456789abcdef0123456789abcdef__rlock__0000000001":     kindKazoo,
		guid + "latch-0000000001":                                 "Curator's LeaderLatch",
		guid + "lease-0000000001":                                 "Curator's InterProcessSemaphoreV2",
		"qn-0000000001":                                           "a queue of ZooKeeper's recipes",
		"jobs":                                                    "",
		"lock-1":                                                  "",
		"_c_1-lock-0000000001":                                    "", // no client's guid is so short
		"my-latch-0000000001":                                     "",
	} {
		if got := kindOf(name) + recipeOf(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestParseMembers(t *testing.T) {
	const text = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=zk2:2888:3888|zk2b:2888:3888;2181\nserver.3=zk3:2888:3888:participant;2181\nserver.4=zk4:2888:3888:observer;2181\nversion=100000003"
	if m := parseMembers(text); m.voters != 3 || m.observers != 1 {
		t.Errorf("%+v", m)
	}
}

// Programs rely on the ids, so the documents have them.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../docs/command.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if !strings.Contains(string(text), "| `"+c.id+"` |") {
			t.Errorf("docs/command.md lacks %s", c.id)
		}
	}
}
