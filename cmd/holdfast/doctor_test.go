// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// examine runs doctor on a server.
func examine(t *testing.T, addr string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = execute(append([]string{"doctor", "--servers", addr, "--for", "0s"}, args...), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// serveEmbedded serves an embedded server until the test ends.
func serveEmbedded(t *testing.T, cfg zktest.Config) (srv *zktest.Server, addr string) {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	srv = zktest.NewServer(cfg)
	t.Cleanup(func() { _ = srv.Close() })
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return srv, addr
}

// Findings are printed with why they matter and what to change.
func TestDoctor(t *testing.T) {
	srv, addr := serveEmbedded(t, zktest.Config{})
	if err := srv.CreateAll("/prod/holdfast/elect/latch-0000000000", nil); err != nil {
		t.Fatal(err)
	}
	if err := srv.CreateAll("/prod/holdfast/\u202etcele/latch-0000000001", nil); err != nil {
		t.Fatal(err)
	}
	if err := srv.CreateAll("/prod/holdfast/elect/lock-0000000001", nil); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := examine(t, addr+"/prod")
	for _, want := range []string{
		"warn  version: " + addr + ": it is Holdfast's embedded server\n",
		"ok    session-timeout: 10s, 5 ticks\n",
		"warn  foreign-recipes: /prod/holdfast/elect: it has nodes of Curator's LeaderLatch (latch-0000000000) and of exclusive locks\n" +
			"      why: these do not exclude each other: both are granted at the same time\n" +
			"      do:  give one of them another path, or have all clients use the same recipe\n",
		`note  foreign-recipes: "/prod/holdfast/\u202etcele": it has`, // the terminal would turn it round
		" to change, 0 of them urgent\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("not printed: %q", want)
		}
	}
	if code != exitFindings || stderr != "" {
		t.Errorf("code %d, on standard error %q", code, stderr)
	}
	if strings.Contains(stdout, "\x1b") {
		t.Error("coloured, though this is no terminal")
	}
	if t.Failed() {
		t.Log(stdout)
	}
	if _, quiet, _ := examine(t, addr, "-q"); strings.Contains(quiet, "\nok ") || !strings.Contains(quiet, "warn ") {
		t.Errorf("with -q: %s", quiet)
	}
}

// The names in JSON, and the checks' ids, are documented.
func TestDoctorJSON(t *testing.T) {
	_, addr := serveEmbedded(t, zktest.Config{})
	code, stdout, stderr := examine(t, addr, "--json")
	var d struct {
		Level    string
		Findings []map[string]string
	}
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || code != exitFindings || stderr != "" || d.Level != "warn" {
		t.Fatalf("code %d, %v, standard error %q, standard output %s", code, err, stderr, stdout)
	}
	known := []string{"check", "level", "where", "found", "why", "change"}
	for _, f := range d.Findings {
		if f["check"] == "" || f["found"] == "" || !slices.Contains([]string{"ok", "note", "warn", "fail"}, f["level"]) {
			t.Errorf("%v", f)
		}
		for name := range f {
			if !slices.Contains(known, name) {
				t.Errorf("%v has %q", f, name)
			}
		}
	}
}

// Without a session, doctor says what is wrong with the servers, and the exit code is that
// of no connection.
func TestDoctorWithoutSession(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := examine(t, addr, "--connect-timeout", "300ms")
	if code != exitNoConnection || !strings.Contains(stdout, "fail  servers: "+addr+": it does not serve: ") || !strings.Contains(stderr, addr) {
		t.Errorf("code %d, printed %q and %q", code, stdout, stderr)
	}
}

func TestDoctorBadUsage(t *testing.T) {
	for _, args := range [][]string{{"--for=-1s"}, {"--for", "soon"}, {"--servers", "a b"}, {"more"}} {
		var errs strings.Builder
		code := execute(append([]string{"doctor"}, args...), strings.NewReader(""), io.Discard, &errs)
		if lines := strings.Count(errs.String(), "\n"); code != exitUsage || lines != 1 {
			t.Errorf("%v: code %d, %d lines: %s", args, code, lines, errs.String())
		}
	}
}

// On a directory of 10,000 contenders doctor sends few requests.
func TestDoctorOfMany(t *testing.T) {
	srv, addr := serveEmbedded(t, zktest.Config{})
	for i := range 10_000 {
		if err := srv.CreateAll(fmt.Sprintf("/holdfast/jobs/_c_%032x-lock-%010d", i, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	before := total(srv)
	if code, stdout, stderr := examine(t, addr); code != exitFindings || !strings.Contains(stdout, "sequence-numbers: the highest is 10000 ") {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
	if n := total(srv) - before; n > 200 {
		t.Errorf("%d requests", n)
	}
}

// total returns how many requests a server has had.
func total(srv *zktest.Server) (n uint64) {
	for _, requests := range srv.RequestCounts() {
		n += requests
	}
	return n
}
