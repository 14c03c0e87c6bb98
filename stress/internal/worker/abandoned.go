// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/plan"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A ledger is what a process knows about the interrupted holders of one lock. All
// processes share its file, which says whether the next holder is to be told that the
// last one was interrupted. A process reads and writes the file only while it has the
// referee's flock: a worker calls the methods while it is inside.
//
// The grant is compared with the file at the first entry of each round. The file is
// written before the worker leaves, so before the lock can be released, and before
// another process can be granted it.
type ledger struct {
	file *os.File

	mu          sync.Mutex // protects the fields below, and is held during calls to the file, which do not block
	token       uint64     // of the round that the rest is about
	told        bool       // its grant says that the lock was abandoned
	recovered   bool       // a worker of the round has called Recovered
	interrupted bool       // a worker of the round was interrupted
}

// ledgerSuffix follows the path of the referee's file.
const ledgerSuffix = ".abandoned"

func newLedger(path string) (*ledger, error) {
	f, err := os.OpenFile(path+ledgerSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the referee's file of interrupted holders: %w", err)
	}
	return &ledger{file: f}, nil
}

var (
	errUntold = errors.New("the last holder was interrupted, but the grant does not say so")
	errTold   = errors.New("the grant says that the last holder was interrupted, but that released the lock in good order")
)

// begin compares the grant with the file, if it is the first entry of the grant's round.
// Its errors are errUntold, errTold, and those of the file.
func (b *ledger) begin(g manager.Grant) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.Token <= b.token { // the same round again, or a lost one
		return nil
	}
	b.token, b.told, b.recovered, b.interrupted = g.Token, g.Abandoned, false, false
	was, err := b.read()
	switch {
	case err != nil:
		return err
	case was && !g.Abandoned:
		err = errUntold
	case !was && g.Abandoned:
		err = errTold
	}
	return errors.Join(err, b.write())
}

// recover notes that a worker of the round has called Recovered.
func (b *ledger) recover(token uint64) error { return b.note(token, &b.recovered) }

// interrupt notes that a worker of the round is about to be interrupted.
func (b *ledger) interrupt(token uint64) error { return b.note(token, &b.interrupted) }

func (b *ledger) note(token uint64, what *bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if token < b.token { // a lost round
		return nil
	}
	*what = true
	return b.write()
}

// What the file says.
const (
	ledgerClean     = 'c'
	ledgerAbandoned = 'a'
)

func (b *ledger) write() error {
	says := byte(ledgerClean)
	if b.told && !b.recovered || b.interrupted {
		says = ledgerAbandoned
	}
	_, err := b.file.WriteAt([]byte{says}, 0)
	return err
}

func (b *ledger) read() (abandoned bool, err error) {
	says := make([]byte, 1)
	if _, err := b.file.ReadAt(says, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return says[0] == ledgerAbandoned, nil
}

// checkAbandoned compares the grant of a worker that is inside with the ledger, and
// recovers if the step says so.
func (w *worker) checkAbandoned(s plan.Step, l *contended, h manager.Hold, g manager.Grant) {
	if l.ledger == nil {
		return
	}
	switch err := l.ledger.begin(g); {
	case errors.Is(err, errTold):
		w.child.counts.falseReports.Add(1) // the parent knows how many holds were lost, which are reported as well
	case err != nil:
		w.unexpected("Grant", l, err)
	}
	if !g.Abandoned {
		return
	}
	w.child.counts.abandoned.Add(1)
	if !s.Recovers {
		return
	}
	if err := h.Recovered(); err != nil {
		w.noLonger("Recovered", l, h, err)
		return
	}
	if again, err := h.Grant(); err == nil && again.Abandoned {
		w.unexpected("Grant", l, errors.New("it says that the lock is abandoned after Recovered"))
	}
	if err := l.ledger.recover(g.Token); err != nil {
		w.unexpected("Recovered", l, err)
	}
}

// onPurpose is what a worker panics with in Do.
type onPurpose struct{}

// interrupted performs a step that panics in Do.
func (w *worker) interrupted(run context.Context, s plan.Step, l *contended) {
	w.asks(l)
	end := w.activity.begin("Do", l)
	defer func() {
		end()
		p := recover()
		if _, expected := p.(onPurpose); p != nil && !expected {
			panic(p)
		}
	}()
	err := l.lock.Do(run, func(_ context.Context, h manager.Hold) error {
		end()
		g, err := h.Grant()
		if err != nil {
			w.noLonger("Grant", l, h, err)
			return nil
		}
		leave, ok := w.enter(l, g, h)
		if !ok {
			return nil
		}
		defer leave()
		w.entered(l)
		w.checkAbandoned(s, l, h, g)
		w.stay(run, s.Hold, l, h.Lost())
		end = w.activity.begin("the end of Do after a panic", l)
		if !w.sabotages(wire.Conceals) {
			if err := l.ledger.interrupt(g.Token); err != nil {
				w.unexpected("Do", l, err)
			}
		}
		w.child.counts.panics.Add(1)
		if w.sabotages(wire.Survives) {
			return nil
		}
		panic(onPurpose{})
	})
	if err != nil && !errors.Is(err, manager.ErrUnconfirmed) {
		w.refused(run, "Do", l, err)
	}
}

// Explained reports whether the node at path, which is left under root, is the marks'
// directory, or the mark of an interrupted holder of which a ledger in dir knows. If holds were
// lost, any lock can have such a mark.
func Explained(node, root, dir string, lost bool) bool {
	marks := root + "/_held_"
	switch {
	case node == marks:
		return true
	case path.Dir(node) != marks:
		return false
	case lost:
		return true
	}
	says, err := os.ReadFile(dir + "/" + path.Base(node) + ledgerSuffix)
	return err == nil && len(says) == 1 && says[0] == ledgerAbandoned
}
