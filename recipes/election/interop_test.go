// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
)

var interopTerms = flag.Int("interopterms", 40, "how many terms there are beside each of Curator's elections")

// Beside Curator's candidates one leads at a time, in ZooKeeper's order.
func TestBesideCurator(t *testing.T) {
	for kind, opts := range map[string]election.Options{
		"selector": {},
	} {
		t.Run(kind, func(t *testing.T) {
			recipetest.OnReal(t, func(c *recipetest.Cluster) { besideCurator(c, kind, opts) })
		})
	}
}

// besideCurator has two processes of ours and two clients of Curator's lead in turn.
func besideCurator(c *recipetest.Cluster, kind string, opts election.Options) {
	t := c.T
	each := max(1, *interopTerms/4)
	observer := c.Open("observer")
	marks := c.Root + "/marks"
	err := observer.Access().Call(t.Context(), func(s *zkio.Session) error { return s.Create(marks, nil, nil) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(each)*time.Second)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	for i := range 2 {
		id := fmt.Sprint("ours", i)
		opts.ID = id
		e, err := election.New(c.Open(id), name, opts)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range each {
				if err := e.Run(ctx, func(ctx context.Context, l *election.Leadership) error { return mark(ctx, l, marks, id) }); err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
			}
		})
	}
	e, err := election.New(observer, name, opts)
	if err != nil {
		t.Fatal(err)
	}
	watching, unwatch := context.WithCancel(ctx)
	leaders := e.Observe(watching)
	seen := make(map[string]int)
	var watch sync.WaitGroup
	watch.Go(func() {
		for l := range leaders {
			seen[l.ID]++
		}
	})
	runCurator(ctx, t, c.Real, kind, e.Lock().Path(), marks, "2", fmt.Sprint(each))
	all.Wait()
	unwatch()
	watch.Wait()
	terms := 0
	inside := ""
	for _, m := range readMarks(t, observer, marks) {
		what, who, _ := strings.Cut(m, " ")
		if what == "enter" && inside != "" || what == "leave" && inside != who {
			t.Errorf("%s, and %q is inside", m, inside)
		}
		if inside = ""; what == "enter" {
			inside = who
			terms++
		}
	}
	if terms != 4*each {
		t.Errorf("%d terms, want %d", terms, 4*each)
	}
	t.Logf("%d terms, the errors above are the violations; an observer was told of %v", terms, seen)
}

// mark notes that this process leads, and that it is about to resign.
func mark(ctx context.Context, l *election.Leadership, marks, who string) error {
	for _, what := range []string{"enter ", "leave "} {
		if _, err := l.Guard(ctx, zkio.CreateOp(marks+"/m", []byte(what+who), nil).Sequential()); err != nil {
			return err
		}
	}
	return nil
}

// readMarks returns the marks in the order of their creation.
func readMarks(t *testing.T, m *manager.Manager, dir string) []string {
	t.Helper()
	var marks []string
	err := m.Access().Call(t.Context(), func(s *zkio.Session) error {
		names, _, err := s.Children(dir)
		if err != nil {
			return err
		}
		slices.Sort(names)
		for i, name := range names {
			names[i] = dir + "/" + name
		}
		marks = nil
		for _, r := range s.GetAll(names...) {
			if r.Err != nil {
				return r.Err
			}
			marks = append(marks, string(r.Data))
		}
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return marks
}

// runCurator runs testdata/curator/Leaders.java, and returns when it has ended.
func runCurator(ctx context.Context, t *testing.T, zk *realzk.Server, args ...string) {
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
	compile := exec.CommandContext(ctx, javac, "-cp", jar, "-d", classes, "testdata/curator/Leaders.java")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", compile, err, out)
	}
	classpath := strings.Join([]string{classes, jar, "/usr/share/java/slf4j-nop.jar"}, string(filepath.ListSeparator))
	run := exec.CommandContext(ctx, java, append([]string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath, "Leaders", zk.Addr()}, args...)...)
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", run, err, out)
	}
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
