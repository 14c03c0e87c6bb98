// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
)

// A check judges the facts. It returns at least one finding, unless it has nothing to
// judge.
type check struct {
	id        string // stable: programs that read the findings know it
	ofSession bool   // it needs a session
	examine   func(*facts) []Finding
}

// checks are in the order in which an operator would look.
var checks = []check{
	{"servers", false, checkServers},
	{"four-letter-words", false, checkWords},
	{"version", false, checkVersion},
	{"likeness", false, checkLikeness},
	{"members", true, checkMembers},
	{"tick-time", false, checkTickTime},
	{"session-bounds", false, checkSessionBounds},
	{"session-timeout", true, checkSessionTimeout},
	{"sync-limit", true, checkSyncLimit},
	{"observers", true, checkObservers},
	{"chroot", true, checkChroot},
	{"permissions", true, checkPermissions},
	{"containers", true, checkContainers},
	{"latency", true, checkLatency},
	{"clocks", true, checkClocks},
	{"admission", false, checkAdmission},
	{"open-directories", true, checkOpenDirectories},
	{"foreign-recipes", true, checkForeignRecipes},
	{"mixed-kinds", true, checkMixedKinds},
	{"persistent-contenders", true, checkPersistent},
	{"unknown-nodes", true, checkUnknown},
	{"sequence-numbers", true, checkSequenceNumbers},
}

// fine returns a finding that all is as it should be.
func fine(format string, args ...any) Finding {
	return Finding{Level: OK, Found: fmt.Sprintf(format, args...)}
}

// orFine returns findings or, if there are none, that all is as it should be.
func orFine(findings []Finding, format string, args ...any) []Finding {
	if len(findings) == 0 {
		return []Finding{fine(format, args...)}
	}
	return findings
}

func checkServers(f *facts) (out []Finding) {
	serving := f.serving()
	level := Warn
	if len(serving) == 0 {
		level = Fail
	}
	for _, s := range f.servers {
		if s.err != nil {
			out = append(out, Finding{
				Level: level, Where: s.addr, Found: "it does not serve: " + s.err.Error(),
				Why:    "when too few servers are left for a quorum, no lock is granted, and all are lost",
				Change: "start it, and read its log; or take it out of the connection string",
			})
		} else if s.mode() == "standalone" {
			out = append(out, Finding{
				Level: Note, Where: s.addr, Found: "it is a single server, in no ensemble",
				Why:    "all locks are lost if it fails for longer than the session timeout",
				Change: "for production, run three servers",
			})
		}
	}
	return orFine(out, "all %d serve", len(serving))
}

func checkWords(f *facts) (out []Finding) {
	serving := f.serving()
	if len(serving) == 0 {
		return nil
	}
	for _, s := range serving {
		if len(s.untold) == 0 {
			continue
		}
		out = append(out, Finding{
			Level: Note, Where: s.addr, Found: "it does not answer " + strings.Join(s.untold, ", "),
			Why:    "conf has tickTime and syncLimit, and mntr has observers, which cannot be checked here",
			Change: "put 4lw.commands.whitelist=srvr,conf,mntr into its zoo.cfg, and restart it",
		})
	}
	return orFine(out, "srvr, conf and mntr are answered")
}

func checkVersion(f *facts) (out []Finding) {
	serving := f.serving()
	var versions []string
	var healthy string
	for _, s := range serving {
		version := s.version()
		if version == "" {
			continue
		}
		finding := judgeVersion(version)
		healthy = finding.Found
		if finding.Level != OK {
			finding.Where = s.addr
			out = append(out, finding)
		}
		versions = append(versions, releaseNumber.FindString(version))
	}
	slices.Sort(versions)
	versions = slices.Compact(versions)
	if len(versions) > 1 {
		out = append(out, Finding{
			Level: Note, Found: "the servers have different versions: " + strings.Join(versions, ", "),
			Why:    "that is for the time of an upgrade: they behave differently",
			Change: "finish the upgrade",
		})
	}
	switch {
	case len(serving) == 0:
		return nil
	case len(versions) == 0 && serving[0].product() != "":
		return nil // see checkLikeness
	case len(versions) == 0:
		return []Finding{{Level: Note, Found: "no server tells its version", Why: "some releases have bugs that break any lock", Change: "allow srvr in 4lw.commands.whitelist"}}
	}
	return orFine(out, "%s", healthy)
}

