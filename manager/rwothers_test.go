// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager/internal/queue"
)

// realSite is what the tests on a real server run on. Each works below a root of its
// own.
type realSite struct {
	t    *testing.T
	zk   *realzk.Server
	root string
}

func newReal(t *testing.T, zk *realzk.Server) *realSite {
	return &realSite{t: t, zk: zk, root: fmt.Sprintf("/%s-%08x", strings.ReplaceAll(t.Name(), "/", "-"), rand.Uint32())}
}

// open opens a manager, and has it closed when the test ends.
func (r *realSite) open(label string, with ...func(*Config)) *Manager {
	r.t.Helper()
	cfg := Config{Servers: []string{r.zk.Addr()}, Root: r.root, Label: label, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range with {
		f(&cfg)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	m, err := Open(ctx, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			r.t.Logf("close of %s: %v", label, err)
		}
	})
	return m
}

func (r *realSite) rw(label string) *RWLock { return readWrite(r.t, r.open(label), "jobs") }

// lock takes l, and gives up before the test's time is over.
func (r *realSite) lock(l *Lock) Hold {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	h, err := l.Lock(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// granted waits for the grant of h.
func (r *realSite) granted(h Hold) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	if _, err := h.Granted().Wait(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// until waits for what a test waits for, on a server that does not say when.
func (r *realSite) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			r.t.Fatalf("not so after 30 s: %s", what)
		}
	}
}

// queue returns the names of the nodes in the queue of the lock.
func (r *realSite) queue(l *Lock) []string {
	r.t.Helper()
	names, _, err := l.m.client.Session().Children(l.path)
	if err != nil {
		r.t.Fatal(err)
	}
	return names
}

// watchers returns how many sessions watch the node at path.
func (r *realSite) watchers(path string) int {
	n, at := 0, false
	for line := range strings.Lines(r.zk.FourLetterWord("wchp")) {
		switch {
		case strings.HasPrefix(line, "/"):
			at = strings.TrimSpace(line) == path
		case at && strings.TrimSpace(line) != "":
			n++
		}
	}
	return n
}

// others is a program with contenders that use another client's locks; see
// testdata/curator and testdata/kazoo.
type others struct {
	t   *testing.T
	ref *rwReferee
	*program
}

// program is what the tests of one program share.
type program struct {
	stdin io.Writer

	mu      sync.Mutex // protects what follows, and writing to stdin
	answers map[string]chan string
}

// startOthers starts the program, which ends with the test.
func startOthers(t *testing.T, ref *rwReferee, name string, args ...string) *others {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &others{t, ref, &program{stdin: stdin, answers: make(map[string]chan string)}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			client, answer, _ := strings.Cut(lines.Text(), " ")
			o.of(client) <- answer
		}
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		<-done
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return o
}

func (o *program) of(client string) chan string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.answers[client] == nil {
		o.answers[client] = make(chan string, 100)
	}
	return o.answers[client]
}

// tell sends a client a command, without waiting for the answer.
func (o *others) tell(client, command string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := fmt.Fprintf(o.stdin, "%s %s\n", client, command); err != nil {
		o.t.Error(err)
	}
}

// hear waits for a client's answer, and checks it.
func (o *others) hear(client, want string) {
	o.t.Helper()
	select {
	case got := <-o.of(client):
		if got != want {
			o.t.Fatalf("%s says %q, want %q", client, got, want)
		}
	case <-time.After(30 * time.Second):
		o.t.Fatalf("%s does not say %q for 30 s", client, want)
	}
}

// ask is tell and hear.
func (o *others) ask(client, command, want string) {
	o.t.Helper()
	o.tell(client, command)
	o.hear(client, want)
}

// silent checks that a client has not answered.
func (o *others) silent(client string) {
	o.t.Helper()
	select {
	case got := <-o.of(client):
		o.t.Fatalf("%s says %q, want it to wait", client, got)
	default:
	}
}

