// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// segmentSize is how many bytes a segment has before the next one is begun.
const segmentSize = 8 << 20

// AliveEvery is the time between two [Alive] events of a process.
const AliveEvery = 200 * time.Millisecond

// A Writer writes the events of one process. Each event is in the operating system's hands
// when [Writer.Write] returns: it survives the process, but perhaps not the machine. All
// methods may be called concurrently.
type Writer struct {
	dir string
	source
	size int // of a segment

	// mu is held while a line is written to the file, so that lines are in the order in
	// which their times were taken and a segment is complete when the next one begins.
	// The file is local, and no caller waits for anything else.
	mu      sync.Mutex
	file    *os.File // nil once the writer is closed
	number  int      // of the segment
	written int      // bytes in it
}

// Create begins to write the events of a process: of a worker process that has been
// started incarnation times before, of [Harness], or of [Register]. The history must have
// a header, and the process in this incarnation no events.
func Create(dir string, process, incarnation int) (*Writer, error) {
	w := &Writer{dir: dir, source: source{process, incarnation}, size: segmentSize}
	if err := w.next(); err != nil {
		return nil, err
	}
	return w, nil
}

// next begins the next segment. The caller has w.mu, or w to itself.
func (w *Writer) next() error {
	name := segment{w.source, w.number + 1}.in(w.dir)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o666)
	if err != nil {
		return fmt.Errorf("begin a file of events: %w", err)
	}
	old := w.file
	w.file, w.number, w.written = f, w.number+1, 0
	if old != nil {
		return old.Close()
	}
	return nil
}

// Write writes e, by one write(2). If At is 0 it is set to the present time. The Process
// and Incarnation of a worker's events are set; the harness says which process its events
// are about.
func (w *Writer) Write(e Event) error {
	if w.process >= 0 {
		e.Process, e.Incarnation = w.process, w.incarnation
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.At == 0 {
		e.At = Now()
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write an event: %w", err) // no event causes it
	}
	if w.file == nil {
		return fmt.Errorf("write an event of %v: %w", w.source, os.ErrClosed)
	}
	n, err := w.file.Write(append(line, '\n'))
	w.written += n
	if err == nil && w.written >= w.size {
		err = w.next()
	}
	return err
}

// Close ends the writer. What it has written stays.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}
