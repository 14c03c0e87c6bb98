// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// handshake reads the answer to the connect request, presents the credentials
// and waits for the verdict on each, all within the deadline that the dialer
// set. Only then does go-zookeeper get the answer, so a session that it has is
// one that is authenticated.
func (w *wire) handshake() error {
	frame, err := w.readFrame(maxHandshake)
	if err != nil {
		return err
	}
	r := jute.NewReader(frame[4:])
	r.Int32() // the protocol's version
	timeout := time.Duration(r.Int32()) * time.Millisecond
	id := r.Int64()
	r.Buffer() // the session's password
	if err := r.Err(); err != nil {
		return err
	}
	switch old := w.s.ID(); {
	case id == 0 && old == 0:
		return fmt.Errorf("%w: the server opened no session", jute.ErrMalformed)
	case id == 0:
		w.s.end(errSessionExpired, true)
		return errFenced
	case old != 0 && id != old:
		// Some servers that cannot resume a session open another in its place
		// and do not say so. Nothing is known about the old one's nodes.
		w.s.end(fmt.Errorf("%w: the server answered for session %#x with session %#x", ErrSessionOver, old, id), false)
		return errFenced
	case timeout <= 0:
		// go-zookeeper would divide it into a ticker's interval.
		return fmt.Errorf("%w: a session timeout of %v", jute.ErrMalformed, timeout)
	}
	answer := append([]byte(nil), frame...)
	if err := w.authenticate(); err != nil {
		return err
	}
	if err := w.conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	w.up = true
	frames := w.s.connected(w, id, timeout)
	if len(frames) > 0 {
		w.turn <- struct{}{} // nobody else writes yet; rearm gives it back
		w.s.group.Go(func() { w.rearm(frames) })
	}
	w.s.ready(w)
	w.out = answer
	return nil
}

// authenticate presents the credentials and reads the server's verdicts.
func (w *wire) authenticate() error {
	auths := w.s.client.cfg.Auth
	for _, a := range auths {
		b := jute.AppendInt32(make([]byte, 4, 64), jute.XidAuth)
		b = jute.AppendInt32(b, jute.OpAuth)
		b = jute.AppendInt32(b, 0) // reserved by the protocol
		b = jute.AppendString(b, a.Scheme)
		b = jute.AppendBuffer(b, a.Data)
		w.s.client.stats.sent(jute.OpAuth)
		if err := w.send(jute.Frame(b)); err != nil {
			return err
		}
	}
	for i := 0; i < len(auths); {
		frame, err := w.readFrame(maxHandshake)
		if err != nil {
			return err
		}
		r := jute.NewReader(frame[4:])
		xid, _, code := r.Int32(), r.Int64(), r.Int32()
		switch {
		case r.Err() != nil:
			return r.Err()
		case xid != jute.XidAuth:
			return fmt.Errorf("%w: xid %d where the answer to credentials was due", jute.ErrMalformed, xid)
		case code != jute.ErrOK:
			err := fmt.Errorf("%w: %s refused the credentials of scheme %q", ErrAuthFailed, w.addr, auths[i].Scheme)
			w.s.end(err, false)
			return err
		}
		i++
	}
	return nil
}

// setWatches returns the requests that set again every watch that the server
// is known to have for the session. zxid is the newest transaction that the
// session was told of: where something happened since, the server answers with
// the event that was missed.
func setWatches(ws *watches, zxid int64) [][]byte {
	var frames [][]byte
	var data, exist, child []string
	size := 0
	flush := func() {
		if size == 0 {
			return
		}
		b := jute.AppendInt32(make([]byte, 4, size+64), jute.XidSetWatches)
		b = jute.AppendInt32(b, jute.OpSetWatches)
		b = jute.AppendInt64(b, zxid)
		b = jute.AppendStrings(b, data)
		b = jute.AppendStrings(b, exist)
		b = jute.AppendStrings(b, child)
		frames = append(frames, jute.Frame(b))
		data, exist, child, size = data[:0], exist[:0], child[:0], 0
	}
	ws.each(func(path string, k watchKind) {
		if size > 0 && size+3*(4+len(path)) > rearmFrame-64 {
			flush()
		}
		if k&dataWatch != 0 {
			data = append(data, path)
			size += 4 + len(path)
		}
		if k&existWatch != 0 {
			exist = append(exist, path)
			size += 4 + len(path)
		}
		if k&childWatch != 0 {
			child = append(child, path)
			size += 4 + len(path)
		}
	})
	flush()
	return frames
}
