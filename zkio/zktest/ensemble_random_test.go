// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestEnsembleRandom has clients send random requests to an ensemble to which random things
// happen, and checks what each client sees, and what is there at the end.
func TestEnsembleRandom(t *testing.T) {
	for _, servers := range []int{3, 5} {
		t.Run(fmt.Sprint(servers), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(max(racing.Fewer(25), 4)) {
				var seen [2]string // the same seed is the same run
				for i := range seen {
					synctest.Test(t, func(t *testing.T) { seen[i] = newChaos(t, servers, seed).run() })
				}
				if seen[0] != seen[1] {
					t.Error("what clients saw differs between two runs")
				}
				if t.Failed() {
					t.Fatalf("seed %d failed", seed)
				}
			}
		})
	}
}

type chaos struct {
	t       *testing.T
	rnd     *rand.Rand
	e       *zktest.Ensemble
	servers int
	clients []*chaosClient
	writes  map[string]int64 // the latest zxid of an answered write, by the node
	over    map[int64]int64  // when sessions ended, in milliseconds since 1970
	created int              // how many nodes clients have asked for
	seen    strings.Builder  // what clients saw
}

// A chaosClient is a client that may have a connection, and a session on it.
type chaosClient struct {
	*peer
	chaos    *chaos
	linked   bool // and waits for the answer to its handshake, or
	served   bool
	pending  []asked
	watching map[string]int64 // the zxids of nodes, of whose next change it wants to hear
}

type asked struct {
	xid        int32
	verb, path string
}

func newChaos(t *testing.T, servers int, seed uint64) *chaos {
	observers := int(seed % 2)
	c := &chaos{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), servers: servers + observers,
		e:      newEnsemble(t, zktest.EnsembleConfig{Servers: servers, Observers: observers, Relayed: seed%4 == 3, SyncLimit: 4, Seed: seed}),
		writes: make(map[string]int64), over: make(map[int64]int64),
	}
	c.e.OnExpire(func(x zktest.Expiry) { c.over[x.Session] = x.At.UnixMilli() })
	for i := range 3 {
		_ = c.e.Server(1).Create(fmt.Sprintf("/r%d", i), nil)
	}
	for i := range 4 {
		r := newRecord(t, func(string) (net.Conn, error) { return c.e.Server(c.pick()).Dial(t.Context(), "", "zk") })
		r.base, r.patience = 0, time.Nanosecond
		c.clients = append(c.clients, &chaosClient{peer: r.peer(fmt.Sprint(i)), chaos: c})
	}
	return c
}

func (c *chaos) pick() int { return 1 + c.rnd.IntN(c.servers) }

// run returns what clients saw.
func (c *chaos) run() string {
	for range 600 {
		if c.rnd.IntN(12) == 0 {
			c.disturb(c.pick(), c.pick())
		} else {
			c.clients[c.rnd.IntN(len(c.clients))].act()
		}
		if c.rnd.IntN(2) == 0 {
			time.Sleep(time.Duration(c.rnd.Int64N(int64(ensembleTick))))
		}
		c.look()
	}
	c.startAll()
	for a := range c.servers {
		for b := range a {
			c.e.SlowLink(a+1, b+1, 0)
		}
	}
	c.e.Heal()
	time.Sleep(10 * time.Second)
	c.look()
	for _, cl := range c.clients {
		if len(cl.pending) > 0 {
			c.t.Errorf("client %s: no answer to %v", cl.name, cl.pending)
		}
	}
	c.compare()
	return c.seen.String()
}

// disturb has something happen, often to one server or to a pair.
func (c *chaos) disturb(n, m int) {
	slow := time.Duration(c.rnd.Int64N(int64(ensembleTick)))
	other := m
	if n == m {
		other = n%c.servers + 1 // a server has no link to itself
	}
	all := []func(){
		func() { c.e.Isolate(n) }, func() { c.e.Isolate(n) }, func() { c.e.Isolate(n, m) }, func() { c.e.CutLink(n, other) },
		c.e.Heal, c.e.Heal, c.e.Heal,
		func() { c.e.SlowLink(n, other, slow) }, func() { c.e.SlowLink(n, other, slow) }, func() { c.e.SlowLink(n, other, 0) },
		func() { c.e.Server(n).Stop() }, func() { c.e.Pause(n) }, func() { c.e.Pause(n) }, c.startAll,
	}
	all[c.rnd.IntN(len(all))]()
}

// startAll ends all pauses and stops.
func (c *chaos) startAll() {
	for i := range c.servers {
		c.e.Server(i + 1).Start()
		c.e.Resume(i + 1)
		time.Sleep(time.Microsecond) // its clients' connections go on one after the other
	}
}

