// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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
	if as == "silent" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	if as == "unable" {
		return 3
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
		case lock == "/refused":
			fmt.Println(client, "error no luck today")
		case lock == "/nonsense":
			fmt.Println(client, "what now")
		case lock == "/lost":
			fmt.Println(client, "granted token=17 session=0x22")
			fmt.Println(client, "lost at=1234")
			fmt.Println(client, "lost at=5678")
		default:
			fmt.Printf("%s granted for %s %s\n", client, servers, millis)
		}
	}
	fmt.Println("session 0xfe00000000000001 ended")
	if as == "stubborn" {
		<-time.After(time.Minute)
	}
	return 0
}

// start starts this binary as a contender.
func start(t *testing.T, as string) (p *Program, notices func() []Notice, err error) {
	t.Helper()
	t.Setenv(mark, as)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all []Notice
	p, err = Start([]string{program}, []string{"a:1", "b:2"}, 4*time.Second, os.Stderr, func(n Notice) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, n)
	})
	return p, func() []Notice {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}, err
}

func TestGrants(t *testing.T) {
	p, notices, err := start(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	g, err := p.Client("w0").Acquire(ctx, "/a")
	if err != nil || g.Session != 0xfe00000000000001 || g.Token != 0 || g.Err() != nil {
		t.Errorf("%v, %+v", err, g)
	}
	for lock, want := range map[string]string{"/refused": "no luck today", "/nonsense": "what now"} {
		if _, err := p.Client("w1").Acquire(ctx, lock); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", lock, err)
		}
	}
	lost, err := p.Client("w1").Acquire(ctx, "/lost")
	if err != nil {
		t.Fatal(err)
	}
	<-lost.Lost()
	if lost.Session != 0x22 || lost.Token != 17 || lost.LostAt() != 1234 || !errors.Is(lost.Err(), manager.ErrLost) {
		t.Errorf("%+v, %v", lost, lost.Err())
	}
	for _, g := range []*Grant{g, lost} {
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
	if want := []Notice{{0xfe00000000000001, "began"}, {0xfe00000000000001, "ended"}}; !slices.Equal(notices(), want) {
		t.Errorf("it said %v, want %v", notices(), want)
	}
}

func TestPrograms(t *testing.T) {
	if _, _, err := start(t, "unable"); !errors.Is(err, ErrOver) || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("one that cannot connect: %v", err)
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
	for _, text := range []string{"no-such-program-here", "/no/such/program arg"} {
		if _, err := Command(t.Context(), text); err == nil || !strings.Contains(err.Error(), "it is none of curator, ") {
			t.Errorf("%q: %v", text, err)
		}
	}
	argv, err := Command(t.Context(), "go  version -m")
	if err != nil || len(argv) != 3 || !strings.HasSuffix(argv[0], "/go") || argv[2] != "-m" {
		t.Errorf("%q, %v", argv, err)
	}
}
