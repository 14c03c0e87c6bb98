// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// echo is a Config.OnAsk that sends the question back.
func echo(cfg *Config) {
	cfg.OnAsk = func(_ context.Context, q Question) ([]byte, error) { return q.Text, nil }
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
		t := c.t
		var asked Question
		a := c.lock("a", func(cfg *Config) {
			cfg.OnAsk = func(_ context.Context, q Question) ([]byte, error) {
				asked = q
				return append([]byte("re: "), q.Text...), nil
			}
		})
		b := c.lock("b")
		h := mustLock(t, a)
		h2, err := h.Share()
		wantErr(t, "share", err, nil)
		later(3 * time.Second)

		got := mustAsk(t, b, "where?")
		if string(got.Reply) != "re: where?" || got.Err != "" {
			t.Errorf("reply %q, error %q", got.Reply, got.Err)
		}
		if got.Phase != state.Retained || got.Holders != 2 || got.Waiting != 0 || got.Held < 3*time.Second || got.Yielding || got.Revoked {
			t.Errorf("the answer is %+v", got)
		}
		if got.From.Label != "a" || got.From.Path != grantOf(t, h).Path {
			t.Errorf("the answer is from %v", got.From)
		}
		if asked.Lock != a || asked.Grant != grantOf(t, h) || asked.From.Label != "b" || asked.From.Session != session(b.m) {
			t.Errorf("the question is %+v", asked)
		}
		synctest.Wait()
		if left := c.srv.Children("/holdfast/_asks_/" + a.m.id); len(left) != 0 {
			t.Errorf("left in the mailbox: %v", left)
		}
		h2.Release()
		mustRelease(t, h)
	})
}

// What an answer costs: three writes and seven reads, and three notifications. The
// first one also makes the mailbox.
func TestAskRequests(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a := c.lock("a", func(cfg *Config) {
			cfg.OnAsk = func(context.Context, Question) ([]byte, error) {
				time.Sleep(time.Millisecond) // else the answer may be there before the asker watches
				return nil, nil
			}
		})
		b := c.lock("b")
		h := mustLock(t, a)
		mustAsk(t, b, "first")
		later(time.Second)
		before := [2]map[string]uint64{a.m.client.Stats().Sent, b.m.client.Stats().Sent}
		told := a.m.client.Stats().WatchEvents + b.m.client.Stats().WatchEvents
		mustAsk(t, b, "second")
		synctest.Wait()
		reads, writes := 0, 0
		for i, l := range []*Lock{a, b} {
			for op, n := range l.m.client.Stats().Sent {
				n := int(n - before[i][op])
				switch op {
				case "create", "setData", "delete":
					writes += n
				case "getData", "exists", "getChildren2", "multiRead":
					reads += n
				case "ping":
				default:
					if n > 0 {
						t.Errorf("%d requests %s", n, op)
					}
				}
			}
		}
		if reads != 7 || writes != 3 {
			t.Errorf("%d reads and %d writes, want 7 and 3", reads, writes)
		}
		if n := a.m.client.Stats().WatchEvents + b.m.client.Stats().WatchEvents - told; n != 3 {
			t.Errorf("%d notifications, want 3", n)
		}
		mustRelease(t, h)
	})
}

// A process that no other asks pays one read in each session, and nothing for a grant.
func TestMailboxCostsOneRead(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a := c.lock("a")
		exists := func() uint64 { return a.m.client.Stats().Sent["exists"] }
		for i := range uint64(2) {
			for range 10 {
				c.cycle(a)
			}
			synctest.Wait() // the mailbox looks by itself
			if n := exists(); n != i+1 {
				t.Errorf("%d requests exists in %d sessions", n, i+1)
			}
			c.expire(a.m)
		}
	})
}

// Questions that are refused before anything is sent.
func TestAskRefused(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		b := c.lock("b")
		h := mustLock(t, c.lock("a", echo))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		synctest.Wait() // for what the grant has left to do
		c.takeCounts()
		_, err := b.Ask(t.Context(), make([]byte, maxLetter+1))
		wantErr(t, "too large", err, ErrTooLarge)
		_, err = b.Ask(over, nil)
		wantErr(t, "ctx has ended", err, context.Canceled)
		wantErr(t, "revoke, too large", b.Revoke(t.Context(), string(make([]byte, maxLetter+1))), ErrTooLarge)
		if n := c.takeCounts(); len(n) != 0 {
			t.Errorf("requests: %v", n)
		}
		most := bytes.Repeat([]byte{7}, maxLetter)
		a, err := b.Ask(t.Context(), most)
		if wantErr(t, "as large as may be", err, nil); !bytes.Equal(a.Reply, most) {
			t.Error("another reply")
		}
		mustRelease(t, h)
		_, err = b.Ask(t.Context(), nil)
		wantErr(t, "no holder", err, ErrNoAnswer)
		wantErr(t, "close", b.m.Close(), nil)
		_, err = b.Ask(t.Context(), nil)
		wantErr(t, "closed", err, ErrClosed)
		wantErr(t, "revoke, closed", b.Revoke(t.Context(), ""), ErrClosed)
	})
}

