// SPDX-License-Identifier: Apache-2.0

package sentinel

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

func always() bool { return true }

// However a process ends, the helper closes its session.
func TestF347_ProcessEnds(t *testing.T) {
	for name, end := range map[string]func(w *wardProcess){
		"SIGKILL":          func(w *wardProcess) { w.signal(syscall.SIGKILL) },
		"SIGTERM":          func(w *wardProcess) { w.signal(syscall.SIGTERM) },
		"panic":            func(w *wardProcess) { w.order("panic") },
		"exit":             func(w *wardProcess) { w.order("exit") },
		"main returns":     func(w *wardProcess) { must(w.t, w.in.Close()) },
		"stopped, SIGKILL": func(w *wardProcess) { w.signal(syscall.SIGSTOP); w.signal(syscall.SIGKILL) },
		"its whole group":  func(w *wardProcess) { must(w.t, syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, addr := serve(t)
			w := startWard(t, server, addr)
			end(w)
			w.awaitClosed(server)
		})
	}
}

// The helper knows each session before it is used.
func TestF347_NextSession(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr)
	server.ExpireSession(w.session)
	w.tell("again", "held again")
	_, stat, _ := server.Get("/again")
	w.session = stat.EphemeralOwner
	w.kill()
	w.awaitClosed(server)
}

// The session of a process that is stopped ends when it has timed out, and not before.
func TestF348_ProcessIsStopped(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr)
	n := closes(server, w.session, always)
	w.helper()
	w.signal(syscall.SIGSTOP)
	chances(t, addr)
	if n() != 0 || !server.Exists("/n") {
		t.Error("the helper has closed the session of a process that lives")
	}
	w.kill()
	w.awaitClosed(server)
}

// A process that has closed its connection to the helper still lives.
func TestF348_ConnectionEnds(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr)
	var killed atomic.Bool
	early := closes(server, w.session, func() bool { return !killed.Load() })
	helper := w.helper()
	w.tell("shut", "shut")
	eventually(t, func() bool { return sockets(helper) == 0 }) // it has noticed
	chances(t, addr)
	if n := early(); n != 0 {
		t.Error("the helper has closed the session of a process that lives")
	}
	killed.Store(true)
	w.kill()
	w.awaitClosed(server)
}

// sockets returns how many sockets a process has open.
func sockets(pid int) (n int) {
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	for _, f := range files {
		if kind, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, f.Name())); err == nil && strings.HasPrefix(kind, "socket:") {
			n++
		}
	}
	return n
}

// A child that is kept keeps the session, also with the next helper; other children have nothing
// of the helper, and keep nothing.
func TestF348_ChildLives(t *testing.T) {
	for _, word := range []string{"keep", "start"} {
		for _, helperDies := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the helper dies: %v", word, helperDies), func(t *testing.T) {
				t.Parallel()
				server, addr := serve(t)
				w := startWard(t, server, addr)
				file := filepath.Join(t.TempDir(), "lives")
				must(t, os.WriteFile(file, nil, 0o600))
				if word == "keep" { // and another before, which ends at once
					w.tell("keep "+file+"-not", "started")
				}
				w.tell(word+" "+file, "started")
				if helperDies {
					must(t, syscall.Kill(w.helper(), syscall.SIGKILL))
					eventually(t, func() bool { return strings.Contains(w.said(), "the sentinel runs again") })
				}
				var over atomic.Bool
				early := closes(server, w.session, func() bool { return !over.Load() })
				w.kill()
				if word == "start" {
					w.awaitClosed(server)
					must(t, os.Remove(file))
					return
				}
				chances(t, addr)
				if early() != 0 {
					t.Error("the helper has closed the session while the child lives")
				}
				over.Store(true)
				must(t, os.Remove(file))
				w.awaitClosed(server)
			})
		}
	}
}

// A helper that dies, or reads nothing, is replaced. That is logged, and the next knows the session.
func TestF349_HelperFails(t *testing.T) {
	for name, fail := range map[string]func(w *wardProcess, helper int){
		"it is killed": func(w *wardProcess, helper int) { must(w.t, syscall.Kill(helper, syscall.SIGKILL)) },
		"it reads nothing": func(w *wardProcess, helper int) {
			must(w.t, syscall.Kill(helper, syscall.SIGSTOP))
			w.tell("tell", "told")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, addr := serve(t)
			w := startWard(t, server, addr)
			first := w.helper()
			fail(w, first)
			eventually(t, func() bool { return strings.Contains(w.said(), "the sentinel runs again") })
			if n := strings.Count(w.said(), "the sentinel does not run"); n != 1 {
				t.Errorf("it was logged %d times that there is no helper", n)
			}
			if syscall.Kill(first, 0) == nil {
				t.Error("the first helper is still there")
			}
			w.kill()
			w.awaitClosed(server)
		})
	}
}

