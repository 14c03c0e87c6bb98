// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// A greeting is a server's answer to a connect request.
type greeting struct {
	frame    []byte // as it came, for go-zookeeper
	id       int64
	timeout  time.Duration
	password []byte // what proves to any server that the session is ours
}

// handshake asks the server for a session, or for ours if there is one, and
// presents the credentials. When it succeeds the server has given what was asked
// for and accepted every credential. An error that wraps ErrSessionOver or
// ErrAuthFailed ends the session. When ctx ends, the connection is closed and
// the error is ctx's.
func (w *wire) handshake(ctx context.Context) (g greeting, err error) {
	stop := context.AfterFunc(ctx, func() { _ = w.raw.Close() })
	defer func() {
		if !stop() {
			err = ctx.Err()
		}
	}()
	w.s.leases.connecting(w.s.client.clock.now())
	w.s.client.stats.sent(opConnect)
	if _, err := w.conn.Write(w.s.connectRequest()); err != nil {
		return g, err
	}
	if g, err = w.greeting(w.s.ID()); err != nil {
		return g, err
	}
	return g, w.authenticate()
}

// connectRequest returns the request to open the session, or to resume it.
func (s *Session) connectRequest() []byte {
	return connectRequest(s.zxid.Load(), Ticket{s.ID(), s.Timeout(), s.password})
}

// connectRequest returns the request to resume the session of t, or to open one if it has none.
// A server refuses it while it has not come as far as the transaction zxid.
func connectRequest(zxid int64, t Ticket) []byte {
	b := jute.AppendInt32(make([]byte, 4, 64), 0) // the protocol's version
	b = jute.AppendInt64(b, zxid)
	b = jute.AppendInt32(b, int32(t.Timeout/time.Millisecond))
	b = jute.AppendInt64(b, t.ID)
	b = jute.AppendBuffer(b, t.Password)
	return jute.Frame(jute.AppendBool(b, false)) // no read-only session
}

// greeting reads the answer to the connect request for the session of id old, or for a new one
// if that is 0.
func (f *frames) greeting(old int64) (g greeting, err error) {
	frame, err := f.readFrame(maxHandshake)
	if errors.Is(err, errTooLong) {
		err = errors.New("the answer is not ZooKeeper's: is this ZooKeeper's client port, and is TLS on at both ends or at neither?")
	}
	if err != nil {
		return g, err
	}
	r := jute.NewReader(frame[4:])
	version := r.Int32()
	g.timeout = time.Duration(r.Int32()) * time.Millisecond
	g.id = r.Int64()
	g.password = append(g.password, r.Buffer()...)
	if err := r.Err(); err != nil {
		return g, err
	}
	g.frame = append(g.frame, frame...)
	switch {
	case g.id == 0 && old == 0:
		return g, fmt.Errorf("%w: the server opened no session", jute.ErrMalformed)
	case version != 0 && (g.id != old || g.timeout > 0): // only servers that are not ZooKeeper have another version
		return g, errNoLeader
	case g.id == 0, old != 0 && g.timeout <= 0: // RaftKeeper says it in the second way
		return g, errSessionExpired
	case old != 0 && g.id != old:
		// Some servers that cannot resume a session open another in its place
		// and do not say so. Nothing is known about the old one's nodes.
		return g, fmt.Errorf("%w: the server answered for session %#x with session %#x", errNotResumable, old, g.id)
	case g.timeout <= 0:
		// go-zookeeper would divide it into a ticker's interval.
		return g, fmt.Errorf("%w: a session timeout of %v", jute.ErrMalformed, g.timeout)
	}
	return g, nil
}

// authenticate presents the credentials and reads the server's verdicts.
func (w *wire) authenticate() error {
	auths := w.s.client.cfg.Auth
	for _, a := range auths {
		w.s.client.stats.sent(jute.OpAuth)
		if _, err := w.conn.Write(a.request()); err != nil {
			return err
		}
	}
	return w.verdicts(auths, w.addr)
}

// request returns the request that presents the credentials.
func (a Auth) request() []byte {
	b := jute.AppendInt32(make([]byte, 4, 64), jute.XidAuth)
	b = jute.AppendInt32(b, jute.OpAuth)
	b = jute.AppendInt32(b, 0) // reserved by the protocol
	b = jute.AppendString(b, a.Scheme)
	return jute.Frame(jute.AppendBuffer(b, a.Data))
}

// verdicts reads what the server at addr says to each of these credentials.
func (f *frames) verdicts(auths []Auth, addr string) error {
	for _, a := range auths {
		switch xid, code, err := f.header(); {
		case err != nil:
			return err
		case xid != jute.XidAuth:
			return fmt.Errorf("%w: xid %d where the answer to credentials was due", jute.ErrMalformed, xid)
		case code != jute.ErrOK:
			return fmt.Errorf("%w: %s refused the credentials of scheme %q", ErrAuthFailed, addr, a.Scheme)
		}
	}
	return nil
}

// header reads an answer that is nothing but a header.
func (f *frames) header() (xid, code int32, err error) {
	frame, err := f.readFrame(maxHandshake)
	if err != nil {
		return 0, 0, err
	}
	r := jute.NewReader(frame[4:])
	xid, _, code = r.Int32(), r.Int64(), r.Int32()
	return xid, code, r.Err()
}

// setWatches returns the calls that set again every watch that the server
// is known to have for the session. zxid is the newest transaction that the
// session was told of: where something happened since, the server answers with
// the event that was missed.
//
// If there are watches of children, one more is for those of a node that does not exist: the server
// must answer that it was deleted. One that does not drops such watches, and says nothing.
func setWatches(ws *watches, zxid int64) []*call {
	children := false
	calls := watchCalls(func(fn func(path string, k watchKind)) {
		ws.each(func(path string, k watchKind) {
			children = children || k&childWatch != 0
			fn(path, k)
		})
		if children {
			fn(noSuchNode, childWatch)
		}
	}, zxid)
	if children {
		calls[len(calls)-1].tests = true
	}
	return calls
}

// noSuchNode is the path of a node that no client creates.
const noSuchNode = "/_holdfast_no_such_node_"

// watchCalls returns the calls that set watches: those that each calls fn with.
func watchCalls(each func(fn func(path string, k watchKind)), zxid int64) []*call {
	var calls []*call
	var paths [3][]string // by kind: data, exist, child
	size := 0
	flush := func() {
		if size == 0 {
			return
		}
		b := jute.AppendInt64(make([]byte, 0, size+64), zxid)
		for i := range paths {
			b = jute.AppendStrings(b, paths[i])
			paths[i] = paths[i][:0]
		}
		calls, size = append(calls, &call{op: jute.OpSetWatches, xid: jute.XidSetWatches, body: b}), 0
	}
	each(func(path string, k watchKind) {
		if size > 0 && size+3*(4+len(path)) > rearmFrame-64 {
			flush()
		}
		for i, kind := range [...]watchKind{dataWatch, existWatch, childWatch} {
			if k&kind != 0 {
				paths[i] = append(paths[i], path)
				size += 4 + len(path)
			}
		}
	})
	flush()
	return calls
}