// loop has a client acquire and release a lock so often, and tells the rwReferee
// while it is inside. It returns when that is done.
func (o *others) loop(client, kind string, times int) {
	o.tell(client, fmt.Sprintf("loop %s %d", kind, times))
	var leave func()
	for {
		select {
		case answer := <-o.of(client):
			verb, _, _ := strings.Cut(answer, " ")
			switch verb {
			case "enter":
				leave = o.ref.enter(client, kind != "read", 0)
			case "leave":
				leave()
			case "done":
				return
			default:
				o.t.Errorf("%s says %q", client, answer)
				return
			}
			o.tell(client, "ok")
		case <-time.After(60 * time.Second):
			o.t.Errorf("%s got stuck", client)
			return
		}
	}
}

// startCurator compiles and starts the contenders that use Apache Curator.
func startCurator(t *testing.T, zk *realzk.Server, ref *rwReferee) *others {
	t.Helper()
	const jar = "/usr/share/java/curator-recipes.jar" // its manifest names what it needs
	if _, err := os.Stat(jar); err != nil {
		realzk.NotRun(t, "there is no "+jar+" (Debian: apt-get install libcurator-recipes-java)")
	}
	javac, java := javaTool("javac"), javaTool("java")
	if javac == "" || java == "" {
		realzk.NotRun(t, "there is no javac in the PATH, nor in JAVA_HOME (Debian: apt-get install default-jdk-headless)")
	}
	classes := t.TempDir()
	compile := exec.CommandContext(t.Context(), javac, "-cp", jar, "-d", classes, "testdata/curator/Contenders.java")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", compile, err, out)
	}
	classpath := strings.Join([]string{classes, jar, "/usr/share/java/slf4j-nop.jar"}, string(filepath.ListSeparator))
	return startOthers(t, ref, java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath, "Contenders", zk.Addr())
}

// javaTool returns the path of a program of the JDK's, or "".
func javaTool(name string) string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// startKazoo starts the contenders that use kazoo.
func startKazoo(t *testing.T, zk *realzk.Server, ref *rwReferee) *others {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import kazoo").Run() == nil {
			return startOthers(t, ref, python, "testdata/kazoo/contenders.py", zk.Addr())
		}
	}
	realzk.NotRun(t, "no python3 has the module kazoo (Debian: apt-get install python3-kazoo)")
	return nil
}

// Services that lock with Apache Curator and services that lock with this
// package exclude each other.
func TestCurator(t *testing.T) {
	zk := realzk.Shared(t)
	ref := newRWReferee(t)
	curator := startCurator(t, zk, ref)
	for name, test := range map[string]func(*testing.T, *realzk.Server, *others){
		"mutex":                    testOthersMutex,
		"mutexes at once":          testOthersMutexesAtOnce,
		"read and write":           testOthersReadWrite,
		"downgrade":                testDowngradeBeforeCurator,
		"downgrade, reader queued": testQueuedDowngradeBeforeCurator,
		"all at once":              testOthersAllAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, zk, &others{t, newRWReferee(t), curator.program})
		})
	}
}

// The same with kazoo, which has to be told of our nodes' names. Its read locks
// wait for later writers, too, in some versions, so they are not let loose.
func TestKazoo(t *testing.T) {
	zk := realzk.Shared(t)
	kazoo := startKazoo(t, zk, newRWReferee(t))
	for name, test := range map[string]func(*testing.T, *realzk.Server, *others){
		"mutex":           testOthersMutex,
		"mutexes at once": testOthersMutexesAtOnce,
		"read and write":  testOthersReadWrite,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, zk, &others{t, newRWReferee(t), kazoo.program})
		})
	}
}

