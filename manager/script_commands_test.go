// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A script is one case that runs: a server, the processes that are its clients,
// and what they have asked for. It knows managers by their exported API, but for
// the length of a long tail.
type script struct {
	*cluster
	processes []*scriptProcess
	holds     []*scriptHold
	calls     []*scriptCall
	faults    []*scriptFault
	contexts  []*scriptContext

	giveUps map[string]context.CancelCauseFunc // of guarded writes and upgrades, by name

	queues map[string]string // by directory: what was printed last
	nodes  map[string]string // by what is printed: the path
	owners map[int64]string  // by session: the process
	tokens []uint64          // that have been seen, in order

	locks map[string]scriptLock // by process, kind and name
	loops []*scriptLoop
	said  error // that a call has returned last

	mu       sync.Mutex // protects requests
	requests map[int64]map[verb]int

	out   []string // what the present command has printed
	terse bool     // it prints changes of holds only
}

// A scriptProcess stands for a process: it is one manager.
type scriptProcess struct {
	name    string
	m       *Manager
	session int64             // that was seen last
	stop    *stop             // before one of its requests; nil if there is none
	stopped bool              // there, and printed
	sent    map[string]uint64 // what it had sent when that was printed last
	heard   uint64            // how many notifications had come by then
	slow    *slowWatcher      // blocks its dispatcher while it is deaf; nil if it has none
	deaf    bool
}

// A scriptHold is one handle.
type scriptHold struct {
	name    string
	p       *scriptProcess
	l       scriptLock
	h       Hold
	cancel  context.CancelCauseFunc // ends the context that it was acquired with
	given   bool                    // it was released
	revoked bool                    // and printed

	// What it said when it was asked first.
	contended, told <-chan struct{}

	printed string     // its state, as printed last
	finish  chan error // tells the function in Do to return; nil if there is none
}

// A scriptCall is a call that blocks.
type scriptCall struct {
	what string
	done chan struct{}
	err  error
	then func()      // what to note when it has returned; may be nil
	hold *scriptHold // that it acquires; nil if none

	answer func() string // what it has returned, if that is more than an error; else nil
}

type scriptFault struct {
	name   string
	f      *zktest.Fault
	struck bool // and printed
}

type scriptContext struct {
	name  string
	ctx   context.Context
	ended bool // and printed
}

func newScript(t *testing.T) *script {
	s := &script{
		cluster: newCluster(t, zktest.Config{}), requests: make(map[int64]map[verb]int),
		locks: make(map[string]scriptLock), queues: make(map[string]string), nodes: make(map[string]string), owners: make(map[int64]string),
		giveUps: make(map[string]context.CancelCauseFunc),
	}
	s.queues[dir] = "empty"
	s.srv.OnRequest(func(session int64, op zktest.Op, path string) {
		v := verbOf(op, path)
		s.mu.Lock()
		if s.requests[session] == nil {
			s.requests[session] = make(map[verb]int)
		}
		s.requests[session][v]++
		s.mu.Unlock()
		s.onRequest(session, op, path)
	})
	return s
}

