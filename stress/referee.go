// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
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
// # Readers and writers
//
// Of a read/write lock there are two more things to judge. Processes may read
// together, and one process may be reader and writer at once: its readers enter
// beside its writer, and stay when the writer has gone (a downgrade); while they
// are in, another goroutine may enter the same write round once more. So what a
// process has to hold goes from shared to exclusive and back while it is inside.
// But an flock's conversion gives the old one up before it takes the new one, and
// in between another process could come in unseen, or be granted an flock that
// makes ours be refused, which would accuse the wrong one. Therefore there are
// two files:
//
//   - the lock's file has an exclusive flock of the process that has a writer
//     inside, as above, and is never converted;
//   - the readers' file has a shared flock of each process that has readers
//     inside, and the writer's process, which has the first one by then, makes it
//     an exclusive one.
//
// A writer takes the first, then the second, and gives them back in the opposite
// order; if readers of its process stay, the second becomes shared again before
// the first is given back. A reader whose process has neither takes the first one
// shared, for a moment, takes the second, and gives the first back. So the second
// is converted only while the process has the first one exclusively: whoever
// comes during the gap, reader or writer, is refused the first. Nothing is missed:
// of a reader and a writer of two processes, whoever took the lock's file first
// kept it until it had the readers' file in the right way, and the other one is
// refused the one or the other. And there is no false alarm, for the reasons
// above: a process has an flock only while one of its workers has a hold, also
// the one for a moment, which is taken by a worker on its way in; a shared one
// conflicts with exclusive ones only, and of the latter a lock that works has
// none in another process at that time, be it for a moment.
//
// The tokens: those of writers rise. That of a reader is higher than that of any
// earlier writer, or is a writer's of the same process: that is a downgrade. And
// a writer's is higher than those of earlier readers, but for its own process's
// downgraded ones. Readers write their token into the readers' file, each
// process into a line of its own, since they may do so at the same time; only
// writers read it, who are alone.
//
// # What it does catch
//
// Two processes inside at once, whatever the reason; a process that enters with
// a token which is lower than that of somebody who was inside before it, even if
// nobody is inside now (it was paused, say, or the lock was handed on twice);
// two processes with one token. A process that was paused and did not notice
// that it had lost the lock is no excuse: that is an overlap, and counts. All that
// between readers and writers, too.
type referee struct {
	lock    string // its name, for reports
	process int    // its number, which is that of its line in readersFile
	pid     int
	report  func(violation)

	mu          sync.Mutex              // protects what follows; held across the calls to the files, which do not block
	file        *os.File                // the lock's
	readersFile *os.File                // the readers'; nil before a reader or a writer has come
	readersPath string                  // its path
	writers     int                     // workers of this process, of whatever round, under the exclusive or the write lock
	readers     int                     // the same, under the read lock
	locked      bool                    // this process has the lock's file; false while writers > 0 only after a refusal
	reading     flockSort               // what it has of the readers' file
	rounds      map[roundID]*attendance // those with somebody inside
	occupancy   occupancy               // for how long this process had the lock
}

// roundID is a round. A downgraded one has the token of its writer's.
type roundID struct {
	kind  manager.Kind
	token uint64
}

// flockSort is a sort of flock.
type flockSort int

const (
	none flockSort = iota
	shared
	exclusive
)

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
	Mode  string        `json:"mode"`  // exclusive, read or write
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
	// A process enters with a lower token than that of an earlier entry that
	// excludes it.
	tokenFell violationKind = "token fell"
	// Two processes enter with the same token.
	tokenShared violationKind = "token shared"
	// One process has two rounds of one lock at once, neither is lost, and they
	// are not a write round and one that it was downgraded to.
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
	return fmt.Sprintf("%s: %s on lock %q (%s): %s", v.Time.Format("15:04:05.000000"), v.Kind, v.Lock, v.Mode, what)
}

// newReferee returns a referee of the named lock, whose files at path and beside
// it are made if need be. Each process, which is known by its number, has one per
// lock. report is called with mu held.
func newReferee(lock, path string, process int, report func(violation)) (*referee, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the referee's file of lock %q: %w", lock, err)
	}
	return &referee{
		lock: lock, process: process, pid: os.Getpid(), report: report,
		file: f, readersPath: path + ".readers", rounds: map[roundID]*attendance{},
	}, nil
}

