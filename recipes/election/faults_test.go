// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// record is the leader's record on the embedded server.
func record(c *recipetest.Cluster) (r struct {
	Token uint64
	ID    string
	Data  []byte
}) {
	c.T.Helper()
	data, _, ok := c.Srv.Get(recordPath)
	if !ok {
		return r
	}
	if err := json.Unmarshal(data, &r); err != nil {
		c.T.Errorf("the record %q: %v", data, err)
	}
	return r
}

// nodeOf returns the node of the leader l.
func nodeOf(c *recipetest.Cluster, l *election.Leadership) string {
	for _, name := range c.Srv.Children(lockDir) {
		if _, stat, ok := c.Srv.Get(lockDir + "/" + name); ok && uint64(stat.Czxid) == l.Token() {
			return lockDir + "/" + name
		}
	}
	c.T.Errorf("no node has the token %d", l.Token())
	return ""
}

// wantNoCandidate checks that no node of a candidate is left, nor a watch.
func wantNoCandidate(c *recipetest.Cluster) {
	c.T.Helper()
	recipetest.Later(30 * time.Second)
	if left := c.Srv.Children(lockDir); len(left) > 0 {
		c.T.Errorf("left: %v", left)
	}
	for _, path := range []string{recordPath, lockDir} {
		if w := c.Srv.Watches(path); w != (zktest.WatchCount{}) {
			c.T.Errorf("watches of %s are left: %+v", path, w)
		}
	}
}

// Whichever request of a term is lost, or its answer, the process is elected once, its
// record is right, and nothing is left.
func TestF210_EveryRequestLost(t *testing.T) {
	recipetest.EachRequest(t, recipetest.Lost, func(t *testing.T, v *recipetest.Victim) {
		l := campaign(t, newElection(t, v.M, "a"))
		if r := record(v.Cluster); l.Err() == nil && (r.Token != l.Token() || r.ID != "a" || string(r.Data) != "of a") {
			t.Errorf("token %d, and the record is %+v", l.Token(), r)
		}
		_ = l.Resign(context.Background())
		wantNoCandidate(v.Cluster)
	})
}

// A session that ends while the process waits costs it its place, and no more. One that
// ends between the grant and the record is the end of a term that no caller has seen.
func TestF211_SessionEndsBeforeTheElection(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		m, b := open(c, "b")
		l := campaign(t, a)
		waits := b.Stand(t.Context())
		c.Expire(m)
		recipetest.WantErr(t, "waits", waits.Err(), election.ErrNotElected)
		var struck uint64
		c.Srv.OnRequest(func(session int64, op zktest.Op, path string) {
			if op == zktest.OpMulti && strings.HasPrefix(path, lockDir) && session == recipetest.SessionOf(m) && struck == 0 {
				_, stat, _ := c.Srv.Get(path)
				struck = uint64(stat.Czxid)
				c.Srv.ExpireSession(session)
			}
		})
		resign(t, l)
		elected(t, waits)
		recipetest.WantErr(t, "leads", waits.Err(), nil)
		if struck == 0 || waits.Token() <= struck || record(c).Token != waits.Token() {
			t.Errorf("token %d after %d, the record is of %d", waits.Token(), struck, record(c).Token)
		}
		resign(t, waits)
		wantNoCandidate(c)
	})
}

// In whichever way a term is lost, the leader learns of it before another is elected.
func TestF212_LostBeforeAnotherIsElected(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(c *recipetest.Cluster, m *manager.Manager, node string)
		want error
	}{
		"the session expires": {func(c *recipetest.Cluster, m *manager.Manager, _ string) { c.Expire(m) }, election.ErrLost},
		"its node is deleted": {func(c *recipetest.Cluster, _ *manager.Manager, node string) { c.Remove(node) }, election.ErrLost},
		"the manager closes":  {func(_ *recipetest.Cluster, m *manager.Manager, _ string) { go m.Close() }, manager.ErrClosed},
		"the connection is silent": {func(c *recipetest.Cluster, m *manager.Manager, _ string) {
			c.Srv.Faults().Blackhole(recipetest.SessionOf(m))
		}, election.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
				m, a := open(c, "a")
				_, b := open(c, "b")
				l := a.Stand(t.Context())
				early := l.Lost()
				elected(t, l)
				heir := b.Stand(t.Context())
				recipetest.Later(time.Minute) // the lease is kept
				recipetest.WantErr(t, "leads", l.Err(), nil)
				tt.end(c, m, nodeOf(c, l))
				elected(t, heir)
				if name != "its node is deleted" { // where the news and the heir's are on their way together
					if !recipetest.IsClosed(l.Lost()) {
						t.Error("another is elected, and this one not told")
					}
				}
				synctest.Wait()
				if !recipetest.IsClosed(early) {
					t.Error("the channel from before the election is open")
				}
				recipetest.WantErr(t, "lost", l.Err(), tt.want)
				recipetest.WantErr(t, "resign", l.Resign(context.Background()), tt.want)
				c.Srv.Faults().Clear()
				resign(t, heir)
				wantNoCandidate(c)
			})
		})
	}
}