// scriptCommands are the commands: what they are called, and what follows the
// name. Options, in brackets, are written name=value.
var scriptCommands = map[string]struct {
	words int // that it needs, options aside
	usage string
	run   func(s *script, a scriptArgs)
}{
	// Processes.
	"open":     {1, "PROCESS… [tenure= margin= timeout= close= root= private=yes observed=no tail= slow=yes]", (*script).runOpen},
	"close":    {1, "PROCESS", (*script).runClose},
	"shutdown": {2, "PROCESS TIMEOUT", (*script).runClose},

	// Locks. The lock is called "jobs" unless name= says otherwise. Its KIND is read, write,
	// upgradable or mutex, or else it is an exclusive lock.
	"acquire":   {2, "HOLD[,HOLD…] PROCESS [KIND] [name= ctx= timeout=]", (*script).runAcquire},
	"lock":      {2, "HOLD[,HOLD…] PROCESS [KIND] [name= ctx= timeout=]", (*script).runAcquire},
	"try":       {2, "HOLD[,HOLD…] PROCESS [KIND] [name= ctx= timeout=]", (*script).runAcquire},
	"trydo":     {2, "HOLD[,HOLD…] PROCESS [KIND] [name= ctx= timeout=]", (*script).runAcquire},
	"do":        {2, "HOLD[,HOLD…] PROCESS [KIND] [name= ctx= timeout=]", (*script).runAcquire},
	"finish":    {1, "HOLD [fail|cause]: the function that do runs returns", (*script).runFinish},
	"cancel":    {1, "HOLD: the context that it was acquired with ends", (*script).runCancel},
	"release":   {1, "HOLD…, one after the other", (*script).runRelease},
	"unlock":    {1, "HOLD [timeout=]", (*script).runUnlock},
	"reenter":   {2, "HOLD OTHER: a handle HOLD of OTHER's holder", (*script).runReenter},
	"share":     {2, "HOLD OTHER: a holder HOLD beside OTHER", (*script).runReenter},
	"context":   {2, "CONTEXT HOLD [ctx= detached=yes]", (*script).runContext},
	"ask":       {1, "HOLD…: prints what its methods answer", (*script).runAsk},
	"state":     {1, "PROCESS [KIND] [name=]: prints Lock.State", (*script).runState},
	"ready":     {1, "HOLD: waits for Ready", (*script).runReady},
	"contended": {1, "HOLD: prints whether it is told of other contenders", (*script).runContended},
	"says":      {1, "TEXT: checks that the last error does", (*script).runSays},
	"hides":     {1, "TEXT: checks that the last error does not say it", (*script).runSays},
	"logged":    {1, "TEXT: prints how many lines of the log have it", (*script).runLogged},
	"refuses":   {1, "PROCESS: prints what newcomers are told", (*script).runRefuses},

	// Upgradable locks.
	"upgrade":   {2, "CALL HOLD [ctx= timeout=]: calls its Upgrade", (*script).runUpgrade},
	"downgrade": {1, "HOLD", (*script).runDowngrade},

	// Time.
	"advance": {1, "DURATION", (*script).runAdvance},
	"await":   {3, "HOLD STATE | CALL done | PROCESS reconnected, LEAST..MOST: lets time pass", (*script).runAwait},

	// The network and the server.
	"cut":       {1, "PROCESS|all: closes the connection", (*script).runCut},
	"away":      {2, "PROCESS DURATION: cuts it, and refuses it for a while", (*script).runAway},
	"refuse":    {0, "refuses new connections, until heal", (*script).runRefuse},
	"blackhole": {1, "PROCESS [only=connection for=]: silence, until heal", (*script).runBlackhole},
	"lag":       {1, "PROCESS: its server hears no news of others, until heal", (*script).runLag},
	"heal":      {0, "removes all faults", (*script).runHeal},
	"expire":    {1, "PROCESS [unheard=yes]: ends its session", (*script).runExpire},
	"fault":     {4, "NAME KIND OPERATION|any PROCESS [nth= times= delay= path=]", (*script).runFault},
	"stop":      {3, "PROCESS before REQUEST [skip=]: holds its connection up there", (*script).runStop},
	"go":        {1, "PROCESS: lets it go on", (*script).runGo},
	"remove":    {1, "NODE…|all: deletes nodes, as an administrator", (*script).runRemove},
	"set":       {2, "NODE DATA", (*script).runSet},
	"foreign":   {1, "NAME [persistent]: another client's node", (*script).runForeign},
	"directory": {0, "[DATA]: makes the lock's directory", (*script).runDirectory},
	"queue":     {0, "prints it", (*script).runQueue},
	"terse":     {0, "prints changes of holds only, until it is called again", (*script).runTerse},
	"requests":  {0, "[REQUEST…]: prints how many there were since it was called last, heartbeats aside", (*script).runRequests},
	"sent":      {0, "[PROCESS…]: prints what they have sent, by ZooKeeper's names, since this was called last; with none it starts anew", (*script).runSent},
	"stopat":    {3, "PROCESS OPERATION NTH: holds its connection up there", (*script).runStopAt},
	"strangers": {1, "PROCESS [read|write]: prints how many nodes were no contenders", (*script).runStrangers},
	"behind":    {2, "HOLD OTHER: waits for the round after OTHER's, as newcomers do when a tenure is over", (*script).runBehind},
	"numbers":   {1, "NUMBER: that of the next node", (*script).runNumbers},
	"kept":      {1, "PROCESS: prints how many nodes and watches its client has", (*script).runKept},

	// What processes learn of the holder.
	"follow":   {2, "LOOP PROCESS [KIND] [name= times=]: a loop of WatchHolder", (*script).runFollow},
	"unfollow": {1, "LOOP: its context ends", (*script).runUnfollow},
	"cached":   {1, "PROCESS [KIND] [name= timeout=]: what CachedHolder says", (*script).runHolder},
	"holder":   {1, "PROCESS [KIND] [name= timeout=]: what Holder says", (*script).runHolder},
	"question": {1, "PROCESS [KIND] [name=]: what the holder answers", (*script).runQuestion},
	"revoke":   {1, "PROCESS [KIND] [reason= within=]", (*script).runRevoke},
	"heard":    {1, "PROCESS: prints how many notifications it has had since this was called last", (*script).runHeard},
	"watches":  {0, "prints how many the server has", (*script).runWatches},
	"deaf":     {1, "PROCESS, which is slow: notifications wait until it hears", (*script).runDeaf},
	"hear":     {1, "PROCESS", (*script).runHear},

	// Guarded writes of a node, the account.
	"guard":   {3, "NAME HOLD DATA [timeout=]: writes to it", (*script).runGuard},
	"giveup":  {1, "NAME: the context of the guarded write, or the upgrade, ends", (*script).runGiveUp},
	"account": {0, "prints it", (*script).runAccount},
}

// scriptArgs are what follows a command.
type scriptArgs struct {
	command string
	words   []string
	options map[string]string
}