// close gives the files back. Nobody may be inside.
func (r *referee) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.file.Close()
	if r.readersFile != nil {
		err = errors.Join(err, r.readersFile.Close())
	}
	return err
}

// enter notes that a worker of this process begins work under the lock, by a
// hold of the given kind whose grant has the token and whose Lost channel is
// given. The worker calls leave when it has stopped, which must be before it
// releases the hold. An error means that the referee itself could not do its
// work.
func (r *referee) enter(kind manager.Kind, token uint64, lost <-chan struct{}) (leave func() error, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := roundID{kind, token}
	round := r.rounds[id]
	if round == nil {
		if err := r.judge(id); err != nil {
			return nil, err
		}
		round = &attendance{lost: lost}
		r.rounds[id] = round
	}
	round.inside++
	r.occupancy.enter(token, time.Now())
	if kind == manager.KindRead {
		r.readers++
	} else {
		r.writers++
	}
	return func() error { return r.leave(id, round) }, nil
}

// leave takes one worker of a round out.
func (r *referee) leave(id roundID, round *attendance) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.occupancy.leave(time.Now())
	if round.inside--; round.inside == 0 {
		delete(r.rounds, id)
	}
	if id.kind == manager.KindRead {
		r.readers--
	} else {
		r.writers--
	}
	if r.writers > 0 {
		return nil // which need what there is; also after a refusal, to keep it simple
	}
	// The readers' file first: see above.
	want := none
	if r.readers > 0 {
		want = min(r.reading, shared)
	}
	if _, err := r.readAs(want); err != nil {
		return err
	}
	if r.locked {
		r.locked = false
		return r.wrap("unlock", funlock(r.file))
	}
	return nil
}

// held returns for how long this process has had the lock.
func (r *referee) held() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.occupancy.total(time.Now())
}

// readAs makes the flock on the readers' file what is wanted, if it is granted.
func (r *referee) readAs(want flockSort) (granted bool, err error) {
	switch {
	case want == r.reading:
		return true, nil
	case want == none:
		r.reading = none
		return true, r.wrap("unlock", funlock(r.readersFile))
	}
	if granted, err = flock(r.readersFile, want); err != nil {
		return false, r.wrap("lock", err)
	}
	r.reading = none // a conversion that was refused has given up the old one
	if granted {
		r.reading = want
	}
	return granted, nil
}

// judge looks at the first entry of a round. The caller holds mu.
func (r *referee) judge(id roundID) error {
	v := violation{Lock: r.lock, Mode: id.kind.String(), Time: time.Now(), PID: r.pid, Token: id.token}
	for other, round := range r.rounds {
		if other.kind != id.kind && other.token == id.token {
			continue // a downgrade
		}
		select {
		case <-round.lost:
		default:
			v.Kind, v.OtherPID, v.OtherToken = twoRounds, r.pid, other.token
			r.report(v)
		}
	}
	if id.kind != manager.KindExclusive && r.readersFile == nil {
		var err error
		if r.readersFile, err = os.OpenFile(r.readersPath, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return r.wrap("open", err)
		}
	}
	if id.kind == manager.KindRead {
		return r.judgeReader(v)
	}
	return r.judgeWriter(v, id.kind == manager.KindWrite)
}

// judgeWriter judges an entry under the exclusive lock or the write lock.
func (r *referee) judgeWriter(v violation, readers bool) error {
	granted := r.locked
	if !granted {
		// After a refusal the workers of that round go in without the flock,
		// and leave without it; the next round tries again.
		var err error
		if granted, err = flock(r.file, exclusive); err != nil {
			return r.wrap("lock", err)
		}
		r.locked = granted
	}
	if granted && readers {
		var err error
		if granted, err = r.readAs(exclusive); err != nil {
			return err
		}
		if !granted && r.readers > 0 {
			// Our own readers are still inside.
			if _, err = r.readAs(shared); err != nil {
				return err
			}
		}
	}
	var err error
	v.OtherPID, v.OtherToken, err = r.read()
	if !granted {
		// The file is the other's, who may be writing it now: what we read is
		// for the report only.
		v.Kind = overlap
		r.report(v)
		return nil
	}
	if err != nil {
		return r.wrap("read", err)
	}
	if !r.compare(&v) {
		return nil // the file keeps the highest token
	}
	if readers {
		pid, token, err := r.highestReader()
		if err != nil {
			return r.wrap("read", err)
		}
		v.OtherPID, v.OtherToken = pid, token
		r.compare(&v)
	}
	return r.wrap("write", r.write(v.Token))
}