// A candidacy that is withdrawn leaves nothing, wherever it has got to.
func TestF213_Withdrawn(t *testing.T) {
	errWhy := errors.New("why")
	for _, where := range []string{"waiting", "while the record is written", "elected"} {
		for _, how := range []string{"context", "resign"} {
			t.Run(where+" "+how, func(t *testing.T) {
				recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
					_, a := open(c, "a")
					m, b := open(c, "b")
					first := campaign(t, a)
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					l := b.Stand(ctx)
					recipetest.Later(time.Second)
					switch where {
					case "while the record is written":
						c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Times: 1}, time.Second)
						resign(t, first)
						synctest.Wait()
						recipetest.WantErr(t, "not elected yet", l.Err(), election.ErrNotElected)
					case "elected":
						resign(t, first)
						elected(t, l)
					}
					want := errWhy
					if how == "context" {
						cancel(errWhy)
					} else {
						want = election.ErrResigned
						recipetest.WantErr(t, "resign", l.Resign(context.Background()), nil)
					}
					synctest.Wait()
					if where == "elected" && how == "context" {
						want = nil // it is too late for that
					}
					recipetest.WantErr(t, "in the end", l.Err(), want)
					if where != "elected" {
						recipetest.WantErr(t, "elected", recipetest.ErrOf(l.Elected().Wait(t.Context())), want)
					}
					if recipetest.IsClosed(l.Lost()) {
						t.Error("withdrawn, and told that it is lost")
					}
					_ = l.Resign(context.Background())
					_ = first.Resign(context.Background())
					wantNoCandidate(c)
				})
			})
		}
	}
}

// A Proclaim whose caller has left may be carried out yet. A later one waits until it is
// decided, so the later one is what stays.
func TestF214_AbandonedProclaimComesFirst(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m, e := open(c, "a")
		l := campaign(t, e)
		c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Times: 1}, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := l.Proclaim(ctx, []byte("first"))
		recipetest.WantErr(t, "the first", err, manager.ErrUnknownOutcome)
		recipetest.WantErr(t, "the first", err, context.DeadlineExceeded)
		recipetest.WantErr(t, "one that does not wait", l.Proclaim(ctx, []byte("none")), context.DeadlineExceeded)
		before := c.Srv.Requests(zktest.OpMulti)
		done := recipetest.BeginErr(t, func() error { return l.Proclaim(t.Context(), []byte("second")) })
		recipetest.Later(100 * time.Millisecond)
		if n := c.Srv.Requests(zktest.OpMulti) - before; n != 0 {
			t.Errorf("%d requests are sent while the first is not answered", n)
		}
		done.WantErr("the second", nil)
		if got := string(record(c).Data); got != "second" {
			t.Errorf("the record says %q", got)
		}
		resign(t, l)
	})
}

// The record of an earlier term is not taken for the leader's.
func TestF215_RecordOfAnotherTerm(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		m, b := open(c, "b")
		_, observer := open(c, "observer")
		l := campaign(t, a)
		leaders := observer.Observe(t.Context())
		for next(t, leaders).ID != "a" {
		}
		heir := b.Stand(t.Context())
		recipetest.Later(time.Second)
		c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Times: 1}, time.Second)
		block := c.Srv.Faults().BlockRequests(recipetest.SessionOf(m))
		resign(t, l)
		if got := next(t, leaders); got.Token != 0 {
			t.Errorf("told %+v before the heir has written its record", got)
		}
		block.Remove()
		elected(t, heir)
		if got := next(t, leaders); got.Token != heir.Token() || got.ID != "b" {
			t.Errorf("told %+v, want the heir with token %d", got, heir.Token())
		}
		resign(t, heir)
	})
}

