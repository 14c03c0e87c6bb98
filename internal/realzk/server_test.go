// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// expectServing checks that the server answers.
func expectServing(t *testing.T, s *Server) {
	t.Helper()
	if got := s.FourLetterWord("ruok"); got != "imok" {
		t.Errorf("ruok: %q, want imok", got)
	}
}

func TestStartServesWithTheGivenConfiguration(t *testing.T) {
	s := Start(t,
		TickTime(300*time.Millisecond),
		SessionTimeouts(900*time.Millisecond, 7*time.Second),
		ConfigLine("maxClientCnxns=17"),
		JavaOption("-Drealzk.test=yes"))
	conf := s.FourLetterWord("conf")
	for _, line := range []string{"tickTime=300", "minSessionTimeout=900", "maxSessionTimeout=7000", "maxClientCnxns=17"} {
		if !slices.Contains(strings.Fields(conf), line) {
			t.Errorf("the server's configuration lacks %s:\n%s", line, conf)
		}
	}
	expectServing(t, s)
	if runtime.GOOS == "linux" {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.PID()))
		if err != nil || !strings.Contains(string(line), "-Drealzk.test=yes") {
			t.Errorf("the JVM's arguments lack the JavaOption: %q, %v", line, err)
		}
	}
}

func TestSharedIsOneServerAndIsLeftAlone(t *testing.T) {
	a, b := Shared(t), Shared(t)
	if a.Addr() != b.Addr() || a.PID() != b.PID() {
		t.Errorf("two servers: %s and %s", a.Addr(), b.Addr())
	}
	for name, misuse := range map[string]func(*Server){
		"Pause": (*Server).Pause, "Resume": (*Server).Resume, "Kill": (*Server).Kill, "Stop": (*Server).Stop, "Restart": (*Server).Restart, "Wipe": (*Server).Wipe,
	} {
		if out := outcome(func(tb testing.TB) { misuse(Shared(tb)) }); !strings.Contains(out, "FATAL") || !strings.Contains(out, "shares") {
			t.Errorf("%s of the shared server: %q, want a failure", name, out)
		}
	}
	expectServing(t, b)
}

func TestPauseResume(t *testing.T) {
	s := Start(t)
	s.Pause()
	// The kernel accepts the connection, but the server does not answer.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if answer, err := FourLetterWord(ctx, s.Addr(), "ruok"); err == nil {
		t.Errorf("a paused server answers %q", answer)
	}
	s.Resume()
	expectServing(t, s)
	s.Pause()
	s.Kill() // a paused server can be killed
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		conn.Close()
		t.Error("a killed server still listens")
	}
}

func TestRestartKeepsPortAndData(t *testing.T) {
	s := Start(t)
	conn := dialSession(t, s.Addr())
	zxid := zxidOf(t, s)
	if zxid == "0x0" {
		t.Fatal("a session was created without a transaction")
	}
	addr, pid := s.Addr(), s.PID()
	s.Kill()
	if _, err := io.ReadAll(conn); err == nil {
		t.Log("the connection was closed, not reset") // either is correct
	}
	s.Restart()
	if s.Addr() != addr || s.PID() == pid {
		t.Errorf("%s with pid %d after %s with pid %d; want the same address and another process", s.Addr(), s.PID(), addr, pid)
	}
	if got := zxidOf(t, s); got != zxid {
		t.Errorf("restarted: last transaction %s, was %s", got, zxid)
	}
	s.Restart() // while it runs
	expectServing(t, s)
	s.Wipe()
	s.Restart()
	if got := zxidOf(t, s); got != "0x0" {
		t.Errorf("wiped: last transaction %s, want none", got)
	}
}

// dialSession creates a session without a client library, which this package may not
// import.
func dialSession(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Write(handshake()); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 4+36)); err != nil {
		t.Fatalf("no answer to the handshake: %v", err)
	}
	return conn
}

// handshake returns a request for a new session.
func handshake() []byte {
	request := make([]byte, 4+44)
	request[3] = 44        // length; protocol version and last zxid seen are 0
	request[4+12+2] = 0x75 // timeout: 0x7500 ms
	request[4+24+3] = 16   // length of the password; session id and password are 0
	return request
}

