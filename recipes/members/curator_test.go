// SPDX-License-Identifier: Apache-2.0

package members_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/members"
)

// Members of ours and Curator's GroupMember see each other come, go and change. While
// GroupMember has an id, Join waits for it.
func TestCurator(t *testing.T) {
	recipetest.OnReal(t, func(c *recipetest.Cluster) {
		m := c.Open("ours")
		path, err := m.Access().Path("workers")
		recipetest.WantErr(t, "path", err, nil)
		curator := startCurator(t, c.Real.Addr(), path)
		g := group(c, m)
		views := watch(t.Context(), g)

		ours := join(c, g, "ours", "1")
		curator.ask("join theirs 2", "joined")
		views.until(c, "ours=1 theirs=2")
		curator.until("members ours=1 theirs=2")
		recipetest.WantErr(t, "set", ours.Set(t.Context(), []byte("3")), nil)
		curator.until("members ours=3 theirs=2")
		second := join(c, g, "a second", "4")
		leave(c, ours)
		curator.until("members a second=4 theirs=2")

		_, err = g.TryJoin(t.Context(), "theirs", []byte("5"))
		recipetest.WantErr(t, "taken", err, members.ErrTaken)
		joined := make(chan *members.Member)
		go func() { joined <- join(c, g, "theirs", "5") }()
		select {
		case <-joined:
			t.Error("joined beside GroupMember")
		case <-time.After(200 * time.Millisecond):
		}
		curator.ask("leave", "left")
		theirs := <-joined
		views.until(c, "a second=4 theirs=5")

		// GroupMember does not wait: it replaces the data, and leaves with our node in place.
		curator.ask("join theirs 6", "joined")
		views.until(c, "a second=4 theirs=6")
		recipetest.WantErr(t, "ours", theirs.Err(), nil)
		recipetest.WantErr(t, "set", theirs.Set(t.Context(), []byte("7")), nil)
		views.until(c, "a second=4 theirs=7")
		leave(c, theirs)
		leave(c, second)
	})
}

// A curator is a program that uses Curator's GroupMember: see testdata/curator.
type curator struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

// startCurator starts the program, which ends with the test.
func startCurator(t *testing.T, server, path string) *curator {
	t.Helper()
	const jar = "/usr/share/java/curator-recipes.jar" // its manifest names what it needs
	if _, err := os.Stat(jar); err != nil {
		realzk.NotRun(t, "there is no "+jar+" (Debian: apt-get install libcurator-recipes-java)")
	}
	javac, java := javaTool("javac"), javaTool("java")
	if javac == "" || java == "" {
		realzk.NotRun(t, "there is no javac in the PATH, nor in JAVA_HOME (Debian: apt-get install default-jdk-headless)")
	}
	classes := t.TempDir()
	compile := exec.CommandContext(t.Context(), javac, "-encoding", "UTF-8", "-cp", jar, "-d", classes, "testdata/curator/Members.java")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", compile, err, out)
	}
	classpath := strings.Join([]string{classes, jar, "/usr/share/java/slf4j-nop.jar"}, string(filepath.ListSeparator))
	cmd := exec.Command(java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath, "Members", server, path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", cmd, err)
		}
	})
	return &curator{t, in, bufio.NewScanner(out)}
}

// javaTool returns the path of a program of the JDK, or "".
func javaTool(name string) string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// says sends the program a command, and returns the answer.
func (o *curator) says(command string) string {
	o.t.Helper()
	if _, err := fmt.Fprintln(o.in, command); err != nil {
		o.t.Fatal(err)
	}
	if !o.out.Scan() {
		o.t.Fatalf("no answer to %s: %v", command, o.out.Err())
	}
	return o.out.Text()
}

func (o *curator) ask(command, want string) {
	o.t.Helper()
	if got := o.says(command); got != want {
		o.t.Fatalf("to %s it says %q, want %q", command, got, want)
	}
}

// until asks for the members until they are these.
func (o *curator) until(want string) {
	o.t.Helper()
	var got string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if got = o.says("list"); got == want {
			return
		}
	}
	o.t.Fatalf("after a minute it says %q, want %q", got, want)
}
