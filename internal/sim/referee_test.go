// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// A referee judges whether those who are told that they hold a lock do hold it.
// It goes by the server's tree and clock, and by what the holds themselves say;
// the code under test has no other part in it.
type referee struct {
	w *world

	mu      sync.Mutex           // protects what follows
	inside  []*visit             // in the order in which they came
	sinned  map[string]time.Time // nodes and sessions that an administrator has put an end to
	tokens  map[string]*tokens   // by lock
	entries int
	told    []loss
	margin  time.Duration
	lost    int
}

// A visit is somebody's being inside.
type visit struct {
	who   string // the process
	lock  string
	write bool // or exclusive
	hold  manager.Hold
	grant manager.Grant
}

func (v *visit) String() string {
	kind := "reader"
	if v.write {
		kind = "writer"
	}
	return fmt.Sprintf("%s of %s in %s (token %d)", kind, v.who, v.lock, v.grant.Token)
}

// tokens are the fencing tokens that a lock has given out.
type tokens struct {
	writers map[uint64]string // whose
	newest  uint64            // the highest of a writer's
	reads   uint64            // the highest of a reader's that was no writer's yet
	reader  string            // whose that was
}

// A loss is when somebody was told that his lock is lost.
type loss struct {
	session int64
	at      time.Time
}

func newReferee(w *world) *referee {
	return &referee{w: w, sinned: make(map[string]time.Time), tokens: make(map[string]*tokens)}
}

// sin notes that an administrator is about to delete a node, or to end a session.
func (r *referee) sin(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sinned[what] = time.Now()
}

// excused reports whether an administrator's hand explains that v is wrong. The
// lease sets an end to that: then at the latest v knows.
func (r *referee) excused(v *visit) bool {
	for _, what := range []string{v.grant.Path, sessionName(v.grant.Session)} {
		if at, ok := r.sinned[what]; ok && time.Since(at) <= r.w.plan.timeout {
			return true
		}
	}
	return false
}

func sessionName(id int64) string { return fmt.Sprintf("session %#x", id) }

// enter judges somebody who has been told that he holds a lock. It returns nil if
// he does not any more.
func (r *referee) enter(who string, h manager.Hold, write bool) *visit {
	g, err := h.Grant()
	if err != nil {
		return nil
	}
	v := &visit{who: who, lock: h.Lock().Path(), write: write, hold: h, grant: g}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.Err() != nil {
		return nil
	}
	excused := r.excused(v)
	var wrong []string
	for _, o := range r.inside {
		if o.lock == v.lock && o.who != v.who && (o.write || v.write) && !excused && !r.excused(o) && o.hold.Err() == nil {
			wrong = append(wrong, fmt.Sprintf("%v comes in while %v is inside", v, o))
		}
	}
	if !excused {
		wrong = append(wrong, r.checkQueue(v)...)
	}
	// What was seen counts if the lock was held before and after.
	if h.Err() != nil {
		return nil
	}
	if !excused {
		wrong = append(wrong, r.checkToken(v)...)
	}
	for _, what := range wrong {
		r.w.fail("%s", what)
	}
	r.entries++
	r.inside = append(r.inside, v)
	return v
}

// leave notes that v is about to let go. It is for a visit that enter returned.
func (r *referee) leave(v *visit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.inside, v); i >= 0 {
		r.inside = slices.Delete(r.inside, i, i+1)
	}
}

// checkQueue checks that v's node is there, and that nobody is ahead of it whom
// it excludes.
func (r *referee) checkQueue(v *visit) (wrong []string) {
	srv := r.w.srv
	_, stat, ok := srv.Get(v.grant.Path)
	if !ok || stat.EphemeralOwner != v.grant.Session {
		return []string{fmt.Sprintf("%v is told that it holds the lock, but its node %s is not there", v, name(v.grant.Path))}
	}
	ours := place(v.grant.Path, stat.Czxid)
	for _, child := range srv.Children(v.lock) {
		path := v.lock + "/" + child
		_, s, ok := srv.Get(path)
		if !ok || s.EphemeralOwner == v.grant.Session {
			continue
		}
		if read := strings.Contains(child, "__READ__"); read && !v.write {
			continue
		}
		if theirs := place(path, s.Czxid); compare(theirs, ours) < 0 {
			wrong = append(wrong, fmt.Sprintf("%v is told that it holds the lock with %s, but %s is ahead of it", v, name(v.grant.Path), name(path)))
		}
	}
	return wrong
}

