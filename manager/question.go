// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// A Question is what Config.OnAsk gets: a question to this process about a lock that it
// holds, which a caller of [Lock.Ask] has put.
type Question struct {
	Lock  *Lock  // the lock that the question is about; nil if it is about a Mutex
	Mutex *Mutex // the mutex that it is about; nil if it is about a Lock

	// Grant is that by which this process held the lock when it read the question. Its
	// Turn is 0, also for a Mutex.
	Grant Grant

	// From describes the process that asks. ZooKeeper vouches for Session, and for
	// Since, which is when the question was put. Host, PID, Label and Endpoint are that
	// process's own words, and nothing proves them. Path is the question's own node;
	// Kind, Sequence and Token mean nothing here.
	From Contender

	Text []byte // the question: 1 byte to 64 KiB
}

// name returns the name of the lock.
func (q Question) name() string {
	if q.Mutex != nil {
		return q.Mutex.Name()
	}
	return q.Lock.Name()
}

// An Answer is what [Lock.Ask] returns: the answer of the process that holds the lock.
type Answer struct {
	From Contender // the contender that was asked

	// The state of the lock in that process when it wrote the answer.
	Phase    state.Phase   // Retained: it holds the lock. Fetching: its turn has come, and it does not know yet
	Holders  int           // callers there that hold the lock
	Waiting  int           // callers there that wait for the next grant
	Held     time.Duration // time since the grant; 0 if it does not hold the lock
	Yielding bool          // newcomers there must let other processes go first: see ErrYielding
	Revoked  bool          // Hold.Revoked has closed there: see Lock.Revoke

	// Reply is what Config.OnAsk returned in that process. It is nil if Err is set, or
	// if the question was empty.
	Reply []byte

	// Err is the text of the error that Config.OnAsk returned, or says why it was not
	// called: it is not set, or the process does not hold the lock any more. It is
	// empty if there was no error. The text comes from another process: quote it.
	Err string
}

// asked is what a question's node says.
type asked struct {
	nodeData               // the asker; Kind is askKind or revokeKind
	Node     string        `json:"node"` // the contender that is asked
	Text     []byte        `json:"text,omitempty"`
	Within   time.Duration `json:"within_ns,omitempty"` // how long the asker waits, from when it asked; 0: no bound
}

const (
	askKind    = "ask"
	revokeKind = "revoke"
)

// answered is what the node says when the holder has answered.
type answered struct {
	Phase    string        `json:"phase"`
	Holders  int           `json:"holders"`
	Waiting  int           `json:"waiting"`
	Held     time.Duration `json:"held_ns"`
	Yielding bool          `json:"yielding"`
	Revoked  bool          `json:"revoked"`
	Reply    []byte        `json:"reply,omitempty"`
	Err      string        `json:"err,omitempty"`
}

// answer returns what the contender from has answered.
func (a *answered) answer(from Contender) Answer {
	phase := state.Free
	for _, p := range []state.Phase{state.Fetching, state.Retained, state.Releasing, state.Released} {
		if p.String() == a.Phase {
			phase = p
		}
	}
	return Answer{
		From: from, Phase: phase, Holders: a.Holders, Waiting: a.Waiting, Held: a.Held,
		Yielding: a.Yielding, Revoked: a.Revoked, Reply: a.Reply, Err: a.Err,
	}
}

// readAnswer returns the answer that data are.
func readAnswer(data []byte) (a answered, err error) {
	if err := json.Unmarshal(data, &a); err != nil || a.Phase == "" && a.Err == "" {
		return a, fmt.Errorf("%w: another client has written this in its place: %q", ErrNoAnswer, cut(string(data)))
	}
	return a, nil
}
