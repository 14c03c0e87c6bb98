// SPDX-License-Identifier: Apache-2.0

package otherclients

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/foreign"
)

// asProgram in the environment makes the test program one that answers each command by the
// same line, until its input ends. Then it exits with the code that it has been told.
const asProgram = "HOLDFAST_OTHERCLIENTS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	code := 0
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "a fail" {
			code = 3
		}
		fmt.Println(in.Text())
	}
	os.Exit(code)
}

func program(t *testing.T) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// A recorder is a test that is judged: it keeps what would fail it, and its cleanups.
type recorder struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (r *recorder) Helper()           {}
func (r *recorder) Cleanup(fn func()) { r.cleanups = append(r.cleanups, fn) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) end() {
	for _, fn := range r.cleanups {
		fn()
	}
}

func hear(t *testing.T, p *Program, client, want string) {
	t.Helper()
	select {
	case got := <-p.Answers(client):
		if got != want {
			t.Errorf("%s says %q, want %q", client, got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s does not say %q", client, want)
	}
}

// Each client hears its own answers. The end of the test ends the program, also if no test
// has listened to all that it says, and what it exits with counts, unless it was killed.
func TestProgram(t *testing.T) {
	for _, test := range []struct {
		name    string
		do      func(t *testing.T, p *Program)
		failure string
	}{
		{"ends", func(t *testing.T, p *Program) {
			for _, line := range []string{"a one", "b two", "a three four"} {
				client, command, _ := strings.Cut(line, " ")
				if err := p.Tell(client, command); err != nil {
					t.Error(err)
				}
			}
			hear(t, p, "b", "two")
			hear(t, p, "a", "one")
			hear(t, p, "a", "three four")
		}, ""},
		{"unheard", func(t *testing.T, p *Program) {
			for range 1000 {
				if err := p.Tell("a", "x"); err != nil {
					t.Error(err)
				}
			}
		}, ""},
		{"fails", func(t *testing.T, p *Program) {
			if err := p.Tell("a", "fail"); err != nil {
				t.Error(err)
			}
			hear(t, p, "a", "fail")
		}, "exit status 3"},
		{"is killed", func(t *testing.T, p *Program) {
			if err := p.Kill(); err != nil {
				t.Error(err)
			}
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &recorder{TB: t}
			p := Start(r, program(t))
			test.do(t, p)
			r.end()
			if got := strings.Join(r.failures, "; "); (got == "") != (test.failure == "") || !strings.Contains(got, test.failure) {
				t.Errorf("it fails with %q, want %q", got, test.failure)
			}
		})
	}
}

// A source is compiled once, and what is wrong with it is said to each test that needs it.
func TestCompileOnce(t *testing.T) {
	for range 2 {
		if _, err := classesOf(foreign.JDK{Javac: "/nonexistent/javac"}, "none.jar", "testdata/None.java"); err == nil || !strings.Contains(err.Error(), "None.java") {
			t.Errorf("got %v", err)
		}
	}
}
