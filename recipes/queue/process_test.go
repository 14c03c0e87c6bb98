// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/queue"
)

var (
	elements = flag.Int("elements", 1000, "how many elements the real processes put into the queue")
	kills    = flag.Int("kills", 8, "how many consumers are killed meanwhile")
)

// These environment variables turn this test binary into a process that uses a queue: they
// name the server, and say how many elements it puts into the queue; a process without that
// number takes them.
const (
	processServer = "HOLDFAST_TEST_QUEUE_SERVER"
	processOffers = "HOLDFAST_TEST_QUEUE_OFFERS"
)

// runProcess offers elements, or takes them until its standard input ends. Then it prints
// what it takes and acks.
func runProcess() {
	ctx := context.Background()
	m, err := manager.Open(ctx, manager.Config{
		Servers: []string{os.Getenv(processServer)}, SessionTimeout: 4 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	defer func() { _ = m.Close() }()
	q, err := queue.New(m, "work", queue.Options{MaxLength: 2000})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	if n, err := strconv.Atoi(os.Getenv(processOffers)); err == nil {
		produce(ctx, q, n)
		return
	}
	ctx, stop := context.WithCancel(ctx)
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		stop()
	}()
	_ = q.Run(ctx, 4, func(ctx context.Context, e *queue.Element) error {
		fmt.Printf("takes %s %d\n", e.Data(), e.Token())
		err := e.Ack(context.WithoutCancel(ctx))
		if err != nil {
			fmt.Printf("fails %s %v\n", e.Data(), err)
			return err
		}
		fmt.Printf("acks %s %d\n", e.Data(), e.Token())
		return nil
	})
}

// produce puts n elements into the queue, by eight goroutines.
func produce(ctx context.Context, q *queue.Queue, n int) {
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := g; i < n; i += 8 {
				if err := q.OfferWait(ctx, fmt.Appendf(nil, "%d/%d", os.Getpid(), i)); err != nil {
					fmt.Println("error", err)
				}
			}
		})
	}
	all.Wait()
}

// A ledger has what the processes have printed.
type ledger struct {
	t *testing.T

	mu           sync.Mutex
	taken, acked map[string]uint64 // the latest tokens
	takes        int
	others       []string
}

// start starts a process whose output goes into the ledger.
func (l *ledger) start(addr string, offers int) *process {
	l.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), processServer+"="+addr)
	if offers > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", processOffers, offers))
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	p := &process{cmd: cmd, end: func() { _ = in.Close() }, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				break // what a killed process has not ended is no line
			}
			l.line(strings.TrimSuffix(line, "\n"))
		}
		_ = cmd.Wait()
	}()
	l.t.Cleanup(p.kill)
	return p
}

func (l *ledger) line(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what, rest, _ := strings.Cut(line, " ")
	id, number, _ := strings.Cut(rest, " ")
	token, _ := strconv.ParseUint(number, 10, 64)
	switch what {
	case "takes":
		l.takes++
		l.taken[id] = max(l.taken[id], token)
	case "acks":
		if l.acked[id] > 0 {
			l.t.Errorf("%s was acked twice", id)
		}
		l.acked[id] = token
	default:
		l.others = append(l.others, line)
	}
}

// count returns how many elements were seen.
func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.taken)
}

// A process is a child of the test.
type process struct {
	cmd  *exec.Cmd
	end  func()
	done chan struct{}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// 4 producers and 4 consumers are processes, and consumers are killed now and then. Every
// element is acked once, and nothing is taken after its ack.
func TestRealProcesses(t *testing.T) {
	t.Parallel()
	zk := realzk.Shared(t)
	l := &ledger{t: t, taken: make(map[string]uint64), acked: make(map[string]uint64)}
	began := time.Now()
	for range 4 {
		l.start(zk.Addr(), *elements/4)
	}
	var consumers []*process
	for range 4 {
		consumers = append(consumers, l.start(zk.Addr(), 0))
	}
	killed := 0
	for limit := time.After(10 * time.Minute); l.count() < *elements; {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limit:
			t.Fatalf("%d of %d elements were taken after 10 minutes; %v", l.count(), *elements, l.others)
		}
		if killed < *kills && l.count() > (killed+1)**elements/(*kills+1) { // evenly
			consumers[killed%4].kill()
			consumers[killed%4] = l.start(zk.Addr(), 0)
			killed++
		}
	}
	m, err := manager.Open(t.Context(), manager.Config{Servers: []string{zk.Addr()}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	session := m.Access().Session()
	for limit := time.After(time.Minute); ; {
		names, _, err := session.Children("/holdfast/work/items")
		if err == nil && len(names) == 0 {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limit:
			t.Fatalf("%d elements are left, %v", len(names), err)
		}
	}
	took := time.Since(began)
	for _, p := range consumers {
		p.end()
		<-p.done
	}
	dead, _, err := session.Children("/holdfast/work/dead")
	if err != nil || len(dead) > 0 {
		t.Errorf("%d elements are dead, %v", len(dead), err)
	}
	untold := 0
	for id, token := range l.taken {
		switch {
		case l.acked[id] == 0:
			untold++ // the process was killed before it could print that
		case l.acked[id] < token:
			t.Errorf("%s was taken after its ack", id)
		}
	}
	if untold > 4*killed {
		t.Errorf("%d elements were not acked, with %d kills of 4 workers", untold, killed)
	}
	t.Logf("%d elements in %v: taken %d times, acked %d, %d by processes that were killed before they could say so; %d kills; %v",
		*elements, took.Round(time.Millisecond), l.takes, len(l.acked), untold, killed, l.others)
}
