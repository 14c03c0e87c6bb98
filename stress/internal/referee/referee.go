// SPDX-License-Identifier: Apache-2.0

// Package referee judges by the operating system's file locks, and by fencing tokens, whether
// a lock lets two processes in at once. It knows nothing of ZooKeeper, nor of the history of
// the run.
package referee

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/flock"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// A Referee judges the entries of one process into one lock. It knows nothing of
// ZooKeeper and trusts nothing that the lock says. It asks the operating system,
// by flock(2) on a file that all processes of the run share, whether another
// process is inside, and it checks that the fencing tokens, of which the file
// records the highest, rise.
//
// # Why there are no false alarms
//
// The flock belongs to the process, as the lock does. The first worker that
// enters takes it and the last that leaves releases it; writers and readers count
// them, under mu. A worker enters after it was granted its hold and leaves before
// it releases the hold. So while the process has the flock, one of its workers has
// a hold, which keeps the lock's node alive. A correct lock grants another process
// only after that node is gone, which is after the release of the last hold, which
// is after the last worker left and the flock was released. So that process finds
// the flock free.
//
// A worker of the process's next round may enter before the last workers of the
// present one have left or released: rounds do not matter to the flock. Workers of
// an earlier round that was lost may also still be inside, because they have not
// noticed. Between processes that is harmless. But if the earlier round was not
// lost, the process was granted the lock twice at once, which is a violation. That
// is why entries are counted by token: a token identifies a round, and each round
// has a Lost channel.
//
// Tokens are compared at the first entry of a round, while the process has the
// flock, so no other process reads or writes the file then. An equal token is
// correct if the process itself wrote it: all workers of a round can be outside
// for a moment before others of it enter.
//
// # Readers and writers
//
// In a read/write lock, processes may read together, and a process may read and
// write at once: its readers enter beside its writer and remain after the writer
// has left, which is a downgrade; while they are inside, another worker may enter
// the same write round again. So the flock that the process needs changes between
// shared and exclusive while workers are inside. But converting an flock releases
// it before taking it again. In the gap another process could enter unseen, or
// could take an flock because of which ours is refused, and the wrong process
// would be blamed. Hence two files:
//
//   - A process with a writer inside has an exclusive flock on the lock's file, as
//     above. It is never converted.
//   - A process with readers inside has a shared flock on the readers' file. A
//     process with a writer makes it exclusive, having the lock's file first.
//
// A writer takes the lock's file, then the readers' file, and releases them in the
// opposite order; if readers of its process remain, it makes the flock on the
// readers' file shared before it releases the lock's file. A reader whose process
// has neither takes the lock's file shared, then the readers' file, and releases
// the lock's file at once. So the readers' file is converted only by a process
// that has the lock's file exclusively, and any process that arrives in the gap is
// refused the lock's file. No overlap is missed: of a reader and a writer in two
// processes, the one that first took the lock's file kept it until it had the
// readers' file in the mode it needs, so the other is refused one of the two. And
// there is no false alarm, for the same reason as above: a process has flocks only
// while one of its workers has a hold. That includes the brief shared flock on the
// lock's file. It conflicts only with exclusive ones, and with a correct lock no
// other process holds an exclusive flock then, even briefly.
//
// Tokens of writers rise. A reader's token is higher than that of any earlier
// writer, or, after a downgrade, equal to that of a writer of its own process. A
// writer's token is higher than that of any earlier reader, except readers of its
// own process that downgraded. Readers may record tokens at the same time, so each
// process has its own line in the readers' file. Only writers read them, and a
// writer is alone.
//
// # Upgradable reads
//
// A process with an upgradable read is a reader with, in addition, an exclusive flock on a
// third file, which a referee of its own judges: only one process has such a read at a time.
// When it upgrades, it is also a writer, with the same token: to the files that is the
// reader and the writer of one process, as above, in the other order. Between an upgrade and
// the downgrade no other process has a hold, so the conversion of the readers' file raises no
// false alarm. The token of an upgraded read is compared with those of other writers only,
// because readers that came after it may have entered before it upgraded.
//
// # What is detected
//
// Two processes inside at once, for any reason; a process that enters with a lower
// token than an earlier entry, even if all others have left (it was paused, say,
// while the lock changed hands twice); two processes with the same token. A process
// that was paused and has not noticed that it lost the lock is not excused here: that is
// an overlap. All of this between readers and writers, too. In a run with faults the judge of
// the history knows who was paused, and decides.
type Referee struct {
	lock    string // name
	process int    // number, and that of its line in readersFile
	pid     int
	report  func(Violation)

	// Alone says that the lock is a mutex: two workers of the process must not be inside
	// together. Each turn counts as a round of its own, even if it was lost: the next one
	// begins when its worker has released it.
	Alone bool

	// Apart says that each reader is a round of its own, also beside others of its process: they
	// are those of another library's lock, and do not share what the process has.
	Apart bool

	mu          sync.Mutex         // protects the fields below; held during calls to the files, which do not block
	file        *os.File           // the lock's file
	readersFile *os.File           // nil before the first entry into a read/write lock
	readersPath string             // of readersFile
	third       *Referee           // of the upgradable reads among themselves; nil before the first
	thirdPath   string             // of its file
	writers     int                // workers inside with the exclusive or the write lock, of all rounds
	readers     int                // workers inside with the read lock, of all rounds
	locked      bool               // the process has the flock on file; false while writers > 0 only after a refusal
	reading     flock.Mode         // the process's flock on readersFile
	rounds      map[roundID]*round // with workers inside
	occupancy   occupancy
}

