// SPDX-License-Identifier: Apache-2.0

package jute_test

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// TestWire holds every type to its bytes on the wire, in both directions.
func TestWire(t *testing.T) {
	for _, tc := range []struct {
		name string
		wire string
		got  []byte // what encoding gives
		read func(r *jute.Reader) any
		want any // what decoding the wire gives
	}{
		{"int", "\x01\x02\x03\x04", jute.AppendInt32(nil, 0x01020304), func(r *jute.Reader) any { return r.Int32() }, int32(0x01020304)},
		{"int -1", "\xff\xff\xff\xff", jute.AppendInt32(nil, -1), func(r *jute.Reader) any { return r.Int32() }, int32(-1)},
		{"int min", "\x80\x00\x00\x00", jute.AppendInt32(nil, math.MinInt32), func(r *jute.Reader) any { return r.Int32() }, int32(math.MinInt32)},
		{"long", "\x01\x02\x03\x04\x05\x06\x07\x08", jute.AppendInt64(nil, 0x0102030405060708), func(r *jute.Reader) any { return r.Int64() }, int64(0x0102030405060708)},
		{"long min", "\x80\x00\x00\x00\x00\x00\x00\x00", jute.AppendInt64(nil, math.MinInt64), func(r *jute.Reader) any { return r.Int64() }, int64(math.MinInt64)},
		{"true", "\x01", jute.AppendBool(nil, true), func(r *jute.Reader) any { return r.Bool() }, true},
		{"false", "\x00", jute.AppendBool(nil, false), func(r *jute.Reader) any { return r.Bool() }, false},
		{"string", "\x00\x00\x00\x02/a", jute.AppendString(nil, "/a"), func(r *jute.Reader) any { return r.String() }, "/a"},
		{"empty string", "\x00\x00\x00\x00", jute.AppendString(nil, ""), func(r *jute.Reader) any { return r.String() }, ""},
		{"buffer", "\x00\x00\x00\x02xy", jute.AppendBuffer(nil, []byte("xy")), func(r *jute.Reader) any { return r.Buffer() }, []byte("xy")},
		{"empty buffer", "\x00\x00\x00\x00", jute.AppendBuffer(nil, []byte{}), func(r *jute.Reader) any { return r.Buffer() }, []byte{}},
		{"no buffer", "\xff\xff\xff\xff", jute.AppendBuffer(nil, nil), func(r *jute.Reader) any { return r.Buffer() }, []byte(nil)},
		{"strings", "\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x00", jute.AppendStrings(nil, []string{"a", ""}), func(r *jute.Reader) any { return r.Strings() }, []string{"a", ""}},
		{"no strings", "\x00\x00\x00\x00", jute.AppendStrings(nil, nil), func(r *jute.Reader) any { return r.Strings() }, []string(nil)},
		{"frame", "\x00\x00\x00\x02ab", jute.Frame([]byte("....ab")), func(r *jute.Reader) any { return string(r.Buffer()) }, "ab"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if string(tc.got) != tc.wire {
				t.Errorf("encoded as % x, want % x", tc.got, tc.wire)
			}
			r := jute.NewReader([]byte(tc.wire))
			if got := tc.read(r); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("decoded as %#v, want %#v", got, tc.want)
			}
			if r.Err() != nil || r.Len() != 0 {
				t.Errorf("after decoding: error %v, %d bytes left", r.Err(), r.Len())
			}
			// Every shorter input is an error and gives nothing.
			for n := range len(tc.wire) {
				r := jute.NewReader([]byte(tc.wire[:n]))
				got := tc.read(r)
				if !errors.Is(r.Err(), jute.ErrMalformed) {
					t.Errorf("%d bytes of it: error %v, want ErrMalformed", n, r.Err())
				}
				if v := reflect.ValueOf(got); !v.IsZero() {
					t.Errorf("%d bytes of it: decoded as %#v", n, got)
				}
			}
		})
	}
}

// TestNullStrings: what other clients write for a string that is not there.
func TestNullStrings(t *testing.T) {
	null := jute.AppendInt32(nil, -1)
	r := jute.NewReader(null)
	for range 2 { // it takes nothing
		if !r.Null() {
			t.Error("Null = false at a null string")
		}
	}
	if s := r.String(); s != "" || r.Err() != nil || r.Len() != 0 {
		t.Errorf("null string: %q, %v, %d left", s, r.Err(), r.Len())
	}
	if r.Null() {
		t.Error("Null = true at the end")
	}
	if r := jute.NewReader(null); r.Strings() != nil || r.Err() != nil {
		t.Errorf("null vector: %v", r.Err())
	}
	if r := jute.NewReader(jute.AppendString(nil, "a")); r.Null() {
		t.Error("Null = true at a string")
	}
}