func (a scriptArgs) String() string { return a.command + " " + strings.Join(a.words, " ") }

// duration returns the option called name, and otherwise if there is none.
func (a scriptArgs) duration(t *testing.T, name string, otherwise time.Duration) time.Duration {
	t.Helper()
	if a.options[name] == "" {
		return otherwise
	}
	return parseDuration(t, a.options[name])
}

func parseDuration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// number returns the option called name, 0 if there is none.
func (a scriptArgs) number(t *testing.T, name string) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(a.options[name], "0"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// run carries out commands with semicolons between them, and returns what they have
// printed and changed.
func (s *script) run(commands string) []string {
	s.t.Helper()
	s.out = nil
	for command := range strings.SplitSeq(commands, ";") {
		s.runOne(command)
		synctest.Wait()
	}
	s.changes()
	return s.out
}

func (s *script) runOne(command string) {
	s.t.Helper()
	words := strings.Fields(command)
	a := scriptArgs{command: words[0], options: make(map[string]string)}
	c, ok := scriptCommands[a.command]
	if !ok {
		s.t.Fatalf("> %s\nthere is no such command; there are %v", command, slices.Sorted(maps.Keys(scriptCommands)))
	}
	for _, word := range words[1:] {
		name, value, ok := strings.Cut(word, "=")
		switch {
		case !ok, strings.HasPrefix(c.usage, "TEXT"):
			a.words = append(a.words, word)
		case strings.Contains(c.usage, name+"="):
			a.options[name] = value
		default:
			s.t.Fatalf("> %s\n%s is no option: %s %s", command, name, a.command, c.usage)
		}
	}
	if len(a.words) < c.words {
		s.t.Fatalf("> %s\nusage: %s %s", command, a.command, c.usage)
	}
	c.run(s, a)
}

// end releases what is held, so that the managers close in order.
func (s *script) end() {
	s.srv.Faults().Clear()
	for _, p := range s.processes {
		s.refused[p.name].Store(false)
		if p.stop != nil {
			close(p.stop.resume)
		}
		if p.deaf {
			close(p.slow.resume)
		}
	}
	for _, f := range s.loops {
		f.cancel(nil)
	}
	for _, h := range s.holds {
		if h.finish != nil && !h.given {
			close(h.finish)
		}
		h.h.Release()
	}
}

func (s *script) print(format string, args ...any) {
	s.out = append(s.out, fmt.Sprintf(format, args...))
}

// changes waits until every goroutine is blocked, and prints what is not as it was.
func (s *script) changes() {
	synctest.Wait()
	if !s.terse {
		s.changesOfServer()
	}
	s.changesOfHolds()
	s.referee()
}

// changesOfServer prints what is new about sessions, requests and queues.
func (s *script) changesOfServer() {
	for _, p := range s.processes {
		if id := s.sessionOf(p); id != p.session {
			p.session = id
			s.print("%s: new session", p.name)
		}
		if p.stop != nil && !p.stopped && isClosed(p.stop.arrived) {
			s.print("%s: stopped", p.name)
			p.stopped = true
		}
	}
	for _, f := range s.faults {
		if !f.struck && isClosed(f.f.Hit()) {
			f.struck = true
			s.print("%s: struck", f.name)
		}
	}
	jobs := dir
	for _, dir := range slices.Sorted(maps.Keys(s.queues)) {
		if now := s.queue(dir); now != s.queues[dir] {
			s.queues[dir] = now
			s.print("%s %s", strings.Replace("queue of "+dir+":", " of "+jobs, "", 1), now)
		}
	}
}

// changesOfHolds prints what has become of calls, holds and contexts.
func (s *script) changesOfHolds() {
	s.calls = slices.DeleteFunc(s.calls, func(c *scriptCall) bool {
		if !isClosed(c.done) {
			return false
		}
		s.said = cmp.Or(c.err, s.said)
		switch {
		case c.err == nil && c.answer != nil:
			s.print("%s: %s", c.what, c.answer())
		case c.err != nil || c.hold == nil: // a hold that was acquired speaks for itself
			s.print("%s: %s", c.what, s.explain(c.err))
		}
		if c.then != nil {
			c.then()
		}
		return true
	})
	for _, h := range s.holds {
		if now := s.stateOf(h); now != h.printed {
			h.printed = now
			s.print("%s: %s", h.name, now)
		}
		if h.told == nil {
			h.told = h.h.Revoked()
		}
		r, ok := h.h.Revocation()
		if ok != isClosed(h.told) && !h.given {
			s.print("%s: REVOKED, AND THE CHANNEL IS OPEN, or the other way round", h.name)
		}
		if ok && !h.revoked && !h.given {
			h.revoked = true
			s.print("%s: revoked %s", h.name, toldOf(r))
		}
	}
	for _, f := range s.loops {
		f.changes(s)
	}
	for _, c := range s.contexts {
		if !c.ended && c.ctx.Err() != nil {
			c.ended = true
			s.print("%s: ended, %s", c.name, s.explain(context.Cause(c.ctx)))
		}
	}
}

// referee prints an overlap of two processes that exclude each other.
func (s *script) referee() {
	for i, x := range s.holds {
		for _, y := range s.holds[:i] {
			if x.apartFrom(y) && strings.HasPrefix(x.printed, "held") && strings.HasPrefix(y.printed, "held") {
				s.print("OVERLAP: %s and %s are both held", y.name, x.name)
			}
		}
	}
}

// apartFrom reports whether the two must not both be held.
func (h *scriptHold) apartFrom(other *scriptHold) bool {
	switch _, mutex := h.l.(*Mutex); {
	case h.l.Path() != other.l.Path():
		return false
	case h.p == other.p:
		return mutex && h.printed != other.printed // else they are handles of one turn
	}
	return !h.reads() || !other.reads() || h.upgradable() && other.upgradable()
}

// reads reports whether other processes can read beside h.
func (h *scriptHold) reads() bool {
	l := h.h.Lock()
	return l != nil && reads(l) && !h.h.Upgraded()
}

func (h *scriptHold) upgradable() bool { return Kind(h.h.Lock().kind) == KindUpgradable }

// sessionOf returns the id of p's session: the one that p has, or had last.
func (s *script) sessionOf(p *scriptProcess) int64 { return session(p.m) }

// queue returns the nodes of a directory in the order of the queue: "a.0" is the
// node of process a with sequence number 0, "a.r0" one of a reader, "a.w0" one of a
// writer; another client's has its full name.
func (s *script) queue(dir string) string {
	for _, p := range s.processes {
		s.owners[s.sessionOf(p)] = p.name
	}
	names := s.srv.Children(dir)
	short, made := make(map[string]string), make(map[string]int64)
	for _, name := range names {
		_, stat, _ := s.srv.Get(dir + "/" + name)
		label := strings.ReplaceAll(name, hex32, "GUID")
		if owner := s.owners[stat.EphemeralOwner]; owner != "" {
			label = owner + "."
			if strings.Contains(name, "__READ__") {
				label += "r"
			} else if strings.Contains(name, "__WRIT__") {
				label += "w"
			}
			label += cmp.Or(strings.TrimLeft(sequenceOf(name), "0"), "0")
		}
		short[name], made[name] = label, stat.Czxid
		s.nodes[label] = dir + "/" + name
	}
	number := func(name string) string { return name[max(0, len(name)-10):] }
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(made[a], made[b]))
	})
	for i, name := range names {
		names[i] = short[name]
	}
	return cmp.Or(strings.Join(names, " "), "empty")
}

