// SPDX-License-Identifier: Apache-2.0

// CONTRACT: the API that package manager is written against. Every body here
// is a placeholder; the implementation replaces this file, type by type, in
// files named after their types.
package zkio

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"
)

// Config: everything that a Client needs. Validated by Open (all faults named at once).
type Config struct {
	Servers        []string      // host:port each (port 2181 if missing); at least one
	SessionTimeout time.Duration // asked for; the server may change it. 0 means 10 s
	Auth           []Auth        // sent by the wire wrapper at every (re)connect, before anything else
	TLS            *tls.Config   // nil: plain TCP
	Dialer         func(ctx context.Context, network, address string) (net.Conn, error)
	Workers        int           // 0 means 32; at least 9 (fetches get Workers-8)
	LostMargin     time.Duration // leases end this long before trustUntil
	Logger         *slog.Logger  // nil: slog.Default()
	Listener       Listener      // nil: nobody listens
}

type Auth struct {
	Scheme string // "digest", …
	Data   []byte // "user:password"
}

type ACL struct {
	Perms      int32
	Scheme, ID string
}

const (
	PermRead int32 = 1 << iota
	PermWrite
	PermCreate
	PermDelete
	PermAdmin
	PermAll = PermRead | PermWrite | PermCreate | PermDelete | PermAdmin
)

