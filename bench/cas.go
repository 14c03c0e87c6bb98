// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// cas is the limit for a lock that its process holds: two compare-and-swaps on a
// word, which increment and decrement it. A single goroutine knows the word's value;
// several must load it first.
type cas struct{}

func (cas) Version() string { return "two bare compare-and-swaps" }

func (cas) Open(context.Context, string) (work.Session, error) { return &casSession{}, nil }

type casSession struct {
	_    [64]byte // alone on its cache line
	word atomic.Uint32
	_    [64]byte
	lost atomic.Uint64

	workers atomic.Int32
}

func (*casSession) Close() error { return nil }

func (*casSession) Locker(string, bool) (work.Locker, error) {
	return nil, fmt.Errorf("%w: it does not exclude", work.ErrUnsupported)
}

func (s *casSession) Reenter(ctx context.Context, _ string, _ bool) (pairs func(int) error, leave func() error, err error) {
	s.workers.Add(1)
	pairs = func(n int) error {
		if s.workers.Load() == 1 {
			n -= s.alone(n)
		}
		lost := 0
		for range n {
			lost += s.add(1) + s.add(^uint32(0))
		}
		if lost > 0 {
			s.lost.Add(uint64(lost))
		}
		return nil
	}
	return pairs, func() error { return nil }, ctx.Err()
}

// alone makes up to n pairs, until it loses a race, and returns how many it made.
func (s *casSession) alone(n int) int {
	for i := range n {
		if !s.word.CompareAndSwap(0, 1) {
			return i
		}
		if !s.word.CompareAndSwap(1, 0) {
			s.add(^uint32(0))
			return i + 1
		}
	}
	return n
}

// add adds d to the word and returns how many races it lost.
func (s *casSession) add(d uint32) (lost int) {
	for {
		w := s.word.Load()
		if s.word.CompareAndSwap(w, w+d) {
			return lost
		}
		lost++
	}
}

func (s *casSession) Lost() uint64 { return s.lost.Load() }
