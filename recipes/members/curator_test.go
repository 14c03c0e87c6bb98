// SPDX-License-Identifier: Apache-2.0

package members_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/otherclients"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/members"
)

// Members of ours and Curator's GroupMember see each other come, go and change. While
// GroupMember has an id, Join waits for it.
func TestCurator(t *testing.T) {
	t.Parallel()
	recipetest.OnReal(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("ours")
		path, err := m.Access().Path("workers")
		recipetest.WantErr(t, "path", err, nil)
		curator := &curator{t, otherclients.Start(t, otherclients.Curator(context.Background(), t, "testdata/curator/Members.java", c.Real.Addr(), path))}
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

		recipetest.WantErr(t, "taken", recipetest.ErrOf(g.TryJoin(t.Context(), "theirs", []byte("5"))), members.ErrTaken)
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
	t *testing.T
	*otherclients.Program
}

// says sends the program a command, and returns the answer.
func (o *curator) says(command string) string {
	o.t.Helper()
	const client = "member"
	if err := o.Tell(client, command); err != nil {
		o.t.Fatal(err)
	}
	select {
	case answer := <-o.Answers(client):
		return answer
	case <-time.After(time.Minute):
		o.t.Fatalf("no answer to %s for a minute", command)
		return ""
	}
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
