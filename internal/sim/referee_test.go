// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/check"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A referee judges whether processes that are told that they hold a lock do hold
// it, by the server's tree and clock.
type referee struct {
	w     *world
	check *check.Referee // of exclusion and tokens

	mu      sync.Mutex // protects what follows
	inside  []*visit
	deleted map[string][]deletion // the nemesis's, by the node's path
	ended   map[int64]time.Time   // when the nemesis ended which session
	looked  map[znode]bool        // nodes that their own sessions have read
	told    []loss
	margin  time.Duration
	lost    int
}

// A znode identifies a node. A path alone does not: a deleted node can come back
// under the same name.
type znode struct {
	path  string
	czxid int64
}

// A deletion is one that the nemesis made.
type deletion struct {
	node znode
	at   time.Time

	// The node was never first in its queue, and its session had read it, which
	// left a watch. So the client hears of the deletion before it hears that the
	// contenders ahead are gone, and must not be granted the lock by this node.
	neverFirst bool
}

// A visit is a worker's use of a grant.
type visit struct {
	who   string // the process
	lock  string
	write bool // or exclusive
	hold  manager.Hold
	grant manager.Grant
	node  znode // czxid is 0 if it is not known
	leave func()

	writers []string // of an upgraded read: the nodes of its session that exclude readers
}

func (v *visit) String() string {
	kind := "reader"
	if v.write {
		kind = "writer"
	}
	return fmt.Sprintf("%s of %s in %s (token %d)", kind, v.who, v.lock, v.grant.Token)
}

// A loss is when a worker was told that its lock is lost.
type loss struct {
	session int64
	at      time.Time
}

func newReferee(w *world) *referee {
	return &referee{
		w: w, check: check.NewReferee(w.fail),
		deleted: make(map[string][]deletion), ended: make(map[int64]time.Time), looked: make(map[znode]bool),
	}
}

// isNew reports whether the node at path is the session's own and the session has
// not read it yet.
func (r *referee) isNew(session int64, path string) bool {
	_, stat, ok := r.w.srv.Get(path)
	return ok && stat.EphemeralOwner == session && !r.hasLooked(path, stat)
}

// hasLooked reports whether a node's own session has read it.
func (r *referee) hasLooked(path string, stat zktest.Stat) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.looked[znode{path, stat.Czxid}]
}

// sawLook notes that the session reads the node at path.
func (r *referee) sawLook(session int64, path string) {
	if _, stat, ok := r.w.srv.Get(path); ok && stat.EphemeralOwner == session {
		r.mu.Lock()
		r.looked[znode{path, stat.Czxid}] = true
		r.mu.Unlock()
	}
}

// delete deletes a contender's node as an administrator would. It reports whether
// the node was there.
func (r *referee) delete(path string) bool {
	_, stat, ok := r.w.srv.Get(path)
	if !ok {
		return false
	}
	d := deletion{node: znode{path, stat.Czxid}, at: time.Now()}
	ahead := r.ahead(path, stat)
	r.mu.Lock()
	looked := r.looked[d.node]
	// Note it first: the client may hear of the deletion at once.
	r.deleted[path] = append(r.deleted[path], d)
	r.mu.Unlock()
	if r.w.srv.Delete(path) != nil {
		return false
	}
	for _, a := range ahead { // one that is still there was there when the node went
		if _, s, ok := r.w.srv.Get(a.path); ok && s.Czxid == a.czxid && looked {
			r.mu.Lock()
			all := r.deleted[path]
			all[len(all)-1].neverFirst = true
			r.mu.Unlock()
			break
		}
	}
	return true
}

// ahead returns the contenders of other sessions that are ahead of the node at path
// and exclude it.
func (r *referee) ahead(path string, stat zktest.Stat) (ahead []znode) {
	dir, own := path[:strings.LastIndexByte(path, '/')], positionOf(path, stat.Czxid)
	for _, child := range r.w.srv.Children(dir) {
		other := dir + "/" + child
		_, s, ok := r.w.srv.Get(other)
		if !ok || s.EphemeralOwner == stat.EphemeralOwner || isRead(other) && isRead(path) && !(isUpgradable(other) && isUpgradable(path)) {
			continue
		}
		if compare(positionOf(other, s.Czxid), own) < 0 {
			ahead = append(ahead, znode{other, s.Czxid})
		}
	}
	return ahead
}

// endSession ends a session as an administrator would.
func (r *referee) endSession(id int64) bool {
	r.mu.Lock()
	r.ended[id] = time.Now()
	r.mu.Unlock()
	return r.w.srv.ExpireSession(id)
}