// There can be more sessions than the system keeps for a helper that is just starting.
func TestF349_ManySessions(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr)
	w.tell("many", "told")
	must(t, syscall.Kill(w.helper(), syscall.SIGKILL))
	eventually(t, func() bool { return strings.Contains(w.said(), "the sentinel runs again") })
	w.kill()
	w.awaitClosed(server)
	if n := strings.Count(w.said(), "the sentinel does not run"); n != 1 {
		t.Errorf("it was logged %d times that there is no helper", n)
	}
}

// The process is killed while its helper is stopped: the session is closed when the helper goes on.
func TestF349_HelperIsStopped(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr)
	helper := w.helper()
	must(t, syscall.Kill(helper, syscall.SIGSTOP))
	w.kill()
	must(t, syscall.Kill(helper, syscall.SIGCONT))
	w.awaitClosed(server)
}

// There is no helper when the process is killed: ZooKeeper ends the session when that has timed out.
func TestF349_NoHelperIsLeft(t *testing.T) {
	for name, end := range map[string]func(w *wardProcess, server *zktest.Server){
		"it is killed with the process": func(w *wardProcess, _ *zktest.Server) {
			helper := w.helper()
			w.signal(syscall.SIGSTOP) // it cannot start another
			must(w.t, syscall.Kill(helper, syscall.SIGKILL))
		},
		"the process has closed the connection, and has the next session": func(w *wardProcess, server *zktest.Server) {
			helper := w.helper()
			w.tell("shut", "shut")
			eventually(w.t, func() bool { return sockets(helper) == 0 })
			server.ExpireSession(w.session)
			w.tell("again", "held again")
			_, stat, _ := server.Get("/again")
			w.session = stat.EphemeralOwner
		},
		"all processes of the namespace end": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var namespaces uintptr
			if end == nil {
				if os.Getuid() != 0 {
					t.Log("not tested: only root can make a PID namespace")
					return
				}
				namespaces, end = syscall.CLONE_NEWPID, func(*wardProcess, *zktest.Server) {}
			}
			server, addr := serve(t)
			w := startWardIn(t, namespaces, server, addr, envTimeout+"=1s")
			end(w, server)
			closed := closes(server, w.session, always)
			w.kill()
			eventually(t, func() bool {
				return !slices.ContainsFunc(server.Sessions(), func(s zktest.SessionInfo) bool { return s.ID == w.session })
			})
			if n := closed(); n != 0 || strings.Contains(w.said(), fmt.Sprintf("its session %#x is closed", w.session)) {
				t.Errorf("%d requests to close the session:\n%s", n, w.said())
			}
		})
	}
}

// Signals that end a service reach its helper, too, and it does not heed them.
func TestF349_HelperIsToldToEnd(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr)
	helper := w.helper()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		must(t, syscall.Kill(helper, s))
	}
	w.kill()
	w.awaitClosed(server)
	if strings.Contains(w.said(), "the sentinel does not run") {
		t.Error("a signal has ended the helper")
	}
}

// The helper keeps nothing open that the process has inherited: others may wait for its end.
func TestHelperInheritsNothing(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr)
	helper := w.helper()
	open := func(pid int) (n int) {
		for _, f := range must1(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))) {
			if file, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, f.Name())); err == nil && file == w.inherited {
				n++
			}
		}
		return n
	}
	if open(w.cmd.Process.Pid) != 2 {
		t.Fatal("the process has not inherited the file")
	}
	eventually(t, func() bool { return open(helper) == 0 })
}

// A session that the process has closed itself is not closed once more.
func TestProcessClosesItself(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr)
	n := closes(server, w.session, always)
	helper := w.helper()
	w.tell("close", "closed: <nil>")
	if syscall.Kill(helper, 0) == nil {
		t.Error("the helper is still there")
	}
	w.kill()
	if n() != 1 {
		t.Errorf("%d requests to close the session, want 1", n())
	}
}

// If no server has confirmed the end of the session, the helper closes it when the process ends.
func TestF350_CloseIsNotConfirmed(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr)
	server.Faults().DropRequest(zktest.Match{Op: zktest.OpClose, Session: w.session, Times: zktest.Every})
	if err := w.tell("close", "closed: "); err == "<nil>" {
		t.Fatal("the end of the session was confirmed")
	}
	if !server.Exists("/n") {
		t.Fatal("the session has ended")
	}
	server.Faults().Clear()
	w.order("exit")
	w.awaitClosed(server)
}

