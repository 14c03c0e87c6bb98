// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// The next process has the lock as soon as a run that was killed is gone, with its program.
func TestF344_RunIsKilled(t *testing.T) {
	for name, verb := range map[string][]string{
		"run":   {"run", "--on-revoke=ignore", "x"},
		"read":  {"run", "--read", "x"},
		"elect": {"elect", "x"},
		"cron":  {"cron", "--every=100ms", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, addr := serve(t)
			args := append([]string{"--servers", addr, "--session-timeout", "60s"}, verb...)
			c := begin(t, append(args, "--", "sh", "-c", "echo in; exec sleep 1000")...)
			c.stdout.await(t, "in")
			closed := closes(s, s.Sessions()[0].ID)
			c.signal(syscall.SIGKILL)
			if name == "read" {
				args[len(args)-2] = "--write"
			}
			next := begin(t, append(args, "--", "echo", "next")...)
			next.stdout.await(t, "next")
			lock := "x"
			if name == "elect" || name == "cron" {
				lock = "x/lock"
			}
			c.stderr.await(t, fmt.Sprintf("the session of run is closed: the lock %q is free", lock))
			if !closed.Load() {
				t.Error("the guard has not closed the session")
			}
		})
	}
}

// who shows the takeover from a run that was killed, while the lock is free and when the next process
// has it.
func TestF344_WhoShowsTheTakeover(t *testing.T) {
	s, addr := serve(t)
	args := func(label string) []string {
		return []string{"run", "--servers", addr, "--session-timeout", "60s", "--label", label, "x", "--", "sh", "-c", "echo in; exec sleep 1000"}
	}
	c := begin(t, args("worker-2")...)
	c.stdout.await(t, "in")
	session := sessionText(firstSession(s))
	began := time.Now()
	c.signal(syscall.SIGKILL)
	eventually(t, func() bool { return len(s.Children("/holdfast/_taken_")) == 1 })

	host, err := os.Hostname()
	must(t, err)
	line := regexp.MustCompile(fmt.Sprintf(`(?m)^taken over: worker-2@%s, pid %d, which held it or waited for it, ended at \d\d:\d\d:\d\d \(\d+s ago\); its session %s was closed [\d.]+m?s later$`,
		regexp.QuoteMeta(safe(host)), c.Process.Pid, session))
	check := func(what, above string) {
		t.Helper()
		var out, errs bytes.Buffer
		if code := execute([]string{"--servers", addr, "who", "x"}, nil, &out, &errs); code != 0 || !line.Match(out.Bytes()) || !strings.Contains(out.String(), above) {
			t.Errorf("%s: exit code %d, %s%s\nwant %s\nand %s", what, code, &out, &errs, above, line)
		}
		out.Reset()
		code := execute([]string{"--servers", addr, "--json", "who", "x"}, nil, &out, &errs)
		var facts whoFacts
		must(t, json.Unmarshal(out.Bytes(), &facts))
		if got := facts.Takeover; code != 0 || got == nil {
			t.Errorf("%s: exit code %d, JSON %s%s", what, code, &out, &errs)
		} else if got.Label != "worker-2" || got.Host != host || got.PID != c.Process.Pid || got.Session != session ||
			got.Ended.Before(began.Truncate(time.Millisecond)) || got.Ended.After(time.Now()) || got.After <= 0 || got.After > patience.Seconds() {
			t.Errorf("%s: JSON %s", what, &out)
		}
	}
	check("while it is free", "x is free")
	next := begin(t, args("worker-3")...)
	next.stdout.await(t, "in")
	check("when the next one has it", "x (exclusive): 1 process holds it, none waits")
}

// The pipe of a process that is killed ends before its children have another parent.
func TestF344_RunIsStillEnding(t *testing.T) {
	for name, tt := range map[string]struct {
		looks    int // until there is another parent
		patience time.Duration
		want     bool
	}{
		"it has ended":    {0, 0, true},
		"it is ending":    {5, time.Minute, true},
		"it lives":        {1 << 30, 5 * time.Millisecond, false},
		"it lives, early": {1 << 30, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			looks := 0
			getppid := func() int {
				if looks++; looks > tt.looks {
					return 1
				}
				return 7
			}
			if got := hasOtherParent(getppid, 7, tt.patience); got != tt.want {
				t.Errorf("%v after %d looks, want %v", got, looks, tt.want)
			}
		})
	}
	if g := (guard{start: start{Parent: os.Getppid()}}); g.runIsGone() { // at once, without the end of the pipe
		t.Error("a parent that lives is taken for one that has ended")
	}
}