// stateOf returns what becomes of a hold.
func (s *script) stateOf(h *scriptHold) string {
	if h.given {
		_, err, ok := h.h.Released().Poll()
		switch {
		case !ok:
			return "leaving"
		case err != nil:
			return "released, " + s.explain(err)
		}
		return "released"
	}
	if isClosed(h.h.Lost()) {
		if _, err, ok := h.h.Granted().Poll(); ok && err != nil {
			return "failed, " + s.explain(err)
		}
		return s.explain(h.h.Err())
	}
	g, err := h.h.Grant()
	switch {
	case err == nil:
		text := fmt.Sprintf("held #%d", s.numberOf(g.Token))
		if g.Turn > 0 {
			text += fmt.Sprintf(".%d", g.Turn)
		}
		if h.h.Upgraded() {
			text += ", upgraded"
		}
		return text
	case errors.Is(err, ErrNotGranted):
		return "waiting"
	}
	return s.explain(err)
}

// numberOf returns which of the tokens that have been seen this is, in their order.
func (s *script) numberOf(token uint64) int {
	i, seen := slices.BinarySearch(s.tokens, token)
	if !seen {
		s.tokens = slices.Insert(s.tokens, i, token)
	}
	return i + 1
}

// sentinels are the conditions that brief names.
var sentinels = []struct {
	err  error
	name string
}{
	{ErrLocked, "locked"}, {ErrLost, "lost"}, {ErrReleased, "released"}, {ErrNotGranted, "not granted"}, {ErrClosed, "closed"},
	{ErrUpgrade, "upgrade"}, {ErrKind, "kind"}, {ErrTooManyHolders, "too many"}, {ErrUnknownOutcome, "unknown"},
	{errGaveUp, "gave up"}, {context.Canceled, "canceled"}, {context.DeadlineExceeded, "deadline exceeded"}, {errScript, "work failed"},
	{ErrSequenceExhausted, "numbers exhausted"}, {ErrYielding, "yielding"}, {ErrUnconfirmed, "unconfirmed"}, {ErrNoAnswer, "no answer"},
	{ErrNotShared, "not shared"}, {zkio.ErrInvalidACL, "invalid ACL"},
	{zkio.ErrNoAuth, "no permission"}, {zkio.ErrNoChildrenForEphemerals, "ephemerals have no children"},
}

