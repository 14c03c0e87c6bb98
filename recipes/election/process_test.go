// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"cmp"
	"context"
	"flag"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/zkio"
)

var kills = flag.Int("kills", 2, "how many leaders with a sentinel are killed, and how many without")

const (
	// childServers turns this test binary into a candidate. It names the servers.
	childServers = "HOLDFAST_TEST_CANDIDATE_SERVERS"

	// childSentinel gives the candidate a sentinel, and a session timeout that would be over
	// only after the limit.
	childSentinel = "HOLDFAST_TEST_CANDIDATE_SENTINEL"

	sessionTimeout = 2 * time.Second
	longTimeout    = 10 * time.Second
	tickTime       = 500 * time.Millisecond
	marksPath      = "/marks" // where leaders note their tokens
)

// candidateProcess stands for election until its standard input ends. It says as its ID
// which process it is. While it leads, it goes on noting its token in ZooKeeper, guarded.
func candidateProcess(servers string) (err error) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	cfg := realConfig(servers)
	if os.Getenv(childSentinel) != "" {
		cfg.SessionTimeout = longTimeout
		if cfg.Sentinel, err = sentinel.Start(sentinel.Config{}); err != nil {
			return err
		}
		defer cfg.Sentinel.Close()
	}
	m, err := manager.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer m.Close()
	e, err := election.New(m, name, election.Options{ID: strconv.Itoa(os.Getpid())})
	if err != nil {
		return err
	}
	err = e.Run(ctx, func(ctx context.Context, l *election.Leadership) error {
		mark := zkio.CreateOp(marksPath+"/m", []byte(strconv.FormatUint(l.Token(), 10)), nil).Sequential()
		for ctx.Err() == nil {
			if _, err := l.Guard(ctx, mark); err != nil && ctx.Err() == nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil // the test has ended
	}
	return err
}

func realConfig(servers string) manager.Config {
	return manager.Config{Servers: strings.Split(servers, ","), SessionTimeout: sessionTimeout, Logger: slog.New(slog.DiscardHandler)}
}

func openReal(servers string) (*manager.Manager, error) {
	return manager.Open(context.Background(), realConfig(servers))
}

// startCandidate starts a process, which the test kills when it ends, and returns how to kill
// it.
func startCandidate(t *testing.T, servers string, env ...string) (p *os.Process, kill func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^$")
	cmd.Env = append(append(os.Environ(), childServers+"="+servers), env...)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // it ends with this process
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	return cmd.Process, kill
}

// The leader of six processes is killed, again and again. Another leads in time: at once if it
// had a sentinel, as every second one has. No two lead at a time, and an observer is told of each
// of them once.
func TestKilledLeaders(t *testing.T) {
	ensemble := realzk.StartEnsemble(t, 3, realzk.TickTime(tickTime))
	ensemble.Settled()
	servers := strings.Join(realzk.Addrs(ensemble.Servers()...), ",")
	m, e := openObserver(t, servers)
	leaders := e.Observe(t.Context())
	type candidate struct {
		kill     func()
		sentinel bool
	}
	candidates := make(map[string]candidate)
	start := func(sentinel bool) {
		var env []string
		if sentinel && runtime.GOOS == "linux" {
			env = append(env, childSentinel+"=yes")
		}
		p, kill := startCandidate(t, servers, env...)
		candidates[strconv.Itoa(p.Pid)] = candidate{kill, len(env) > 0}
	}
	for i := range 6 {
		start(i%2 == 0)
	}
	var told []uint64
	nextLeader := func() election.Leader {
		for {
			if l := next(t, leaders); l.Token != 0 {
				told = append(told, l.Token)
				return l
			}
		}
	}
	leader := nextLeader()
	limits := map[bool]time.Duration{false: sessionTimeout + tickTime + 500*time.Millisecond, true: longTimeout / 2}
	waits := make(map[bool][]time.Duration)
	for min(len(waits[false]), len(waits[runtime.GOOS == "linux"])) < *kills {
		// All candidates stand, and the leader has begun its work.
		untilWorking(t, m, leader)
		untilStanding(t, e, 6)
		c, ours := candidates[leader.ID]
		if !ours {
			t.Fatalf("the leader says that it is %q", leader.ID)
		}
		c.kill()
		killed := time.Now()
		delete(candidates, leader.ID)
		old := leader
		leader = nextLeader()
		took := time.Since(killed)
		waits[c.sentinel] = append(waits[c.sentinel], took.Round(time.Millisecond))
		if leader.Token <= old.Token || leader.ID == old.ID || took > limits[c.sentinel] {
			t.Errorf("%v after %+v was killed, %+v leads; the limit is %v", took, old, leader, limits[c.sentinel])
		}
		start(c.sentinel)
	}
	untilWorking(t, m, leader) // or its term has no mark
	last := candidates[leader.ID]
	delete(candidates, leader.ID)
	for _, c := range candidates {
		c.kill()
	}
	last.kill() // after the others, or one of them has a term before its own end
	marks, terms := marked(t, m)
	if !slices.Equal(terms, told) {
		t.Errorf("the terms in ZooKeeper's order: %v; the observer was told of %v", terms, told)
	}
	for with, waits := range waits {
		slices.Sort(waits)
		t.Logf("%d leaders killed, with a sentinel %v: the next led after %v to %v (limit %v)", len(waits), with, waits[0], waits[len(waits)-1], limits[with])
	}
	t.Logf("%d terms, %d marks in order", len(terms), marks)
}

// openObserver opens a Manager and its Election, and makes the directory of the marks.
func openObserver(t *testing.T, servers string) (*manager.Manager, *election.Election) {
	t.Helper()
	m, err := openReal(servers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	err = m.Access().Call(t.Context(), func(s *zkio.Session) error { return s.Create(marksPath, nil, nil) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m, newElection(t, m, "observer")
}

// untilWorking waits until the leader has made a mark.
func untilWorking(t *testing.T, m *manager.Manager, leader election.Leader) {
	t.Helper()
	for _, terms := marked(t, m); len(terms) == 0 || terms[len(terms)-1] != leader.Token; _, terms = marked(t, m) {
		<-time.After(50 * time.Millisecond)
	}
}

// untilStanding waits until n candidates stand.
func untilStanding(t *testing.T, e *election.Election, n int) {
	t.Helper()
	for {
		queue, err := e.Lock().Queue(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(queue) == n {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

// marked returns how many marks there are, and the tokens of the terms in the order of the
// marks: a term is there twice if another has come in between.
func marked(t *testing.T, m *manager.Manager) (marks int, terms []uint64) {
	t.Helper()
	err := m.Access().Call(t.Context(), func(s *zkio.Session) error {
		if err := s.Sync(marksPath); err != nil {
			return err
		}
		names, _, err := s.Children(marksPath)
		if err != nil {
			return err
		}
		for i, name := range names {
			names[i] = marksPath + "/" + name
		}
		reads := s.GetAll(names...)
		slices.SortFunc(reads, func(a, b zkio.Read) int { return cmp.Compare(a.Stat.Czxid, b.Stat.Czxid) })
		marks, terms = len(reads), nil
		for _, r := range reads {
			if r.Err != nil {
				return r.Err
			}
			token, err := strconv.ParseUint(string(r.Data), 10, 64)
			if err != nil {
				return err
			}
			if len(terms) == 0 || terms[len(terms)-1] != token {
				terms = append(terms, token)
			}
		}
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return marks, terms
}