// While the record is missing there is no leader to be told of.
func TestF215_RecordDeleted(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		m, observer := open(c, "observer")
		l := campaign(t, a)
		leaders := observer.Observe(t.Context())
		for next(t, leaders).Token != l.Token() {
		}
		c.Remove(recordPath)
		if got := next(t, leaders); got.Token != 0 || got.Err != nil {
			t.Errorf("told %+v, and the record is deleted", got)
		}
		recipetest.WantErr(t, "proclaim", l.Proclaim(t.Context(), []byte("again")), nil)
		if got := next(t, leaders); got.Token != l.Token() || string(got.Data) != "again" {
			t.Errorf("told %+v", got)
		}
		recipetest.WantErr(t, "set", c.Srv.Set(recordPath, []byte("nonsense")), nil)
		if got := next(t, leaders); got.Token != 0 || got.Err != nil {
			t.Errorf("told %+v, and the record is none", got)
		}
		c.Remove(recordPath)
		synctest.Wait()

		// It is made, and deleted again, while the observer looks.
		looks := 0
		c.Srv.OnRequest(func(session int64, op zktest.Op, path string) {
			if session != recipetest.SessionOf(m) || path != recordPath {
				return
			}
			switch looks++; looks {
			case 2:
				recipetest.WantErr(t, "create", c.Srv.Create(recordPath, []byte("{}")), nil)
			case 3:
				c.Remove(recordPath)
			}
		})
		c.Expire(m)
		recipetest.Later(time.Minute)
		if looks < 4 {
			t.Errorf("the observer has looked %d times", looks)
		}
		c.Srv.OnRequest(nil)
		recipetest.WantErr(t, "proclaim", l.Proclaim(t.Context(), []byte("at last")), nil)
		if got := next(t, leaders); got.Token != l.Token() || string(got.Data) != "at last" || got.Err != nil {
			t.Errorf("told %+v", got)
		}
		resign(t, l)
	})
}

// An observer whose server lags behind is told late, and in order.
func TestF216_ObserverLags(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		_, b := open(c, "b")
		m, observer := open(c, "observer")
		ctx, cancel := context.WithCancel(t.Context())
		leaders := observer.Observe(ctx)
		next(t, leaders)
		lag := c.Srv.Faults().Lag(-1, recipetest.SessionOf(m))
		l := campaign(t, a)
		for _, e := range []*election.Election{b, a, b} {
			resign(t, l)
			l = campaign(t, e)
		}
		recipetest.WantErr(t, "proclaim", l.Proclaim(t.Context(), []byte("news")), nil)
		var last election.Leader
		for n := 0; last.Token != l.Token() || string(last.Data) != "news"; n++ {
			if lag.Advance(1); n == 1000 {
				t.Fatalf("the last that was told is %+v", last)
			}
			recipetest.Later(100 * time.Millisecond)
			select {
			case got := <-leaders:
				if got.Token != 0 && got.Token < last.Token || got.Token != 0 && got.ID == "" {
					t.Errorf("told %+v after %+v", got, last)
				}
				if got.Token != 0 {
					last = got
				}
			default:
			}
		}
		resign(t, l)
		cancel()
		wantNoCandidate(c)
	})
}

// An observation outlasts sessions and outages, and ends with its ctx or the Manager.
func TestF217_ObserverOutlastsItsSession(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		m, observer := open(c, "observer")
		leaders := observer.Observe(t.Context())
		if got := next(t, leaders); got.Token != 0 || got.Err != nil {
			t.Errorf("told %+v, want none", got)
		}
		c.Expire(m)
		l := campaign(t, a)
		if got := next(t, leaders); got.Token != l.Token() {
			t.Errorf("told %+v", got)
		}
		c.Srv.Faults().Cut(recipetest.SessionOf(m))
		recipetest.WantErr(t, "proclaim", l.Proclaim(t.Context(), []byte("meanwhile")), nil)
		if got := next(t, leaders); string(got.Data) != "meanwhile" {
			t.Errorf("told %+v", got)
		}
		resign(t, l)
		recipetest.Later(time.Second) // and the reader does not take the next
		_ = m.Close()
		last, more := <-leaders
		recipetest.WantErr(t, "the last", last.Err, manager.ErrClosed)
		if _, again := <-leaders; !more || again {
			t.Error("it is not the last")
		}
	})
}

