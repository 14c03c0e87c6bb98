// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// mark has this test binary run as a contender.
const mark = "HOLDFAST_TEST_CONTENDER"

func TestMain(m *testing.M) {
	if as := os.Getenv(mark); as != "" {
		os.Exit(contend(as))
	}
	os.Exit(m.Run())
}

// contend is a contender that grants every lock at once, and does what the lock's name says.
func contend(as string) int {
	if as == "unable" {
		return 3
	}
	if as == "talkative" {
		fmt.Println("Ready")
		return 0
	}
	servers, millis := os.Args[len(os.Args)-2], os.Args[len(os.Args)-1]
	fmt.Println("session 0xfe00000000000001 began")
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var client, command, lock string
		_, _ = fmt.Sscan(lines.Text(), &client, &command, &lock)
		switch {
		case lock == "/end":
			return 0
		case lock == "/never":
		case command == "release":
			fmt.Println(client, "released")
		case command == "acquire-shared":
			fmt.Println(client, "granted token=99")
		case lock == "/refused":
			fmt.Println(client, "error no luck today")
		case strings.HasPrefix(lock, "/say/"):
			line := strings.ReplaceAll(strings.TrimPrefix(lock, "/say/"), "_", " ")
			fmt.Println(line)
			if strings.HasPrefix(line, "session") || strings.Contains(line, " lost") {
				fmt.Println(client, "error it was said") // that was no answer
			}
		case lock == "/lost":
			fmt.Println(client, "granted token=17 session=0x22")
			fmt.Println(client, "lost at=1234")
			fmt.Println(client, "lost at=5678")
		case servers != "a:1,b:2" || millis != "4000":
			fmt.Printf("%s error told %s %s\n", client, servers, millis)
		default:
			fmt.Println(client, "granted")
		}
	}
	fmt.Println("session 0xfe00000000000001 ended")
	if as == "stubborn" {
		<-time.After(time.Minute)
	}
	return 0
}

// start starts this binary as a contender.
func start(t *testing.T, as string) (*Program, *said, error) {
	t.Helper()
	t.Setenv(mark, as)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := new(said)
	p, err := Start([]string{program}, []string{"a:1", "b:2"}, 4*time.Second, os.Stderr, s.told, s.wrong)
	return p, s, err
}

// Said is what a program has said of sessions, and what was not understood.
type said struct {
	mu      sync.Mutex // protects what follows
	notices []Notice
	errors  []string
}

func (s *said) told(n Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = append(s.notices, n)
}

func (s *said) wrong(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors = append(s.errors, err.Error())
}

func TestGrants(t *testing.T) {
	p, said, err := start(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	g, err := p.Client("w0").Acquire(ctx, "/a")
	if err != nil || g.Session != 0xfe00000000000001 || g.Token != 0 || g.Err() != nil {
		t.Errorf("%v, %+v", err, g)
	}
	if _, err := p.Client("w1").Acquire(ctx, "/refused"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no luck today") {
		t.Error(err)
	}
	lost, err := p.Client("w1").Acquire(ctx, "/lost")
	if err != nil {
		t.Fatal(err)
	}
	<-lost.Lost()
	if lost.Session != 0x22 || lost.Token != 17 || lost.LostAt() != 1234 || !errors.Is(lost.Err(), manager.ErrLost) {
		t.Errorf("%+v, %v", lost, lost.Err())
	}
	shared, err := p.Client("w2").AcquireShared(ctx, "/a")
	if err != nil || shared.Token != 99 {
		t.Fatalf("%v, %+v", err, shared)
	}
	for _, g := range []*Grant{g, lost, shared} {
		if err := g.Release(ctx); err != nil {
			t.Error(err)
		}
	}
	if g.Err() != nil {
		t.Error("another client's loss is its own")
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := p.Client("w2").Acquire(short, "/never"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := p.Close(time.Minute); err != nil {
		t.Error(err)
	}
	want := []Notice{{0xfe00000000000001, "began"}, {0xfe00000000000001, "ended"}}
	if !slices.Equal(said.notices, want) || len(said.errors) > 0 {
		t.Errorf("it said %v, want %v; not understood: %q", said.notices, want, said.errors)
	}
}

// TestNotUnderstood: a line that the protocol does not have is reported, with what it has.
func TestNotUnderstood(t *testing.T) {
	p, said, err := start(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"w0 banana":              "granted, released, error or lost",
		"w0 granted token=0":     "no number above 0",
		"w0 granted token=abc":   "no number above 0",
		"w0 granted session=xyz": "no number above 0",
		"w0 granted token":       "no number above 0",
		"w0 granted at=12":       "token=NUMBER or session=NUMBER",
		"w0 lost at=now":         "no number above 0",
		"session abc began":      "no number of a session",
		"session 0x1 died":       "began, suspended, resumed, ended",
		"w0 lost":                "",
		"session 65546 resumed":  "",
	} {
		if _, err := p.Client("w0").Acquire(t.Context(), "/say/"+strings.ReplaceAll(line, " ", "_")); err == nil {
			t.Errorf("%q was understood", line)
		}
		said.mu.Lock()
		switch {
		case want == "" && len(said.errors) > 0, want != "" && (len(said.errors) != 1 || !strings.HasPrefix(said.errors[0], fmt.Sprintf("the contender said %q: ", line)) || !strings.Contains(said.errors[0], want)):
			t.Errorf("%q: not understood: %q, want %q", line, said.errors, want)
		}
		said.errors = nil
		said.mu.Unlock()
	}
	if err := p.Close(time.Minute); err != nil {
		t.Error(err)
	}
}

func TestPrograms(t *testing.T) {
	if _, _, err := start(t, "unable"); !errors.Is(err, ErrOver) || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("one that cannot connect: %v", err)
	}
	if _, _, err := start(t, "talkative"); err == nil || !strings.Contains(err.Error(), `it said "Ready", and not "ready"`) {
		t.Errorf("one that says something else: %v", err)
	}
	p, _, err := start(t, "stubborn")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(10 * time.Millisecond); err != nil {
		t.Errorf("one that has to be killed: %v", err)
	}
	if p, _, err = start(t, "good"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Client("w0").Acquire(t.Context(), "/end"); !errors.Is(err, ErrOver) {
		t.Errorf("one that ends: %v", err)
	}
	if err := p.Close(time.Minute); err != nil {
		t.Error(err)
	}
}

func TestCommand(t *testing.T) {
	for text, want := range map[string]string{"no-such-program-here": "it is none of curator, ", "/no/such/program arg": "it is none of curator, ", "  ": "it is empty"} {
		_, err := Command(t.Context(), text)
		for _, err := range []error{err, Check(text)} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	if err := errors.Join(Check("curator"), Check("go version")); err != nil {
		t.Error(err)
	}
	if Sharing("kazoo") || !Sharing("curator-rw") || !Sharing("go version") {
		t.Error("kazoo's Lock has no shared holders, Curator's read/write lock has, and a command may have")
	}
	argv, err := Command(t.Context(), "go  version -m")
	if err != nil || len(argv) != 3 || !strings.HasSuffix(argv[0], "/go") || argv[2] != "-m" {
		t.Errorf("%q, %v", argv, err)
	}
}
