// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// onLike runs fn in a bubble with a server that has quirks, and a client of it.
func onLike(t *testing.T, quirks zktest.Quirks, fn func(t *testing.T, z *zktest.Server, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		z := zktest.NewServer(zktest.Config{TickTime: 500 * time.Millisecond, Logger: quiet, Quirks: quirks})
		t.Cleanup(func() { z.Close() })
		fn(t, z, open(t, configure(z)))
	})
}

// insist calls do again and again, in the client's present session, until it succeeds. A
// connection that ends is no answer.
func insist(t *testing.T, c *Client, what string, do func(s *Session) error) {
	t.Helper()
	began := time.Now()
	for {
		err := do(c.Session())
		if err == nil {
			return
		}
		if class := ClassOf(err); class == Definite || class == Closed || time.Since(began) > time.Minute {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A server that does not know an optional request refuses it, does not answer, or ends the
// connection, and perhaps the session with it. The client soon does without.
func TestF361_UnknownRequests(t *testing.T) {
	reactions := map[string]zktest.Reaction{"refused": zktest.RefuseUnknown, "ignored": zktest.IgnoreUnknown, "closed": zktest.CloseUnknown}
	for _, op := range []zktest.Op{zktest.OpCreateContainer, zktest.OpMultiRead, zktest.OpRemoveWatches} {
		for name, reaction := range reactions {
			for _, noResume := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v is %s, no resume: %v", op, name, noResume), func(t *testing.T) {
					onLike(t, zktest.Quirks{Unknown: []zktest.Op{op}, Reaction: reaction, NoResume: noResume}, func(t *testing.T, z *zktest.Server, c *Client) {
						began := time.Now()
						insist(t, c, "make a directory", func(s *Session) error { return s.EnsureDir("/d/e", nil) })
						for range 5 {
							insist(t, c, "read two nodes", func(s *Session) error {
								reads := s.GetAll("/d", "/d/e")
								if reads[0].Err != nil {
									return reads[0].Err
								}
								return reads[1].Err
							})
							w := new(recorder)
							c.WatchChildren("/d", w)
							insist(t, c, "list", func(s *Session) error { _, _, err := s.Children("/d"); return err })
							c.Session().UnwatchChildren("/d", w)
						}
						if took := time.Since(began); took > 2*c.Session().Timeout() {
							t.Errorf("it took %v", took)
						}
						most := map[zktest.Reaction]uint64{zktest.RefuseUnknown: 5, zktest.IgnoreUnknown: 2, zktest.CloseUnknown: owedMost}[reaction]
						if asked := z.Requests(op); asked > most {
							t.Errorf("asked %d times, want %d at most", asked, most)
						}
						if reaction != zktest.RefuseUnknown && !c.Stats().Basic {
							t.Error("it has not noticed")
						}
						before := c.Stats()
						time.Sleep(10 * time.Minute)
						if after := c.Stats(); after.Epoch != before.Epoch || after.Reconnects != before.Reconnects {
							t.Errorf("it goes on losing connections: %+v, then %+v", before, after)
						}
					})
				})
			}
		}
	}
}

// Connections that end by chance with an optional request under way prove nothing.
func TestF361_ChanceProvesNothing(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		must(t, s.EnsureDir("/d", nil))
		for _, connections := range []int{owedMost - 1, owedKnown, owedKnown} {
			for range connections {
				z.Faults().DropReply(zktest.Match{Op: zktest.OpMultiRead, Times: 1})
				if reads := s.GetAll("/d", "/d"); ClassOf(reads[0].Err) != Unknown {
					t.Fatal(reads[0].Err)
				}
			}
			insist(t, c, "read", func(s *Session) error { return s.GetAll("/d", "/d")[0].Err })
		}
		z.Faults().SwallowReply(zktest.Match{Op: zktest.OpMultiRead, Times: 1})
		if reads := s.GetAll("/d", "/d"); ClassOf(reads[0].Err) != Unknown {
			t.Fatal(reads[0].Err)
		}
		insist(t, c, "read", func(s *Session) error { return s.GetAll("/d", "/d")[0].Err })
		if c.Stats().Basic {
			t.Error("it takes the server for another")
		}
	})
}

