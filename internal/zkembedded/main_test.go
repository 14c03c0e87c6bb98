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

	"github.com/holdfast-go/holdfast/internal/jute"
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

	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	hour := int32(time.Hour.Milliseconds())
	b := jute.AppendInt32(make([]byte, 16), hour) // length, version, no zxid seen
	b = jute.AppendBuffer(jute.AppendInt64(b, 0), make([]byte, 16))
	if _, err := nc.Write(jute.Frame(b)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4+4+4+8+4+16)
	if _, err := io.ReadFull(nc, answer); err != nil {
		t.Fatal(err)
	}
	r := jute.NewReader(answer)
	_, _, timeout, session := r.Int32(), r.Int32(), r.Int32(), r.Int64()
	if timeout != 5000 || session == 0 {
		t.Errorf("session %x with a timeout of %d ms, want the longest, 5000", session, timeout)
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
