// SPDX-License-Identifier: Apache-2.0

package sentinel

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

const (
	// envServer makes the test binary a process that has a session at that server, and does as it
	// is told on its standard input.
	envServer = "SENTINEL_TEST_SERVER"
	// envAgent is the agent of that process.
	envAgent = "SENTINEL_TEST_AGENT"
	// envDelay is Config.Delay of that process.
	envDelay = "SENTINEL_TEST_DELAY"
	// envTimeout is the session timeout of that process.
	envTimeout = "SENTINEL_TEST_TIMEOUT"
	// envNoMain makes the test binary start a Sentinel without Main.
	envNoMain = "SENTINEL_TEST_NO_MAIN"
	// envRoots names a file with the certificates to trust, and makes process and helper use TLS.
	envRoots = "SENTINEL_TEST_ROOTS"

	secret   = "hunter2"
	patience = 30 * time.Second
)

func TestMain(m *testing.M) {
	if os.Getenv(envNoMain) != "" {
		_, err := Start(Config{})
		fmt.Println(err)
		os.Exit(0)
	}
	Main(setTLS)
	if addr := os.Getenv(envServer); addr != "" {
		if err := wardMain(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// setTLS sets what a Config cannot tell the helper.
func setTLS(cfg *zkio.Config) error {
	file := os.Getenv(envRoots)
	if file == "" {
		return nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	cfg.TLS = &tls.Config{RootCAs: roots}
	return nil
}

// wardMain is the main function of a process whose session the helper closes. It makes /n, and
// says what it has done.
func wardMain(addr string) error {
	delay, _ := time.ParseDuration(os.Getenv(envDelay))
	timeout, err := time.ParseDuration(os.Getenv(envTimeout))
	if err != nil {
		timeout = patience
	}
	s, err := Start(Config{Agent: os.Getenv(envAgent), Delay: delay, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	cfg := zkio.Config{
		Servers: []string{addr}, SessionTimeout: timeout, Logger: slog.New(slog.DiscardHandler),
		Auth: []zkio.Auth{{Scheme: "digest", Data: []byte("user:" + secret)}},
	}
	cfg.Established = func(c zkio.Config, t zkio.Ticket) {
		s.Tell("client", c, t, Note{Root: "/", Process: json.RawMessage(`{"host":"here"}`)})
	}
	if err := setTLS(&cfg); err != nil {
		return err
	}
	c, err := zkio.Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	if err := c.Session().CreateEphemeral("/n", nil, nil); err != nil {
		return err
	}
	fmt.Println("held")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch word, rest, _ := strings.Cut(in.Text(), " "); word {
		case "exit":
			os.Exit(3)
		case "panic":
			go panic("as the test wants it")
			select {}
		case "close": // the client, in good order
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			err := c.Close(ctx)
			cancel()
			if err == nil {
				s.Forget("client")
			}
			s.Close()
			fmt.Println("closed:", err)
		case "shut": // the connection to the helper, by mistake
			for fd := 3; fd < 100; fd++ {
				if kind, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && (strings.HasPrefix(kind, "socket:") || strings.HasPrefix(kind, "pipe:")) {
					_ = syscall.Close(fd)
				}
			}
			fmt.Println("shut")
		case "password":
			fmt.Println("password", base64.StdEncoding.EncodeToString(c.Session().Ticket().Password))
		case "keep", "start": // a child, which ends when the file cannot be found any more
			child := exec.Command("sh", "-c", `while [ -e "$0" ]; do sleep 0.01; done`, rest)
			if word == "keep" {
				if err := s.Keep(child); err != nil {
					return err
				}
			}
			if err := child.Start(); err != nil {
				return err
			}
			for _, f := range child.ExtraFiles { // as programs do with theirs
				_ = f.Close()
			}
			fmt.Println("started")
		case "tell": // more than the helper's end of the connection can take
			for s.Err() == nil {
				s.Tell("client", cfg, c.Session().Ticket(), Note{})
			}
			fmt.Println("told")
		case "many": // sessions, more than the system keeps for a helper that is just starting
			for i := range 1000 {
				s.Tell(i, zkio.Config{Servers: []string{"127.0.0.1:1"}}, zkio.Ticket{ID: int64(i + 1), Timeout: 10 * time.Millisecond}, Note{})
				if i%50 == 0 {
					<-time.After(10 * time.Millisecond) // until the helper has read them
				}
			}
			fmt.Println("told")
		case "lasts": // the client's session is left when the Sentinel is closed
			s.Close()
			fmt.Println("closed")
		case "again": // once the session has ended
			for {
				if err := c.Session().CreateEphemeral("/again", nil, nil); err == nil {
					break
				}
				<-time.After(time.Millisecond)
			}
			fmt.Println("held again")
		}
	}
	return nil
}

// A wardProcess is a process of this test's that has a session.
type wardProcess struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	session int64

	inherited string // a file that the process has open from its beginning

	wait func() error

	mu     sync.Mutex // protects what follows
	stderr strings.Builder
}

// Write adds to what the process and its helper say on standard error.
func (w *wardProcess) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stderr.Write(p)
}

func (w *wardProcess) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stderr.String()
}

// startWard starts a process, and returns when it has its session.
func startWard(t *testing.T, server *zktest.Server, addr string, env ...string) *wardProcess {
	t.Helper()
	return startWardIn(t, 0, server, addr, env...)
}

// startWardIn starts a process in namespaces of its own.
func startWardIn(t *testing.T, namespaces uintptr, server *zktest.Server, addr string, env ...string) *wardProcess {
	t.Helper()
	w := &wardProcess{t: t, cmd: exec.Command(must1(os.Executable()), "-test.run=^$")}
	w.cmd.Env = slices.Concat(os.Environ(), []string{envServer + "=" + addr, "GORACE=atexit_sleep_ms=0"}, env)
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: namespaces}
	inherited := must1(os.Create(filepath.Join(t.TempDir(), "inherited")))
	// Twice: in the helper, the connection has the place of the first.
	w.cmd.ExtraFiles, w.inherited = []*os.File{inherited, inherited}, inherited.Name()
	w.in, w.out = must1(w.cmd.StdinPipe()), bufio.NewScanner(must1(w.cmd.StdoutPipe()))
	// A file of our own: exec would wait for the helper to close it, too.
	r, stderr, err := os.Pipe()
	must(t, err)
	w.cmd.Stderr = stderr
	must(t, w.cmd.Start())
	must(t, stderr.Close())
	must(t, inherited.Close())
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(w, r) })
	w.wait = sync.OnceValue(w.cmd.Wait)
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		_ = w.wait()
		server.Faults().Clear()
		reading.Wait() // for the helper, which has the other end
		_ = r.Close()
		if t.Failed() {
			t.Logf("standard error:\n%s", w.said())
		}
	})
	w.expect("held")
	_, stat, ok := server.Get("/n")
	if !ok {
		t.Fatal("the process has no node")
	}
	w.session = stat.EphemeralOwner
	return w
}