// act has a client do something.
func (cl *chaosClient) act() {
	c := cl.chaos
	switch {
	case !cl.linked:
		result := cl.do(fmt.Sprintf("connect timeout=%v session=%d seen=%d", timeout, cl.session, cl.last))
		cl.linked = !strings.HasPrefix(result, "connection ")
		cl.served = cl.linked && result != "nothing"
		cl.watching = make(map[string]int64)
	case c.rnd.IntN(20) == 0:
		cl.leave()
	case cl.served:
		verb := []string{"ping", "getData", "getData", "exists", "sync", "setData", "setData", "create"}[c.rnd.IntN(8)]
		path, watch, flags := fmt.Sprintf("/r%d", c.rnd.IntN(3)), "", c.rnd.IntN(2)
		if verb == "create" {
			c.created++
			path = fmt.Sprintf("/%c%x-%d", "pe"[flags], cl.session, c.created) // persistent or ephemeral
		}
		if verb == "getData" && flags == 1 {
			watch = "watch"
		}
		xid := cl.request(cl.encode(parse(c.t, fmt.Sprintf("%s %q %s flags=%d", verb, path, watch, flags))))
		cl.pending = append(cl.pending, asked{xid, verb + watch, path})
	}
}

// leave breaks the client's connection.
func (cl *chaosClient) leave() {
	cl.do("disconnect")
	cl.linked, cl.served, cl.pending = false, false, nil
}

// look takes in what has arrived.
func (c *chaos) look() {
	synctest.Wait()
	for _, cl := range c.clients {
		for cl.linked {
			var frame []byte
			var end string
			if cl.served {
				frame, end = cl.readFrame()
			} else if end = cl.connected(); end != "nothing" {
				cl.served = true
			}
			if end == "nothing" {
				break
			}
			fmt.Fprintln(&c.seen, cl.name, end)
			if frame != nil {
				cl.take(jute.NewReader(frame))
			} else if strings.HasPrefix(end, "connection ") {
				cl.leave()
			}
		}
	}
}

// take takes in an event, or the answer to a request.
func (cl *chaosClient) take(r *jute.Reader) {
	c := cl.chaos
	xid, zxid, code := r.Int32(), r.Int64(), r.Int32()
	if xid == jute.XidWatchEvent {
		_, _, path := r.Int32(), r.Int32(), r.String()
		fmt.Fprintln(&c.seen, "event", path)
		delete(cl.watching, path)
		return
	}
	if len(cl.pending) == 0 || cl.pending[0].xid != xid {
		c.t.Errorf("client %s: answer to %d, and not to the first of %v", cl.name, xid, cl.pending)
		return
	}
	a := cl.pending[0]
	cl.pending = cl.pending[1:]
	fmt.Fprintf(&c.seen, "%v: %x\n", a, zxid)
	if zxid < cl.last || code != 0 {
		c.t.Errorf("client %s: answer to %v: zxid %x after %x, code %d", cl.name, a, zxid, cl.last, code)
	}
	cl.last = zxid
	switch a.verb {
	case "setData":
		c.writes[a.path] = max(zxid, c.writes[a.path])
	case "getData", "getDatawatch":
		_, _, mzxid := r.Buffer(), r.Int64(), r.Int64()
		if was, ok := cl.watching[a.path]; mzxid > zxid || ok && was != mzxid {
			c.t.Errorf("client %s: at %x, %s has been changed by %x, and no event came before", cl.name, zxid, a.path, mzxid)
		}
		if a.verb != "getData" {
			cl.watching[a.path] = mzxid
		}
	case "create":
		c.writes[a.path] = zxid
	}
}

// compare checks what is there at the end, on every server.
func (c *chaos) compare() {
	committed := c.e.Server(1)
	ended := func(path string) int64 { // when the session ended that created it, in milliseconds; 0: it has not
		var session int64
		_, _ = fmt.Sscanf(path[2:], "%x-", &session)
		return c.over[session]
	}
	for path, zxid := range c.writes {
		if _, stat, _ := committed.Get(path); stat.Mzxid < zxid && (path[1] != 'e' || ended(path) == 0) {
			c.t.Errorf("%s was written by %x, and that is lost", path, zxid)
		}
	}
	for _, path := range committed.Nodes() {
		if _, stat, _ := committed.Get(path); ended(path) > 0 && (stat.EphemeralOwner != 0 || stat.Ctime > ended(path)) {
			c.t.Errorf("%s is there, or was created, after the end of its session", path)
		}
	}
	for i := range c.servers {
		p := rawSession(c.t, c.e.Server(i+1), time.Minute)
		p.base = 0
		for _, path := range committed.Nodes() {
			_, want, _ := committed.Get(path)
			got := p.do(fmt.Sprintf("exists %q", path))
			if !strings.Contains(got, fmt.Sprintf("{c z+%d m z+%d p z+%d v %d ", want.Czxid, want.Mzxid, want.Pzxid, want.Version)) {
				c.t.Errorf("server %d: %s is %s, and should be %+v", i+1, path, got, want)
			}
		}
	}
}
