// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// A session is one client's session. service.mu protects all of it.
type session struct {
	id      int64
	timeout time.Duration // negotiated at the last connect
	conns   []*conn       // its connections
	touched time.Time     // the client's last sign of life
	bucket  int64         // the tick at which it expires without a further sign of life
	owner   *Server       // the one at which it was last opened or resumed; others' requests are refused
	closing bool          // its end has been proposed: it cannot be resumed

	// over is set when the session ends. If its connection lags, the
	// connection stays, and is answered from the past, until its view learns
	// of the end.
	over bool
}

// leave notes that c is none of sess's connections any more.
func (sess *session) leave(c *conn) {
	sess.conns = slices.DeleteFunc(sess.conns, func(other *conn) bool { return other == c })
}

// passwordLen is the length of a session's password.
const passwordLen = 16

// password returns what a client must present to resume the session. As in a
// real server it is not stored, but computed from the id and a secret.
func (s *service) password(session int64) []byte {
	b := binary.BigEndian.AppendUint64(s.secret[:len(s.secret):len(s.secret)], uint64(session))
	sum := sha256.Sum256(b)
	return sum[:passwordLen]
}

// newSessionID returns the id of a new session. Its high byte is the server's
// number; the rest begins at the server's starting time, and each session adds
// one. Ids of different and of successive servers therefore differ.
func (s *Server) newSessionID() int64 {
	s.lastSession++
	return s.lastSession
}

func firstSessionID(server uint8, now time.Time) int64 {
	return int64(uint64(server)<<56 | uint64(now.UnixMilli())<<24>>8)
}

// negotiate moves a requested timeout into the bounds.
func (c Config) negotiate(asked time.Duration) time.Duration {
	return min(max(asked, c.MinSessionTimeout), c.MaxSessionTimeout)
}

// openSession creates a session. The caller commits the transaction.
func (s *Server) openSession(timeout time.Duration) (*session, *txn) {
	tx := s.begin(administrator, 0)
	sess := &session{id: s.newSessionID(), timeout: timeout, bucket: noBucket, owner: s}
	s.sessions[sess.id] = sess
	s.touch(sess)
	return sess, tx
}

// endSession ends a session and deletes its ephemeral nodes. The caller commits the
// transaction. The session's connections are closed, after what is queued for them, once
// their views have come that far.
func (s *service) endSession(sess *session) *txn {
	delete(s.sessions, sess.id)
	s.expiry.remove(sess)
	sess.over = true
	tx := s.begin(administrator, sess.id)
	tx.ends = sess
	for _, n := range s.tree.owned(sess.id) {
		tx.remove(n)
	}
	return tx
}