// Each is kept out while the other is in, and let in after it.
func testOthersMutex(t *testing.T, zk *realzk.Server, o *others) {
	r := newReal(t, zk)
	l := exclusive(t, r.open("ours"), "jobs")
	o.ask("a", "open "+l.Path(), "opened")

	h := r.lock(l)
	o.ask("a", "try mutex", "refused mutex")
	o.tell("a", "acquire mutex")
	r.until("theirs is queued and waits", func() bool { return len(r.queue(l)) == 2 && r.watchers(grantOf(t, h).Path) > 0 })
	o.silent("a")
	mustRelease(t, h)
	o.hear("a", "acquired mutex")

	_, err := l.TryLock(t.Context())
	wantErr(t, "trylock", err, ErrLocked)
	h = l.Acquire(t.Context())
	r.until("ours is queued", func() bool { return len(r.queue(l)) == 2 })
	pending(t, "ours", h.Granted())
	o.ask("a", "release mutex", "released mutex")
	r.granted(h)
	mustRelease(t, h)
	if got := r.queue(l); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

// Readers share, across the two, and nobody is beside a writer.
func testOthersReadWrite(t *testing.T, zk *realzk.Server, o *others) {
	r := newReal(t, zk)
	rw := r.rw("ours")
	o.ask("a", "open "+rw.Writer().Path(), "opened")
	for _, theirs := range []string{"read", "write"} {
		for _, ours := range []*Lock{rw.Reader(), rw.Writer()} {
			shared := theirs == "read" && ours.kind == queue.Read

			h := r.lock(ours)
			want := "refused "
			if shared {
				want = "acquired "
			}
			o.ask("a", "try "+theirs, want+theirs)
			if shared {
				o.ask("a", "release "+theirs, "released "+theirs)
			}
			mustRelease(t, h)

			o.ask("a", "acquire "+theirs, "acquired "+theirs)
			h, err := ours.TryLock(t.Context())
			if shared {
				wantErr(t, "trylock", err, nil)
				mustRelease(t, h)
			} else {
				wantErr(t, "trylock", err, ErrLocked)
			}
			o.ask("a", "release "+theirs, "released "+theirs)
		}
	}

	// In the order of the queue: ours, their writer, ours, their reader.
	first := r.lock(rw.Reader())
	o.tell("a", "acquire write")
	r.until("their writer is queued", func() bool { return len(r.queue(rw.Reader())) == 2 })
	second := r.rw("second").Reader().Acquire(t.Context())
	r.until("our second reader is queued", func() bool { return len(r.queue(rw.Reader())) == 3 })
	o.ask("b", "open "+rw.Reader().Path(), "opened")
	o.tell("b", "acquire read")
	r.until("their reader is queued", func() bool { return len(r.queue(rw.Reader())) == 4 })
	mustRelease(t, first)
	o.hear("a", "acquired write")
	o.silent("b")
	pending(t, "our second reader", second.Granted())
	o.ask("a", "release write", "released write")
	r.granted(second)
	o.hear("b", "acquired read") // beside ours
	wantHeld(t, "our second reader", second)
	o.ask("b", "release read", "released read")
	mustRelease(t, second)
	if got := r.queue(rw.Reader()); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

// Our writer becomes a reader while Curator's writer is queued behind it: that
// one waits for the reader.
func testDowngradeBeforeCurator(t *testing.T, zk *realzk.Server, o *others) {
	r := newReal(t, zk)
	rw := r.rw("ours")
	for i := range 5 {
		client := fmt.Sprintf("down%d", i)
		o.ask(client, "open "+rw.Writer().Path(), "opened")
		write := r.lock(rw.Writer())
		o.tell(client, "acquire write")
		r.until("their writer is queued", func() bool { return len(r.queue(rw.Writer())) == 2 })
		read := r.lock(rw.Reader())
		releaseBefore(r, o, client, write, read)
	}
}

// The same with a reader that is queued behind our own writer, and behind
// Curator's.
func testQueuedDowngradeBeforeCurator(t *testing.T, zk *realzk.Server, o *others) {
	r := newReal(t, zk)
	rw := r.rw("ours")
	o.ask("first", "open "+rw.Writer().Path(), "opened")
	for i := range 5 {
		client := fmt.Sprintf("queued%d", i)
		o.ask(client, "open "+rw.Writer().Path(), "opened")
		o.ask("first", "acquire write", "acquired write")
		write := rw.Writer().Acquire(t.Context())
		r.until("our writer is queued", func() bool { return len(r.queue(rw.Writer())) == 2 })
		o.tell(client, "acquire write")
		r.until("their writer is queued", func() bool { return len(r.queue(rw.Writer())) == 3 })
		read := rw.Reader().Acquire(t.Context())
		r.until("our reader is queued", func() bool { return len(r.queue(rw.Writer())) == 4 })
		o.ask("first", "release write", "released write")
		r.granted(write)
		r.granted(read)
		releaseBefore(r, o, client, write, read)
	}
}

// releaseBefore releases our write, and then our read, with the client's writer
// queued behind.
func releaseBefore(r *realSite, o *others, client string, write, read Hold) {
	r.t.Helper()
	w, g := grantOf(r.t, write), grantOf(r.t, read)
	if sequenceOf(w.Path) != sequenceOf(g.Path) || w.Token != g.Token {
		r.t.Errorf("the reader is in with %+v, the writer with %+v", g, w)
	}
	mustRelease(r.t, write)
	// It is a session of theirs that watches our reader's node: they have looked
	// again, and wait for it. Ours has a watch of its own there.
	r.until("their writer waits for our reader", func() bool {
		o.silent(client)
		return r.watchers(g.Path) == 2
	})
	o.silent(client)
	mustRelease(r.t, read)
	o.hear(client, "acquired write")
	o.ask(client, "release write", "released write")
}

// Two processes of ours and two clients of theirs contend. A rwReferee watches.
func testOthersMutexesAtOnce(t *testing.T, zk *realzk.Server, o *others) {
	r := newReal(t, zk)
	const times = 20
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	first := exclusive(t, r.open("ours0"), "jobs")
	for i := range 2 {
		l := first
		if i > 0 {
			l = exclusive(t, r.open(fmt.Sprintf("ours%d", i)), "jobs")
		}
		wg.Go(func() {
			for range times {
				err := l.Do(ctx, func(_ context.Context, h Hold) error {
					defer o.ref.enterHeld(h)()
					_, _, err := l.m.client.Session().Exists(l.path) // some work
					return err
				})
				if err != nil {
					t.Errorf("ours%d: %v", i, err)
					return
				}
			}
		})
	}
	for _, client := range []string{"x", "y"} {
		o.ask(client, "open "+first.Path(), "opened")
		wg.Go(func() { o.loop(client, "mutex", times) })
	}
	wg.Wait()
	if got := r.queue(first); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	if want := times * 4; o.ref.visits != want {
		t.Errorf("%d visits, want %d", o.ref.visits, want)
	}
}

// Two processes of ours and three clients of theirs contend, ours with
// downgrades that race with the release of the write. A rwReferee watches.
func testOthersAllAtOnce(t *testing.T, zk *realzk.Server, o *others) {
	r := newReal(t, zk)
	const times = 15
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	first := r.rw("ours0")
	for i := range 2 {
		rw := first
		if i > 0 {
			rw = r.rw(fmt.Sprintf("ours%d", i))
		}
		wg.Go(func() {
			for n := range times {
				if err := writeThenRead(ctx, rw, o.ref, n); err != nil {
					t.Errorf("ours%d: %v", i, err)
					return
				}
			}
		})
	}
	for client, kind := range map[string]string{"x": "write", "y": "read", "z": "write"} {
		o.ask(client, "open "+first.Writer().Path(), "opened")
		wg.Go(func() { o.loop(client, kind, times) })
	}
	wg.Wait()
	if got := r.queue(first.Reader()); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	if want := times * 5; o.ref.visits < want {
		t.Errorf("%d visits, want at least %d", o.ref.visits, want)
	}
}

// writeThenRead writes and asks for read, and lets the write go at a moment that
// depends on n.
func writeThenRead(ctx context.Context, rw *RWLock, ref *rwReferee, n int) error {
	write, err := rw.Writer().Lock(ctx)
	if err != nil {
		return err
	}
	g, err := write.Grant()
	if err != nil {
		return err
	}
	leave := ref.enter(rw.writer.m.cfg.Label, true, g.Token)
	var read Hold
	switch n % 3 {
	case 0:
		read = rw.Reader().Acquire(ctx)
		_, err = read.Granted().Wait(ctx)
		leave()
		write.Release()
	case 1:
		read = rw.Reader().Acquire(ctx)
		leave()
		write.Release()
	case 2:
		leave()
		write.Release()
		read = rw.Reader().Acquire(ctx)
	}
	if err == nil {
		_, err = read.Granted().Wait(ctx)
	}
	if err == nil {
		g, err = read.Grant()
	}
	if err != nil {
		read.Release()
		return err
	}
	leave = ref.enter(rw.writer.m.cfg.Label, false, g.Token)
	_, _, err = rw.writer.m.client.Session().Exists(g.Path) // some work
	leave()
	_, released := write.Released().Wait(ctx)
	return errors.Join(err, released, read.Unlock(ctx))
}
