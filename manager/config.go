// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/oneline"
	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/zkio"
)

// Config says where a Manager's ZooKeeper is and how the Manager behaves. The
// zero value with Servers set works. Open refuses a Config that cannot work and
// names all its faults at once.
type Config struct {
	// ACL is set on the directories and nodes that the manager creates. ZooKeeper
	// checks the right to delete a node on its parent, so a client that may not
	// delete in a lock's directory cannot break the lock. The manager itself needs
	// the rights to read, create and delete, and saves requests if it also has the
	// right to write. The nodes of Lock.Ask and Lock.Revoke also give the right to
	// write to every client that this ACL lets create nodes, since the holder must
	// write its answer into them.
	//
	// An ACL does not change what exists. So if this one does not let every client
	// delete, the manager reads the ACLs of directories that it finds: Root's in
	// Open, and a lock's before the first acquisition, which costs one request. If
	// every client may delete there, it logs a warning that says what to do: one
	// for Root, and one for the first such directory of a lock.
	// Defaults to all rights for every client.
	ACL []zkio.ACL

	// Auth is sent first on every connection. Defaults to none.
	Auth []zkio.Auth

	// Chroot is a path that Root is below: what ParseServers finds at the end of a
	// connection string. Open creates Root, but not Chroot, and fails with ErrNoChroot if
	// there is none: a process that mistypes it would have locks of its own, beside those
	// that the others share.
	// Defaults to none: Root is an absolute path.
	Chroot string

	// CloseTimeout bounds Close. Defaults to 5 s.
	CloseTimeout time.Duration

	// Dialer opens the connections to ZooKeeper, instead of the net package. It
	// must be safe for concurrent use and honour ctx.
	// Defaults to a net.Dialer.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)

	// Endpoint is where other processes can reach this one, such as the address of its
	// RPC server. The manager writes it into this process's nodes and does not use it
	// itself: a process that asks who holds a lock finds it in Contender.Endpoint. Every
	// client that may read the nodes can read it, so it must not contain a secret. It is
	// at most 255 bytes of valid UTF-8, without control characters.
	// Defaults to none.
	Endpoint string

	// Label names this process in its nodes, for people who look at a queue.
	// Defaults to the program's file name.
	Label string

	// Linger is how long this process keeps a lock after its last holder has left, while
	// no other process wants it. A caller that comes meanwhile has the lock at once,
	// without a request. Such an idle lock is given up as soon as another process queues
	// for it, which then waits for two requests at most, or revokes it; when
	// this process asks for the other lock of a read/write pair; at Shutdown; and when
	// its time is over, or up to a quarter later, or 10 ms if that is more.
	//
	// Hold.Unlock returns nil at once if the lock lingers, and the future of Hold.Release
	// stays pending until the lock is given up. To other processes an idle lock is held:
	// Holder names this process, and their TryLock returns ErrLocked. If this process is
	// stopped or cut off, they wait until its session ends, as for a lock that is held.
	// Lock.SetLinger sets the time of one lock, and Lock.ReleaseIdle gives it up.
	// Defaults to 0: a lock is given up when its last holder leaves.
	Linger time.Duration

	// Logger gets what no caller learns from an error: connections that are lost and
	// come back, locks that were lost, locks that other processes ask for,
	// holds that were dropped without a release, contenders that do not go away by
	// themselves, and other kinds of lock in a lock's directory. At DEBUG, it gets a
	// line for each wait, grant and release.
	// Defaults to slog.Default().
	Logger *slog.Logger

	// LostMargin makes Lost close this long before the server might give the lock
	// to another process, so that holders have time to stop. It must be less than
	// a quarter of SessionTimeout.
	// Defaults to 0.
	LostMargin time.Duration

	// Observer is told what happens to the locks of this process and to its session: see
	// Event. The manager calls it on one goroutine of its own, with one event after the
	// other. The events of a lock come in the order in which they happened. The first event
	// may come before Open has returned.
	//
	// EventLost, EventFailed, EventRevoked and the events of the session come at once. The
	// others wait for up to 10 ms, so that the manager's goroutine wakes once for many of
	// them; they come earlier if one that does not wait follows, or if the manager is closed.
	// Event.Time says when it happened. If a lock's node is gone and it is not known why,
	// EventLost, and what follows it, waits for up to 100 ms until the manager knows whether
	// the session has ended.
	//
	// Observer may block. Then events wait, and if more than 4096 wait, the newest are
	// dropped and counted in ManagerStats.DroppedEvents. Close waits until Observer has
	// been told of all events that wait, so Observer must not call Close or Shutdown. If
	// it panics or ends its goroutine, the manager logs that, the first time, and goes on.
	//
	// Entering and leaving a lock that this process owns makes no event, but for the
	// first entry.
	// Defaults to none, which costs nothing.
	Observer func(Event)

	// OnAsk answers the questions that callers of Lock.Ask put to this process about a
	// lock that it holds. The manager calls it on a goroutine of its own, concurrently
	// for up to 16 questions of other processes, and for any number of this process's
	// own. It calls it only while the lock is held. The lock may be released or lost
	// meanwhile, so a function that must not act without it has to check a Hold.
	//
	// Nothing proves who asks, nor what Question.From says: any client that may create
	// nodes under Root can ask. Treat the question as input from a stranger.
	//
	// ctx ends when the asker gives up, and when the manager is closed. Close waits
	// until OnAsk has returned, so OnAsk must return when ctx ends, and must not call
	// Close or Shutdown.
	//
	// The asker gets the reply, of at most 64 KiB, or the error's text: see Answer. If
	// OnAsk panics, the manager logs the panic, and the asker gets its text as an error.
	// Defaults to none: askers learn only the state of the lock in this process.
	OnAsk func(ctx context.Context, q Question) (reply []byte, err error)

	// Root is the path, below Chroot, under which the locks' directories are created.
	// Defaults to "/holdfast".
	Root string

	// Sentinel is a helper process that closes the session at once when this process has been
	// killed, so that other processes need not wait for the session timeout. See package
	// sentinel. Several Managers can have the same one. It must be closed after them.
	// Defaults to none.
	Sentinel *sentinel.Sentinel

	// Servers are the addresses of the ensemble, as host:port. The port defaults
	// to 2181. See ParseServers for a connection string.
	// There is no default.
	Servers []string

	// SessionTimeout is how long ZooKeeper keeps the locks of a process that it
	// does not hear from. The server may change it to fit its own bounds. It must
	// be at least twice the server's tickTime. Below about 4 s, a failover of the
	// ensemble loses locks. A connection that is cut silently loses them after
	// half of it at the latest.
	// Defaults to 10 s.
	SessionTimeout time.Duration

	// Tenure is how long this process may keep a lock while another process waits
	// for it. Its goroutines share the lock, so if new ones keep arriving before
	// the last one leaves, it would never be given up. Therefore newcomers must
	// let the other process go first once it has waited for the tenure: they queue
	// behind it, and the lock is released when the present holders have left. A
	// waiting process has to be seen twice, a tenure apart, so a busy lock is
	// given up after about two tenures. The read lock is given up in the same way
	// for a writer of this process, once that waits and the read lock has been
	// held for the tenure. Holders are not disturbed, but a holder that acquires
	// the lock again as a newcomer waits for itself (see Lock.Acquire). If the one
	// that newcomers wait for gives up, they enter again.
	// If Tenure is negative, the process keeps a lock for as long as its
	// goroutines keep arriving, and waiting processes starve, without bound. That
	// is for a process that is to have its locks to itself.
	// Defaults to 100 ms.
	Tenure time.Duration

	// TLS enables TLS with this configuration. An empty ServerName is set to the
	// host of the server that is dialled.
	// Defaults to none: plain TCP.
	TLS *tls.Config

	// MaxPathBytes limits how many locks the process may hold and wait for at once: the paths
	// of its nodes in ZooKeeper may have so many bytes in all, with four more for each. A
	// request for a lock beyond that fails with zkio.ErrTooManyNodes. With names of 20 bytes
	// the default of 1 MiB permits some 11,000 locks.
	//
	// More would be a danger for all that use the ensemble: when a session ends whose paths
	// are more than the servers can read (twice their jute.maxbuffer, which is 1 MiB by
	// default), they fail, and cannot start again (ZOOKEEPER-4306). To have more locks, open
	// another Manager, or raise jute.maxbuffer on all servers, and then this. Below 0 there is
	// no limit.
	// Defaults to 1 MiB.
	MaxPathBytes int

	// Workers is the number of I/O goroutines, each of which deals with one lock at a time.
	// It must be at least 9: eight are reserved for releases. While more locks are to be
	// dealt with than there are goroutines, their requests are put together.
	// Defaults to 64.
	Workers int

	suspended func() time.Duration // set by tests only: zkio.Config.Suspended
	longTail  int                  // set by tests only: see listAlong
}