// brief names the conditions in err.
func brief(err error) string {
	if err == nil {
		return "ok"
	}
	var names []string
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			names = append(names, s.name)
		}
	}
	switch {
	case len(names) > 0:
		return strings.Join(names, ", ")
	case errors.Is(err, zkio.ErrUnknown): // else it is the cause of an ErrUnknownOutcome
		return "unconfirmed"
	}
	return err.Error()
}

// explain is brief, and says why a lock was lost and which node is in the way.
func (s *script) explain(err error) string {
	text := brief(err)
	if errors.Is(err, ErrLost) {
		switch words := strings.Fields(err.Error()); {
		case slices.Contains(words, "deleted"):
			text += " (deleted)"
		case slices.Contains(words, "lease"), slices.Contains(words, "session"):
			text += " (session or lease)" // the end of a session ends its lease, and either may be noticed first
		}
	}
	var e *Error
	if errors.As(err, &e) && e.Ahead != nil {
		next := e.Ahead.Label
		for name, path := range s.nodes {
			if path == e.Ahead.Path {
				next = name
			}
		}
		text += fmt.Sprintf(" (%d ahead, next %s)", e.Position, next)
	}
	return text
}

// errScript is what a function that Do runs returns, if it is to fail.
var errScript = errors.New("the work failed")

func (s *script) process(name string) *scriptProcess {
	s.t.Helper()
	for _, p := range s.processes {
		if p.name == name {
			return p
		}
	}
	s.t.Fatalf("no process is called %q", name)
	return nil
}

func (s *script) hold(name string) *scriptHold {
	s.t.Helper()
	for _, h := range s.holds {
		if h.name == name {
			return h
		}
	}
	s.t.Fatalf("no hold is called %q", name)
	return nil
}

// add adds a hold, in the place of one that had its name and was released.
func (s *script) add(h *scriptHold) {
	s.holds = slices.DeleteFunc(s.holds, func(old *scriptHold) bool { return old.name == h.name && old.given })
	s.holds = append(s.holds, h)
}

// call runs fn on a goroutine of its own, and has what it returns printed.
func (s *script) call(what string, fn func() error, then func()) *scriptCall {
	c := &scriptCall{what: what, done: make(chan struct{}), then: then}
	s.calls = append(s.calls, c)
	go func() {
		defer close(c.done)
		c.err = fn()
	}()
	return c
}

func (s *script) runOpen(a scriptArgs) {
	for _, name := range a.words {
		m := s.open(name, func(cfg *Config) {
			cfg.Tenure = a.duration(s.t, "tenure", cfg.Tenure)
			cfg.LostMargin = a.duration(s.t, "margin", cfg.LostMargin)
			cfg.SessionTimeout = a.duration(s.t, "timeout", cfg.SessionTimeout)
			cfg.CloseTimeout = a.duration(s.t, "close", cfg.CloseTimeout)
			cfg.Root = cmp.Or(a.options["root"], cfg.Root)
			if a.options["observed"] == "no" {
				cfg.Observer = nil
			}
			if a.options["private"] != "" { // only the process itself may read its nodes, and delete them
				user := name + ":" + name
				cfg.Auth = []zkio.Auth{{Scheme: "digest", Data: []byte(user)}}
				cfg.ACL = []zkio.ACL{{Perms: zkio.PermAll, Scheme: "digest", ID: digest(user)}}
			}
		})
		if n := a.options["tail"]; n != "" { // from which length on it does not list a queue whose tail it knows
			m.cfg.longTail, _ = strconv.Atoi(n)
		}
		p := &scriptProcess{name: name, m: m, sent: m.client.Stats().Sent}
		if a.options["slow"] != "" {
			w := s.watchSlowly(m)
			p.slow = &w
		}
		p.session = s.sessionOf(p)
		s.processes = append(s.processes, p)
	}
	s.resetRequests()
}

func (s *script) runClose(a scriptArgs) {
	m := s.process(a.words[0]).m
	s.call("closing "+a.words[0], func() error {
		if a.command == "close" {
			return m.Close()
		}
		ctx, cancel := context.WithTimeout(context.Background(), parseDuration(s.t, a.words[1]))
		defer cancel()
		return m.Shutdown(ctx)
	}, nil)
}

// lockOf returns the lock of a kind that a command names.
func (s *script) lockOf(p *scriptProcess, a scriptArgs, kind []string) scriptLock {
	s.t.Helper()
	name := cmp.Or(a.options["name"], "jobs")
	key := fmt.Sprint(p.name, kind, name)
	l := s.locks[key]
	if l == nil {
		switch strings.Join(kind, " ") {
		case "":
			l = exclusive(s.t, p.m, name)
		case "mutex":
			l = openMutex(s.t, p.m, name)
		case "read":
			l = readWrite(s.t, p.m, name).Reader()
		case "write":
			l = readWrite(s.t, p.m, name).Writer()
		case "upgradable":
			l = readWrite(s.t, p.m, name).Upgradable()
		default:
			s.t.Fatalf("no lock is of kind %s", kind)
		}
		s.locks[key] = l
	}
	if _, ok := s.queues[l.Path()]; !ok {
		s.queues[l.Path()] = "empty"
	}
	return l
}

