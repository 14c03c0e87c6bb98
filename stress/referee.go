// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A referee judges the entries of one process into one lock. It knows nothing
// of ZooKeeper and believes nothing that the lock says: it asks the operating
// system, with flock(2) on a file that all processes of the run share, whether
// another process is inside, and it looks whether the fencing tokens, which the
// same file remembers, rise.
//
// # Why it raises no false alarm
//
// The flock belongs to the process, as the lock does: the first goroutine that
// enters takes it and the last one that leaves gives it back, counted by inside
// under mu. A worker enters after it has its hold and leaves before it gives the
// hold up. So whenever the process has the flock, one of its workers is between
// those two, and its hold keeps the round, and with it the lock's node, alive.
// If the lock works, another process gets its grant after that node is gone,
// which is after the Release of the last hold of the round, which comes after
// the last leave; and a flock that has been given back is free at once. So it
// finds the flock free.
//
// A worker of the next round of this same process may enter while one of the
// last round still stands between leave and Release, or before: only inside
// counts, the flock is the process's and does not care about rounds. It may
// also find somebody of an earlier round still inside, whose round was lost and
// who has not noticed yet. That is no matter between processes, and so no
// violation; but it is one if that round was not lost, since then this process
// was granted the lock twice at once. The entries are counted by token for that
// reason: each token is a round, and each has the Lost channel that tells.
//
// The token is compared on the first entry of each round, while the process has
// the flock, so that nobody else reads or writes the file at that time. The same
// token in the file is fine if this process wrote it: everybody of that round
// had left for a moment, and some were yet to come.
//
// # What it does catch
//
// Two processes inside at once, whatever the reason; a process that enters with
// a token which is lower than that of somebody who was inside before it, even if
// nobody is inside now (it was paused, say, or the lock was handed on twice);
// two processes with one token. A process that was paused and did not notice
// that it had lost the lock is no excuse: that is an overlap, and counts.
type referee struct {
	lock   string // its name, for reports
	pid    int
	file   *os.File
	report func(violation)

	mu     sync.Mutex             // protects what follows; held across the calls to the file, which do not block
	inside int                    // workers of this process, of whatever round
	locked bool                   // this process has the flock; false while inside > 0 only after a refusal
	rounds map[uint64]*attendance // by token, those with somebody inside
}

// attendance is the workers of one round that are inside.
type attendance struct {
	inside int
	lost   <-chan struct{} // closed when the round was lost
}

// A violation is what no run may have.
type violation struct {
	Kind  violationKind `json:"kind"`
	Lock  string        `json:"lock"`
	Time  time.Time     `json:"time"`
	PID   int           `json:"pid"`   // who entered
	Token uint64        `json:"token"` // with which fencing token
	// What the lock's file said: the last process that entered properly, and
	// its token.
	OtherPID   int    `json:"other_pid"`
	OtherToken uint64 `json:"other_token"`
}

type violationKind string

const (
	// Two processes are inside at once.
	overlap violationKind = "overlap"
	// A process enters with a lower token than that of an earlier entry.
	tokenFell violationKind = "token fell"
	// Two processes enter with the same token.
	tokenShared violationKind = "token shared"
	// One process has two rounds of one lock at once, and neither is lost.
	twoRounds violationKind = "two rounds"
)

// String says for a person what happened.
func (v violation) String() string {
	var what string
	switch v.Kind {
	case overlap:
		// The file may not have been written yet by who is inside.
		what = fmt.Sprintf("pid %d entered with token %d while another process was inside; the last entry noted is that of pid %d with token %d", v.PID, v.Token, v.OtherPID, v.OtherToken)
	case tokenFell:
		what = fmt.Sprintf("pid %d entered with token %d after pid %d had entered with token %d, which is higher", v.PID, v.Token, v.OtherPID, v.OtherToken)
	case tokenShared:
		what = fmt.Sprintf("pid %d entered with token %d, which pid %d has too", v.PID, v.Token, v.OtherPID)
	case twoRounds:
		what = fmt.Sprintf("pid %d entered with token %d while its own round with token %d was inside and not lost", v.PID, v.Token, v.OtherToken)
	}
	return fmt.Sprintf("%s: %s on lock %q: %s", v.Time.Format("15:04:05.000000"), v.Kind, v.Lock, what)
}