const (
	defaultRoot           = "/holdfast"
	defaultSessionTimeout = 10 * time.Second
	defaultCloseTimeout   = 5 * time.Second
	defaultTenure         = 100 * time.Millisecond
	defaultWorkers        = 64
	minWorkers            = 9
	minSessionTimeout     = 100 * time.Millisecond
	maxSessionTimeout     = 24 * time.Hour
	maxEndpoint           = 255 // bytes
)

// complete returns c with its defaults filled in, or an error that wraps
// ErrBadConfig and names every fault.
func (c Config) complete() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if len(c.Servers) == 0 {
		fault("Servers is empty: name at least one ZooKeeper server, as host:port")
	}
	servers := make([]string, 0, len(c.Servers))
	for _, s := range c.Servers {
		server, err := zkio.ServerAddress(s)
		if err != nil {
			hint := ""
			if strings.ContainsAny(s, ",/") {
				hint = "; ParseServers takes a connection string apart, such as \"zk1:2181,zk2:2181/chroot\""
			}
			fault("Servers: %w%s", err, hint)
			continue
		}
		servers = append(servers, server)
	}
	c.Servers = servers

	if c.Root == "" {
		c.Root = defaultRoot
	}
	if err := checkRoot(c.Root); err != nil {
		fault("Root: %w", err)
	}
	if c.Chroot != "" {
		if err := checkRoot(c.Chroot); err != nil {
			fault("Chroot: %w", err)
		}
		c.Root = path.Join(c.Chroot, c.Root)
		if len(c.Root) > maxPath/2 {
			fault("Chroot and Root together: %w", checkRoot(c.Root))
		}
	}

	duration := func(name string, d *time.Duration, preset, least, most time.Duration) {
		if *d == 0 {
			*d = preset
		}
		if *d < least || *d > most {
			fault("%s is %v: it must be between %v and %v", name, *d, least, most)
		}
	}
	duration("SessionTimeout", &c.SessionTimeout, defaultSessionTimeout, minSessionTimeout, maxSessionTimeout)
	duration("CloseTimeout", &c.CloseTimeout, defaultCloseTimeout, time.Millisecond, time.Hour)
	if c.LostMargin < 0 || c.LostMargin >= c.SessionTimeout/4 {
		fault("LostMargin is %v: it must not be negative and must be less than a quarter of SessionTimeout (%v)", c.LostMargin, c.SessionTimeout)
	}

	if c.Linger < 0 {
		fault("Linger is %v: it must not be negative", c.Linger)
	}

	switch {
	case len(c.Endpoint) > maxEndpoint:
		fault("Endpoint has %d bytes: at most %d are allowed", len(c.Endpoint), maxEndpoint)
	case !utf8.ValidString(c.Endpoint):
		fault("Endpoint %q is not valid UTF-8", c.Endpoint)
	case strings.ContainsFunc(c.Endpoint, unicode.IsControl):
		fault("Endpoint %q has a control character", c.Endpoint)
	}

	if c.Sentinel != nil && (c.TLS != nil || c.Dialer != nil) && !c.Sentinel.Reaches() {
		fault("Sentinel: its process cannot be told of TLS and Dialer: pass sentinel.Main a function that sets them there")
	}

	if c.Tenure == 0 {
		c.Tenure = defaultTenure
	}
	if c.Workers == 0 {
		c.Workers = defaultWorkers
	}
	if c.Workers < minWorkers {
		fault("Workers is %d: it must be at least %d", c.Workers, minWorkers)
	}

	c.ACL, c.Auth = slices.Clone(c.ACL), slices.Clone(c.Auth)
	for i := range c.Auth {
		c.Auth[i].Data = slices.Clone(c.Auth[i].Data)
	}
	for i, a := range c.ACL {
		if err := checkACL(a); err != nil {
			fault("ACL[%d]: %w", i, err)
		}
	}
	for i, a := range c.Auth {
		if a.Scheme == "" {
			fault("Auth[%d] has no scheme: say \"digest\" for user:password", i)
		}
	}

	if c.Label == "" && len(os.Args) > 0 { // os.Args is empty in a shared library
		c.Label = filepath.Base(os.Args[0])
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if len(faults) > 0 {
		return c, fmt.Errorf("%w: %w", ErrBadConfig, oneline.Join(faults...))
	}
	return c, nil
}