func (s *script) runAcquire(a scriptArgs) {
	for name := range strings.SplitSeq(a.words[0], ",") {
		s.acquireOne(name, a)
		synctest.Wait()
	}
}

func (s *script) acquireOne(name string, a scriptArgs) {
	p := s.process(a.words[1])
	l := s.lockOf(p, a, a.words[2:])
	ctx, cancel := context.WithCancelCause(s.contextNamed(a.options["ctx"]))
	s.t.Cleanup(func() { cancel(nil) })
	if d := a.duration(s.t, "timeout", 0); d > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, d)
		s.t.Cleanup(stop)
	}
	h := &scriptHold{name: name, p: p, l: l, cancel: cancel}
	add := func() { s.add(h) }
	what := a.command + " " + h.name
	switch a.command {
	case "acquire":
		h.h = l.Acquire(ctx)
		add()
	case "lock", "try":
		s.call(what, func() (err error) {
			if a.command == "lock" {
				h.h, err = l.Lock(ctx)
			} else {
				h.h, err = l.TryLock(ctx)
			}
			return err
		}, func() {
			if h.h != (Hold{}) {
				add()
			}
		}).hold = h
	case "do", "trydo":
		do := l.Do
		if a.command == "trydo" {
			do = l.TryDo
		}
		h.finish = make(chan error, 1)
		entered := make(chan struct{})
		s.call(what, func() error {
			return do(ctx, func(ctx context.Context, in Hold) error {
				h.h = in
				s.contexts = append(s.contexts, &scriptContext{name: h.name + "'s", ctx: ctx})
				add()
				close(entered)
				return <-h.finish
			})
		}, func() { h.given = h.given || isClosed(entered) })
	}
}

func (s *script) runFinish(a scriptArgs) {
	h := s.hold(a.words[0])
	h.given = true
	switch strings.Join(a.words[1:], "") {
	case "fail":
		h.finish <- errScript
	case "cause": // why its context has ended
		for _, c := range s.contexts {
			if c.name == h.name+"'s" {
				h.finish <- context.Cause(c.ctx)
			}
		}
	}
	close(h.finish)
}

func (s *script) runCancel(a scriptArgs) {
	for _, c := range s.calls {
		if c.hold != nil && c.hold.name == a.words[0] {
			c.hold.cancel(errGaveUp)
			return
		}
	}
	s.hold(a.words[0]).cancel(errGaveUp)
}

func (s *script) runRelease(a scriptArgs) {
	for _, name := range a.words {
		h := s.hold(name)
		if h.given {
			s.print("%s: again: %s", name, s.explain(settled(s.t, "a second release", h.h.Release())))
			continue
		}
		h.given = true
		h.h.Release()
		synctest.Wait()
	}
}

func (s *script) runUnlock(a scriptArgs) {
	h := s.hold(a.words[0])
	again := h.given
	h.given = true
	d := a.duration(s.t, "timeout", time.Hour)
	s.call("unlock "+h.name, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		return h.h.Unlock(ctx)
	}, func() { h.given = h.given || again })
}

func (s *script) runReenter(a scriptArgs) {
	from := s.hold(a.words[1])
	h := &scriptHold{name: a.words[0], p: from.p, l: from.l}
	var err error
	if a.command == "reenter" {
		h.h, err = from.h.Reenter()
	} else {
		h.h, err = from.h.Share()
	}
	if err != nil {
		s.print("%s: refused, %s", h.name, s.explain(err))
		return
	}
	s.add(h)
}

func (s *script) runUpgrade(a scriptArgs) {
	ctx, cancel := context.WithCancelCause(s.contextNamed(a.options["ctx"]))
	s.t.Cleanup(func() { cancel(nil) })
	s.giveUps[a.words[0]] = cancel
	h, d := s.hold(a.words[1]).h, a.duration(s.t, "timeout", time.Hour)
	s.call("upgrade "+a.words[0], func() error {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return h.Upgrade(ctx)
	}, nil)
}

func (s *script) runDowngrade(a scriptArgs) {
	s.print("downgrade %s: %s", a.words[0], s.explain(s.hold(a.words[0]).h.Downgrade()))
}

func (s *script) runContext(a scriptArgs) {
	ctx, cancel := s.hold(a.words[1]).h.Context(s.contextNamed(a.options["ctx"]))
	s.t.Cleanup(cancel)
	if a.options["detached"] != "" {
		ctx = context.WithoutCancel(ctx)
	}
	s.contexts = append(s.contexts, &scriptContext{name: a.words[0], ctx: ctx})
}

// contextNamed returns the context called name; the test's own if that is empty.
func (s *script) contextNamed(name string) context.Context {
	s.t.Helper()
	if name == "" {
		return s.t.Context()
	}
	i := slices.IndexFunc(s.contexts, func(c *scriptContext) bool { return c.name == name })
	if i < 0 {
		s.t.Fatalf("no context is called %q", name)
	}
	return s.contexts[i].ctx
}

