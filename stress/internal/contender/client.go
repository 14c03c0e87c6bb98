// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/manager"
)

// A Client waits for one lock at a time, and has one at a time. One goroutine uses it.
type Client struct {
	program *Program
	name    string
	answers chan answer // to what it was asked last; an answer beyond that is one too many

	mu  sync.Mutex // protects has
	has *Grant     // until it is released; or nil
}

// An answer is what the program says of an acquisition or a release.
type answer struct {
	grant *Grant // of granted
	err   error  // of error
}

// A Grant is a lock that a client has.
type Grant struct {
	Session uint64 // 0: unknown
	Token   uint64 // 0: the client has none

	client *Client
	lock   string
	lost   chan struct{}
	lostAt int64 // monotonic, by the program; set before lost is closed; 0: unknown
}

// ErrRefused is the error of what a program could not do.
var ErrRefused = errors.New("the contender has failed")

// hear takes a line of the program's. It returns what that answers; nil if nothing.
func (c *Client) hear(line string) (*answer, error) {
	what, rest, _ := strings.Cut(line, " ")
	switch what {
	case "lost":
		f, err := fields(rest, "at")
		if err == nil {
			c.lose(f["at"])
		}
		return nil, err
	case "granted":
		f, err := fields(rest, "token", "session")
		if err != nil {
			return &answer{err: err}, err
		}
		return &answer{grant: c.grant(f)}, nil
	case "released":
		return &answer{}, nil
	case "error":
		return &answer{err: fmt.Errorf("%w: %s", ErrRefused, rest)}, nil
	}
	err := errors.New("a client says granted, released, error or lost")
	return &answer{err: err}, err
}

// answer passes an answer on to what asked. It reports false if nothing has.
func (c *Client) answer(a answer) bool {
	select {
	case c.answers <- a:
		return true
	default:
		return false
	}
}

// fields returns the words KEY=NUMBER, of these keys. A number is not 0.
func fields(text string, keys ...string) (map[string]uint64, error) {
	all := map[string]uint64{}
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		if !slices.Contains(keys, key) {
			return nil, fmt.Errorf("after that word comes %s=NUMBER, and not %q", strings.Join(keys, "=NUMBER or "), word)
		}
		n, err := strconv.ParseUint(value, 0, 64)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("%q has no number above 0, decimal or, after 0x, hexadecimal", word)
		}
		all[key] = n
	}
	return all, nil
}

// grant notes that the client has its lock. It may be lost before its caller hears of it.
func (c *Client) grant(f map[string]uint64) *Grant {
	g := &Grant{Session: f["session"], Token: f["token"], client: c, lost: make(chan struct{})}
	if g.Session == 0 {
		c.program.mu.Lock()
		g.Session = c.program.session
		c.program.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.has = g
	return g
}

// lose notes that the client has been told that it has lost its lock. One that has none may have
// been told a moment too late.
func (c *Client) lose(at uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.has; g != nil && g.Err() == nil {
		g.lostAt = int64(at) //nolint:gosec // a monotonic time
		close(g.lost)
	}
}

// Acquire waits for the lock at that path. If ctx ends first, the client is of no further use.
func (c *Client) Acquire(ctx context.Context, lock string) (*Grant, error) {
	return c.acquire(ctx, "acquire", lock)
}

// AcquireShared is Acquire for a shared hold, beside which others may have shared ones.
func (c *Client) AcquireShared(ctx context.Context, lock string) (*Grant, error) {
	return c.acquire(ctx, "acquire-shared", lock)
}

func (c *Client) acquire(ctx context.Context, order, lock string) (*Grant, error) {
	a, err := c.ask(ctx, order, lock)
	if err == nil && a.grant == nil {
		err = fmt.Errorf("%w: it did not say whether it was granted %s", ErrRefused, lock)
	}
	if err != nil {
		return nil, err
	}
	a.grant.lock = lock
	return a.grant, nil
}

// ask asks the program for something, and waits for the answer.
func (c *Client) ask(ctx context.Context, command, lock string) (answer, error) {
	select {
	case <-c.answers: // that was not asked for
	default:
	}
	c.program.tell(c.name, command, lock)
	select {
	case a := <-c.answers:
		return a, a.err
	case <-c.program.over:
		return answer{}, ErrOver
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// Lost returns a channel that is closed when the client has been told that it has lost the lock.
func (g *Grant) Lost() <-chan struct{} { return g.lost }

// LostAt returns when that was, on the machine's monotonic clock; 0 if the program does not say.
func (g *Grant) LostAt() int64 { return g.lostAt }

// Err returns ErrLost once Lost is closed.
func (g *Grant) Err() error {
	select {
	case <-g.lost:
		return manager.ErrLost
	default:
		return nil
	}
}

// Release gives the lock up, and waits for the answer.
func (g *Grant) Release(ctx context.Context) error {
	_, err := g.client.ask(ctx, "release", g.lock)
	g.client.mu.Lock()
	defer g.client.mu.Unlock()
	g.client.has = nil
	return err
}