// newReferee returns a referee of the named lock, whose file at path is made if
// need be. Each process has one per lock. report is called with mu held.
func newReferee(lock, path string, report func(violation)) (*referee, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the referee's file of lock %q: %w", lock, err)
	}
	return &referee{lock: lock, pid: os.Getpid(), file: f, report: report, rounds: map[uint64]*attendance{}}, nil
}

// close gives the file back. Nobody may be inside.
func (r *referee) close() error { return r.file.Close() }

// enter notes that a worker of this process begins work under the lock, by a
// hold whose grant has the token and whose Lost channel is given. The worker
// calls leave when it has stopped, which must be before it releases the hold.
// An error means that the referee itself could not do its work.
//
// There are only exclusive locks here. Readers would take the flock shared and
// compare their token with the writers' only.
func (r *referee) enter(token uint64, lost <-chan struct{}) (leave func() error, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	round := r.rounds[token]
	if round == nil {
		if err := r.judge(token); err != nil {
			return nil, err
		}
		round = &attendance{lost: lost}
		r.rounds[token] = round
	}
	round.inside++
	r.inside++
	return func() error { return r.leave(token, round) }, nil
}

// leave takes one worker of a round out.
func (r *referee) leave(token uint64, round *attendance) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if round.inside--; round.inside == 0 {
		delete(r.rounds, token)
	}
	if r.inside--; r.inside == 0 && r.locked {
		r.locked = false
		return r.wrap("unlock", funlock(r.file))
	}
	return nil
}

// judge looks at the first entry of a round. The caller holds mu.
func (r *referee) judge(token uint64) error {
	v := violation{Lock: r.lock, Time: time.Now(), PID: r.pid, Token: token}
	for other, round := range r.rounds {
		select {
		case <-round.lost:
		default:
			v.Kind, v.OtherPID, v.OtherToken = twoRounds, r.pid, other
			r.report(v)
		}
	}
	if !r.locked {
		// After a refusal the workers of that round go in without the flock,
		// and leave without it; the next round tries again.
		var err error
		if r.locked, err = flock(r.file); err != nil {
			return r.wrap("lock", err)
		}
	}
	var err error
	v.OtherPID, v.OtherToken, err = r.read()
	switch {
	case !r.locked:
		// The file is the other's, who may be writing it now: what we read is
		// for the report only.
		v.Kind = overlap
		r.report(v)
		return nil
	case err != nil:
		return r.wrap("read", err)
	case token < v.OtherToken:
		v.Kind = tokenFell
		r.report(v)
		return nil // the file keeps the highest token
	case token == v.OtherToken && v.OtherPID != r.pid:
		v.Kind = tokenShared
		r.report(v)
	}
	return r.wrap("write", r.write(token))
}

// The file has one line of fixed length, so that writing it anew leaves nothing
// behind: the process that entered last, and its token.
const recordFormat = "pid %10d token %20d\n"

func (r *referee) write(token uint64) error {
	_, err := r.file.WriteAt(fmt.Appendf(nil, recordFormat, r.pid, token), 0)
	return err
}

// read returns what the file says; zeros if nobody has written it yet.
func (r *referee) read() (pid int, token uint64, err error) {
	b := make([]byte, len(fmt.Sprintf(recordFormat, 0, 0)))
	switch n, err := r.file.ReadAt(b, 0); {
	case n == 0 && errors.Is(err, io.EOF):
		return 0, 0, nil
	case n < len(b):
		return 0, 0, err
	}
	_, err = fmt.Sscanf(string(b), "pid %d token %d\n", &pid, &token)
	return pid, token, err
}

func (r *referee) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the referee cannot %s its file of lock %q: %w", what, r.lock, err)
}
