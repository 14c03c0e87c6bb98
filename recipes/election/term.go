// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// A record is what the leader's node says, as JSON.
type record struct {
	Token uint64 `json:"token"` // of the leader; records of other tokens mean nothing
	ID    string `json:"id"`
	Data  []byte `json:"data,omitempty"`
}

// A term is the time for which this process leads under one token. All its leaderships
// share the term.
type term struct {
	e     *Election
	token uint64

	// turn has a value while a request to write the record is under way, or may be sent
	// yet. It outlives the caller, so that no abandoned request overtakes a later one.
	turn  chan struct{}
	begun bool // the record is there; belongs to the goroutine whose value is in turn
}

func newTerm(e *Election, token uint64) *term {
	return &term{e: e, token: token, turn: make(chan struct{}, 1)}
}

// publish writes the record; only if there is none yet, if first is true.
func (t *term) publish(ctx context.Context, h manager.Hold, data []byte, first bool) error {
	op := "proclaim"
	if first {
		op = "campaign"
	}
	text, err := json.Marshal(record{t.token, t.e.opts.ID, data})
	if err != nil {
		return err
	}
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return t.e.error(op, ctxerr.Of(ctx))
	}
	if first && t.begun {
		<-t.turn
		return nil
	}
	done := make(chan error, 1)
	t.e.access.Go(func() {
		err := t.write(h, text)
		if err == nil && !t.begun {
			t.begun = true
			t.e.noteRecord(t.token)
		}
		<-t.turn
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return t.e.error(op, fmt.Errorf("%w: %w", manager.ErrUnknownOutcome, ctxerr.Of(ctx)))
	}
}

// write writes the record while h is held. It returns when no request is under way.
func (t *term) write(h manager.Hold, text []byte) error {
	ctx := context.Background() // Guard returns when the lock is lost or released
	for {
		_, err := h.Guard(ctx, zkio.SetOp(t.e.record, text, -1))
		if errors.Is(err, zkio.ErrNoNode) {
			_, err = h.Guard(ctx, zkio.CreateOp(t.e.record, text, t.e.access.ACL()))
		}
		switch {
		case errors.Is(err, zkio.ErrNodeExists):
			// It was created meanwhile: by us, if the answer was lost.
		case errors.Is(err, manager.ErrUnknownOutcome):
			// The same text twice does no harm, and ZooKeeper keeps a session's order.
			if over := h.Err(); over != nil {
				return fmt.Errorf("%w: %w", over, err)
			}
		default:
			return err
		}
	}
}