// An observation that ends while it reads the record ends at once, and takes its watch back
// when the answer has left it.
func TestF217_EndsWhileItReads(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		m, observer := open(c, "observer")
		l := campaign(t, a)
		f := c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpGetData, Path: recordPath, Times: 1}, time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		leaders := observer.Observe(ctx)
		<-f.Hit()
		cancel()
		synctest.Wait()
		select {
		case got, more := <-leaders:
			if more {
				t.Errorf("told %+v", got)
			}
		default:
			t.Error("the channel is open")
		}
		resign(t, l)
		wantNoCandidate(c)
	})
}

// ZooKeeper is restored from a backup, and its transactions begin anew, with lower numbers than
// the tokens that this process has had. It is elected all the same, and told so.
func TestF215_RestoredFromABackup(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		restored := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
		defer restored.Close()
		var moved atomic.Bool
		m := c.Open("a", func(cfg *manager.Config) {
			dial := cfg.Dialer
			cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				if moved.Load() {
					return restored.Dial(ctx, network, address)
				}
				return dial(ctx, network, address)
			}
		})
		a := newElection(t, m, "a")
		var of events
		defer a.OnEvent(of.note)()
		leaders := a.Observe(t.Context())
		c.Srv.Restart() // another epoch: higher numbers
		recipetest.Later(time.Minute)
		l := campaign(t, a)
		moved.Store(true)
		c.Srv.Stop()
		<-l.Lost()
		recipetest.WantErr(t, "resign", l.Resign(context.Background()), election.ErrLost)
		recipetest.Later(time.Minute)
		of.all()

		again := campaign(t, a)
		if again.Token() == 0 || again.Token() >= l.Token() {
			t.Fatalf("the token is %d after %d: nothing was restored", again.Token(), l.Token())
		}
		recipetest.WantErr(t, "leads", again.Err(), nil)
		synctest.Wait()
		if got := text(of.all()); got != stood+strings.TrimSpace(led) {
			t.Errorf("told %s", got)
		}
		data, _, _ := restored.Get(recordPath)
		if want := fmt.Sprintf(`{"token":%d,`, again.Token()); !strings.HasPrefix(string(data), want) {
			t.Errorf("the record is %s, want %s …", data, want)
		}
		for next(t, leaders).Token != again.Token() {
		}
		resign(t, again)
	})
}

// A process that may not write the record is not elected, says why, and stands in no
// other's way.
func TestF218_RecordIsRefused(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		admin := c.Open("admin")
		_, a := open(c, "a")
		err := admin.Access().Call(t.Context(), func(s *zkio.Session) error {
			if err := s.EnsureDir("/holdfast/jobs/leader", nil); err != nil {
				return err
			}
			return s.Create(recordPath, []byte("{}"), []zkio.ACL{{Perms: zkio.PermRead, Scheme: "world", ID: "anyone"}})
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := a.Stand(t.Context())
		_, err = l.Elected().Wait(t.Context())
		recipetest.WantErr(t, "elected", err, zkio.ErrNoAuth)
		recipetest.WantErr(t, "err", l.Err(), zkio.ErrNoAuth)
		<-l.Lost()
		recipetest.WantErr(t, "resign", l.Resign(t.Context()), nil)
		wantNoCandidate(c)
	})
}

// A contender of another client has no record, and is told as its node says.
func TestObserveForeigner(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		stranger := c.Open("stranger")
		_, observer := open(c, "observer")
		if err := c.Srv.CreateAll(lockDir, nil); err != nil {
			t.Fatal(err)
		}
		leaders := observer.Observe(t.Context())
		next(t, leaders)
		node := lockDir + "/_c_2d3ecf38-7d6c-4f0e-a5b4-3c1f9a5c1d11-lock-0000000000"
		if err := c.Srv.CreateEphemeral(recipetest.SessionOf(stranger), node, []byte("10.0.0.7")); err != nil {
			t.Fatal(err)
		}
		if got := next(t, leaders); got.ID != "10.0.0.7" || got.Token == 0 || got.Path != node {
			t.Errorf("told %+v", got)
		}
	})
}
