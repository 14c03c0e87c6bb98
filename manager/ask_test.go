// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/state"
)

// onAsk sets Config.OnAsk.
func onAsk(answer func(ctx context.Context, q Question) ([]byte, error)) func(*Config) {
	return func(cfg *Config) { cfg.OnAsk = answer }
}

// echo is a Config.OnAsk that sends the question back.
func echo(cfg *Config) {
	cfg.OnAsk = func(_ context.Context, q Question) ([]byte, error) { return q.Text, nil }
}

// silent is a Config.OnAsk that returns when its context ends.
func silent(cfg *Config) {
	cfg.OnAsk = func(ctx context.Context, _ Question) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }
}

// mustAsk asks the holder of l, and returns its answer.
func mustAsk(t *testing.T, l *Lock, question string) Answer {
	t.Helper()
	a, err := l.Ask(t.Context(), []byte(question))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A process asks the one that holds the lock, which answers what its function returns,
// and how the lock stands there.
func TestAsk(t *testing.T) {
	bubble(t, func(c *cluster) {
		var asked Question
		a := c.lock("a", onAsk(func(_ context.Context, q Question) ([]byte, error) {
			asked = q
			return append([]byte("re: "), q.Text...), nil
		}))
		b := c.lock("b")
		h := mustLock(c.t, a)
		h2, err := h.Share()
		wantErr(c.t, "share", err, nil)
		later(3 * time.Second)

		got, grant := mustAsk(c.t, b, "where?"), grantOf(c.t, h)
		expect(c.t, string(got.Reply) == "re: where?" && got.Err == "" && got.Phase == state.Retained &&
			got.Holders == 2 && got.Waiting == 0 && got.Held >= 3*time.Second && !got.Yielding && !got.Revoked &&
			got.From.Label == "a" && got.From.Path == grant.Path, "the answer is %+v", got)
		expect(c.t, asked.Lock == a && asked.Grant == grant && asked.From.Label == "b" && asked.From.Session == session(b.m),
			"the question is %+v", asked)
		c.wantNoLetters(a.m)
		c.unlock(h2, h)
	})
}

// What an answer costs: three writes and seven reads, and three notifications. The
// first one also makes the mailbox.
func TestAskRequests(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a", onAsk(func(context.Context, Question) ([]byte, error) {
			time.Sleep(time.Millisecond) // else the answer may be there before the asker watches
			return nil, nil
		}))
		b := c.lock("b")
		h := mustLock(c.t, a)
		mustAsk(c.t, b, "first")
		later(time.Second)
		n := c.tally(a.m, b.m)
		told := func() uint64 { return a.m.client.Stats().WatchEvents + b.m.client.Stats().WatchEvents }
		before := told()
		mustAsk(c.t, b, "second")
		sent := n.take("a question")
		reads := sent["getData"] + sent["exists"] + sent["getChildren2"] + sent["multiRead"]
		writes := sent["create"] + sent["setData"] + sent["delete"]
		expect(c.t, reads == 7 && writes == 3 && total(sent) == 10, "sent %v, want 7 reads and 3 writes", sent)
		wantEq(c.t, "notifications", told()-before, 3)
		mustRelease(c.t, h)
	})
}

// A process that no other asks pays one read in each session, and nothing for a grant.
func TestMailboxCostsOneRead(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		for i := range uint64(2) {
			for range 10 {
				c.cycle(a)
			}
			synctest.Wait() // the mailbox looks by itself
			wantEq(c.t, "requests exists", a.m.client.Stats().Sent["exists"], i+1)
			c.expire(a.m)
		}
	})
}

// Questions that are refused before anything is sent.
func TestAskRefused(t *testing.T) {
	bubble(t, func(c *cluster) {
		b := c.lock("b")
		h := mustLock(c.t, c.lock("a", echo))
		over, cancel := context.WithCancel(c.t.Context())
		cancel()
		c.takeCounts()
		wantErr(c.t, "ctx has ended", errOf(b.Ask(over, nil)), context.Canceled)
		c.wantNothingSent()
		mustRelease(c.t, h)
		wantErr(c.t, "no holder", errOf(b.Ask(c.t.Context(), nil)), ErrNoAnswer)
		wantErr(c.t, "close", b.m.Close(), nil)
		wantErr(c.t, "closed", errOf(b.Ask(c.t.Context(), nil)), ErrClosed)
		wantErr(c.t, "revoke, closed", b.Revoke(c.t.Context(), ""), ErrClosed)
	})
}