// A Sentinel is closed while it has no helper, and a session is left: a last helper is started.
func TestF350_ClosedWithoutHelper(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr)
	must(t, syscall.Kill(w.helper(), syscall.SIGKILL))
	eventually(t, func() bool { return strings.Contains(w.said(), "the sentinel does not run") })
	w.tell("lasts", "closed")
	w.kill()
	w.awaitClosed(server)
}

// No server can be reached: the helper says so, and when ZooKeeper will have ended the session.
func TestF350_NoServer(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr, envTimeout+"=1s")
	server.Faults().Refuse()
	w.kill()
	want := fmt.Sprintf("(pid %d) has ended: its session could not be closed, so ZooKeeper frees its locks 1s from now at the latest: zkio: close session %#x: not confirmed: %s: ", w.cmd.Process.Pid, w.session, addr)
	eventually(t, func() bool { return strings.Contains(w.said(), want) })
}

// Delay is between the end of the process and that of the session.
func TestDelay(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr, envDelay+"=300ms")
	w.kill()
	w.awaitClosed(server)
	_, took, _ := strings.Cut(w.said(), "is closed after ")
	took, _, _ = strings.Cut(took, ",")
	if d := must1(time.ParseDuration(took)); d < 300*time.Millisecond {
		t.Errorf("the session was closed after %v, before Config.Delay was over", d)
	}
}

// Main has not been called: the helper would be the program once more.
func TestStartWithoutMain(t *testing.T) {
	cmd := exec.Command(must1(os.Executable()))
	cmd.Env = append(os.Environ(), envNoMain+"=1")
	out, err := cmd.Output()
	must(t, err)
	if want := "sentinel: start: " + ErrNoMain.Error() + "\n"; string(out) != want {
		t.Errorf("Start says %q, want %q", out, want)
	}
}

func TestKeepAfterClose(t *testing.T) {
	s, err := Start(Config{})
	must(t, err)
	s.Close()
	cmd := exec.Command("true")
	if err := s.Keep(cmd); err == nil || len(cmd.ExtraFiles) > 0 {
		t.Errorf("Keep after Close: %v, %v", err, cmd.ExtraFiles)
	}
}

func TestStartRefusesANegativeDelay(t *testing.T) {
	if s, err := Start(Config{Delay: -1}); err == nil {
		s.Close()
		t.Error("Start accepts a negative Delay")
	}
}

// Over TLS, which the program sets in the helper.
func TestTLS(t *testing.T) {
	server, _ := serve(t)
	identity := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(identity.Close)
	file := filepath.Join(t.TempDir(), "roots")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: identity.Certificate().Raw}), 0o600))
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: identity.TLS.Certificates})
	must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { _ = server.Close(); serving.Wait() })
	w := startWard(t, server, l.Addr().String(), envRoots+"="+file)
	w.kill()
	w.awaitClosed(server)
}

// Neither the session's password nor the credentials are in the arguments or the environment of any
// process.
func TestSecrets(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr)
	password := must1(base64.StdEncoding.DecodeString(w.tell("password", "password ")))
	for _, pid := range []int{w.cmd.Process.Pid, w.helper()} {
		for _, file := range []string{"cmdline", "environ"} {
			text := string(must1(os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))))
			if !strings.Contains(text, "sentinel") { // else this test looks at nothing
				t.Errorf("%s of %d: %q", file, pid, text)
			}
			for _, s := range []string{secret, base64.StdEncoding.EncodeToString([]byte("user:" + secret)), string(password), base64.StdEncoding.EncodeToString(password)} {
				if strings.Contains(text, s) {
					t.Errorf("%s of %d has a secret: %q", file, pid, text)
				}
			}
		}
	}
}

// The helper stays small.
func TestMemory(t *testing.T) {
	server, addr := serve(t)
	w := startWard(t, server, addr)
	status := string(must1(os.ReadFile(fmt.Sprintf("/proc/%d/status", w.helper()))))
	_, rss, _ := strings.Cut(status, "VmRSS:")
	kB := must1(strconv.Atoi(strings.Fields(rss)[0]))
	t.Logf("resident: %d kB", kB)
	if kB > 15<<10 && !racing.Detector {
		t.Errorf("the helper has %d kB resident, want at most 15 MiB", kB)
	}
}

// A start, until the kernel runs the helper.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s, err := Start(Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// What a session costs more when it begins.
func BenchmarkTell(b *testing.B) {
	s, err := Start(Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	ticket := zkio.Ticket{ID: 1 << 60, Timeout: time.Minute, Password: make([]byte, 16)}
	for b.Loop() {
		s.Tell("client", zkio.Config{Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"}}, ticket, Note{})
	}
}