// roundID identifies a round. A read round that began as a downgrade has the
// token of the write round.
type roundID struct {
	kind  manager.Kind
	token uint64
	turn  uint64 // of a mutex
}

// A round is one with workers inside.
type round struct {
	inside int             // number of them
	lost   <-chan struct{} // closed if the round was lost
}

// New returns the referee of a process for the named lock. It creates the
// files, at path and beside it, if they do not exist. It calls report with mu held.
func New(lock, path string, process int, report func(Violation)) (*Referee, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the referee's file of lock %q: %w", lock, err)
	}
	return &Referee{
		lock: lock, process: process, pid: os.Getpid(), report: report,
		file: f, readersPath: path + ".readers", thirdPath: path + ".upgradable", rounds: map[roundID]*round{},
	}, nil
}

// Close closes the files. No worker may be inside.
func (r *Referee) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.file.Close()
	if r.readersFile != nil {
		err = errors.Join(err, r.readersFile.Close())
	}
	if r.third != nil {
		err = errors.Join(err, r.third.Close())
	}
	return err
}

// Enter records and judges that a worker enters with a hold of the given kind,
// token and Lost channel. The worker must call leave before it releases the hold.
// An error is one of the referee itself.
func (r *Referee) Enter(kind manager.Kind, token uint64, lost <-chan struct{}) (leave func() error, err error) {
	return r.EnterTurn(kind, token, 0, lost)
}

// EnterTurn is Enter with the turn of a mutex, or 0.
func (r *Referee) EnterTurn(kind manager.Kind, token, turn uint64, lost <-chan struct{}) (leave func() error, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	leaveThird := func() error { return nil }
	if kind == manager.KindUpgradable {
		if leaveThird, err = r.enterThird(token, lost); err != nil {
			return nil, err
		}
	}
	id := roundID{kind, token, turn}
	in := r.rounds[id]
	if in == nil {
		mode := kind.String()
		if kind == manager.KindWrite && r.rounds[roundID{kind: manager.KindUpgradable, token: token}] != nil {
			mode = Upgraded
		}
		if err := r.judge(id, mode); err != nil {
			return nil, err
		}
		in = &round{lost: lost}
		r.rounds[id] = in
	}
	in.inside++
	r.occupancy.enter(token, time.Now())
	if reads(kind) {
		r.readers++
	} else {
		r.writers++
	}
	return func() error { return errors.Join(r.leave(id, in), leaveThird()) }, nil
}

// ThirdMark is what the name of a lock gets at the end in the violations that the referee of
// its upgradable reads reports.
const ThirdMark = " (upgradable reads)"

// reads reports whether the kind is one of which several processes can be inside together.
func reads(kind manager.Kind) bool {
	return kind == manager.KindRead || kind == manager.KindUpgradable
}

