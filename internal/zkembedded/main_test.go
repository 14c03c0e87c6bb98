// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// TestMain lets the test program be the command, so that a test can start it as
// a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("ZKEMBEDDED_TEST") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestServe: the command says where it listens, serves, and ends at an interrupt.
func TestServe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("Windows cannot interrupt another process; the rest is tested")
	}
	cmd := exec.Command(os.Args[0], "-tick-time", "100ms", "-max-session-timeout", "5s", "-four-letter-words", "ruok, srvr")
	cmd.Env = append(os.Environ(), "ZKEMBEDDED_TEST=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill() // fails if it has ended
		_ = cmd.Wait()
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	addr, rest, ok := strings.Cut(line, ": ")
	if err != nil || !ok || !strings.Contains(rest, "for development only") {
		t.Fatalf("it says %q, %v", line, err)
	}

	conn, events, err := zk.Connect([]string{addr}, time.Minute, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	if path, err := conn.Create("/a", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); path != "/a" || err != nil {
		t.Errorf("create: %q, %v", path, err)
	}
	conn.Close()
	for range events {
	}
	for word, want := range map[string]string{"ruok": "imok", "envi": "envi is not executed because it is not in the whitelist.\n"} {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(nc, word)
		if got, err := io.ReadAll(nc); string(got) != want {
			t.Errorf("%s: %q, %v", word, got, err)
		}
		_ = nc.Close()
	}

	if runtime.GOOS == "windows" {
		return
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("at the interrupt it ended with %v", err)
	}
}

func TestBadFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"unexpected argument \"2181\"": {"2181"},
		"listen tcp":                   {"-addr", "nowhere:x"},
		"flag provided but not":        {"-prot", "1"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one that says %q", args, err, want)
		}
	}
}
