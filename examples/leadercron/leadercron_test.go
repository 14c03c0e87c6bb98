// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/exampletest"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

func TestMain(m *testing.M) {
	exampletest.RunIfProgram(main)
	os.Exit(m.Run())
}

// B runs what was due while no process led, and nothing is left out or run twice.
func TestCatchesUp(t *testing.T) {
	t.Parallel()
	output, err := exampletest.Run(t)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if by, inOrder := runs(output); by["A"] == 0 || by["B"] < 4 || !inOrder {
		t.Errorf("runs %v, in order: %t\n%s", by, inOrder, output)
	}
}

func TestMistakeIsFoundOut(t *testing.T) {
	t.Parallel()
	output, _ := exampletest.RunChanged(t, []exampletest.Change{
		{File: "cron.go", Old: "done, err = time.Parse", New: "_, err = time.Parse"}, // it does not catch up
	})
	if _, inOrder := runs(output); inOrder {
		t.Errorf("nothing is left out:\n%s", output)
	}
}

// runs returns how many runs of each process the output has, and whether each is due a
// second after the one before.
func runs(output string) (by map[string]int, inOrder bool) {
	by, inOrder = make(map[string]int), true
	var last time.Time
	for _, m := range regexp.MustCompile(`(A|B) runs the job of (\S+)`).FindAllStringSubmatch(output, -1) {
		due, err := time.Parse(time.TimeOnly, m[2])
		if after := due.Sub(last); err != nil || len(by) > 0 && after != time.Second && after != time.Second-24*time.Hour {
			inOrder = false
		}
		by[m[1]]++
		last = due
	}
	return by, inOrder
}

// bubble runs test in virtual time, with an election and the server that it is on.
func bubble(t *testing.T, test func(t *testing.T, srv *zktest.Server, e *election.Election)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
		defer srv.Close()
		m, err := manager.Open(t.Context(), manager.Config{Servers: []string{"zk"}, Dialer: srv.Dial, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		e, err := election.New(m, "cron", election.Options{})
		if err != nil {
			t.Fatal(err)
		}
		test(t, srv, e)
	})
}

// The times of the jobs do not have to be whole seconds: the next leader goes on where the
// last one has ended.
func TestFractionsOfASecond(t *testing.T) {
	bubble(t, func(t *testing.T, _ *zktest.Server, e *election.Election) {
		var due []time.Time
		errEnough := errors.New("enough")
		cron := Cron{Done: "/holdfast/done", Every: 300 * time.Millisecond, Job: func(_ context.Context, at time.Time) error {
			if len(due)%4 == 3 {
				due = append(due, at)
				return errEnough // the job of this time is run again by the next leader
			}
			due = append(due, at)
			return nil
		}}
		for range 3 {
			if err := e.Run(t.Context(), cron.Lead); !errors.Is(err, errEnough) {
				t.Error(err)
			}
		}
		for i, at := range due[1:] {
			want := due[i].Add(cron.Every)
			if i%4 == 3 {
				want = due[i]
			}
			if !at.Equal(want) {
				t.Errorf("run %d is of %v, want %v", i+1, at, want)
			}
		}
	})
}

// However much there is to catch up on, no job begins once the process does not lead. The
// answer to a note is under way when that happens, so the note does not tell.
func TestNoJobAfterTheLoss(t *testing.T) {
	for name, lose := range map[string]func(srv *zktest.Server, cancel context.CancelFunc){
		"the caller's context ends": func(_ *zktest.Server, cancel context.CancelFunc) { cancel() },
		"the lease ends":            func(srv *zktest.Server, _ context.CancelFunc) { srv.Faults().BlackholeAll() },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // chance decides between a time that has come and the end of the context
				bubble(t, func(t *testing.T, srv *zktest.Server, e *election.Election) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var late []error
					cron := Cron{Done: "/holdfast/done", Every: time.Second}
					cron.Job = func(ctx context.Context, _ time.Time) error {
						if ctx.Err() != nil {
							late = append(late, context.Cause(ctx))
						} else if len(late) == 0 {
							srv.Faults().SwallowReply(zktest.Match{Op: zktest.OpMulti, Times: 1})
							time.AfterFunc(100*time.Millisecond, func() { lose(srv, cancel) })
						}
						return nil
					}
					if err := srv.CreateAll(cron.Done, []byte(time.Now().Add(-time.Hour).Format(time.RFC3339))); err != nil {
						t.Fatal(err)
					}
					l, err := e.Campaign(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					inside, done := l.Context(ctx)
					defer done()
					_ = cron.Lead(inside, l)
					_ = l.Resign(context.Background())
					if late = slices.Compact(late); len(late) > 0 {
						t.Fatalf("a job has begun after the end: %v", late)
					}
				})
			}
		})
	}
}