// enterThird is enter with the upgradable read, as far as it excludes other upgradable
// reads. The caller holds mu.
func (r *Referee) enterThird(token uint64, lost <-chan struct{}) (leave func() error, err error) {
	if r.third == nil {
		if r.third, err = New(r.lock+ThirdMark, r.thirdPath, r.process, r.report); err != nil {
			return nil, err
		}
	}
	return r.third.Enter(manager.KindExclusive, token, lost)
}

// leave records that a worker of the round leaves.
func (r *Referee) leave(id roundID, in *round) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.occupancy.leave(time.Now())
	if in.inside--; in.inside == 0 {
		delete(r.rounds, id)
	}
	if reads(id.kind) {
		r.readers--
	} else {
		r.writers--
	}
	return r.unlock()
}

// unlock releases the flocks that no worker needs any more.
func (r *Referee) unlock() error {
	if r.writers > 0 {
		return nil // they need the flocks, if the process has them
	}
	// The readers' file comes first, as explained above.
	want := flock.None
	if r.readers > 0 {
		want = min(r.reading, flock.Shared)
	}
	if _, err := r.readAs(want); err != nil {
		return err
	}
	if r.locked {
		r.locked = false
		return r.wrap("unlock", flock.Unlock(r.file))
	}
	return nil
}

// Held returns how long this process has used the lock.
func (r *Referee) Held() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.occupancy.total(time.Now())
}

// readAs tries to change the flock on the readers' file to the wanted mode.
func (r *Referee) readAs(want flock.Mode) (granted bool, err error) {
	switch {
	case want == r.reading:
		return true, nil
	case want == flock.None:
		r.reading = flock.None
		return true, r.wrap("unlock", flock.Unlock(r.readersFile))
	}
	if granted, err = flock.Lock(r.readersFile, want); err != nil {
		return false, r.wrap("lock", err)
	}
	r.reading = flock.None // a refused conversion has released the old flock
	if granted {
		r.reading = want
	}
	return granted, nil
}

// judge judges the first entry of a round. The caller holds mu.
func (r *Referee) judge(id roundID, mode string) error {
	v := Violation{Lock: r.lock, Mode: mode, Process: r.process, PID: r.pid, Token: id.token, Turn: id.turn}
	for other, in := range r.rounds {
		if r.Alone {
			v.Kind, v.OtherPID, v.OtherToken, v.OtherTurn = history.SeenTwoTurns, r.pid, other.token, other.turn
			r.tell(v)
			continue
		}
		if other.kind != id.kind && other.token == id.token {
			continue // a downgrade, or an upgrade
		}
		if (other.kind != id.kind || r.Apart) && reads(other.kind) && reads(id.kind) {
			continue // a reader beside an upgradable read, or beside another one
		}
		select {
		case <-in.lost:
		default:
			v.Kind, v.OtherPID, v.OtherToken = history.SeenTwoRounds, r.pid, other.token
			r.tell(v)
		}
	}
	if id.kind != manager.KindExclusive && r.readersFile == nil {
		var err error
		if r.readersFile, err = os.OpenFile(r.readersPath, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return r.wrap("open", err)
		}
	}
	if reads(id.kind) {
		return r.judgeReader(v)
	}
	return r.judgeWriter(v, id.kind == manager.KindWrite)
}

// tell reports a violation, which has been seen by now: what the other process has written into
// the history before it could be seen has an earlier time.
func (r *Referee) tell(v Violation) {
	v.Time, v.At = time.Now(), history.Now()
	r.report(v)
}

// judgeWriter judges an entry with the exclusive or, if readers is set, the write
// lock.
func (r *Referee) judgeWriter(v Violation, readers bool) error {
	granted := r.locked
	if !granted {
		// After a refusal the workers of the round are inside without the
		// flock. The next round tries again.
		var err error
		if granted, err = flock.Lock(r.file, flock.Exclusive); err != nil {
			return r.wrap("lock", err)
		}
		r.locked = granted
	}
	if granted && readers {
		var err error
		if granted, err = r.readAs(flock.Exclusive); err != nil {
			return err
		}
		if !granted && r.readers > 0 {
			// Our own readers are inside and need what they had.
			if _, err = r.readAs(flock.Shared); err != nil {
				return err
			}
		}
	}
	last, err := get(r.file, 0)
	v.other(last)
	if !granted {
		// The other process may be writing the file now, so what we read is
		// for the report only, and its error does not matter.
		v.Kind = history.SeenOverlap
		r.tell(v)
		return nil
	}
	if err != nil {
		return r.wrap("read", err)
	}
	if !r.compare(&v) {
		return nil // the file keeps the highest token
	}
	if readers && r.rounds[roundID{kind: manager.KindUpgradable, token: v.Token}] == nil {
		top, err := r.highestReader()
		if err != nil {
			return r.wrap("read", err)
		}
		v.other(top)
		r.compare(&v)
	}
	return r.wrap("write", put(r.file, 0, record{uint64(r.pid), v.Token, v.Turn}))
}