// A server that is slow, so that the client gives its connections up, is not taken for another.
func TestF361_SlowIsNotUnknown(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		slow := z.Faults().DelayReply(zktest.Match{Op: zktest.OpCreateContainer, Times: 2 * owedMost}, 30*time.Second)
		insist(t, c, "make a directory", func(s *Session) error { return s.EnsureDir("/d", nil) })
		if c.Stats().Basic || slow.Hits() < owedMost {
			t.Errorf("%d late answers; taken for another server: %v", slow.Hits(), c.Stats().Basic)
		}
	})
}

// After a reconnect a server that is ZooKeeper shows that it keeps watches of children.
func TestF362_ZooKeeperKeepsChildWatches(t *testing.T) {
	check := func(t *testing.T, c *Client, cut func()) {
		s, w := c.Session(), new(recorder)
		dir := fmt.Sprintf("/f362-%x", s.ID())
		must(t, s.EnsureDir(dir, nil))
		c.WatchChildren(dir, w)
		if _, _, err := s.Children(dir); err != nil {
			t.Fatal(err)
		}
		cut()
		eventually(t, "it is back", func() bool { return c.Stats().Reconnects > 0 && settle(s, "/") == nil })
		if lines := w.lines(); len(lines) != 0 || c.Stats().Basic {
			t.Errorf("told %v; taken for another server: %v", lines, c.Stats().Basic)
		}
		must(t, s.CreateEphemeral(dir+"/n", nil, nil))
		eventually(t, "an event", func() bool { return w.has(dir + " children changed") })
		must(t, s.Delete(dir+"/n", -1))
	}
	t.Run("embedded", func(t *testing.T) {
		connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
			check(t, c, func() { z.Faults().CutAll() })
		})
	})
	t.Run("real", func(t *testing.T) {
		cfg, _ := setUp(t, realzk.Shared(t))
		c := open(t, cfg)
		check(t, c, func() { cut(c.Session()) })
	})
}

// Where setWatches is not to be had, watches are set later by reading the nodes.
func TestF361_WatchLaterByReading(t *testing.T) {
	onLike(t, zktest.RaftKeeper(), func(t *testing.T, z *zktest.Server, c *Client) {
		insist(t, c, "make a directory", func(s *Session) error { return s.EnsureDir("/d", nil) })
		s, w := c.Session(), new(recorder)
		for _, name := range []string{"stays", "goes before", "goes after", "is of no interest"} {
			path := "/d/" + name
			must(t, s.CreateEphemeral(path, nil, nil))
			c.Watch(path, w)
			s.WatchLater(path, 100*time.Millisecond)
		}
		c.Unwatch("/d/is of no interest", w)
		must(t, s.Delete("/d/goes before", -1))
		time.Sleep(time.Second)
		must(t, s.Delete("/d/goes after", -1))
		synctest.Wait()
		if lines := strings.Join(w.lines(), ", "); lines != "/d/goes before deleted, /d/goes after data changed, /d/goes after children changed" {
			t.Errorf("told %q", lines)
		}
		if n := z.AllWatches().Data; n != 1 {
			t.Errorf("%d watches, want 1", n)
		}
	})
}

// A server that cannot resume a session cannot close that of another process, either, and that
// is told at once.
func TestF363_CloseSession(t *testing.T) {
	for name, quirks := range map[string]zktest.Quirks{"no resume": {NoResume: true}, "ClickHouse Keeper": zktest.ClickHouseKeeper()} {
		t.Run(name, func(t *testing.T) {
			onLike(t, quirks, func(t *testing.T, z *zktest.Server, c *Client) {
				s := c.Session()
				must(t, s.CreateEphemeral("/n", nil, nil))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := CloseSession(ctx, configure(z), s.Ticket())
				wantErr(t, err, ErrUnsupported, Definite)
				if !strings.Contains(err.Error(), "cannot resume sessions") || ctx.Err() != nil || !z.Exists("/n") {
					t.Errorf("%v; ctx: %v", err, ctx.Err())
				}
			})
		})
	}
}
