// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

// A size is how many permits a semaphore has, as its node says: four bytes, as Curator's
// SharedCount writes them.
type size struct {
	n       int // -1: the node does not hold a number
	version int32
}

func sizeOf(data []byte, version int32) *size {
	z := &size{-1, version}
	if len(data) == 4 {
		z.n = int(int32(binary.BigEndian.Uint32(data)))
	}
	return z
}

func encode(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// size returns the semaphore's number of permits as this process knows it. Every grant
// checks that it still is what ZooKeeper has. It blocks while the number has to be read.
func (s *Semaphore) size(ctx context.Context) (*size, error) {
	if z := s.known.Load(); z != nil {
		return z, nil
	}
	z, err := access.Ask(ctx, s.access, s.readSize)
	want := s.expect.Load()
	switch {
	case err != nil:
		return nil, err
	case z == nil:
		return nil, fmt.Errorf("%w: none was ever set: give Options.Permits, or call Resize", ErrMismatch)
	case z.n < 0:
		return nil, fmt.Errorf("%w: the data of %s are no number", ErrMismatch, s.number)
	case !s.agreed.Load() && want != 0 && want != int64(z.n):
		return nil, fmt.Errorf("%w: %d, and Options say %d", ErrMismatch, z.n, want)
	}
	s.agree(z.n)
	s.known.Store(z)
	return z, nil
}

// agree notes that ZooKeeper has n as the number of permits.
func (s *Semaphore) agree(n int) {
	s.expect.Store(int64(n))
	s.agreed.Store(true)
}

// readSize reads the number of permits. If there is none, it writes the one that is
// expected, and returns nil if there is none of that either.
func (s *Semaphore) readSize(session *zkio.Session) (*size, error) {
	// A server that lags behind would show a number that is no longer true.
	if err := session.Sync(s.number); err != nil {
		return nil, err
	}
	data, stat, err := session.Get(s.number)
	if errors.Is(err, zkio.ErrNoNode) {
		n := int(s.expect.Load())
		if n == 0 {
			return nil, nil //nolint:nilnil // there is none
		}
		if err = s.create(session, n); err == nil || errors.Is(err, zkio.ErrNodeExists) {
			data, stat, err = session.Get(s.number)
		}
	}
	if errors.Is(err, zkio.ErrNoNode) {
		err = fmt.Errorf("%w: another client has deleted what we made: %w", zkio.ErrNotSent, err) // run it again
	}
	if err != nil {
		return nil, err
	}
	return sizeOf(data, stat.Version), nil
}

// create creates the node that has the number of permits.
func (s *Semaphore) create(session *zkio.Session, n int) error {
	if err := session.EnsureDir(s.dir, s.access.ACL()); err != nil {
		return err
	}
	return session.Create(s.number, encode(n), s.access.ACL())
}

// Resize changes the number of permits to n, from 1 to [MaxPermits], for all processes. With
// more, those who wait get theirs at once. With less, nothing is taken away: new permits
// are granted when few enough are in use. Callers that wait for more than n get
// [ErrTooMany] when their turn comes. Processes that use the semaphore already take the new
// number; those that start later must have it in their Options, or 0.
//
// Resize blocks until ZooKeeper has answered or ctx ends. It fails with
// [manager.ErrUnknownOutcome] if the number may have been changed: because the answer was
// lost and another process has changed the number since, or because ctx ended. Of several
// calls at a time, in any processes, the last one counts.
func (s *Semaphore) Resize(ctx context.Context, n int) error {
	if n < 1 || n > MaxPermits {
		return s.error("resize", fmt.Errorf("%w: %d permits, want 1 to %d", zkio.ErrBadArguments, n, MaxPermits))
	}
	r := &resize{sem: s, n: n}
	known, err := access.Ask(ctx, s.access, r.run)
	switch {
	case err == nil && known:
		s.agree(n)
		s.known.Store(nil)
		return nil
	case err == nil:
		err = manager.ErrUnknownOutcome
	case ctx.Err() != nil && errors.Is(err, ctx.Err()) && !r.stage.CompareAndSwap(resizeWaits, resizeGivenUp):
		err = fmt.Errorf("%w, or may still be: %w", manager.ErrUnknownOutcome, ctxerr.Of(ctx))
	}
	return s.error("resize", err)
}

// A resize is a call of Resize.
type resize struct {
	sem *Semaphore
	n   int

	// stage decides between the caller, which gives up knowing that nothing is sent, and run,
	// which sends. The first to change it has won.
	stage atomic.Uint32

	// Used by run only.
	from  size // what the change that was sent replaces
	doubt bool // its answer was lost
}

// The values of resize.stage.
const (
	resizeWaits   uint32 = iota // nothing was sent
	resizeSent                  // a change was sent, which may be carried out
	resizeGivenUp               // nothing was sent, nor will be
)

// run changes the number. It reports false if it cannot tell whether it has.
func (r *resize) run(session *zkio.Session) (known bool, err error) {
	if err := session.Sync(r.sem.number); err != nil {
		return false, err
	}
	now := size{version: -1} // there is no node
	data, stat, err := session.Get(r.sem.number)
	switch {
	case err == nil:
		now = *sizeOf(data, stat.Version)
	case !errors.Is(err, zkio.ErrNoNode):
		return false, err
	}
	switch {
	case now.n == r.n:
		return true, nil
	case r.doubt && now != r.from:
		return false, nil // another process may have replaced our number
	}
	if !r.stage.CompareAndSwap(resizeWaits, resizeSent) && r.stage.Load() == resizeGivenUp {
		return false, nil
	}
	// If an answer was lost, the node is as it was before. The same change, sent again, is
	// carried out once at most.
	doubted := r.doubt
	r.from, r.doubt = now, true
	if now.version < 0 {
		err = r.sem.create(session, r.n)
	} else {
		_, err = session.Set(r.sem.number, encode(r.n), now.version)
	}
	if errors.Is(err, zkio.ErrBadVersion) || errors.Is(err, zkio.ErrNoNode) || errors.Is(err, zkio.ErrNodeExists) {
		r.doubt = doubted
		return false, fmt.Errorf("%w: another process has changed the number: %w", zkio.ErrNotSent, err) // run it again
	}
	return err == nil, err
}
