// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"

	"github.com/holdfast-go/holdfast/manager"
)

// A Ledger is what a process knows about the interrupted holders of one lock. All
// processes share its file, which says whether the next holder is to be told that the
// last one was interrupted. A process reads and writes the file only while it has the
// referee's flock: a worker calls the methods while it is inside.
//
// The grant is compared with the file at the first entry of each round. The file is
// written before the worker leaves, so before the lock can be released, and before
// another process can be granted it.
type Ledger struct {
	file *os.File

	mu          sync.Mutex // protects the fields below, and is held during calls to the file, which do not block
	token       uint64     // of the round that the rest is about
	told        bool       // its grant says that the lock was abandoned
	recovered   bool       // a worker of the round has called Recovered
	interrupted bool       // a worker of the round was interrupted
}

// ledgerSuffix follows the path of the referee's file.
const ledgerSuffix = ".abandoned"

// OpenLedger opens the ledger of the lock whose referee has its file at path.
func OpenLedger(path string) (*Ledger, error) {
	f, err := os.OpenFile(path+ledgerSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the referee's file of interrupted holders: %w", err)
	}
	return &Ledger{file: f}, nil
}

// What [Ledger.Begin] finds.
var (
	ErrUntold = errors.New("the last holder was interrupted, but the grant does not say so")
	ErrTold   = errors.New("the grant says that the last holder was interrupted, but that released the lock in good order")
)

// Begin compares the grant with the file, if it is the first entry of the grant's round.
// Its errors are ErrUntold, ErrTold, and those of the file.
func (b *Ledger) Begin(g manager.Grant) error {
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
		err = ErrUntold
	case !was && g.Abandoned:
		err = ErrTold
	}
	return errors.Join(err, b.write())
}

// Close closes the file.
func (b *Ledger) Close() error { return b.file.Close() }

// Recover notes that a worker of the round has called Recovered.
func (b *Ledger) Recover(token uint64) error { return b.note(token, &b.recovered) }

// Interrupt notes that a worker of the round is about to be interrupted.
func (b *Ledger) Interrupt(token uint64) error { return b.note(token, &b.interrupted) }

func (b *Ledger) note(token uint64, what *bool) error {
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

func (b *Ledger) write() error {
	says := byte(ledgerClean)
	if b.told && !b.recovered || b.interrupted {
		says = ledgerAbandoned
	}
	_, err := b.file.WriteAt([]byte{says}, 0)
	return err
}

func (b *Ledger) read() (abandoned bool, err error) {
	says := make([]byte, 1)
	if _, err := b.file.ReadAt(says, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return says[0] == ledgerAbandoned, nil
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
