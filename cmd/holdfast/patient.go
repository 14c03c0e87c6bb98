// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// A lateWriter writes to standard error without making its caller wait: the reader may be
// stopped, as a pager is, while a program has to be ended. What the reader does not take is
// lost with the process.
type lateWriter struct {
	w io.Writer

	mu      sync.Mutex // protects what follows
	pending [][]byte
	written chan struct{} // closed when nothing is pending; nil if nothing was
}

// Write has p written.
func (l *lateWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, bytes.Clone(p))
	if len(l.pending) == 1 {
		l.written = make(chan struct{})
		go l.drain(l.written) // ends when all is written, or with the process
	}
	return len(p), nil
}

// drain writes what is pending.
func (l *lateWriter) drain(written chan<- struct{}) {
	defer close(written)
	for p := l.first(); p != nil; p = l.next() {
		_, _ = l.w.Write(p) // there is no other way to tell
	}
}

func (l *lateWriter) first() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending[0]
}

// next forgets the first text, which is written, and returns the one after it; nil if there
// is none.
func (l *lateWriter) next() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending = l.pending[1:]; len(l.pending) == 0 {
		return nil
	}
	return l.pending[0]
}

// wait waits a moment until all is written.
func (l *lateWriter) wait() {
	l.mu.Lock()
	written := l.written
	l.mu.Unlock()
	if written == nil {
		return
	}
	select {
	case <-written:
	case <-time.After(100 * time.Millisecond):
	}
}
