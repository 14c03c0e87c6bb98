// SPDX-License-Identifier: Apache-2.0

package nethttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// ErrNoKey is returned by [New] if Config.Key is nil.
var ErrNoKey = errors.New("nethttp: Config.Key is nil: set a function that returns the key of a request")

// A Config says which requests exclude each other, and what becomes of those that have to
// wait. Key is required.
type Config struct {
	// Key returns the key of a request, which may be any string. A request with the key ""
	// is served without a lock. Key is called concurrently.
	Key func(r *http.Request) string

	// Prefix is what the locks' names begin with. The key follows it, as one segment (see
	// manager.Escape).
	// Defaults to "http/".
	Prefix string

	// Wait is how long a request waits for others with the same key, in the order in which
	// they came to ZooKeeper. It ends early if the client goes away.
	// Defaults to 0: it does not wait.
	Wait time.Duration

	// Timeout is how long a request that does not wait for others waits for ZooKeeper's answer.
	// Defaults to 2 s. Wait replaces it if that is not 0.
	Timeout time.Duration

	// RetryAfter is what the header Retry-After tells clients, in full seconds, rounded up.
	// Defaults to 1 s.
	RetryAfter time.Duration

	// Refuse answers a request that is not served, instead of a short text. status is
	// http.StatusLocked or http.StatusServiceUnavailable, and the header Retry-After is set.
	// The text of err names processes: it is for a log, not for the client.
	// Defaults to http.Error with the status's text.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, err error)
}

// unlockTimeout bounds how long the end of a response waits for ZooKeeper. A client that
// has seen the end, and asks again, finds the lock free.
const unlockTimeout = time.Second

type holdKey struct{}

// Hold returns the hold under which the request with this context, or with one that comes from it,
// is served. It is the zero Hold, which reports manager.ErrReleased, if the
// request is served without a lock. Hold does not block.
func Hold(ctx context.Context) manager.Hold {
	hold, _ := ctx.Value(holdKey{}).(manager.Hold)
	return hold
}

// New returns a middleware: it makes a handler that serves requests under their locks of m.
// Several middlewares with the same Prefix have the same locks. One inside another shares
// the lock of the outer one if they have the same key. New does no I/O. The errors are
// [ErrNoKey], and manager.ErrBadName for a prefix that no name can begin with.
func New(m *manager.Manager, cfg Config) (func(http.Handler) http.Handler, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = "http/"
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 2 * time.Second
	}
	if cfg.RetryAfter <= 0 {
		cfg.RetryAfter = time.Second
	}
	if cfg.Refuse == nil {
		cfg.Refuse = func(w http.ResponseWriter, _ *http.Request, status int, _ error) {
			http.Error(w, http.StatusText(status), status)
		}
	}
	if cfg.Key == nil {
		return nil, ErrNoKey
	}
	if _, err := manager.LockPath("/", cfg.Prefix+"key"); err != nil {
		return nil, fmt.Errorf("nethttp: prefix %q: %w", cfg.Prefix, err)
	}
	return func(next http.Handler) http.Handler { return &handler{m, cfg, next} }, nil
}

type handler struct {
	m    *manager.Manager
	cfg  Config
	next http.Handler
}

// ServeHTTP serves a request under its lock, or refuses it.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := h.cfg.Key(r)
	if key == "" {
		h.next.ServeHTTP(w, r)
		return
	}
	hold, err := h.acquire(r.Context(), key)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	defer func() { // also after a panic
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), unlockTimeout)
		defer cancel()
		_ = hold.Unlock(ctx) // the response cannot tell of an error any more; the manager logs a loss
	}()
	ctx, cancel := hold.Context(context.WithValue(r.Context(), holdKey{}, hold))
	defer cancel()
	h.next.ServeHTTP(w, r.WithContext(ctx))
}

func (h *handler) acquire(ctx context.Context, key string) (manager.Hold, error) {
	mutex, err := h.m.Mutex(h.cfg.Prefix + manager.Escape(key))
	if err != nil {
		return manager.Hold{}, err
	}
	acquire, limit := mutex.TryLock, h.cfg.Timeout
	if h.cfg.Wait > 0 {
		acquire, limit = mutex.Lock, h.cfg.Wait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return acquire(ctx)
}

// refuse answers a request that did not get its lock because of err.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusServiceUnavailable
	if e, ok := errors.AsType[*manager.Error](err); ok && e.Outage == nil && (e.Position > 0 || e.Holder != nil || errors.Is(err, manager.ErrLocked)) {
		status = http.StatusLocked
	}
	seconds := (h.cfg.RetryAfter + time.Second - 1) / time.Second
	w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	h.cfg.Refuse(w, r, status, err)
}
