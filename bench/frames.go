// SPDX-License-Identifier: Apache-2.0

package main

import "encoding/binary"

// frames finds the frames of ZooKeeper's protocol in a stream that is written to it. Its Write
// never fails.
type frames struct {
	// each gets the beginning of each frame but the first, which is the handshake and has
	// another format. It must not keep it.
	each func(frame []byte)

	began []byte // the beginning of the present frame, its length first
	left  int    // bytes of it that are still to come
	later bool   // it is not the first one
}

// beginning is how much of a frame is passed on at most: the numbers that say what it is come first.
const beginning = 128

func (f *frames) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		if missing := 4 - len(f.began); missing > 0 {
			n := min(missing, len(p))
			f.began, p = append(f.began, p[:n]...), p[n:]
			if len(f.began) < 4 {
				break
			}
			f.left = int(binary.BigEndian.Uint32(f.began))
		}
		n := min(f.left, len(p))
		if room := 4 + beginning - len(f.began); room > 0 {
			f.began = append(f.began, p[:min(n, room)]...)
		}
		p, f.left = p[n:], f.left-n
		if f.left > 0 {
			break
		}
		if f.later {
			f.each(f.began[4:])
		}
		f.began, f.later = f.began[:0], true
	}
	return written, nil
}
