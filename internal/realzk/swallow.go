// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"bufio"
	"encoding/binary"
	"io"
	"slices"
	"sync"
)

// A forwarder copies one direction of a connection until its end.
type forwarder func(dst io.Writer, src io.Reader) error

// forwardAll copies without changes.
func forwardAll(dst io.Writer, src io.Reader) error {
	_, err := io.Copy(dst, onlyReader{src})
	return err
}

// A swallow is an order to drop a reply.
type swallow struct {
	opcode  int32
	dropped chan struct{} // closed when the reply is dropped
}

// AnyRequest stands for the opcode of every request but pings, which keep a session alive.
const AnyRequest = 0

// opPing is the opcode of a ping.
const opPing = 11

// wants reports whether the order is about requests with the opcode.
func (s swallow) wants(opcode int32) bool {
	return s.opcode == opcode || s.opcode == AnyRequest && opcode != opPing
}

// SwallowReply makes a relay to a server, made by [NewRelay] or [RunRelay], drop the reply
// to the next request with the opcode that any client sends. The connection stays up, and
// other replies pass, those to pings included. The channel is closed when the reply
// has been dropped.
func (r *Relay) SwallowReply(opcode int32) (dropped <-chan struct{}) {
	s := swallow{opcode, make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.swallows = append(r.swallows, s)
	return s.dropped
}

// StopSwallowing takes back the orders of SwallowReply whose request has not come.
func (r *Relay) StopSwallowing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.swallows = nil
}

// clientProtocol returns the forwarders of a client's connection, which carry out the
// orders of SwallowReply.
func (r *Relay) clientProtocol() (requests, replies forwarder) {
	var mu sync.Mutex
	pending := map[int32]swallow{} // by xid; protected by mu
	request := func(frame []byte) bool {
		xid, opcode := int32(binary.BigEndian.Uint32(frame)), int32(binary.BigEndian.Uint32(frame[4:]))
		r.mu.Lock()
		defer r.mu.Unlock()
		if i := slices.IndexFunc(r.swallows, func(s swallow) bool { return s.wants(opcode) }); i >= 0 {
			mu.Lock()
			defer mu.Unlock()
			pending[xid] = r.swallows[i]
			r.swallows = slices.Delete(r.swallows, i, i+1)
		}
		return true
	}
	reply := func(frame []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		xid := int32(binary.BigEndian.Uint32(frame))
		s, swallowed := pending[xid]
		if swallowed {
			delete(pending, xid)
			close(s.dropped)
		}
		return !swallowed
	}
	return forwardFrames(request), forwardFrames(reply)
}

// maxFrame is greater than any frame. A four-letter word has no frames; its letters,
// read as a length, are greater than this.
const maxFrame = 64 << 20

// forwardFrames returns a forwarder of the frames for which pass returns true. Pass
// does not see the first frame of a connection, which is the handshake. What is not a
// frame is forwarded unchanged.
func forwardFrames(pass func(frame []byte) bool) forwarder {
	return func(dst io.Writer, src io.Reader) error {
		in := bufio.NewReader(src)
		for first := true; ; first = false {
			head, err := in.Peek(4)
			if err != nil || binary.BigEndian.Uint32(head) > maxFrame {
				return forwardAll(dst, in) // a shorter rest, or a four-letter word
			}
			frame := make([]byte, 4+binary.BigEndian.Uint32(head))
			if _, err := io.ReadFull(in, frame); err != nil {
				return err
			}
			if first || len(frame) < 4+8 || pass(frame[4:]) {
				if _, err := dst.Write(frame); err != nil {
					return err
				}
			}
		}
	}
}
