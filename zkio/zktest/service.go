// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	crand "crypto/rand"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// A service is what the servers of an ensemble share: the committed data and the sessions, as
// their leader keeps them. A single server has one to itself.
//
// A single mutex, mu, protects the state of all servers: data, sessions, watches. The goroutine
// that reads a connection executes its requests under that mutex, and queues the
// answers and events under it. Transactions are therefore ordered by which goroutine locks
// the mutex when, and all clients see that order. The mutex is not held during
// I/O, while waiting, or while a test's hook runs. The mutexes of connections and
// of the faults come after it in the lock order.
type service struct {
	cfg     Config
	log     *slog.Logger
	started time.Time
	secret  []byte // from which sessions' passwords are derived

	mu       sync.Mutex
	servers  []*Server // in the order of their numbers
	leader   *Server   // the last one that was elected; see hasLeader
	tree     *tree     // the data after the last committed transaction
	sessions map[int64]*session
	expiry   expiryQueue
	expired  []Expiry
	wakeAt   time.Time // when the clock wakes next; zero: never
	sweepAt  time.Time // when it calls sweep next; zero: never
	agenda   agenda
	onExpire func(Expiry)
	closed   bool

	// Of an ensemble; see EnsembleConfig.
	quorum    int // how many servers, of those that vote, agree on what is committed
	syncLimit int
	relayed   bool // observers follow followers
	links     map[[2]int]*link
	rng       *rand.Rand
	pinging   bool // the leader will ping the others
	electing  bool // there will be an election

	wakeClock chan struct{} // capacity 1
	quit      chan struct{} // closed by Close
	wg        sync.WaitGroup
}

// newService returns a service without servers, whose clock stands.
func newService(cfg Config) *service {
	cfg = cfg.withDefaults()
	s := &service{
		cfg:       cfg,
		log:       cfg.Logger,
		started:   time.Now(),
		secret:    make([]byte, 16),
		quorum:    1,
		tree:      newTree(),
		sessions:  make(map[int64]*session),
		expiry:    expiryQueue{buckets: make(map[int64]map[*session]struct{})},
		links:     make(map[[2]int]*link),
		wakeClock: make(chan struct{}, 1),
		quit:      make(chan struct{}),
	}
	_, _ = crand.Read(s.secret) // never fails
	return s
}

// add adds a server, whose sessions' ids begin with id. It looks for a leader.
func (s *service) add(id uint8) *Server {
	srv := &Server{
		member:      member{number: len(s.servers) + 1, lines: make(map[*session]*line)},
		service:     s,
		view:        view{tree: s.tree, watches: newWatchTable()},
		lastSession: firstSessionID(id, s.started),
		conns:       make(map[*conn]struct{}),
		requests:    make(map[Op]uint64),
		traceMask:   306,
	}
	srv.faults = newFaults(srv)
	s.servers = append(s.servers, srv)
	return srv
}

// run has the servers elect a leader, and starts the clock.
func (s *service) run() {
	s.elect()
	s.wg.Add(1)
	go s.clockLoop()
}

// begin starts a transaction. The caller holds s.mu until it has called commit.
func (s *service) begin(who []id, session int64) *txn {
	s.tree.zxid++
	return &txn{
		tree:     s.tree,
		zxid:     s.tree.zxid,
		now:      time.Now().UnixMilli(),
		session:  session,
		who:      who,
		extended: s.cfg.ExtendedTypes,
		followed: s.followed(),
		other:    s.cfg.Quirks.OtherStats,
	}
}

// followed reports whether there are views that will repeat a transaction.
func (s *service) followed() bool {
	for _, srv := range s.servers {
		if len(srv.lags) > 0 || srv.view.tree != s.tree {
			return true
		}
	}
	return false
}