// excused reports whether the nemesis deleted v's node or ended its session so
// recently that v's process may not know. By the end of its lease it must.
func (r *referee) excused(v *visit) bool {
	recently := func(at time.Time) bool { return time.Since(at) <= r.w.plan.timeout }
	if at, ok := r.ended[v.grant.Session]; ok && recently(at) {
		return true
	}
	for _, path := range v.writers {
		if slices.ContainsFunc(r.deleted[path], func(d deletion) bool { return recently(d.at) }) {
			return true
		}
	}
	return slices.ContainsFunc(r.deleted[v.node.path], func(d deletion) bool {
		return recently(d.at) && (d.node == v.node && !d.neverFirst || v.node.czxid == 0)
	})
}

// enter judges a grant. It returns nil if the lock is already lost.
func (r *referee) enter(who string, h manager.Hold, write bool) *visit {
	g, err := h.Grant()
	if err != nil {
		return nil
	}
	v := &visit{who: who, lock: dirOf(g.Path), write: write, hold: h, grant: g, node: znode{path: g.Path}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.Err() != nil {
		return nil
	}
	var wrong []string
	_, stat, ok := r.w.srv.Get(g.Path)
	switch {
	case ok && stat.EphemeralOwner == g.Session:
		v.node.czxid = stat.Czxid
		for _, a := range r.ahead(g.Path, stat) {
			if r.isStray(a.path, g.Path) {
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%v is told that it holds the lock with %s, but %s is ahead of it", v, name(g.Path), name(a.path)))
		}
	default:
		if write { // the token of a reader may be its writer's
			v.node.czxid = int64(g.Token)
		}
		wrong = append(wrong, fmt.Sprintf("%v is told that it holds the lock, but its node %s is not there", v, name(g.Path)))
	}
	// What the tree showed counts if the lock was held before and after.
	if h.Err() != nil {
		return nil
	}
	if !r.excused(v) {
		for _, what := range wrong {
			r.w.fail("%s", what)
		}
	}
	v.leave = r.check.Granted(check.Claim{
		Lock: v.lock, Owner: fmt.Sprintf("%s in session %#x", who, g.Session), Read: !write, Token: g.Token, Node: name(g.Path),
		Held: func() bool { return h.Err() == nil && !r.excused(v) },
	})
	r.inside = append(r.inside, v)
	return v
}

// isStray reports whether the node at path is the shield of an upgrade that has lost its
// upgradable read to the nemesis a moment ago. Its process cannot be exclusive any more,
// and is about to delete the shield. Until then that stands beside a writer that has its
// turn now, and before the readers of that writer's process, one of which has the node at
// own.
func (r *referee) isStray(path, own string) bool {
	const maker = len("_c_") + 16
	shield, beside := name(path), name(own)
	if len(shield) < maker || isRead(path) || shield[len(shield)-10:] != beside[max(0, len(beside)-10):] {
		return false
	}
	for deleted, all := range r.deleted {
		if isUpgradable(deleted) && strings.HasPrefix(name(deleted), shield[:maker]) &&
			slices.ContainsFunc(all, func(d deletion) bool { return time.Since(d.at) <= r.w.plan.timeout }) {
			return true
		}
	}
	return false
}

// left notes that v's worker releases the lock next.
func (r *referee) left(v *visit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.leave()
	if i := slices.Index(r.inside, v); i >= 0 {
		r.inside = slices.Delete(r.inside, i, i+1)
	}
}

// A standing is how the contenders of a lock stood at some time: which others were
// ahead of each.
type standing struct {
	zxid  int64
	ahead map[string][]znode // by the path of the contender's node
}

// asks notes how the contenders of the lock at dir stand.
func (r *referee) asks(dir string) standing {
	st := standing{zxid: r.w.srv.Zxid(), ahead: make(map[string][]znode)}
	for _, child := range r.w.srv.Children(dir) {
		path := dir + "/" + child
		if _, stat, ok := r.w.srv.Get(path); ok {
			st.ahead[path] = r.ahead(path, stat)
		}
	}
	return st
}

// answered judges a reply to a question that was put after before: its contender was
// there, and had its turn, at some time since then.
func (r *referee) answered(before standing, a manager.Answer) {
	r.mu.Lock()
	_, ended := r.ended[a.From.Session]
	excused := ended || len(r.deleted[a.From.Path]) > 0
	r.mu.Unlock()
	if excused {
		return
	}
	if want := a.From.Label + " " + a.From.Path; string(a.Reply) != want {
		r.w.fail("%s was asked, and %q has answered: %+v", want, a.Reply, a.From)
	}
	ahead, there := before.ahead[a.From.Path]
	if !there && !a.From.Own && int64(a.From.Token) <= before.zxid { // our own token may be that of a downgraded write
		r.w.fail("%s has answered, whose node %s was gone before it was asked", a.From.Label, name(a.From.Path))
	}
	for _, other := range ahead {
		if _, stat, ok := r.w.srv.Get(other.path); ok && stat.Czxid == other.czxid {
			r.w.fail("%s has answered for %s, and %s was ahead all the time", a.From.Label, name(a.From.Path), name(other.path))
		}
	}
	r.w.did("answer judged")
}

// waitsForOwn reports whether a node of the same session is ahead of the node at path: its
// process may make another lock of the pair, or LockAll, wait for it.
func (r *referee) waitsForOwn(path string, stat zktest.Stat) bool {
	dir := dirOf(path)
	return slices.ContainsFunc(r.w.srv.Children(dir), func(child string) bool {
		_, s, ok := r.w.srv.Get(dir + "/" + child)
		return ok && s.EphemeralOwner == stat.EphemeralOwner && compare(positionOf(child, s.Czxid), positionOf(path, stat.Czxid)) < 0
	})
}

// inTheWay returns the nodes of other processes than the one called label that hold the lock
// and exclude l. Of a stray shield and the writer beside it, which have one number, a
// revocation may take either for the holder: neither is judged.
func (r *referee) inTheWay(label string, l lock) (way []znode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	dir := l.Path()
	for _, child := range r.w.srv.Children(dir) {
		path := dir + "/" + child
		data, stat, ok := r.w.srv.Get(path)
		if !ok || isUpgradable(path) || isRead(path) && !l.write || len(r.ahead(path, stat)) > 0 || r.waitsForOwn(path, stat) {
			continue
		}
		if slices.ContainsFunc(r.w.srv.Children(dir), func(child string) bool {
			beside := dir + "/" + child
			return beside != path && (r.isStray(beside, path) || r.isStray(path, beside))
		}) {
			continue
		}
		for i := range r.w.procs {
			if other := processLabel(i); other != label && bytes.Contains(data, []byte(strconv.Quote(other))) {
				way = append(way, znode{path, stat.Czxid})
			}
		}
	}
	return way
}

// revoked judges a revocation of l that has returned err. way is what was in its way when it
// began. If it has succeeded, all that is gone. If not, each process that is still there was
// told, or could not be asked: then its holders know.
func (r *referee) revoked(l lock, way []znode, err error) {
	told := errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, manager.ErrNoAnswer) && strings.Contains(err.Error(), "not given up")
	if err != nil && !told {
		return
	}
	for _, n := range way {
		_, stat, ok := r.w.srv.Get(n.path)
		if !ok || stat.Czxid != n.czxid {
			continue
		}
		if err == nil {
			r.w.fail("the revocation of %s has succeeded, and %s is still there", l.title, name(n.path))
			continue
		}
		r.mu.Lock()
		for _, v := range r.inside {
			if _, revoked := v.hold.Revocation(); v.node == n && v.hold.Err() == nil && !revoked {
				r.w.fail("%v was told of a revocation, and its holder does not know", v)
			}
		}
		r.mu.Unlock()
		r.w.did("revocation judged")
	}
	if err == nil && len(way) > 0 {
		r.w.did("revocation judged")
	}
}

// A position is a node's position in its queue.
type position struct {
	late  bool  // its number does not order it: it is behind all nodes whose number does
	czxid int64 // if late
	seq   int64 // if not
	read  bool
}

func positionOf(path string, czxid int64) position {
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
		return position{late: true, czxid: czxid}
	}
	return position{seq: seq, read: isRead(path)}
}