// runAsk asks a hold everything that can be asked without changing anything.
func (s *script) runAsk(a scriptArgs) {
	future := func(err error, ok bool) string {
		if !ok {
			return "pending"
		}
		return s.explain(err)
	}
	for _, name := range a.words {
		h := s.hold(name).h
		_, err := h.Grant()
		_, granted, isGranted := h.Granted().Poll()
		_, released, isReleased := h.Released().Poll()
		ctx, cancel := h.Context(s.t.Context())
		synctest.Wait()
		cause := context.Cause(ctx)
		cancel()
		again, reentered := h.Reenter()
		again.Release()
		other, shared := h.Share()
		other.Release()
		var says []string
		for _, answer := range []struct {
			from string
			err  error
		}{{"Err", h.Err()}, {"Grant", err}, {"Context", cause}, {"Reenter", reentered}, {"Share", shared}} {
			text := s.explain(answer.err)
			if n := len(says); n > 0 && strings.HasSuffix(says[n-1], ": "+text) {
				says[n-1] = strings.TrimSuffix(says[n-1], ": "+text) + ", " + answer.from + ": " + text
				continue
			}
			says = append(says, answer.from+": "+text)
		}
		s.print("%s: %s; depth %d, Granted: %s, Released: %s, Lost: %t", name, strings.Join(says, "; "), h.Depth(),
			future(granted, isGranted), future(released, isReleased), isClosed(h.Lost()))
	}
}

func (s *script) runState(a scriptArgs) {
	phase, holders := s.lockOf(s.process(a.words[0]), a, a.words[1:]).State()
	s.print("%s: %v, %d", a.words[0], phase, holders)
}

func (s *script) runRefuses(a scriptArgs) {
	p := s.process(a.words[0])
	_, err := p.m.Exclusive("another")
	s.print("Exclusive: %s", s.explain(err))
	l := s.lockOf(p, a, nil)
	h := l.Acquire(s.t.Context())
	s.print("Acquire: %s, its release: %s", s.explain(settled(s.t, "grant", h.Granted())), s.explain(settled(s.t, "release", h.Release())))
	_, err = l.Lock(s.t.Context())
	s.print("Lock: %s", s.explain(err))
	_, err = l.TryLock(s.t.Context())
	s.print("TryLock: %s", s.explain(err))
	err = l.Do(s.t.Context(), func(context.Context, Hold) error { s.t.Error("Do ran"); return nil })
	s.print("Do: %s", s.explain(err))
}

func (s *script) runAdvance(a scriptArgs) { later(parseDuration(s.t, a.words[0])) }

// runAwait lets time pass in steps until the hold is in a state, or the call has
// returned, and checks that this takes neither too short nor too long.
func (s *script) runAwait(a scriptArgs) {
	what, bounds := strings.Join(a.words[:len(a.words)-1], " "), a.words[len(a.words)-1]
	low, high, ok := strings.Cut(bounds, "..")
	if !ok {
		low, high = "0s", bounds
	}
	least, most := parseDuration(s.t, low), parseDuration(s.t, high)
	reached := func() bool {
		if call, ok := strings.CutSuffix(what, " done"); ok {
			return !slices.ContainsFunc(s.calls, func(c *scriptCall) bool { return c.what == call && !isClosed(c.done) })
		}
		name, state, _ := strings.Cut(what, " ")
		if state == "reconnected" {
			p := s.process(name)
			return s.sessionOf(p) != p.session
		}
		return strings.HasPrefix(s.stateOf(s.hold(name)), state)
	}
	start := time.Now()
	for synctest.Wait(); !reached() && time.Since(start) <= most; synctest.Wait() {
		time.Sleep(10 * time.Millisecond)
	}
	switch took := time.Since(start); {
	case took > most+10*time.Millisecond || !reached():
		s.print("TOO LATE: not %s after %v", what, most)
	case took < least:
		s.print("TOO SOON: %s after %v", what, took)
	}
}

func (s *script) runCut(a scriptArgs) {
	if a.words[0] == "all" {
		s.srv.Faults().CutAll()
		return
	}
	s.srv.Faults().Cut(s.sessionOf(s.process(a.words[0])))
}

func (s *script) runAway(a scriptArgs) { s.away(a.words[0], parseDuration(s.t, a.words[1])) }

func (s *script) runRefuse(scriptArgs) { s.srv.Faults().Refuse() }

func (s *script) runBlackhole(a scriptArgs) {
	id := s.sessionOf(s.process(a.words[0]))
	hole := s.srv.Faults().Blackhole
	if a.options["only"] == "connection" {
		hole = s.srv.Faults().BlackholeConnection
	}
	f := hole(id)
	if d := a.duration(s.t, "for", 0); d > 0 {
		time.AfterFunc(d, f.Remove)
	}
}

func (s *script) runHeal(scriptArgs) {
	s.srv.Faults().Clear()
	for _, p := range s.processes {
		s.refused[p.name].Store(false)
	}
}

