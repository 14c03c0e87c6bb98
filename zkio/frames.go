// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// frameStep is how much memory a frame gets at a time: a length can be false.
	frameStep = 64 << 10
	// keepFrame is the largest buffer that is kept from one frame to the next.
	keepFrame = 1 << 20
)

var errTooLong = errors.New("too long a frame")

// An overlong says that a frame has n bytes, more than the limit.
type overlong struct {
	n     uint32
	limit int
}

func (o *overlong) Error() string {
	return fmt.Sprintf("%v: a frame of %d bytes, more than the %d that are taken", errTooLong, o.n, o.limit)
}

func (o *overlong) Unwrap() error { return errTooLong }

// frames reads what a server sends, a frame at a time. It is for one goroutine.
type frames struct {
	in    *bufio.Reader
	frame []byte // the buffer of frames
}

func newFrames(r io.Reader) frames { return frames{in: bufio.NewReaderSize(r, 8<<10)} }

// readFrame reads one frame, its length included, into the buffer, where the next one replaces
// it.
func (f *frames) readFrame(limit int) ([]byte, error) {
	if cap(f.frame) > keepFrame {
		f.frame = nil
	}
	var err error
	if f.frame, err = f.readMore(f.frame[:0], 4); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(f.frame)
	if n > uint32(limit) {
		return nil, &overlong{n, limit}
	}
	for rest := int(n); rest > 0; {
		step := min(rest, max(frameStep, len(f.frame)))
		if f.frame, err = f.readMore(f.frame, step); err != nil {
			return nil, err
		}
		rest -= step
	}
	return f.frame, nil
}

// readMore appends the next n bytes to b.
func (f *frames) readMore(b []byte, n int) ([]byte, error) {
	have := len(b)
	if cap(b)-have < n {
		b = append(b, make([]byte, n)...)
	}
	b = b[:have+n]
	_, err := io.ReadFull(f.in, b[have:])
	return b, err
}
