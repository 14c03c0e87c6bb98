// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/otherclients"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
)

var interopTerms = flag.Int("interopterms", 40, "how many terms there are beside the elections of each other library")

// Beside the candidates of other libraries one leads at a time, in ZooKeeper's order.
func TestBesideOthers(t *testing.T) {
	t.Parallel()
	for kind, tt := range map[string]struct {
		opts    election.Options
		program func(t *testing.T) *exec.Cmd
	}{
		"selector": {election.Options{}, curator},
		"latch":    {election.Options{Latch: true}, curator},
		"kazoo":    {election.Options{}, kazoo},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			recipetest.OnReal(t, func(t *testing.T, c *recipetest.Cluster) { besideOthers(c, kind, tt.opts, tt.program(t)) })
		})
	}
}

// besideOthers has two processes of ours and two clients of a program lead in turn.
func besideOthers(c *recipetest.Cluster, kind string, opts election.Options, program *exec.Cmd) {
	t := c.T
	each := max(1, *interopTerms/4) // of four candidates
	observer := c.Open("observer")
	marks := c.Root + "/marks"
	e, err := election.New(observer, name, opts)
	if err != nil {
		t.Fatal(err)
	}
	queue := e.Lock().Path()
	err = observer.Access().Call(t.Context(), func(s *zkio.Session) error {
		if err := s.EnsureDir(path.Dir(queue), nil); err != nil {
			return err
		}
		// Kazoo's needs one that stays.
		return errors.Join(s.Create(marks, nil, nil), s.Create(queue, nil, nil))
	}, nil)
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
	watching, unwatch := context.WithCancel(ctx)
	leaders := e.Observe(watching)
	seen := make(map[string]int)
	var watch sync.WaitGroup
	watch.Go(func() {
		for l := range leaders {
			seen[l.ID]++
		}
	})
	program.Args = append(program.Args, c.Real.Addr(), kind, queue, marks, "2", fmt.Sprint(each))
	if out, err := program.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", program, err, out)
	}
	all.Wait()
	unwatch()
	watch.Wait()
	terms, violations := 0, 0
	inside := ""
	for _, m := range readMarks(t, observer, marks) {
		what, who, _ := strings.Cut(m, " ")
		if what == "enter" && inside != "" || what == "leave" && inside != who {
			t.Errorf("%s, and %q is inside", m, inside)
			violations++
		}
		if inside = ""; what == "enter" {
			inside = who
			terms++
		}
	}
	if terms != 4*each {
		t.Errorf("%d terms, want %d", terms, 4*each)
	}
	t.Logf("%d terms, %d violations; an observer was told of %v", terms, violations, seen)
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

// curator returns testdata/curator/Leaders.java as a program.
func curator(t *testing.T) *exec.Cmd {
	t.Helper()
	return otherclients.Curator(t.Context(), t, "testdata/curator/Leaders.java")
}

// kazoo returns testdata/kazoo/leaders.py as a program.
func kazoo(t *testing.T) *exec.Cmd {
	t.Helper()
	return otherclients.Kazoo(t.Context(), t, "testdata/kazoo/leaders.py")
}
