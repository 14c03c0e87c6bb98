// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"hash/adler32"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio"
)

// A txnLog is a transaction log of ZooKeeper, written by hand: it makes a server
// start as if it had been counting for weeks.
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
	b = body(jute.AppendInt32(b, op))               // what it does
	l.bytes = jute.AppendInt64(l.bytes, int64(adler32.Checksum(b)))
	l.bytes = jute.AppendBuffer(l.bytes, b)
	l.bytes = append(l.bytes, 'B')
}

// create makes a persistent node, after which its parent has counted creates children.
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

// countTo makes a directory whose next child gets the number next.
func (l *txnLog) countTo(dir string, next int32) {
	l.create(dir, 1)
	l.create(dir+"/seed", next)
	l.delete(dir + "/seed")
}

// start starts a server from the log.
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
	// Otherwise a server refuses a log without a snapshot before it.
	return realzk.Start(t, realzk.Dir(home), realzk.JavaOption("-Dzookeeper.snapshot.trust.empty=true"))
}

// A real server's numbers run out while several processes contend: exclusion holds,
// and the tokens go on rising.
func TestF014_RealServerRunsOutOfNumbers(t *testing.T) {
	log := newTxnLog()
	log.create("/real", 1)
	log.countTo("/real/unsafe", lastSafe-15)
	log.countTo("/real/frozen", math.MaxInt32-15)
	s := realBackend(t, log.start(t))
	s.root = "/real"
	managers := []*Manager{s.open("a"), s.open("b"), s.open("d")}

	for name, last := range map[string]int{"unsafe": lastSafe, "frozen": math.MaxInt32} {
		t.Run(name, func(t *testing.T) {
			ref := newReferee(t)
			ctx := withTimeout(t, time.Minute)
			var mu sync.Mutex // protects entries
			entries := make(map[int]int)
			var wg sync.WaitGroup
			for i, m := range managers {
				rw := readWrite(t, m, name)
				for g := range 3 {
					wg.Go(func() {
						for n := range 25 {
							h, err := pick(rw, (i+g+n)%3 > 0).Lock(ctx)
							if errors.Is(err, ErrSequenceExhausted) {
								continue // a downgrade: see below
							}
							if err != nil {
								t.Errorf("%s: %v", m.cfg.Label, err)
								return
							}
							leave := ref.enter(m, h)
							number, err := strconv.Atoi(sequenceOf(grantOf(t, h).Path))
							wantErr(t, "the node's number", err, nil)
							mu.Lock()
							entries[number]++
							mu.Unlock()
							leave()
							wantErr(t, "unlock", h.Unlock(ctx), nil)
						}
					})
				}
			}
			wg.Wait()
			before, after := 0, 0
			for number, n := range entries {
				if number >= 0 && number < last {
					before += n
				} else {
					after += n
				}
			}
			t.Logf("%d entries before number %d, %d from then on (%d with that number)", before, last, after, entries[last])
			expect(t, before != 0 && after != 0, "the numbers did not run out in between")
			expect(t, name != "frozen" || entries[last] >= 2, "the numbers did not freeze")
			s.wantEmpty(readWrite(t, managers[0], name).Reader())
		})
	}

	// Now there is no downgrade, and with a node of another client in the queue there
	// is no order.
	a, b := readWrite(t, managers[0], "frozen"), readWrite(t, managers[1], "frozen")
	write := mustLock(t, a.Writer())
	wantErr(t, "a downgrade", errOf(a.Reader().Lock(t.Context())), ErrSequenceExhausted)
	session := managers[2].client.Session()
	stranger := zkio.NewNode(a.Reader().Path(), "lock-", func() string { return hex32 }, []byte("10.0.0.1"), nil, nil)
	wantErr(t, "create", stranger.Create(session), nil)
	wantErr(t, "beside another client's", errOf(b.Reader().Lock(t.Context())), ErrSequenceExhausted)
	wantHeld(t, "the writer", write)
	mustRelease(t, write)
	wantErr(t, "delete", stranger.Delete(session), nil)
}
