// SPDX-License-Identifier: Apache-2.0

// Package jute encodes and decodes the records of ZooKeeper's client protocol.
//
// Package zkio reads and completes frames with it, and the embedded server in
// package zktest uses it for everything that it reads and sends. Encoding appends
// to a byte slice. Decoding goes through a [Reader], which never panics and never
// allocates more than its input holds, whatever lengths the input claims.
package jute

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is wrapped by every error of a Reader: the input is shorter than it
// claims to be, or claims a length that no record can have.
var ErrMalformed = errors.New("jute: malformed record")

// AppendInt32 appends v, big endian, to b.
func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendInt64 appends v, big endian, to b.
func AppendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendBool appends v as one byte, 0 or 1, to b.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendString appends s, its length first, to b.
func AppendString(b []byte, s string) []byte {
	return append(AppendInt32(b, int32(len(s))), s...)
}

// AppendBuffer appends p, its length first, to b. A nil p has length -1, by which
// the protocol distinguishes "no data" from "empty data".
func AppendBuffer(b, p []byte) []byte {
	if p == nil {
		return AppendInt32(b, -1)
	}
	return append(AppendInt32(b, int32(len(p))), p...)
}

// AppendStrings appends the vector v, its length first, to b.
func AppendStrings(b []byte, v []string) []byte {
	b = AppendInt32(b, int32(len(v)))
	for _, s := range v {
		b = AppendString(b, s)
	}
	return b
}

// Frame sets b's first four bytes to the length of what follows them, and returns
// b. The caller reserves them with make([]byte, 4, n) and appends the record.
func Frame(b []byte) []byte {
	binary.BigEndian.PutUint32(b[:4], uint32(len(b)-4))
	return b
}

// A Reader decodes records. Its error is sticky: after the first fault every
// method returns a zero value, so a caller can decode a whole record and then
// check Err once. A Reader is not safe for concurrent use.
type Reader struct {
	b   []byte
	err error
}

// NewReader returns a Reader of b, which it does not copy.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Err returns the first fault, which wraps ErrMalformed, or nil.
func (r *Reader) Err() error { return r.err }

// Len returns the number of bytes that are left.
func (r *Reader) Len() int { return len(r.b) }

// Rest returns the bytes that are left, not copied.
func (r *Reader) Rest() []byte { return r.b }

// take returns the next n bytes, or nil and a sticky error.
func (r *Reader) take(n int, what string) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.b) {
		r.err = fmt.Errorf("%w: %s wants %d bytes, %d are left", ErrMalformed, what, n, len(r.b))
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if p := r.take(1, "byte"); p != nil {
		return p[0]
	}
	return 0
}

// Bool reads one byte as a truth value.
func (r *Reader) Bool() bool { return r.Byte() != 0 }

// Int32 reads a big-endian int32.
func (r *Reader) Int32() int32 {
	if p := r.take(4, "int"); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

// Int64 reads a big-endian int64.
func (r *Reader) Int64() int64 {
	if p := r.take(8, "long"); p != nil {
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

// String reads a string; the protocol's null string (length -1) reads as "".
func (r *Reader) String() string {
	n := r.Int32()
	if n == -1 {
		return ""
	}
	return string(r.take(int(n), "string"))
}

// Null reports whether the next string, buffer or vector is the protocol's null,
// whose length is -1. It does not consume it.
func (r *Reader) Null() bool {
	return r.err == nil && len(r.b) >= 4 && int32(binary.BigEndian.Uint32(r.b)) == -1
}

// Buffer reads a byte buffer, not copied; length -1 reads as nil.
func (r *Reader) Buffer() []byte {
	n := r.Int32()
	if n == -1 {
		return nil
	}
	return r.take(int(n), "buffer")
}

// Count reads the length of a vector, each of whose elements takes least bytes or
// more. A length that the rest of the input cannot hold is a fault.
func (r *Reader) Count(least int) int {
	n := int(r.Int32())
	if n == -1 || r.err != nil {
		return 0
	}
	if n < 0 || n > len(r.b)/least {
		r.err = fmt.Errorf("%w: vector of %d elements in %d bytes", ErrMalformed, n, len(r.b))
		return 0
	}
	return n
}

// Strings reads a vector of strings.
func (r *Reader) Strings() []string {
	n := r.Count(4)
	if n == 0 {
		return nil
	}
	v := make([]string, 0, n)
	for range n {
		v = append(v, r.String())
	}
	if r.err != nil {
		return nil
	}
	return v
}