// compare compares the token of an entry with the other one that v has, which
// must be lower, or the same process's. It reports whether it is no lower.
func (r *referee) compare(v *violation) bool {
	switch {
	case v.Token < v.OtherToken:
		v.Kind = tokenFell
		r.report(*v)
		return false
	case v.Token == v.OtherToken && v.OtherPID != r.pid:
		v.Kind = tokenShared
		r.report(*v)
	}
	return true
}

// judgeReader judges an entry under the read lock.
func (r *referee) judgeReader(v violation) error {
	granted := true
	if !r.locked && r.reading == none {
		var err error
		if granted, err = flock(r.file, shared); err != nil {
			return r.wrap("lock", err)
		}
		if granted {
			if granted, err = r.readAs(shared); err != nil {
				return err
			}
			if err = funlock(r.file); err != nil {
				return r.wrap("unlock", err)
			}
		}
	} else if r.reading == none {
		// Our own writer is inside, and was refused the readers' file.
		var err error
		if granted, err = r.readAs(shared); err != nil {
			return err
		}
	}
	var err error
	v.OtherPID, v.OtherToken, err = r.read()
	switch {
	case !granted:
		v.Kind = overlap
		r.report(v)
		return nil
	case err != nil:
		return r.wrap("read", err)
	}
	if !r.compare(&v) {
		return nil
	}
	return r.wrap("write", r.writeReader(v.Token))
}

// The lock's file has one line of fixed length, so that writing it anew leaves
// nothing behind: the process that entered last as a writer, and its token. The
// readers' file has such a line for each process, with its highest token.
const recordFormat = "pid %10d token %20d\n"

var recordLength = len(fmt.Sprintf(recordFormat, 0, 0))

func (r *referee) write(token uint64) error {
	_, err := r.file.WriteAt(fmt.Appendf(nil, recordFormat, r.pid, token), 0)
	return err
}

// read returns what the lock's file says; zeros if nobody has written it yet.
func (r *referee) read() (pid int, token uint64, err error) {
	b := make([]byte, recordLength)
	switch n, err := r.file.ReadAt(b, 0); {
	case n == 0 && errors.Is(err, io.EOF):
		return 0, 0, nil
	case n < len(b):
		return 0, 0, err
	}
	return parseRecord(b)
}

// writeReader notes a reader's token in the line of this process.
func (r *referee) writeReader(token uint64) error {
	at := int64(r.process * recordLength)
	b := make([]byte, recordLength)
	if n, err := r.readersFile.ReadAt(b, at); n == len(b) {
		_, last, err := parseRecord(b)
		if err != nil || last >= token { // the same round once more, or one that was lost
			return err
		}
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	_, err := r.readersFile.WriteAt(fmt.Appendf(nil, recordFormat, r.pid, token), at)
	return err
}

// highestReader returns the highest token that a reader has entered with, and
// its process; of two with that token, another process's than this one's.
func (r *referee) highestReader() (pid int, token uint64, err error) {
	b, err := io.ReadAll(io.NewSectionReader(r.readersFile, 0, 1<<62))
	if err != nil {
		return 0, 0, err
	}
	for ; len(b) >= recordLength; b = b[recordLength:] {
		p, t, err := parseRecord(b[:recordLength])
		if err != nil {
			return 0, 0, err
		}
		if t > token || t == token && pid == r.pid {
			pid, token = p, t
		}
	}
	return pid, token, nil
}

// parseRecord reads a line. One that was never written, with others behind it,
// is zeros.
func parseRecord(line []byte) (pid int, token uint64, err error) {
	if line[0] == 0 {
		return 0, 0, nil
	}
	_, err = fmt.Sscanf(string(line), "pid %d token %d\n", &pid, &token)
	return pid, token, err
}

func (r *referee) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the referee cannot %s its file of lock %q: %w", what, r.lock, err)
}