// tell has the process do something, and waits until it answers.
func (w *wardProcess) tell(order, answer string) string {
	w.t.Helper()
	w.order(order)
	return w.expect(answer)
}

func (w *wardProcess) order(order string) {
	w.t.Helper()
	_, err := io.WriteString(w.in, order+"\n")
	must(w.t, err)
}

// expect waits for a line, and returns what follows answer in it.
func (w *wardProcess) expect(answer string) string {
	w.t.Helper()
	for w.out.Scan() {
		if rest, ok := strings.CutPrefix(w.out.Text(), answer); ok {
			return strings.TrimSpace(rest)
		}
	}
	w.t.Fatalf("the process has ended without saying %q:\n%s", answer, w.said())
	return ""
}

func (w *wardProcess) signal(s syscall.Signal) {
	w.t.Helper()
	must(w.t, w.cmd.Process.Signal(s))
}

// kill ends the process.
func (w *wardProcess) kill() {
	w.signal(syscall.SIGKILL)
	_ = w.wait()
}

// awaitClosed waits until the helper has closed the session.
func (w *wardProcess) awaitClosed(server *zktest.Server) {
	w.t.Helper()
	eventually(w.t, func() bool {
		return strings.Contains(w.said(), fmt.Sprintf("its session %#x is closed after ", w.session))
	})
	if server.Exists("/n") {
		w.t.Error("the helper says that the session is closed, and the node is there")
	}
}

// helper returns the process id of the helper, once it is there.
func (w *wardProcess) helper() (pid int) {
	w.t.Helper()
	eventually(w.t, func() bool {
		for _, c := range childrenOf(w.cmd.Process.Pid) {
			if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c)); err == nil && strings.HasPrefix(string(name), HelperName[:15]) {
				pid = c
				return true
			}
		}
		return false
	})
	return pid
}

// childrenOf returns the children of a process.
func childrenOf(pid int) (children []int) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for _, f := range strings.Fields(string(text)) {
			children = append(children, must1(strconv.Atoi(f)))
		}
	}
	return children
}

// closes counts the requests to close a session that arrive while not is true, and returns the
// count.
func closes(server *zktest.Server, session int64, not func() bool) func() int {
	var mu sync.Mutex // protects n
	n := 0
	server.OnRequest(func(id int64, op zktest.Op, _ string) {
		if op == zktest.OpClose && id == session && not() {
			mu.Lock()
			n++
			mu.Unlock()
		}
	})
	return func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// serve returns an embedded server for a test, and its address.
func serve(t *testing.T) (*zktest.Server, string) {
	t.Helper()
	s := zktest.NewServer(zktest.Config{TickTime: 100 * time.Millisecond, MaxSessionTimeout: patience, Logger: slog.New(slog.DiscardHandler)})
	addr, err := s.Listen("127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, addr
}

// chances gives a helper that acts too early the time to do so: many sessions come and go.
func chances(t *testing.T, addr string) {
	t.Helper()
	for range 20 {
		c, err := zkio.Open(t.Context(), zkio.Config{Servers: []string{addr}, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		must(t, c.Close(t.Context()))
	}
}

// eventually waits until ok.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	late := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it did not happen")
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
