// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
)

// A function ends with what it has succeeded with, with what ZooKeeper refuses, and with a
// verdict, whatever the class of that. It is run again after any other error.
func TestHowItEnds(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := c.Open("p").Access()
		for name, tt := range map[string]struct {
			end, want error
		}{
			"success":                  {nil, nil},
			"refusal":                  {zkio.ErrNoNode, zkio.ErrNoNode},
			"verdict":                  {access.Verdict(errSome), errSome},
			"verdict like a retry":     {access.Verdict(zkio.ErrNotSent), zkio.ErrNotSent},
			"verdict after its reason": {access.Verdict(fmt.Errorf("so: %w", errSome)), errSome},
		} {
			runs := 0
			run := func(*zkio.Session) error {
				if runs++; runs < 3 {
					return errSome
				}
				return tt.end
			}
			recipetest.WantErr(t, name, access.Tell(a, run), tt.want)
			if runs != 3 {
				t.Errorf("%s: it ran %d times, want 3", name, runs)
			}
			runs = 0
			got, err := access.Ask(t.Context(), a, func(s *zkio.Session) (int, error) { return 7, run(s) })
			recipetest.WantErr(t, name, err, tt.want)
			if (err == nil) != (got == 7) {
				t.Errorf("%s: got %d with error %v", name, got, err)
			}
		}
	})
}

var errSome = errors.New("some error")

// A result that comes after the caller has given up is not read: the race detector sees that.
func TestGivenUpMeanwhile(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := c.Open("p").Access()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		over := make(chan struct{})
		got, err := access.Ask(ctx, a, func(*zkio.Session) (int, error) {
			defer close(over)
			<-time.After(2 * time.Second)
			return 7, access.Verdict(errSome)
		})
		recipetest.WantErr(t, "ask", err, context.DeadlineExceeded)
		if got != 0 {
			t.Errorf("got %d", got)
		}
		<-over
	})
}

// Close ends what no caller can give up, with ErrClosed alone.
func TestTellEndsWithClose(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("p")
		told := recipetest.BeginErr(t, func() error { return access.Tell(m.Access(), func(*zkio.Session) error { return errSome }) })
		recipetest.Later(time.Second)
		recipetest.WantErr(t, "close", m.Close(), nil)
		if err := told.Err(); err != manager.ErrClosed {
			t.Errorf("got error %v, want %v", err, manager.ErrClosed)
		}
	})
}

// The error of an operation that was given up says that ZooKeeper was away, and no other does.
func TestErrorSaysOutage(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("p")
		if err := access.Error(m.Access(), "op", "name", nil); err != nil {
			t.Errorf("got error %v for nil", err)
		}
		defer c.Srv.Faults().Blackhole(recipetest.SessionOf(m)).Remove()
		recipetest.Later(30 * time.Second)
		for err, want := range map[error]bool{errSome: false, context.Canceled: true, context.DeadlineExceeded: true, manager.ErrClosed: true} {
			e, ok := errors.AsType[*manager.Error](access.Error(m.Access(), "op", "name", fmt.Errorf("so: %w", err)))
			if !ok || !errors.Is(e, err) || e.Op != "op" || e.Name != "name" || (e.Outage != nil) != want {
				t.Errorf("%v: got %v", err, e)
			}
		}
	})
}

// Each gives the nodes that are there, with whose they are. It fails with what ZooKeeper refuses.
func TestEach(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := c.Open("p").Access()
		for _, path := range []string{"/1", "/3"} {
			recipetest.WantErr(t, "create", c.Srv.Create(path, []byte(path)), nil)
		}
		got, err := access.Ask(t.Context(), a, func(s *zkio.Session) (got string, err error) {
			err = access.Each(s, []int{1, 2, 3}, func(n int) string { return fmt.Sprintf("/%d", n) }, func(n int, node *zkio.Read) {
				got += fmt.Sprintf("%d is %s;", n, node.Data)
			})
			return got, err
		})
		recipetest.WantErr(t, "each", err, nil)
		if want := "1 is /1;3 is /3;"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestUnless(t *testing.T) {
	for _, tt := range []struct{ err, want error }{
		{nil, nil}, {errSome, errSome}, {fmt.Errorf("so: %w", zkio.ErrNoNode), nil}, {zkio.ErrNodeExists, nil},
	} {
		if got := access.Unless(tt.err, zkio.ErrNoNode, zkio.ErrNodeExists); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.err, got, tt.want)
		}
	}
}
