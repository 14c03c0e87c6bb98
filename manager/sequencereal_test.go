// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"hash/adler32"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

// A txnLog is a transaction log of ZooKeeper's, written by hand: what a server
// has counted in weeks can be had at once.
type txnLog struct {
	bytes []byte
	zxid  int64
}

func newTxnLog() *txnLog {
	b := jute.AppendInt32(nil, 'Z'<<24|'K'<<16|'L'<<8|'G')
	b = jute.AppendInt32(b, 2) // the format's version
	b = jute.AppendInt64(b, 0) // the database's id
	return &txnLog{bytes: b}
}

// append adds a transaction of the given type.
func (l *txnLog) append(op int32, body func(b []byte) []byte) {
	l.zxid++
	b := jute.AppendInt64(nil, 1)                   // the session's id
	b = jute.AppendInt32(b, int32(l.zxid))          // the request's number in it
	b = jute.AppendInt64(b, l.zxid)                 // the transaction
	b = jute.AppendInt64(b, time.Now().UnixMilli()) // its time
	b = body(jute.AppendInt32(b, op))               // and what it does
	l.bytes = jute.AppendInt64(l.bytes, int64(adler32.Checksum(b)))
	l.bytes = jute.AppendBuffer(l.bytes, b)
	l.bytes = append(l.bytes, 'B')
}

// create makes a persistent node. Its parent has counted creates children then.
func (l *txnLog) create(path string, creates int32) {
	l.append(jute.OpCreate, func(b []byte) []byte {
		b = jute.AppendString(b, path)
		b = jute.AppendBuffer(b, nil) // data
		b = jute.AppendInt32(b, 1)    // one entry in its ACL
		b = jute.AppendInt32(b, zkio.PermAll)
		b = jute.AppendString(b, "world")
		b = jute.AppendString(b, "anyone")
		b = jute.AppendBool(b, false) // not ephemeral
		return jute.AppendInt32(b, creates)
	})
}

// delete deletes a node.
func (l *txnLog) delete(path string) {
	l.append(jute.OpDelete, func(b []byte) []byte { return jute.AppendString(b, path) })
}

// countedTo makes a directory whose next child gets the number next.
func (l *txnLog) countedTo(dir string, next int32) {
	l.create(dir, 1)
	l.create(dir+"/seed", next)
	l.delete(dir + "/seed")
}

// start starts a server whose database is what the log says.
func (l *txnLog) start(t *testing.T) *realzk.Server {
	t.Helper()
	realzk.Require(t)
	home := t.TempDir()
	data := filepath.Join(home, "data", "version-2")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "log.1"), l.bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	// A log without a snapshot before it is something that a server asks about.
	return realzk.Start(t, realzk.Dir(home), realzk.JavaOption("-Dzookeeper.snapshot.trust.empty=true"))
}

// A real server whose numbers run out while several processes contend: there is
// one holder at a time, and the tokens go on increasing.
func TestF014_RealServerRunsOutOfNumbers(t *testing.T) {
	log := newTxnLog()
	log.create("/real", 1)
	log.countedTo("/real/unsafe", queue.LastSafeSequence-15)
	log.countedTo("/real/frozen", math.MaxInt32-15)
	zk := log.start(t)
	r := &realSite{t: t, zk: zk, root: "/real"}
	managers := []*Manager{r.open("a"), r.open("b"), r.open("d")}

	for name, last := range map[string]int64{"unsafe": queue.LastSafeSequence, "frozen": math.MaxInt32} {
		t.Run(name, func(t *testing.T) {
			r := &realSite{t: t, zk: zk, root: "/real"}
			ref := newRWReferee(t)
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			var mu sync.Mutex // protects numbers
			numbers := make(map[int64]int)
			var wg sync.WaitGroup
			for i, m := range managers {
				rw := readWrite(t, m, name)
				for g := range 3 {
					wg.Go(func() {
						for n := range 25 {
							h, err := pick(rw, (i+g+n)%3 > 0).Lock(ctx)
							if errors.Is(err, ErrSequenceExhausted) {
								continue // a reader, with our own writer inside: see below
							}
							if err != nil {
								t.Errorf("%s: %v", m.cfg.Label, err)
								return
							}
							leave := ref.enterHeld(h)
							c, _ := queue.ParseName(filepath.Base(grantOf(t, h).Path))
							mu.Lock()
							numbers[c.Seq]++
							mu.Unlock()
							leave()
							if err := h.Unlock(ctx); err != nil {
								t.Errorf("%s: %v", m.cfg.Label, err)
							}
						}
					})
				}
			}
			wg.Wait()
			before, after, negative := 0, 0, 0
			for number, entries := range numbers {
				switch {
				case number < 0:
					negative += entries
				case number < last:
					before += entries
				default:
					after += entries
				}
			}
			t.Logf("%d entries before number %d, %d from then on (%d with that number), %d with a negative number", before, last, after, numbers[last], negative)
			if before == 0 || after == 0 {
				t.Error("the numbers did not run out in between")
			}
			if name == "frozen" && numbers[last] < 2 {
				t.Error("the numbers did not freeze")
			}
			if got := r.queue(readWrite(t, managers[0], name).Reader()); len(got) != 0 {
				t.Errorf("left behind: %v", got)
			}
		})
	}

	// They have run out now. There is no downgrade, and with a contender of
	// another client's in the queue there is no order.
	a, b := readWrite(t, managers[0], "frozen"), readWrite(t, managers[1], "frozen")
	write := r.lock(a.Writer())
	_, err := a.Reader().Lock(t.Context())
	wantErr(t, "a downgrade", err, ErrSequenceExhausted)
	s := managers[2].client.Session()
	stranger := zkio.NewNode(a.Reader().Path(), "lock-", managers[2].guid, []byte("10.0.0.1"), nil, nil)
	if err := stranger.Create(s); err != nil {
		t.Fatal(err)
	}
	_, err = b.Reader().Lock(t.Context())
	wantErr(t, "beside another client's", err, ErrSequenceExhausted)
	wantHeld(t, "the writer", write)
	mustRelease(t, write)
	if err := stranger.Delete(s); err != nil {
		t.Fatal(err)
	}
}
