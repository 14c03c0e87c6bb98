// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// A session is one client's session. Server.mu protects all of it.
type session struct {
	id      int64
	timeout time.Duration // negotiated at the last connect
	conn    *conn         // the connection that it is attached to, or nil
	touched time.Time     // when the client was last heard of
	bucket  int64         // the tick at which it expires unless touched again

	// The session is over, but its connection, which lags, has not learned of
	// it: it is still there, and answered from the past.
	over bool
}

// passwordLen is the length of a session's password.
const passwordLen = 16

// password returns the proof that a client may resume the session: as in the
// real server it is computed from the id and a secret, not stored.
func (s *Server) password(session int64) []byte {
	b := binary.BigEndian.AppendUint64(s.secret[:len(s.secret):len(s.secret)], uint64(session))
	sum := sha256.Sum256(b)
	return sum[:passwordLen]
}

// newSessionID returns the id of a new session: the server's number in the
// high byte, below it the server's starting time, to which each session adds
// one. So ids of different servers and of successive ones differ.
func (s *Server) newSessionID() int64 {
	s.lastSession++
	return s.lastSession
}

func firstSessionID(server uint8, now time.Time) int64 {
	return int64(uint64(server)<<56 | uint64(now.UnixMilli())<<24>>8)
}

// negotiate moves the timeout that a client asks for into the bounds.
func (c Config) negotiate(asked time.Duration) time.Duration {
	return min(max(asked, c.MinSessionTimeout), c.MaxSessionTimeout)
}

// openSession makes a session, as one transaction.
func (s *Server) openSession(timeout time.Duration) *session {
	tx := s.begin(administrator, 0)
	sess := &session{id: s.newSessionID(), timeout: timeout, bucket: noBucket}
	s.sessions[sess.id] = sess
	s.touch(sess)
	s.commit(tx)
	return sess
}

// endSession ends a session as one transaction, with a single zxid: its
// ephemeral nodes go, and those who watch them are told. If its client has not
// asked for it, its connection is closed, after what is queued for it, as soon
// as its view has come that far.
func (s *Server) endSession(sess *session, asked bool) {
	delete(s.sessions, sess.id)
	s.expiry.remove(sess)
	sess.over = true
	tx := s.begin(administrator, sess.id)
	if !asked {
		tx.ends = sess
	}
	for _, n := range s.lead.tree.owned(sess.id) {
		tx.remove(n)
	}
	s.commit(tx)
}