// With --no-takeover the session of a run that was killed stays.
func TestRunIsKilledWithoutTakeover(t *testing.T) {
	for _, verb := range []string{"run", "elect", "cron"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			s, addr := serve(t)
			args := []string{verb, "--servers", addr, "--session-timeout", "60s", "--no-takeover"}
			if verb == "cron" {
				args = append(args, "--every=100ms")
			}
			c := begin(t, append(args, "x", "--", "sh", "-c", "echo in; exec sleep 1000")...)
			c.stdout.await(t, "in")
			closed := closes(s, s.Sessions()[0].ID)
			c.signal(syscall.SIGKILL)
			c.code() // the guard has ended as well: it has the same standard error
			if closed.Load() {
				t.Error("the session is closed")
			}
		})
	}
}

// When run and the guard are killed together, the system kills the program. The session stays: nothing
// is left that knows when all of the program has ended.
func TestRunAndGuardAreKilled(t *testing.T) {
	s, addr := serve(t)
	c := begin(t, "run", "--servers", addr, "--session-timeout", "60s", "x", "--", "sh", "-c", "trap '' TERM; echo in; while :; do sleep 0.01; done")
	c.stdout.await(t, "in")
	closed := closes(s, s.Sessions()[0].ID)
	guard := guardOf(t, c)
	c.signal(syscall.SIGSTOP) // it cannot see what happens to the guard
	kill(t, guard, syscall.SIGKILL)
	c.signal(syscall.SIGKILL)
	c.code() // the program has ended as well: it has the same standard output
	if closed.Load() || len(s.Children("/holdfast/x")) != 1 {
		t.Errorf("the session is closed: %v", c.stderr)
	}
}

// closes tells whether a request to close a session arrives.
func closes(s *zktest.Server, session int64) *atomic.Bool {
	var closed atomic.Bool
	s.OnRequest(func(id int64, op zktest.Op, _ string) {
		if op == zktest.OpClose && id == session {
			closed.Store(true)
		}
	})
	return &closed
}

// A descendant that has left the process group, and takes no note of SIGTERM, keeps the lock
// until it is killed.
func TestF345_TakeoverAwaitsDescendants(t *testing.T) {
	s, addr := serve(t)
	file := filepath.Join(t.TempDir(), "pid")
	c := begin(t, "run", "--servers", addr, "--session-timeout", "60s", "--kill-after", "900ms", "x", "--",
		"sh", "-c", `setsid sh -c 'trap : TERM; echo $$ >"$0.new"; mv "$0.new" "$0"; echo in; while :; do sleep 0.01; done' "$0" & exec sleep 1000`, file)
	c.stdout.await(t, "in")
	text, err := os.ReadFile(file)
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	session := firstSession(s)
	early := make(chan error, 10)
	s.OnRequest(func(id int64, op zktest.Op, _ string) {
		if op == zktest.OpClose && id == session {
			early <- syscall.Kill(pid, 0)
		}
	})
	c.signal(syscall.SIGKILL)
	c.stderr.await(t, "the session of run is closed")
	if err := <-early; err != syscall.ESRCH {
		t.Errorf("the session was closed while the descendant lived (%v)", err)
	}
}

// A run that is stopped is not gone: its session ends when it has timed out.
func TestF345_RunIsStopped(t *testing.T) {
	s, addr := serve(t)
	c := begin(t, "run", "--servers", addr, "--session-timeout", "3s", "--kill-after", "700ms", "x", "--", "sh", "-c", "echo in; exec sleep 1000")
	c.stdout.await(t, "in")
	guard := guardOf(t, c)
	closed := closes(s, firstSession(s))
	c.signal(syscall.SIGSTOP)
	eventually(t, func() bool { // the guard has ended: run has not reaped it
		_, state, _ := statOf(strconv.Itoa(guard))
		return state == "Z"
	})
	if closed.Load() {
		t.Error("the guard has closed the session of a run that lives")
	}
	c.signal(syscall.SIGCONT)
	if code := c.code(); code != exitLost {
		t.Errorf("after SIGCONT: exit code %d", code)
	}
}