// A spot is a node's place in its queue.
type spot struct {
	late  bool  // its number says nothing: it is behind all whose number does
	czxid int64 // if late
	seq   int64 // if not
	read  bool
}

func place(path string, czxid int64) spot {
	n := name(path)
	i := strings.LastIndexAny(n[:len(n)-9], "_-") + 1
	if n[i-1] == '-' && strings.HasSuffix(n[:i], "_-") { // __READ__-2147483648
		i--
	}
	seq, err := strconv.ParseInt(n[i:], 10, 64)
	if err != nil {
		seq = -1
	}
	if seq < 0 || seq > lastSafe {
		return spot{late: true, czxid: czxid}
	}
	return spot{seq: seq, read: strings.Contains(n, "__READ__")}
}

func compare(a, b spot) int {
	return cmp.Or(cmp.Compare(b2i(a.late), b2i(b.late)), cmp.Compare(a.czxid, b.czxid), cmp.Compare(a.seq, b.seq), cmp.Compare(b2i(a.read), b2i(b.read)))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func name(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// checkToken checks that v's token is above all that it has to be above.
func (r *referee) checkToken(v *visit) (wrong []string) {
	fault := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	ts := r.tokens[v.lock]
	if ts == nil {
		ts = &tokens{writers: make(map[uint64]string)}
		r.tokens[v.lock] = ts
	}
	token, id := v.grant.Token, v.who+" "+sessionName(v.grant.Session)
	owner, known := ts.writers[token]
	if known && owner != id {
		fault("%v has the token that a write of %s had", v, owner)
	}
	if v.write {
		// A reader beside its own writer may have come in before it.
		if ts.reads == token && ts.reader == id {
			ts.reads = 0
		}
		if !known && (token <= ts.newest || token <= ts.reads) {
			fault("%v: its token is not above an earlier writer's, %d, and reader's, %d", v, ts.newest, ts.reads)
		}
		ts.writers[token] = id
		ts.newest = max(ts.newest, token)
		return wrong
	}
	if token < ts.newest {
		fault("%v: its token is below an earlier writer's, %d", v, ts.newest)
	}
	if !known && token >= ts.reads {
		ts.reads, ts.reader = token, id
	}
	return wrong
}

// lostAt notes that somebody was told that he has lost v.
func (r *referee) lostAt(v *visit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, loss{v.grant.Session, time.Now()})
}

// watch looks now and then whether somebody is told that he holds a lock whose
// node is gone, until the work is done.
func (r *referee) watch() {
	rng := rand.New(rand.NewPCG(r.w.plan.seed, 2))
	for r.w.working.Load() {
		<-time.After(time.Duration(1+rng.IntN(100)) * time.Millisecond)
		r.mu.Lock()
		for _, v := range r.inside {
			// The node first: the hold may be told of its loss after that, but
			// the node does not come back.
			_, stat, ok := r.w.srv.Get(v.grant.Path)
			if gone := !ok || stat.EphemeralOwner != v.grant.Session; gone && v.hold.Err() == nil && !r.excused(v) {
				r.w.fail("%v is still told that it holds the lock, but its node %s is gone", v, name(v.grant.Path))
			}
		}
		r.mu.Unlock()
	}
}

// end compares when sessions ended with when their holders were told.
func (r *referee) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.w.srv.Expired() {
		if e.Forced {
			continue
		}
		for _, l := range r.told {
			if l.session != e.Session {
				continue
			}
			margin := e.At.Sub(l.at)
			if _, sinned := r.sinned[sessionName(e.Session)]; margin < 0 && !sinned {
				r.w.fail("the holder of session %#x was told of its loss %v after the session had ended", e.Session, -margin)
			}
			if r.lost++; r.lost == 1 || margin < r.margin {
				r.margin = margin
			}
		}
	}
	for _, v := range r.inside {
		r.w.fail("%v has not left", v)
	}
}
