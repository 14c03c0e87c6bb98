// SPDX-License-Identifier: Apache-2.0

// Package sample has one of everything that an API can have.
package sample

import (
	"context"
	"errors"
	"io"
	"time"
)

const Limit = 1 << 10

const Pause time.Duration = 3 * time.Second

// A Colour counts.
type Colour uint8

const (
	Red Colour = iota
	Green
	blue
)

func (c Colour) String() string { return [...]string{"red", "green", "blue"}[c] }

var ErrEmpty, errHidden = errors.New("empty"), errors.New("hidden")

func Open(ctx context.Context, names ...string) (_ *Box[int], err error) { return nil, errHidden }

func Each[K comparable, V any](m map[K]V, fn func(K, V) bool) {}

func hidden() {}

// A Box is generic.
type Box[T any] struct {
	Value T
	inner
	*Lid
	next *Box[T]
}

func (b *Box[T]) Put(v T) (old T) { return old }
func (b *Box[T]) look() T         { return b.next.Value }

type inner struct {
	Weight int
	height int
}

func (inner) Weigh() int { return inner{}.height }

// A Lid is used as a value.
type Lid struct{ Open, Locked bool }

func (l Lid) Close() error { return nil }

// A Handle promises that it can be compared.
type Handle struct{ id uint64 }

func (h Handle) Valid() bool { return h.id != 0 }

// A Basket cannot be compared.
type Basket struct{ Items []Handle }

type Reader interface {
	io.ReaderAt
	Size() (n int64)
}

type Sealed interface{ sealed() }

type Visit func(h Handle, done <-chan struct{}) error

type Time = time.Time

var _ = hidden
var _ = blue
var _ = (*Box[int]).look