func checkMembers(f *facts) []Finding {
	known := f.members.voters + f.members.observers
	switch {
	case f.members.err != nil:
		return []Finding{{Level: Note, Found: "the ensemble's members cannot be read: " + f.members.err.Error(), Why: "a process should know all servers", Change: "allow this client to read /zookeeper/config"}}
	case known > f.named:
		return []Finding{{
			Level: Note, Found: fmt.Sprintf("the ensemble has %d servers, and the connection string names %d", known, f.named),
			Why:    "a process that knows few servers is cut off when these fail, and the others were not examined",
			Change: "name all servers, in each process",
		}}
	case known == 0:
		return []Finding{fine("a single server")}
	}
	return []Finding{fine("%s, %s", figures.Count(f.members.voters, "voter"), figures.Count(f.members.observers, "observer"))}
}

// differing returns a finding if the servers do not agree about a setting. Servers that do
// not tell it, with 0, are passed over.
func differing(servers []server, setting, why string, of func(server) time.Duration) []Finding {
	by := make(map[time.Duration][]string)
	var values []time.Duration
	for _, s := range servers {
		v := of(s)
		if v == 0 {
			continue
		}
		if by[v] == nil {
			values = append(values, v)
		}
		by[v] = append(by[v], s.addr)
	}
	if len(values) < 2 {
		return nil
	}
	slices.SortFunc(values, func(a, b time.Duration) int { return cmp.Or(len(by[b])-len(by[a]), cmp.Compare(a, b)) })
	var texts []string
	for _, v := range values {
		texts = append(texts, fmt.Sprintf("%v at %s", v, strings.Join(by[v], ", ")))
	}
	return []Finding{{
		Level: Fail, Where: strings.Join(by[values[len(values)-1]], ", "), Found: setting + " differs: " + strings.Join(texts, "; "), Why: why,
		Change: fmt.Sprintf("set the same %s in every server's zoo.cfg, and restart one server after the other", setting),
	}}
}

func checkTickTime(f *facts) []Finding {
	out := differing(f.servers, "tickTime", "sessions end by the leader's tickTime, and any server can become the leader", server.tick)
	switch {
	case len(f.serving()) == 0:
		return nil
	case f.tick() == 0:
		return []Finding{{Level: Note, Found: "no server tells its tickTime", Why: "the session timeout must be at least two ticks", Change: "allow conf in 4lw.commands.whitelist"}}
	}
	return orFine(out, "%v", f.tick())
}