type Stat struct {
	Czxid, Mzxid, Ctime, Mtime  int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

// Listener is told what happens to the sessions of a Client. Its methods run
// on the client's dispatcher goroutine, one at a time, in order; they must not block.
type Listener interface {
	// SessionStarted: s is the client's session from now on.
	SessionStarted(s *Session)
	// LeaseLapsed: l, which was in force, is over (it is latched: InForce is false for ever). The session may live on.
	LeaseLapsed(l *Lease)
	// SessionOver: s has ended (expired, id changed, closed); its leases were latched as lapsed before this call.
	SessionOver(s *Session, cause error)
}

// A Queue of the pool.
type Queue int

const (
	Fetches  Queue = iota // at most Workers-8 of these run at a time
	Releases              // deletions and clean-ups: served first
)

// A Task is work for the pool. Run is called on a worker with the present
// session; it may block in the session's calls. After Close has begun it may be called
// with a session that is over, whose calls all fail at once.
type Task interface{ Run(s *Session) }

// A Watcher is told that something happened to a path: a watch fired, or a
// check found the node gone. It runs on the dispatcher goroutine and must not block.
type Watcher interface{ PathChanged(path string, ev Event) }

type Event int

const (
	NodeCreated Event = iota + 1
	NodeDeleted
	NodeDataChanged
	NodeChildrenChanged
)

type Client struct{}

// Open connects and waits for the first session; ctx bounds this call only.
// Its error says which addresses were tried and why each failed.
func Open(ctx context.Context, cfg Config) (*Client, error) { panic("stub") }

// Close: refuses Fetches from now on (Submit reports false); lets the queued Releases run while connected and until ctx ends;
// closes the session; runs what is left of the queues with the session that is over; joins every goroutine.
// Its error says that the server did not confirm the end of the session. A second Close waits for the first and returns the same.
func (c *Client) Close(ctx context.Context) error { panic("stub") }

// Submit hands t to the pool. It never blocks. False: the client is closed and t will not be run.
// Tasks wait in their queue while there is no connected session.
func (c *Client) Submit(q Queue, t Task) bool { panic("stub") }

// SubmitAfter is Submit after d. If the client closes meanwhile the task is run at once, with the session that is over.
func (c *Client) SubmitAfter(d time.Duration, q Queue, t Task) bool { panic("stub") }

// Session returns the present session (it may be over, if the next is not there yet). Never nil after Open.
func (c *Client) Session() *Session { panic("stub") }

// Watch registers w for path, *before* the request that is to set the watch: a Session.Get (or Exists, Children) of an armed path sets
// the server's watch. Any number of watchers per path; the same watcher once. Never blocks on I/O.
func (c *Client) Watch(path string, w Watcher) { panic("stub") }

// Unwatch undoes Watch. An event already on its way may still arrive.
func (c *Client) Unwatch(path string, w Watcher) { panic("stub") }

// Stats of the client: wire counters per operation, sessions, reconnects, queue lengths, goroutines busy, watches armed, …
func (c *Client) Stats() Stats { panic("stub") }

type Stats struct {
	Sent                                map[string]uint64 // requests by operation name ("create", "getData", "ping", …)
	Watches                             int               // armed paths
	Epoch                               uint64
	Sessions, Reconnects                uint64
	QueuedFetches, QueuedReleases, Busy int
}

// A Session is one ZooKeeper session, one epoch, one go-zookeeper Conn. Its
// calls block, may be made by any goroutine, and never take effect in another session.
type Session struct{}

func (s *Session) Epoch() uint64          { panic("stub") }
func (s *Session) ID() int64              { panic("stub") }
func (s *Session) Timeout() time.Duration { panic("stub") } // negotiated
func (s *Session) Client() *Client        { panic("stub") }

// Err is nil while the session may be alive, else says why it is over (wraps ErrSessionOver or ErrClosed).
func (s *Session) Err() error { panic("stub") }

// Gone reports whether the server is known to have ended the session, so that its ephemeral nodes are surely gone.
func (s *Session) Gone() bool { panic("stub") }

// Lease returns the session's present lease. Never nil; before the first proof, and after a lapse, one that is not in force.
func (s *Session) Lease() *Lease { panic("stub") }

// Prove obtains a proof from the leader: Multi(Check(path, -1)). ErrNoNode: the node is gone (its watchers are told, too).
func (s *Session) Prove(path string) error { panic("stub") }

func (s *Session) Children(dir string) ([]string, Stat, error)               { panic("stub") }
func (s *Session) Get(path string) ([]byte, Stat, error)                     { panic("stub") }
func (s *Session) Exists(path string) (Stat, bool, error)                    { panic("stub") }
func (s *Session) Create(path string, data []byte, acl []ACL) error          { panic("stub") } // persistent
func (s *Session) Set(path string, data []byte, version int32) (Stat, error) { panic("stub") }
func (s *Session) Delete(path string, version int32) error                   { panic("stub") }
func (s *Session) Sync(path string) error                                    { panic("stub") }

// EnsureDir makes dir and what is missing above it as container nodes (persistent where the server has none). NodeExists is success.
func (s *Session) EnsureDir(dir string, acl []ACL) error { panic("stub") }

// Multi performs ops in one transaction.
func (s *Session) Multi(ops ...Op) ([]OpResult, error) { panic("stub") }

// An Op of a Multi; made by CheckOp, CreateOp, SetOp, DeleteOp.
type Op struct{}

func CheckOp(path string, version int32) Op            { panic("stub") }
func CreateOp(path string, data []byte, acl []ACL) Op  { panic("stub") } // persistent
func SetOp(path string, data []byte, version int32) Op { panic("stub") }
func DeleteOp(path string, version int32) Op           { panic("stub") }

type OpResult struct {
	Path string // of a create
	Stat Stat   // of a set
	Err  error
}

// A Lease says until when the session's nodes may be trusted to be there. Safe for any goroutine.
type Lease struct{}

// InForce reports whether now < the lease's end, reading the clock. Once it has reported false it reports false for ever.
func (l *Lease) InForce() bool { panic("stub") }

// Lapsed reports whether the lease was seen to be over, without reading the clock.
func (l *Lease) Lapsed() bool { panic("stub") }

// Remaining returns the time left, 0 if none.
func (l *Lease) Remaining() time.Duration { panic("stub") }

// A Node is one ephemeral sequential node of ours, with the obligation to clean it up:
// dir/_c_<guid>-<kind><sequence>. It is used by one goroutine at a time.
type Node struct{}

// NewNode describes a node; nothing is sent. guid must be unique for ever; watcher is registered for the node's own path
// when it is known, and is unregistered by Delete.
func NewNode(dir, kind, guid string, data []byte, acl []ACL, watcher Watcher) *Node { panic("stub") }

// Create creates the node in s and sets the watch on it. If an earlier Create had an unknown outcome, that is resolved first (sync + list + Get, adopting only a node whose
// ephemeralOwner is s). nil: the node is there and it is s's. On an error call Create again (in s: it resolves; in a later session: it starts afresh,
// since the old session's node goes with its session) or Delete.
func (n *Node) Create(s *Session) error { panic("stub") }

// Delete deletes the node, resolving an unknown Create first. nil: the node is surely gone (deleted, was gone, never made, or its session is Gone).
func (n *Node) Delete(s *Session) error { panic("stub") }
func (n *Node) Remove(s *Session) (bool, error) { panic("stub") }

// Forget drops the obligation of a node whose session is over, and unregisters the watcher.
func (n *Node) Forget() { panic("stub") }

func (n *Node) Path() string      { panic("stub") } // "" while not known to exist
func (n *Node) Name() string      { panic("stub") } // last segment of Path
func (n *Node) Czxid() int64      { panic("stub") } // the fencing token
func (n *Node) Session() *Session { panic("stub") } // the session it was created in; nil before

// Errors. ClassOf decides what to do about one.
var (
	ErrClosed                  = errors.New("zkio: client is closed")
	ErrSessionOver             = errors.New("zkio: session is over")
	ErrNotSent                 = errors.New("zkio: not sent")
	ErrUnknown                 = errors.New("zkio: outcome unknown")
	ErrNoNode                  = errors.New("zkio: no such node")
	ErrNodeExists              = errors.New("zkio: node exists")
	ErrNoAuth                  = errors.New("zkio: not authorized")
	ErrBadVersion              = errors.New("zkio: bad version")
	ErrNotEmpty                = errors.New("zkio: node has children")
	ErrNoChildrenForEphemerals = errors.New("zkio: parent is an ephemeral node")
	ErrInvalidACL              = errors.New("zkio: invalid ACL")
	ErrAuthFailed              = errors.New("zkio: authentication failed")
	ErrQuota                   = errors.New("zkio: quota exceeded")
	ErrBadArguments            = errors.New("zkio: bad arguments")
)

type Class int

const (
	Unknown     Class = iota // may have happened: resolve, then retry. The default.
	NotSent                  // surely did not happen: retry
	SessionOver              // the session is over: start again in the next
	Definite                 // the server refused: it did not happen and will not
	Closed                   // the client is closed
)

func ClassOf(err error) Class { panic("stub") }