func zxidOf(t *testing.T, s *Server) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^Zxid: (\S+)`).FindStringSubmatch(s.FourLetterWord("srvr"))
	if m == nil {
		t.Fatal("srvr names no zxid")
	}
	return m[1]
}

func TestRunForCommands(t *testing.T) {
	Require(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FourLetterWord(ctx, p.Addr(), "ruok"); err != nil {
		t.Error(err)
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("a second Kill: %v", err)
	}
	if err := p.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	cancel() // stops the server, as Stop does
	<-p.jvm.Exited()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the server's directory stays behind: %v", err)
	}
}

func TestServerThatCannotStart(t *testing.T) {
	Require(t)
	tests := []struct {
		name string
		opt  Option
		want string
	}{
		{"a bad configuration", ConfigLine("tickTime=never"), "it exited"},
		{"a bad JVM option", JavaOption("-Xmx1k"), "it exited"},
		{"it takes too long", func(c *Config) { c.StartTimeout = time.Nanosecond }, "did not serve within 1ns"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Run(t.Context(), tt.opt)
			if err == nil {
				p.Stop()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "its log ends") {
				t.Errorf("error %q, want %q and the log", err, tt.want)
			}
		})
	}
}

// A port taken by another process is distinguished from other failures.
func TestPortTaken(t *testing.T) {
	Require(t)
	in, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := Shared(t)
	for by, port := range map[string]int{"another program": l.Addr().(*net.TCPAddr).Port, "another ZooKeeper": other.p.port} {
		p := &Process{cfg: newConfig(nil), in: in, dir: t.TempDir(), port: port}
		if err := p.launch(t.Context()); !errors.Is(err, errPortTaken) {
			t.Errorf("by %s: error %v, want errPortTaken", by, err)
		}
	}
	expectServing(t, other)
}

// playStarter starts a server, prints its pid, and blocks.
func playStarter() {
	p, err := run(context.Background(), newConfig([]Option{Dir(os.Getenv(envChild))}))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	select {}
}

func TestServerDiesWithItsStarter(t *testing.T) {
	if runtime.GOOS != "linux" {
		NotRun(t, "only Linux kills a server whose parent was killed")
	}
	Require(t)
	cmd, line := startChild(t, envChild+"="+t.TempDir())
	var pid int
	if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatalf("the child said %q", line)
	}
	killChild(t, cmd, pid)
}

// startChild starts a process that dies, and returns the line that it says when its servers run.
func startChild(t *testing.T, env ...string) (cmd *exec.Cmd, line string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ = bufio.NewReader(out).ReadString('\n')
	return cmd, line
}

// killChild kills cmd, and waits until its servers have died.
func killChild(t *testing.T, cmd *exec.Cmd, servers ...int) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for _, pid := range servers {
		for running(pid) {
			select {
			case <-poll.C:
			case <-t.Context().Done():
				t.Fatal("a server outlives its parent")
			}
		}
	}
}

// running reports whether the process exists and is not a zombie.
func running(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return !strings.Contains(string(data), ") Z ")
}

func TestWithoutZooKeeper(t *testing.T) {
	t.Setenv("ZOOKEEPER_HOME", t.TempDir())
	record := filepath.Join(t.TempDir(), "not-run")
	t.Setenv("HOLDFAST_NOT_RUN", record)
	for name, start := range map[string]func(testing.TB){
		"Start":         func(tb testing.TB) { Start(tb) },
		"Shared":        func(tb testing.TB) { Shared(tb) },
		"StartEnsemble": func(tb testing.TB) { StartEnsemble(tb, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", "")
			if out := outcome(start); testing.Short() != strings.Contains(out, "-short") || !strings.Contains(out, "SKIP") || !testing.Short() && !strings.Contains(out, "set it to an unpacked ZooKeeper release") {
				t.Errorf("%q, want a skip that says what to do", out)
			}
			t.Setenv("CI", "true")
			if out := outcome(start); !testing.Short() && (!strings.Contains(out, "FATAL") || !strings.Contains(out, "set it to an unpacked ZooKeeper release")) {
				t.Errorf("with CI=true: %q, want a failure that says what to do", out)
			}
		})
	}
	if testing.Short() {
		return
	}
	data, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	line := "github.com/holdfast-go/holdfast/internal/realzk.recorder\tno ZooKeeper is installed: ZOOKEEPER_HOME is "
	if strings.Count(string(data), line) != 3 || strings.Count(string(data), "\n") != 3 {
		t.Errorf("recorded:\n%swant three lines that begin with %q", data, line)
	}
}

// outcome runs fn with a recorder and returns how the test would end.
func outcome(fn func(testing.TB)) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(r) // Fatal and Skip end the goroutine
	}()
	<-done
	return r.said
}

// recorder is a testing.TB that records its end. Methods it does not override panic,
// since the embedded interface is nil.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper()        {}
func (r *recorder) Name() string   { return "recorder" }
func (r *recorder) Cleanup(func()) {} // of Shared, to show a log
func (r *recorder) Fatal(args ...any) {
	r.said = "FATAL " + fmt.Sprint(args...)
	runtime.Goexit()
}
func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }
func (r *recorder) Skip(args ...any) {
	r.said = "SKIP " + fmt.Sprint(args...)
	runtime.Goexit()
}
func (r *recorder) Skipf(format string, args ...any) { r.Skip(fmt.Sprintf(format, args...)) }