func checkSessionBounds(f *facts) (out []Finding) {
	const why = "a client that reconnects to a server with other bounds gets another session timeout, and a lease that it computed from a longer one lasts too long"
	out = append(out, differing(f.servers, "minSessionTimeout", why, func(s server) time.Duration { return s.least })...)
	out = append(out, differing(f.servers, "maxSessionTimeout", why, func(s server) time.Duration { return s.most })...)
	for _, s := range f.servers {
		if s.tick() > 0 && s.least > 0 && s.least < 2*s.tick() {
			out = append(out, Finding{
				Level: Warn, Where: s.addr, Found: fmt.Sprintf("minSessionTimeout is %v, less than two ticks of %v", s.least, s.tick()),
				Why:    "a process that asks for less than two ticks may hear too late that its lock is lost",
				Change: fmt.Sprintf("set minSessionTimeout=%d, or leave it out", 2*s.tick().Milliseconds()),
			})
		}
	}
	var texts []string
	for _, s := range f.servers {
		if s.least != 0 || s.most != 0 {
			texts = append(texts, fmt.Sprintf("%s to %s", known(s.least), known(s.most)))
		}
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	if len(texts) == 0 {
		return nil // no server answers: see checkServers
	}
	return orFine(out, "%s", strings.Join(texts, "; "))
}

// known returns a duration as text.
func known(d time.Duration) string {
	if d == 0 {
		return "?"
	}
	return d.String()
}

// failover is the session timeout below which a change of the leader is likely to cost
// locks.
const failover = 4 * time.Second

func checkSessionTimeout(f *facts) (out []Finding) {
	t, tick := f.granted, f.tick()
	if t != f.asked {
		out = append(out, Finding{
			Level: Warn, Found: fmt.Sprintf("the servers grant a session timeout of %v, and %v was asked for", t, f.asked),
			Why:    "locks are kept and lost by the timeout that is granted",
			Change: fmt.Sprintf("ask for %v, or change minSessionTimeout and maxSessionTimeout of all servers", t),
		})
	}
	if t < 2*tick {
		out = append(out, Finding{
			Level: Fail, Found: fmt.Sprintf("the session timeout of %v is less than two ticks of %v", t, tick),
			Why:    "the leader may give a lock away before the process has heard of its loss",
			Change: fmt.Sprintf("ask for at least %v, and set minSessionTimeout=%d on all servers", 2*tick, 2*tick.Milliseconds()),
		})
	}
	if t < failover {
		out = append(out, Finding{
			Level: Warn, Found: fmt.Sprintf("the session timeout of %v is short", t),
			Why:    "locks are lost when the ensemble changes its leader, which takes a second or two",
			Change: fmt.Sprintf("ask for at least %v", failover),
		})
	}
	if tick == 0 {
		return orFine(out, "%v", t)
	}
	return orFine(out, "%v, %.3g ticks", t, float64(t)/float64(tick))
}

func checkSyncLimit(f *facts) (out []Finding) {
	t, limit := f.granted, time.Duration(0)
	for _, s := range f.servers {
		limit = max(limit, s.syncLimit())
	}
	if limit == 0 {
		return nil // a single server, or one that does not tell: see checkWords
	}
	change := fmt.Sprintf("ask for a session timeout of at least %v", 2*limit)
	if ticks := int(t / 2 / f.tick()); ticks >= 2 {
		change = fmt.Sprintf("set syncLimit=%d or less on all servers, or ask for a session timeout of at least %v", ticks, 2*limit)
	}
	switch {
	case limit > t:
		out = append(out, Finding{
			Level: Warn, Found: fmt.Sprintf("syncLimit lets a server be cut off from the leader for %v, longer than the session timeout of %v", limit, t),
			Why:    "its clients stay with it while the leader ends their sessions, and lose their locks although other servers could be reached",
			Change: change,
		})
	case limit > t/2:
		out = append(out, Finding{
			Level: Note, Found: fmt.Sprintf("syncLimit lets a server be cut off from the leader for %v, longer than half the session timeout of %v", limit, t),
			Why:    "a leader that vanishes with its machine is noticed only then, and holders give their locks up after half the session timeout",
			Change: change,
		})
	}
	return orFine(out, "%v, at most half the session timeout", limit)
}

func checkObservers(f *facts) []Finding {
	observers, told := f.members.observers, true
	masters := []string{}
	for _, s := range f.servers {
		if s.mode() == "observer" && observers == 0 {
			observers = 1
		}
		if s.servesObservers() {
			masters = append(masters, s.addr)
		}
		told = told && s.mntr != nil
	}
	t, tick := f.granted, f.tick()
	short := tick > 0 && t < 4*tick
	switch {
	case len(masters) > 0 && short:
		return []Finding{{
			Level: Fail, Where: strings.Join(masters, ", "), Found: fmt.Sprintf("observers follow an ObserverMaster, and the session timeout of %v is less than four ticks of %v", t, tick),
			Why:    "the leader hears of their clients a tick later, so it may give a lock away before the process has heard of its loss",
			Change: fmt.Sprintf("ask for at least %v, or take observerMasterPort out of every zoo.cfg", 4*tick),
		}}
	case observers > 0 && short && !told:
		return []Finding{{
			Level: Warn, Found: fmt.Sprintf("there are observers, which may follow an ObserverMaster, and the session timeout of %v is less than four ticks of %v", t, tick),
			Why:    "behind an ObserverMaster the leader hears of clients a tick later",
			Change: fmt.Sprintf("ask for at least %v, or allow mntr in 4lw.commands.whitelist, to see", 4*tick),
		}}
	case len(masters) > 0:
		return []Finding{fine("behind an ObserverMaster (%s); the session timeout suits that", strings.Join(masters, ", "))}
	case observers > 0:
		return []Finding{fine("%d; the session timeout suits that", observers)}
	}
	return []Finding{fine("none")}
}

func checkChroot(f *facts) []Finding {
	switch {
	case f.noChroot:
		return []Finding{{
			Level: Fail, Where: f.chroot, Found: "there is no such node",
			Why:    "Open and holdfast refuse a chroot that they would have to make: a mistyped one would have locks of its own",
			Change: "correct the connection string; or, if it is new, create it: holdfast run --create-chroot, or create in zkCli.sh",
		}}
	case f.chroot == "":
		return []Finding{fine("none")}
	}
	return []Finding{fine("%s is there", f.chroot)}
}

func checkPermissions(f *facts) (out []Finding) {
	if f.trial.refused != "" {
		out = append(out, Finding{
			Level: Fail, Where: f.trial.dir, Found: "this client may not " + f.trial.refused + " here",
			Why:    "a process with the same credentials cannot lock anything; what needs the right was not examined",
			Change: "give it the rights to read, create and delete (setAcl in zkCli.sh), or use credentials that have them",
		})
	}
	if f.trial.err != nil {
		out = append(out, Finding{
			Level: Warn, Where: f.trial.dir, Found: "the trial ended early: " + f.trial.err.Error(),
			Why: "what a lock does was not done, or not often", Change: "run doctor again",
		})
	}
	if n := len(f.tree.denied); n > 0 {
		out = append(out, Finding{
			Level: Warn, Where: f.tree.denied[0], Found: fmt.Sprintf("this client may not list %s", figures.Count(n, "directory")),
			Why:    "a process with the same credentials cannot take these locks, and they were not examined",
			Change: "give it the right to read there, or use credentials that have it",
		})
	}
	if f.tree.err != nil {
		out = append(out, Finding{
			Level: Warn, Where: f.root, Found: "the search for locks ended early: " + f.tree.err.Error(),
			Why: "not all locks were examined", Change: "run doctor again",
		})
	}
	if f.tree.missing {
		return orFine(out, "there is no %s yet; the first process makes it, in %s", f.root, f.trial.dir)
	}
	return orFine(out, "this client may read, create and delete in %s", f.root)
}

func checkContainers(f *facts) []Finding {
	if f.trial.reads == nil {
		return nil // there was no trial: see checkPermissions
	}
	if !f.trial.container {
		return []Finding{{
			Level: Note, Found: "the servers have no container nodes",
			Why:    "directories of locks that are no longer used stay, and their sequence numbers run on",
			Change: "upgrade to " + advised.String() + " or newer, or delete unused directories now and then",
		}}
	}
	return []Finding{fine("the server removes the directories of unused locks")}
}

// slowWrite is the time of a write from which on hand-overs are noticeably slow.
const slowWrite = 100 * time.Millisecond

func checkLatency(f *facts) (out []Finding) {
	if f.trial.writes == nil {
		return nil
	}
	write, read := median(tooks(f.trial.writes)), median(f.trial.reads)
	s := stallsOf(f.trial.writes)
	if f.trial.late > slowWrite {
		out = append(out, Finding{
			Level: Note, Where: "this machine", Found: fmt.Sprintf("doctor itself stood still for %v", round(f.trial.late)),
			Why:    "writes that were due meanwhile count as slow, whatever the servers did",
			Change: "run doctor again where the machine is less busy",
		})
	}
	stood := fmt.Sprintf("writes stood still for %v of %v, for %v at most", round(s.total), round(s.of), round(s.longest))
	const change = "look for what stops the servers: garbage collection, a virtual machine without processor time, swap, the transaction log's disk (dataLogDir). A longer look: holdfast doctor --for 1m"
	switch {
	case s.slowest > f.granted/7:
		finding := Finding{
			Level: Warn, Found: fmt.Sprintf("a write took %v, more than a seventh of the session timeout of %v", round(s.slowest), f.granted),
			Why:    "a lease lasts half the session timeout, and is renewed by a write in each seventh of it",
			Change: change + "; or ask for a longer session timeout",
		}
		if s.total > 0 {
			finding.Found += "; " + stood
		}
		out = append(out, finding)
	case s.total > s.of/10:
		out = append(out, Finding{
			Level: Warn, Found: stood,
			Why:    "no lock is granted or released meanwhile, and locks are lost when it lasts for half the session timeout",
			Change: change,
		})
	case s.total > 0:
		out = append(out, Finding{
			Level: Note, Found: stood,
			Why: "no lock is granted or released meanwhile", Change: change,
		})
	case write > slowWrite:
		out = append(out, Finding{
			Level: Note, Found: fmt.Sprintf("half of the writes took more than %v", round(write)),
			Why:    "a lock needs one to be acquired, and one to be released",
			Change: "give the transaction log a disk of its own (dataLogDir), or move the processes closer to the servers",
		})
	}
	return orFine(out, "a write takes %v (%v at most), a read %v", round(write), round(s.slowest), round(read))
}

// tooks returns what the requests took.
func tooks(all []timed) []time.Duration {
	out := make([]time.Duration, len(all))
	for i, a := range all {
		out[i] = a.took
	}
	return out
}

// stalls are the times in which writes were due that took far longer than the fastest one:
// not a slow disk or a long way to the servers, which every write feels, but servers that
// stood still.
type stalls struct {
	total, longest time.Duration
	of             time.Duration // how long was looked
	slowest        time.Duration // what the slowest write took
}

func stallsOf(writes []timed) (s stalls) {
	fastest := slices.Min(tooks(writes))
	byDue := slices.SortedFunc(slices.Values(writes), func(a, b timed) int { return a.due.Compare(b.due) })
	from, to := byDue[0].due, byDue[0].due // the present stall
	end := to
	for _, w := range byDue {
		s.slowest = max(s.slowest, w.took)
		answered := w.due.Add(w.took)
		if answered.After(end) {
			end = answered
		}
		if w.took <= fastest+slowWrite {
			continue
		}
		if w.due.After(to) {
			from, to = w.due, w.due
		}
		if answered.After(to) {
			s.total += answered.Sub(to)
			to = answered
		}
		s.longest = max(s.longest, to.Sub(from))
	}
	s.of = end.Sub(byDue[0].due)
	return s
}

// round leaves the digits of a time that matter.
func round(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

const (
	// lag is by how much a clock may be off before people misread times.
	lag = 2 * time.Second
	// stepped is by how much a clock that is slewed is never off.
	stepped = 100 * time.Millisecond
)

func checkClocks(f *facts) (out []Finding) {
	if len(f.trial.stamps) < 2 {
		return nil
	}
	first, last := f.trial.stamps[0], f.trial.stamps[len(f.trial.stamps)-1]
	elapsed := last.before.Sub(first.before) // by the monotonic clock
	if off := (f.trial.wall - elapsed).Abs(); off > stepped {
		out = append(out, Finding{
			Level: Warn, Where: "this machine", Found: fmt.Sprintf("its clock was set by %v in %v", round(off), round(elapsed)),
			Why:    "nothing in Holdfast depends on it, but times in logs and in what ls and who print mislead",
			Change: "let NTP or chrony slew the clock",
		})
	}
	// The leader has stamped the node at any time during the request.
	unknown := first.after.Sub(first.before) + last.after.Sub(last.before) + time.Millisecond
	off := (last.leader.Sub(first.leader) - elapsed).Abs() - unknown
	if off > max(stepped, elapsed/12) {
		out = append(out, Finding{
			Level: Warn, Where: "the leader", Found: fmt.Sprintf("its clock was set, or runs wrong: by %v in %v", round(off), round(elapsed)),
			Why:    "a lease allows for clocks that differ in speed by a twelfth",
			Change: "run doctor again; if it recurs, look at the clock of the leader's machine and of its hypervisor",
		})
	}
	apart := max(first.before.Sub(first.leader), first.leader.Sub(first.after))
	if apart > lag {
		out = append(out, Finding{
			Level: Note, Where: "the leader", Found: fmt.Sprintf("its clock and this machine's are %v apart", round(apart)),
			Why:    "nothing in Holdfast depends on it, but the times that ls and who print are the leader's",
			Change: "run NTP or chrony on both",
		})
	}
	return orFine(out, "no clock was set in %v", round(elapsed))
}

func checkAdmission(f *facts) (out []Finding) {
	for _, s := range f.serving() {
		if !s.strangers {
			continue
		}
		out = append(out, Finding{
			Level: Note, Where: s.addr, Found: "every client that reaches the port is admitted",
			Why:    "it can end any session whose id it knows, and so take all locks of that process, whatever the ACLs: ZooKeeper computes the password of a session from its id, and shows the id to readers",
			Change: "let only your own clients reach the port; or serve TLS with ssl.clientAuth=need, and no port without TLS",
		})
	}
	if len(f.serving()) == 0 {
		return nil // which is for another check
	}
	return orFine(out, "only clients with a certificate are admitted at this port")
}

func checkOpenDirectories(f *facts) []Finding {
	var open []string
	entry, seen := "", 0
	for _, d := range f.tree.dirs {
		if len(d.acl) > 0 {
			seen++
		}
		if e := worldDeletes(d.acl); e != "" {
			open = append(open, d.path)
			entry = cmp.Or(entry, e)
		}
	}
	switch {
	case len(open) > 0:
	case seen > 0:
		return []Finding{fine("in %s, no client can delete nodes unless it has credentials", figures.Count(seen, "directory"))}
	case f.tree.missing:
		return []Finding{fine("there is no directory yet")}
	default:
		return []Finding{fine("there is no directory whose ACL this client may read")}
	}
	finding := Finding{
		Level: Note, Where: open[0], Found: fmt.Sprintf("every client may delete in %s (%s)", figures.Count(len(open), "directory"), entry),
		Why:    "such a client can take a lock from its holder",
		Change: "set Config.ACL and Config.Auth in all processes, and change the ACL of what exists (setAcl -R in zkCli.sh)",
	}
	if f.credentials { // they are there for a reason
		finding.Level = Warn
	}
	return []Finding{finding}
}

func checkForeignRecipes(f *facts) (out []Finding) {
	for _, d := range f.tree.dirs {
		if len(d.recipes) == 0 {
			continue
		}
		finding := Finding{
			Level: Note, Where: d.path, Found: "it has nodes of " + strings.Join(d.recipes, " and of "),
			Why:    "a lock on this path would be granted at the same time",
			Change: "nothing, unless a program uses a lock of this name",
		}
		if len(d.kinds) > 0 || len(d.recipes) > 1 {
			finding.Level = Warn
			finding.Found = "it has nodes of " + strings.Join(slices.Concat(d.recipes, d.kinds), " and of ")
			finding.Why = "these do not exclude each other: both are granted at the same time"
			finding.Change = "give one of them another path, or have all clients use the same recipe"
		}
		out = append(out, finding)
	}
	return orFine(shortened(out), "none in %s", figures.Count(len(f.tree.dirs), "directory"))
}

func checkPersistent(f *facts) (out []Finding) {
	for _, d := range f.tree.dirs {
		if len(d.persistent) == 0 {
			continue
		}
		found := d.persistent[0] + " is not ephemeral: it belongs to no session"
		if more := len(d.persistent) - 1; more > 0 {
			found = fmt.Sprintf("%s and %d more are not ephemeral: they belong to no session", d.persistent[0], more)
		}
		out = append(out, Finding{
			Level: Warn, Where: d.path, Found: found,
			Why:    "such a node holds the lock, or keeps its place in the queue, for ever: no process deletes it, and no session's end does",
			Change: "delete it once no program relies on it: holdfast break",
		})
	}
	return orFine(shortened(out), "none")
}

func checkUnknown(f *facts) (out []Finding) {
	for _, d := range f.tree.dirs {
		if len(d.strange) == 0 {
			continue
		}
		slices.Sort(d.strange)
		found := d.strange[0] + " looks like a contender, but like that of no known client"
		if more := len(d.strange) - 1; more > 0 {
			found = fmt.Sprintf("%s and %d more look like contenders, but like those of no known client", d.strange[0], more)
		}
		out = append(out, Finding{
			Level: Note, Where: d.path, Found: found,
			Why:    "if another client takes a lock here by such nodes, that lock and Holdfast's do not exclude each other",
			Change: "nothing, unless a program uses a lock of this name: then give one of them another path",
		})
	}
	return orFine(shortened(out), "none")
}

func checkMixedKinds(f *facts) (out []Finding) {
	for _, d := range f.tree.dirs {
		if len(d.kinds) < 2 {
			continue
		}
		finding := Finding{
			Level: Warn, Where: d.path, Found: "these are in one queue: " + strings.Join(d.kinds, " and "),
			Why:    "Curator grants a mutex and a write lock on one path at the same time",
			Change: "use one kind of lock for each path",
		}
		if slices.Contains(d.kinds, kindKazoo) {
			finding.Why = "Curator takes no notice of kazoo's nodes, nor does kazoo of others' unless extra_lock_patterns names them"
			finding.Change = "pass extra_lock_patterns to every kazoo lock on this path, and keep Curator away from it"
		}
		out = append(out, finding)
	}
	return orFine(shortened(out), "none")
}

// most is how many findings of one check are shown.
const most = 10

// shortened leaves the first few findings, and says how many more there are.
func shortened(out []Finding) []Finding {
	if len(out) > most {
		n := len(out) - most
		out = out[:most]
		out[most-1].Found += fmt.Sprintf(" (and %d more directories like it)", n)
	}
	return out
}

const (
	lastSafe = 1<<31 - 1<<20 // beyond, numbers do not order a queue: docs/zookeeper.md
	halfway  = 1 << 30
)

func checkSequenceNumbers(f *facts) (out []Finding) {
	highest := int64(0)
	for _, d := range f.tree.dirs {
		highest = max(highest, d.next)
		if d.next < halfway {
			continue
		}
		finding := Finding{
			Level: Note, Where: d.path, Found: fmt.Sprintf("its sequence numbers have reached %d of %d", d.next, lastSafe),
			Why:    "beyond that, Holdfast refuses to share a queue with other clients",
			Change: "delete the directory while no process uses the lock; then they begin at 0",
		}
		if d.next > lastSafe {
			finding.Level = Warn
		}
		out = append(out, finding)
	}
	if f.tree.more {
		out = append(out, Finding{
			Level: Note, Where: f.root, Found: fmt.Sprintf("there are more than %d nodes, or %d directories", maxNodes, maxACLs),
			Why: "the rest was not examined", Change: "run doctor on parts, with --root",
		})
	}
	return orFine(shortened(out), "the highest is %d of %d", highest, lastSafe)
}