// What the holder's function does, and what the asker gets. It is asked more often than
// questions are under way at a time, so none of them counts for ever. A process that holds the
// lock answers itself, and asks no server.
func TestOnAsk(t *testing.T) {
	type test struct {
		onAsk    func(context.Context, Question) ([]byte, error)
		question string
		want     Answer
	}
	most := bytes.Repeat([]byte{7}, maxLetter)
	each(t, map[string]test{
		"a reply":            {func(context.Context, Question) ([]byte, error) { return []byte("yes"), nil }, "?", Answer{Reply: []byte("yes")}},
		"an error":           {func(context.Context, Question) ([]byte, error) { return []byte("yes"), errors.New("busy") }, "?", Answer{Err: "busy"}},
		"a panic":            {func(context.Context, Question) ([]byte, error) { panic("oh") }, "?", Answer{Err: "Config.OnAsk panicked: oh"}},
		"no return":          {func(context.Context, Question) ([]byte, error) { runtime.Goexit(); return nil, nil }, "?", Answer{Err: "Config.OnAsk has ended its goroutine and not returned"}},
		"as large as can be": {func(_ context.Context, q Question) ([]byte, error) { return q.Text, nil }, string(most), Answer{Reply: most}},
		"too large":          {func(context.Context, Question) ([]byte, error) { return make([]byte, maxLetter+1), nil }, "?", Answer{Err: "the reply has 65537 bytes, at most 65536 are allowed"}},
		"no function":        {nil, "?", Answer{Err: "the process takes no questions: its Config.OnAsk is not set"}},
		"for the state":      {func(context.Context, Question) ([]byte, error) { panic("not called") }, "", Answer{}},
		"state, and none":    {nil, "", Answer{}},
	}, func(c *cluster, test test) {
		a, b := c.lock("a", onAsk(test.onAsk)), c.lock("b")
		h := mustLock(c.t, a)
		ask := func(l *Lock) {
			c.t.Helper()
			for range maxAsked + 1 {
				got, err := l.Ask(withTimeout(c.t, time.Second), []byte(test.question))
				wantErr(c.t, "ask", err, nil)
				expect(c.t, bytes.Equal(got.Reply, test.want.Reply) && got.Err == test.want.Err &&
					got.Phase == state.Retained && got.Holders == 1 && got.From.Own == (l == a),
					"asked by %s: %+v", l.m.cfg.Label, got)
			}
		}
		ask(b)
		later(time.Second)
		c.takeCounts()
		ask(a)
		c.wantNothingSent()
		lines := c.log.with("ERROR holdfast: Config.OnAsk panicked lock=jobs panic=oh")
		expect(c.t, (len(lines) > 0) == strings.Contains(test.want.Err, "panicked"), "logged %q", lines)
		mustRelease(c.t, h)
	})
}

// At most 16 questions are with Config.OnAsk at once, and a revocation passes them.
func TestOnAskIsBounded(t *testing.T) {
	bubble(t, func(c *cluster) {
		const n = 100
		inside := make(chan struct{}, n)
		goOn := make(chan struct{})
		a := c.lock("a", onAsk(func(ctx context.Context, q Question) ([]byte, error) {
			inside <- struct{}{}
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			<-inside
			return q.Text, nil
		}))
		b := c.lock("b")
		h := mustLock(c.t, a)
		var asked []*askedCall
		for range n {
			asked = append(asked, c.asking(b, "?", time.Hour))
		}
		later(time.Second)
		wantEq(c.t, "questions at once", len(inside), maxAsked)
		revoked := c.revoking(b, "now", time.Hour)
		later(time.Second)
		expect(c.t, isClosed(h.Revoked()), "the revocation waits for the questions")
		lines := c.log.with("INFO holdfast: another process asks for the lock; its holders are told lock=jobs from=b@")
		expect(c.t, len(lines) == 1 && strings.HasSuffix(lines[0], ` reason="now"`), "logged %q", lines)
		close(goOn)
		for _, q := range asked {
			q.wantReply(c.t, "?")
		}
		mustRelease(c.t, h)
		wantErr(c.t, "revoke", <-revoked, nil)
	})
}

// Close ends the calls of Config.OnAsk and waits for them.
func TestCloseJoinsOnAsk(t *testing.T) {
	bubble(t, func(c *cluster) {
		returned := false
		a := c.lock("a", onAsk(func(ctx context.Context, _ Question) ([]byte, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			returned = true
			return nil, context.Cause(ctx)
		}))
		mustLock(c.t, a)
		q := c.asking(c.lock("b"), "?", time.Hour)
		later(time.Second)
		wantErr(c.t, "close", a.m.Close(), nil)
		expect(c.t, returned, "Close has not waited")
		q.wantNoAnswer(c.t, false, "")
	})
}

// A letter that is no question is answered with an error, and the holder goes on; so is
// a question of a kind that its name does not say.
func TestLettersNotUnderstood(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", echo), c.lock("b")
		h := mustLock(c.t, a)
		mustAsk(c.t, b, "first")
		node := grantOf(c.t, h).Path
		for name, data := range map[string]string{
			"empty": "", "text": "hello", "null": "null", "list": "[]", "kind": `{"kind":"other"}`,
			"named-as-a-question": `{"kind":"revoke","node":"` + node + `"}`,
			"revoke-named":        `{"kind":"ask","node":"` + node + `"}`,
			"no-node":             `{"kind":"ask","text":"AAAA"}`,
			"no-contender":        `{"kind":"ask","node":"/a/b","text":"AAAA"}`,
			"slashes":             `{"kind":"ask","node":"/","text":"AAAA"}`,
			"revoke-no-node":      `{"kind":"revoke","node":"` + node + `x"}`,
			"no-within":           `{"kind":"ask","node":"` + node + `","within_ns":-1}`,
		} {
			path := boxOf(a.m) + "/" + name
			wantErr(c.t, "create", c.srv.CreateEphemeral(session(b.m), path, []byte(data)), nil)
			synctest.Wait()
			answer, stat, _ := c.srv.Get(path)
			expect(c.t, stat.Version == 1 && (name == "no-within" || bytes.Contains(answer, []byte(`"err":"the `))),
				"%s: the answer is %s (version %d)", name, answer, stat.Version)
		}
		c.held(h)
		c.wantNotRevoked(h)
		mustAsk(c.t, b, "last")
		mustRelease(c.t, h)
	})
}

