// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/flock"
)

// A Hall judges a double barrier: by its files the operating system shows which workers are
// inside. Each has an flock on a file of its own from the time at which Enter of the barrier
// returns until it calls Leave. A worker for which Leave returns finds the files of all
// members of its round without an flock, or one of them is still inside. There are no false
// alarms: only its own worker locks a file exclusively, and to leave comes after that.
//
// The first of them writes what it was told of the others into a further file, with which the
// others compare what they were told.
type Hall struct {
	path    string // what the paths of the files begin with
	process int    // number

	mu    sync.Mutex
	ended []uint64 // protected by mu: rounds of which this process has made the file end, the oldest first
}

// manyRounds is how many rounds back a process may still be told of the end of one. The files
// of earlier ones are removed.
const manyRounds = 1000

// NewHall returns the hall of a barrier, whose files begin with path, for a process.
func NewHall(path string, process int) *Hall { return &Hall{path: path, process: process} }

func (h *Hall) file(round uint64, what string) string {
	return fmt.Sprintf("%s.round-%d.%s", h.path, round, what)
}

// Enter notes that the worker with this id is inside, until leave is called. The file that shows
// it may be removed when all have left.
func (h *Hall) Enter(round uint64, worker int) (file string, leave func() error, err error) {
	file = h.file(round, fmt.Sprintf(memberFormat, h.process, os.Getpid(), worker))
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, fmt.Errorf("opening the referee's file of a round: %w", err)
	}
	alone, err := flock.Lock(f, flock.Exclusive)
	if err == nil && !alone {
		err = errors.New("another process holds it, which only this worker may")
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("locking the referee's file %s: %w", file, err), f.Close())
	}
	return file, f.Close, nil
}

// memberFormat is what the name of a member's file ends with: the number of its process, the
// id of that, and its worker.
const memberFormat = "in-%d-%d-%d"

// Begun reports whether the round has begun, which is not one of long ago.
func (h *Hall) Begun(round uint64) bool {
	files, err := filepath.Glob(h.file(round, "*"))
	return err == nil && len(files) > 0
}

// Inside returns the members of the round that have not left.
func (h *Hall) Inside(round uint64) (all []Party, err error) {
	files, err := filepath.Glob(h.file(round, "in-*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has seen the end of the round
		}
		if err != nil {
			return nil, err
		}
		left, err := flock.Lock(f, flock.Shared)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if left {
			continue
		}
		in := Party{Mode: "barrier", Token: round}
		var worker int
		if _, err := fmt.Sscanf(file[strings.LastIndex(file, "in-"):], memberFormat, &in.Process, &in.PID, &worker); err != nil {
			return nil, fmt.Errorf("the name of %s is not that of a member's file: %w", file, err)
		}
		all = append(all, in)
	}
	return all, nil
}

// Told compares what a worker was told of the end of the round with what others were. It
// returns what the first was told, if that is something else.
func (h *Hall) Told(round uint64, worker int, what string) (first string, err error) {
	// The file appears with its contents.
	own := h.file(round, fmt.Sprintf("told-%d-%d", os.Getpid(), worker))
	if err := os.WriteFile(own, []byte(what), 0o600); err != nil {
		return "", err
	}
	err = os.Link(own, h.file(round, "end"))
	if err := os.Remove(own); err != nil {
		return "", err
	}
	if err == nil {
		return "", h.forget(round)
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	all, err := os.ReadFile(h.file(round, "end"))
	if err != nil || bytes.Equal(all, []byte(what)) {
		return "", err
	}
	return string(all), nil
}

// forget notes that a round has ended, and removes the files of one that has long ago.
func (h *Hall) forget(round uint64) error {
	h.mu.Lock()
	h.ended = append(h.ended, round)
	if len(h.ended) <= manyRounds {
		h.mu.Unlock()
		return nil
	}
	old := h.ended[0]
	h.ended = slices.Delete(h.ended, 0, 1)
	h.mu.Unlock()
	files, err := filepath.Glob(h.file(old, "*")) // with those of members that were killed
	for _, file := range files {
		if removing := os.Remove(file); !errors.Is(removing, fs.ErrNotExist) { // its worker may do so, too
			err = errors.Join(err, removing)
		}
	}
	return err
}

// Kept reports whether the node at path, which is left, is one that a barrier keeps: its record,
// its directory, or the node of a member that has left a round. Only paths below one that begins
// with barrier can be such nodes; if that is empty, all can.
func Kept(node, barrier string) bool {
	return !strings.HasPrefix(path.Base(node), "in-") && strings.Contains(node, "/"+barrier)
}