// What the holder's function does, and what the asker gets.
func TestOnAsk(t *testing.T) {
	each(t, map[string]struct {
		onAsk    func(context.Context, Question) ([]byte, error)
		question string
		want     Answer
	}{
		"a reply":         {func(context.Context, Question) ([]byte, error) { return []byte("yes"), nil }, "?", Answer{Reply: []byte("yes")}},
		"an error":        {func(context.Context, Question) ([]byte, error) { return []byte("yes"), errors.New("busy") }, "?", Answer{Err: "busy"}},
		"a panic":         {func(context.Context, Question) ([]byte, error) { panic("oh") }, "?", Answer{Err: "Config.OnAsk panicked: oh"}},
		"too large":       {func(context.Context, Question) ([]byte, error) { return make([]byte, maxLetter+1), nil }, "?", Answer{Err: "the reply has 65537 bytes, at most 65536 are allowed"}},
		"no function":     {nil, "?", Answer{Err: "the process takes no questions: its Config.OnAsk is not set"}},
		"for the state":   {func(context.Context, Question) ([]byte, error) { panic("not called") }, "", Answer{}},
		"state, and none": {nil, "", Answer{}},
	}, func(c *cluster, test struct {
		onAsk    func(context.Context, Question) ([]byte, error)
		question string
		want     Answer
	}) {
		a := c.lock("a", func(cfg *Config) { cfg.OnAsk = test.onAsk })
		h := mustLock(c.t, a)
		for _, l := range []*Lock{c.lock("b"), a} {
			got := mustAsk(c.t, l, test.question)
			if !bytes.Equal(got.Reply, test.want.Reply) || got.Err != test.want.Err || got.Phase != state.Retained {
				c.t.Errorf("asked by %s: %+v", l.m.cfg.Label, got)
			}
		}
		mustRelease(c.t, h)
	})
}

// A process that holds the lock answers itself, and asks no server.
func TestAskOwn(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a := c.lock("a", echo)
		h := mustLock(t, a)
		later(time.Second)
		c.takeCounts()
		got := mustAsk(t, a, "who am I?")
		if string(got.Reply) != "who am I?" || got.Holders != 1 || !got.From.Own {
			t.Errorf("the answer is %+v", got)
		}
		if n := c.takeCounts(); len(n) != 0 {
			t.Errorf("requests: %v", n)
		}
		mustRelease(t, h)
	})
}

// At most 16 questions are with Config.OnAsk at once, and a revocation passes them.
func TestOnAskIsBounded(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		const n = 100
		inside := make(chan struct{}, n)
		goOn := make(chan struct{})
		a := c.lock("a", func(cfg *Config) {
			cfg.OnAsk = func(ctx context.Context, q Question) ([]byte, error) {
				inside <- struct{}{}
				select {
				case <-goOn:
				case <-ctx.Done():
				}
				<-inside
				return q.Text, nil
			}
		})
		b := c.lock("b")
		h := mustLock(t, a)
		answers := make(chan error, n)
		for range n {
			go func() {
				_, err := b.Ask(t.Context(), []byte("?"))
				answers <- err
			}()
		}
		later(time.Second)
		if most := len(inside); most != maxAsked {
			t.Errorf("%d at once, want %d", most, maxAsked)
		}
		revoked := make(chan error, 1)
		go func() { revoked <- b.Revoke(t.Context(), "now") }()
		later(time.Second)
		if !isClosed(h.Revoked()) {
			t.Error("the revocation waits for the questions")
		}
		close(goOn)
		for range n {
			wantErr(t, "ask", <-answers, nil)
		}
		mustRelease(t, h)
		wantErr(t, "revoke", <-revoked, nil)
	})
}

// Close ends the calls of Config.OnAsk and waits for them.
func TestCloseJoinsOnAsk(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		returned := false
		a := c.lock("a", func(cfg *Config) {
			cfg.OnAsk = func(ctx context.Context, _ Question) ([]byte, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				returned = true
				return nil, context.Cause(ctx)
			}
		})
		b := c.lock("b")
		mustLock(t, a)
		var err error
		done := make(chan struct{})
		go func() { defer close(done); _, err = b.Ask(t.Context(), []byte("?")) }()
		later(time.Second)
		wantErr(t, "close", a.m.Close(), nil)
		if !returned {
			t.Error("Close has not waited")
		}
		<-done
		wantErr(t, "ask", err, ErrNoAnswer)
	})
}

// A letter that is no question is answered with an error, and the holder goes on; so is
// a question of a kind that its name does not say.
func TestLettersNotUnderstood(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a, b := c.lock("a", echo), c.lock("b")
		h := mustLock(t, a)
		mustAsk(t, b, "first")
		node := grantOf(t, h).Path
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
			wantErr(t, "create", c.srv.CreateEphemeral(session(b.m), path, []byte(data)), nil)
			synctest.Wait()
			answer, stat, _ := c.srv.Get(path)
			if stat.Version != 1 || name != "no-within" && !bytes.Contains(answer, []byte(`"err":"the `)) {
				t.Errorf("%s: the answer is %s (version %d)", name, answer, stat.Version)
			}
		}
		c.held(h)
		c.wantNotRevoked(h)
		mustAsk(t, b, "last")
		mustRelease(t, h)
	})
}

// What stands in the place of an answer, if it is none.
func TestAnswersNotUnderstood(t *testing.T) {
	for _, data := range []string{"", "text", "null", "{}", "[]"} {
		if _, err := readAnswer([]byte(data)); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("%q: %v", data, err)
		}
	}
}

// A function that ends its goroutine, as a test's FailNow does, has given no answer. Its
// asker is told, and the question does not count as under way for ever.
func TestOnAskEndsItsGoroutine(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", func(cfg *Config) {
			cfg.OnAsk = func(context.Context, Question) ([]byte, error) { runtime.Goexit(); return nil, nil }
		}), c.lock("b")
		h := mustLock(c.t, a)
		for range maxAsked + 1 {
			ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
			for _, l := range []*Lock{a, b} {
				got, err := l.Ask(ctx, []byte("?"))
				wantErr(c.t, "ask", err, nil)
				if !strings.Contains(got.Err, "ended its goroutine") {
					c.t.Errorf("the answer is %+v", got)
				}
			}
			cancel()
		}
		mustRelease(c.t, h)
	})
}