func (s *script) runExpire(a scriptArgs) {
	p := s.process(a.words[0])
	if a.options["unheard"] == "" {
		s.expire(p.m)
	} else if !s.srv.ExpireSession(s.sessionOf(p)) {
		s.t.Fatal("there is no such session")
	}
}

// opNamed returns the operation that ZooKeeper calls name; 0 for "any".
func opNamed(t *testing.T, name string) zktest.Op {
	t.Helper()
	for op := zktest.OpConnect; op <= zktest.OpSetWatches; op++ {
		if op.String() == name {
			return op
		}
	}
	if name != "any" {
		t.Fatalf("no operation is called %s", name)
	}
	return 0
}

// runFault strikes requests of a process, those that name no node of the lock
// "jobs" aside if the operation is "any".
func (s *script) runFault(a scriptArgs) {
	p := s.process(a.words[3])
	m := zktest.Match{Session: s.sessionOf(p), Op: opNamed(s.t, a.words[2]), Nth: a.number(s.t, "nth"), Times: cmp.Or(a.number(s.t, "times"), 1)}
	switch {
	case a.options["path"] != "":
		m.Path = s.node(a.options["path"])
	case m.Op != zktest.OpSetWatches:
		m.Path = dir
	}
	fs := s.srv.Faults()
	var f *zktest.Fault
	switch a.words[1] {
	case "drop-reply": // the connection ends
		f = fs.DropReply(m)
	case "drop-request":
		f = fs.DropRequest(m)
	case "swallow-reply": // the connection stays
		f = fs.SwallowReply(m)
	case "swallow-request":
		f = fs.SwallowRequest(m)
	case "lose-reply": // the connection ends a second later
		f = s.thenCut(fs.SwallowReply(m), m.Session)
	case "lose-request":
		f = s.thenCut(fs.SwallowRequest(m), m.Session)
	case "deny":
		f = fs.FailRequest(m, zktest.CodeNoAuth)
	case "invalid-acl":
		f = fs.FailRequest(m, zktest.CodeInvalidACL)
	case "delay-reply":
		f = fs.DelayReply(m, a.duration(s.t, "delay", time.Second))
	default:
		s.t.Fatalf("no fault is called %s", a.words[1])
	}
	s.faults = append(s.faults, &scriptFault{name: a.words[0], f: f})
}

// scriptVerbs are the requests before which stop can hold a connection up.
var scriptVerbs = map[string]verb{
	"create": createNode, "list": list, "look": lookAtNode, "delete": deleteNode,
	"lookdir": lookAtDir, "mkdir": makeDir, "prove": prove,
}

func (s *script) runStop(a scriptArgs) {
	p := s.process(a.words[0])
	v, ok := scriptVerbs[a.words[2]]
	if !ok || p.stop != nil {
		s.t.Fatalf("%v: one of %v, one at a time", a, slices.Sorted(maps.Keys(scriptVerbs)))
	}
	p.stop, p.stopped = s.stopBefore(p.m, v), false
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	p.stop.skip = a.number(s.t, "skip")
}

func (s *script) runGo(a scriptArgs) {
	p := s.process(a.words[0])
	if p.stop == nil || !isClosed(p.stop.arrived) {
		s.t.Fatalf("%s is not stopped", p.name)
	}
	close(p.stop.resume)
	p.stop = nil
}

func (s *script) runRemove(a scriptArgs) {
	if a.words[0] == "all" {
		s.removeAll()
		return
	}
	for _, name := range a.words {
		s.remove(s.node(name))
	}
}

// node returns the path of the node that the queue has shown as name.
func (s *script) node(name string) string {
	s.t.Helper()
	for dir := range s.queues {
		s.queue(dir)
	}
	path, ok := s.nodes[name]
	if !ok {
		s.t.Fatalf("no node was shown as %s", name)
	}
	return path
}

func (s *script) runSet(a scriptArgs) {
	if err := s.srv.Set(s.node(a.words[0]), []byte(a.words[1])); err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) runForeign(a scriptArgs) {
	name := strings.ReplaceAll(a.words[0], "GUID", hex32)
	if len(a.words) == 1 {
		s.crowd().node(name)
		return
	}
	if err := s.srv.CreateAll(dir+"/"+name, nil); err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) runDirectory(a scriptArgs) {
	if err := s.srv.CreateAll(dir, []byte(strings.Join(a.words, " "))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) runQueue(scriptArgs) { s.print("queue: %s", s.queue(dir)) }

func (s *script) runTerse(scriptArgs) { s.terse = !s.terse }

func (s *script) runRequests(a scriptArgs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		var counts []string
		for _, name := range slices.Sorted(maps.Keys(scriptVerbs)) {
			if n := s.requests[s.sessionOf(p)][scriptVerbs[name]]; n > 0 && name != "prove" && (len(a.words) == 0 || slices.Contains(a.words, name)) {
				counts = append(counts, fmt.Sprintf("%d %s", n, name))
			}
		}
		if len(counts) > 0 {
			s.print("%s: sent %s", p.name, strings.Join(counts, ", "))
		}
	}
	clear(s.requests)
}

func (s *script) resetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.requests)
}