// checkACL refuses what ZooKeeper would refuse, before anything is sent.
func checkACL(a zkio.ACL) error {
	switch {
	case a.Perms&^zkio.PermAll != 0 || a.Perms == 0:
		return fmt.Errorf("permissions %#x are not between 1 and %#x", a.Perms, zkio.PermAll)
	case a.Scheme == "":
		return errors.New("no scheme: say \"world\", \"digest\", \"auth\", \"ip\" or what the server knows")
	case a.Scheme == "world" && a.ID != "anyone":
		return fmt.Errorf("scheme world has only the id \"anyone\", not %q", a.ID)
	case a.Scheme == "digest" && strings.Count(a.ID, ":") != 1:
		return fmt.Errorf("scheme digest needs the id user:base64(sha1(user:password)), not %q", a.ID)
	}
	return nil
}

// ParseServers splits a ZooKeeper connection string as other clients write it:
// "zk1:2181,zk2:2181/some/root". A host without a port gets 2181; IPv6 addresses
// stand in brackets. The chroot, which is "" if the string has none, is for
// Config.Chroot. ParseServers resolves no names and does not block. Its errors wrap
// ErrBadConfig.
func ParseServers(s string) (servers []string, chroot string, err error) {
	list := s
	if i := strings.IndexByte(s, '/'); i >= 0 {
		list, chroot = s[:i], s[i:]
		if chroot == "/" {
			chroot = ""
		} else if err := checkRoot(chroot); err != nil {
			return nil, "", fmt.Errorf("%w: connection string %q: chroot: %w", ErrBadConfig, s, err)
		}
	}
	for part := range strings.SplitSeq(list, ",") {
		server, err := zkio.ServerAddress(strings.TrimSpace(part))
		if err != nil {
			return nil, "", fmt.Errorf("%w: connection string %q: %w", ErrBadConfig, s, err)
		}
		servers = append(servers, server)
	}
	return servers, chroot, nil
}