// compare compares v's token with the other one, which must be lower, or equal and
// of the same process. It reports false if the token fell.
func (r *Referee) compare(v *Violation) bool {
	switch {
	case v.Token < v.OtherToken, v.Token == v.OtherToken && v.Turn < v.OtherTurn:
		v.Kind = history.SeenTokenFell
		r.tell(*v)
		return false
	case v.Token == v.OtherToken && v.OtherPID != r.pid:
		v.Kind = history.SeenTokenShared
		r.tell(*v)
	}
	return true
}

// judgeReader judges an entry with the read lock.
func (r *Referee) judgeReader(v Violation) error {
	granted := true
	if !r.locked && r.reading == flock.None {
		var err error
		if granted, err = flock.Lock(r.file, flock.Shared); err != nil {
			return r.wrap("lock", err)
		}
		if granted {
			if granted, err = r.readAs(flock.Shared); err != nil {
				return err
			}
			if err = flock.Unlock(r.file); err != nil {
				return r.wrap("unlock", err)
			}
		}
	} else if r.reading == flock.None {
		// Our own writer is inside, and was refused the readers' file.
		var err error
		if granted, err = r.readAs(flock.Shared); err != nil {
			return err
		}
	}
	last, err := get(r.file, 0)
	v.other(last)
	switch {
	case !granted:
		v.Kind = history.SeenOverlap
		r.tell(v)
		return nil
	case err != nil:
		return r.wrap("read", err)
	}
	if !r.compare(&v) {
		return nil
	}
	return r.wrap("write", r.writeReader(v.Token))
}

// A record is of an entry: the process, its token, and its turn. The lock's file has one, of
// the process that entered last as a writer. The readers' file has one for each process, with
// the highest token of its readers. Records have a fixed length, so that one overwrites
// another. One that was never written, before others, consists of zeros.
type record struct{ PID, Token, Turn uint64 }

var recordLength = binary.Size(record{})

// put writes a record into a file, as the nth.
func put(f *os.File, n int, x record) error {
	b, err := binary.Append(nil, binary.LittleEndian, x)
	if err == nil {
		_, err = f.WriteAt(b, int64(n*recordLength))
	}
	return err
}

// get reads the nth record of a file, or zeros if there is none yet.
func get(f *os.File, n int) (x record, err error) {
	b := make([]byte, recordLength)
	if read, err := f.ReadAt(b, int64(n*recordLength)); read < len(b) && (read > 0 || !errors.Is(err, io.EOF)) {
		return x, err
	}
	_, err = binary.Decode(b, binary.LittleEndian, &x)
	return x, err
}

// writeReader records a reader's token, if it is higher than the recorded one.
func (r *Referee) writeReader(token uint64) error {
	last, err := get(r.readersFile, r.process)
	if err != nil || last.Token >= token { // the same round again, or a lost one
		return err
	}
	return put(r.readersFile, r.process, record{uint64(r.pid), token, 0})
}

// highestReader returns the record with the highest token of a reader. If several processes
// have had that token, it returns that of another than r's own.
func (r *Referee) highestReader() (top record, err error) {
	info, err := r.readersFile.Stat()
	if err != nil {
		return top, err
	}
	for n := range int(info.Size()) / recordLength {
		x, err := get(r.readersFile, n)
		if err != nil {
			return top, err
		}
		if x.Token > top.Token || x.Token == top.Token && top.PID == uint64(r.pid) {
			top = x
		}
	}
	return top, nil
}

// other notes which entry v is compared with.
func (v *Violation) other(x record) {
	v.OtherPID, v.OtherToken, v.OtherTurn = int(x.PID), x.Token, x.Turn
}

func (r *Referee) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the referee failed to %s its file of lock %q: %w", what, r.lock, err)
}