// What stands in the place of an answer, if it is none.
func TestAnswersNotUnderstood(t *testing.T) {
	for _, data := range []string{"", "text", "null", "{}", "[]"} {
		_, err := readAnswer([]byte(data))
		expect(t, errors.Is(err, ErrNoAnswer), "%q: %v", data, err)
	}
}

// On both servers, a process asks another, hundreds of questions at a time.
func TestAskEverywhere(t *testing.T) {
	everywhere(t, func(s *backend) {
		const n = 300
		a, b := s.lock("a", echo), s.lock("b")
		h := mustLock(s.t, a)
		failed := make(chan error, n)
		for i := range n {
			go func() {
				question := fmt.Sprint("question ", i)
				got, err := b.Ask(s.t.Context(), []byte(question))
				if err == nil && string(got.Reply) != question {
					err = fmt.Errorf("%s: the reply is %q, %q", question, got.Reply, got.Err)
				}
				failed <- err
			}()
		}
		for range n {
			wantErr(s.t, "ask", <-failed, nil)
		}
		wantHeld(s.t, "a", h)
		s.until("the mailbox is empty", func() bool {
			names, _, err := b.m.client.Session().Children(a.m.box.path)
			return err == nil && len(names) == 0
		})
		mustRelease(s.t, h)
	})
}

// On a real server, with the connection of either side cut while a question is under
// way, every question is answered.
func TestRealAskWhileCut(t *testing.T) {
	zk := realzk.Shared(t)
	const questions = 20
	var lines [2]wires
	dial := func(i int) func(*Config) { return func(cfg *Config) { cfg.Dialer = lines[i].dial } }
	a := exclusive(t, openReal(t, zk.Addr(), "a", echo, dial(0)), "jobs")
	b := exclusive(t, openReal(t, zk.Addr(), "b", dial(1)), "jobs")
	h := mustLock(t, a)
	ctx := withTimeout(t, 2*time.Minute)
	for i := range questions {
		question := fmt.Sprint("question ", i)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			if got, err := b.Ask(ctx, []byte(question)); err != nil || string(got.Reply) != question {
				t.Errorf("%s: the answer is %q, %v", question, got.Reply, err)
			}
		}()
		<-time.After(time.Duration(i/2) * 100 * time.Microsecond)
		lines[i%2].cut()
		<-answered
	}
	wantHeld(t, "a", h)
	mustRelease(t, h)
}

// median sorts the durations, and returns the one in the middle.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// A holder that complies gives the lock up at once. The test prints how long that takes
// beside an ordinary hand-over, which is up to the machine.
func TestRealRevoke(t *testing.T) {
	zk := realzk.Shared(t)
	const times = 50
	a := exclusive(t, openReal(t, zk.Addr(), "a"), "jobs")
	b := exclusive(t, openReal(t, zk.Addr(), "b"), "jobs")
	ctx := withTimeout(t, time.Minute)
	// pass has b take the lock from a, after ask, and returns when b had it.
	pass := func(ask func(Hold)) time.Time {
		h := mustLock(t, a)
		next := b.Acquire(ctx)
		within(t, "b is queued", ioOf(next).whereabouts().known().Done())
		end := make(chan time.Time, 1)
		go func() {
			_, _ = next.Granted().Wait(ctx) // an error shows below
			end <- time.Now()
		}()
		ask(h)
		granted(t, "b", next, time.Minute)
		mustRelease(t, next)
		return <-end
	}
	var handOver, told, called []time.Duration
	for range times {
		start := time.Now()
		end := pass(func(h Hold) {
			start = time.Now()
			h.Release()
		})
		handOver = append(handOver, end.Sub(start))
		heard := make(chan time.Time, 1)
		end = pass(func(h Hold) {
			go func() {
				<-h.Revoked()
				heard <- time.Now()
				h.Release()
			}()
			start = time.Now()
			wantErr(t, "revoke", b.Revoke(ctx, "please"), nil)
		})
		told, called = append(told, end.Sub(<-heard)), append(called, end.Sub(start))
	}
	one := median(handOver)
	t.Logf("medians of %d: from a release to the next grant %v", times, one)
	for what, all := range map[string][]time.Duration{"Revoked closes": told, "Revoke is called": called} {
		t.Logf("from when %s to the next grant %v, %.1f times that", what, median(all), float64(median(all))/float64(one))
	}
}