// The end of the pipe does not show that run is gone.
func TestF345_PipeEnds(t *testing.T) {
	s, addr := serve(t)
	session := openSession(t, addr)
	closed := closes(s, session.ID())
	g, orders := beginGuardOn(t, start{Until: systemTime() + time.Hour, KillAfter: time.Second, Takeover: newClosing(connection{servers: []string{addr}}, session.Ticket(), takeover.Note{})}, "sleep", "1000")
	must(t, orders.Close())
	if code := g.code(); code != 128+int(syscall.SIGTERM) || !strings.Contains(g.stderr.String(), "run has ended") {
		t.Errorf("exit code %d, %s", code, g.stderr)
	}
	if closed.Load() || session.Err() != nil {
		t.Errorf("the session is closed, though its process lives: %v", session.Err())
	}
}

// openSession opens a session, which the end of the test closes.
func openSession(t *testing.T, addr string) *zkio.Session {
	t.Helper()
	a, _, _ := newApp(t, addr)
	client, session, err := a.client(t.Context())
	must(t, err)
	t.Cleanup(func() { closeSoon(client) })
	return session
}

// No server confirms the end of the session: the guard says so, and ends when it has timed out,
// or when it is told to.
func TestF346_TakeoverInVain(t *testing.T) {
	for name, timeout := range map[string]string{"it times out": "2s", "SIGTERM": "60s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, addr := serve(t)
			c := begin(t, "run", "--servers", addr, "--session-timeout", timeout, "x", "--", "sh", "-c", "echo in; exec sleep 1000")
			c.stdout.await(t, "in")
			guard := guardOf(t, c)
			s.Faults().Refuse()
			c.signal(syscall.SIGKILL)
			if name == "SIGTERM" {
				// Only then it is told: before, signals are for the program.
				eventually(t, func() bool {
					file, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/1", guard))
					return err == nil && file == os.DevNull
				})
				eventually(t, func() bool { return syscall.Kill(guard, syscall.SIGTERM) != nil || !alive(guard) })
			}
			c.stderr.await(t, "the session of run could not be closed, so ZooKeeper frees the lock \"x\" "+long(timeout)+" from now at the latest: zkio: close session ")
			c.code()
		})
	}
}

// alive reports whether a process runs.
func alive(pid int) bool {
	_, state, _ := statOf(strconv.Itoa(pid))
	return state != "" && state != "Z"
}

// long returns a duration as Go writes it.
func long(d string) string {
	v, err := time.ParseDuration(d)
	if err != nil {
		panic(err)
	}
	return v.String()
}

// What closes the session is in the arguments and the environment of no process.
func TestTakeoverIsSecret(t *testing.T) {
	s, addr := serve(t)
	file := filepath.Join(t.TempDir(), "auth")
	writeFile(t, file, "user:hunter2\n")
	c := begin(t, "run", "--servers", addr, "--auth-file", file, "x", "--", "sh", "-c", "echo in; exec sleep 1000")
	c.stdout.await(t, "in")
	guard := guardOf(t, c)
	to := newClosing(connection{}, zkio.Ticket{ID: firstSession(s)}, takeover.Note{})
	for _, pid := range append([]int{c.Process.Pid, guard}, childrenOf(t, guard)...) {
		for _, name := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
			must(t, err)
			for _, secret := range []string{"hunter2", "Password", strconv.FormatInt(to.ID, 10), strconv.FormatInt(to.ID, 16)} {
				if bytes.Contains(text, []byte(secret)) {
					t.Errorf("%s of %d has %q", name, pid, secret)
				}
			}
		}
	}
}

// The first message to the guard may be larger than a pipe takes at once, and has all that is
// needed.
func TestGuardIsToldAll(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	sent := start{Until: 7, Takeover: newClosing(connection{
		servers: []string{"zk:1", "zk:2"},
		auth:    []zkio.Auth{{Scheme: "digest", Data: []byte("user:\xffpassword")}},
		secrets: tlsFiles{On: true, CA: bytes.Repeat([]byte("a"), 1<<20), Cert: []byte("cert"), Key: []byte("key"), ServerName: "zk"},
	}, zkio.Ticket{ID: -7, Timeout: time.Minute, Password: []byte{0, 1, 0xff}}, takeover.Note{Root: "/r", Process: json.RawMessage(`{"pid":7}`)})}
	begun := make(chan error, 1)
	go func() { begun <- (&program{orders: w}).begin(sent) }()
	var got start
	must(t, json.NewDecoder(r).Decode(&got))
	must(t, <-begun)
	must(t, w.Close())
	if !reflect.DeepEqual(got, sent) {
		t.Errorf("got %.300q", fmt.Sprint(got))
	}
}