func compare(a, b position) int {
	return cmp.Or(cmp.Compare(b2i(a.late), b2i(b.late)), cmp.Compare(a.czxid, b.czxid), cmp.Compare(a.seq, b.seq), cmp.Compare(b2i(a.read), b2i(b.read)))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func isRead(path string) bool { return strings.Contains(path, "__READ__") }

func name(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// lostAt notes that v's worker is told that the lock is lost.
func (r *referee) lostAt(v *visit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, loss{v.grant.Session, time.Now()})
}

// watch checks from time to time, until the workers finish, that no process is told
// that it holds a lock whose node is gone, that no lease that has ended is in force again, and
// that no session is at a server that is behind what it has seen.
func (r *referee) watch() {
	rng := rand.New(rand.NewPCG(r.w.plan.seed, 2))
	lapsed := make(map[any]bool) // leases
	for r.w.working.Load() {
		<-after(time.Duration(1+rng.IntN(100)) * time.Millisecond)
		for _, pr := range r.w.procs {
			l := pr.manager().Access().Session().Lease()
			if lapsed[l] && l.InForce() {
				r.w.fail("the lease of %s had ended, and is in force again", pr.label)
			}
			lapsed[l] = !l.InForce()
			r.w.leases.behind(pr)
		}
		r.mu.Lock()
		for _, v := range r.inside {
			// Look at the node before the hold: the hold may be lost in between,
			// but the node does not come back.
			_, stat, ok := r.w.srv.Get(v.node.path)
			gone := !ok || stat.EphemeralOwner != v.grant.Session || v.node.czxid != 0 && stat.Czxid != v.node.czxid
			gone = gone || len(v.writers) > 0 && !r.excludesReaders(v)
			if gone && v.hold.Err() == nil && !r.excused(v) {
				r.w.fail("%v is still told that it holds the lock, but its node %s is gone", v, name(v.node.path))
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
			if _, forced := r.ended[e.Session]; margin < 0 && !forced {
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