// TestHostileLengths: a length that the input cannot hold is refused before
// anything is allocated for it.
func TestHostileLengths(t *testing.T) {
	reads := map[string]func(r *jute.Reader){
		"string":  func(r *jute.Reader) { _ = r.String() },
		"buffer":  func(r *jute.Reader) { r.Buffer() },
		"strings": func(r *jute.Reader) { r.Strings() },
		"count":   func(r *jute.Reader) { r.Count(12) },
	}
	for name, read := range reads {
		for _, n := range []int32{9, math.MaxInt32, -2, math.MinInt32} {
			input := append(jute.AppendInt32(nil, n), "12345678"...)
			r := jute.NewReader(input)
			read(r)
			if !errors.Is(r.Err(), jute.ErrMalformed) {
				t.Errorf("%s of length %d: error %v, want ErrMalformed", name, n, r.Err())
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			read(jute.NewReader(input))
			runtime.ReadMemStats(&after)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20 {
				t.Errorf("%s of length %d: %d bytes allocated", name, n, allocated)
			}
		}
	}
}

// TestStickyError: after the first fault nothing is read any more, so that one
// look at Err is enough.
func TestStickyError(t *testing.T) {
	r := jute.NewReader([]byte("\x00\x00\x00\x09abc\x00\x00\x00\x01"))
	_ = r.String()
	first := r.Err()
	if first == nil {
		t.Fatal("no error")
	}
	if b, i, l, s := r.Byte(), r.Int32(), r.Int64(), r.String(); b != 0 || i != 0 || l != 0 || s != "" || r.Count(1) != 0 || r.Strings() != nil || r.Buffer() != nil {
		t.Error("something was read after an error")
	}
	if r.Err() != first {
		t.Errorf("error changed to %v", r.Err())
	}
}

// TestNoCopy: Rest and Buffer give the input itself, with no room behind it
// that an append could overwrite.
func TestNoCopy(t *testing.T) {
	input := jute.AppendString(jute.AppendBuffer(nil, []byte("abc")), "next")
	r := jute.NewReader(input)
	b := r.Buffer()
	_ = append(b, "overwrite"...)
	if got := r.String(); got != "next" {
		t.Errorf("after appending to a buffer the next string is %q", got)
	}
	b[0] = 'X'
	if input[4] != 'X' {
		t.Error("Buffer is a copy")
	}
	if r := jute.NewReader(input); &r.Rest()[0] != &input[0] {
		t.Error("Rest is a copy")
	}
}

// FuzzReader reads arbitrary input as an arbitrary sequence of types: no
// panic, never more out than in, and what was read encodes to what was there.
func FuzzReader(f *testing.F) {
	f.Add([]byte("islb"), jute.AppendBool(jute.AppendString(jute.AppendInt32(nil, 7), "/a"), true))
	f.Add([]byte("vi"), jute.AppendStrings(nil, []string{"a", "bb", ""}))
	f.Add([]byte("d"), jute.AppendInt32(nil, math.MaxInt32))
	f.Add([]byte("v"), jute.AppendInt32(nil, math.MinInt32))
	f.Add([]byte("c"), []byte{0, 0, 0, 3, 1, 2})
	f.Fuzz(func(t *testing.T, types, input []byte) {
		r := jute.NewReader(input)
		var again []byte // what was read, encoded again
		exact := true    // whether that must equal the input
		for _, typ := range types {
			switch typ {
			case 'b':
				v := r.Byte()
				again = append(again, v)
			case 'i':
				again = jute.AppendInt32(again, r.Int32())
			case 'l':
				again = jute.AppendInt64(again, r.Int64())
			case 's':
				exact = exact && !r.Null() // a null string reads as an empty one
				again = jute.AppendString(again, r.String())
			case 'd':
				again = jute.AppendBuffer(again, r.Buffer())
			case 'v':
				exact = false // null strings in it, and the null vector
				v := r.Strings()
				total := 0
				for _, s := range v {
					total += len(s)
				}
				if total+4*len(v) > len(input) {
					t.Fatalf("%d strings of %d bytes from %d bytes", len(v), total, len(input))
				}
				again = jute.AppendStrings(again, v)
			case 'c':
				exact = false
				if n := r.Count(3); n*3 > len(input) {
					t.Fatalf("%d elements of 3 bytes from %d bytes", n, len(input))
				}
			}
			if r.Err() != nil {
				break
			}
		}
		if err := r.Err(); err != nil {
			if !errors.Is(err, jute.ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		if exact && !bytes.Equal(again, input[:len(input)-r.Len()]) {
			t.Fatalf("read % x, which encodes to % x", input[:len(input)-r.Len()], again)
		}
	})
}

// FuzzStrings: what is encoded is decoded as it was.
func FuzzStrings(f *testing.F) {
	f.Add("/a", "", []byte("data"), int32(-1), int64(1))
	f.Fuzz(func(t *testing.T, a, b string, data []byte, i int32, l int64) {
		wire := jute.AppendInt32(nil, i)
		wire = jute.AppendStrings(wire, []string{a, b})
		wire = jute.AppendBuffer(wire, data)
		wire = jute.AppendInt64(wire, l)
		r := jute.NewReader(wire)
		if got := r.Int32(); got != i {
			t.Errorf("int %d became %d", i, got)
		}
		if got := r.Strings(); !slices.Equal(got, []string{a, b}) {
			t.Errorf("strings %q, %q became %q", a, b, got)
		}
		if got := r.Buffer(); !bytes.Equal(got, data) || (got == nil) != (data == nil) {
			t.Errorf("buffer %q became %q", data, got)
		}
		if got := r.Int64(); got != l {
			t.Errorf("long %d became %d", l, got)
		}
		if r.Err() != nil || r.Len() != 0 {
			t.Errorf("error %v, %d bytes left", r.Err(), r.Len())
		}
	})
}
