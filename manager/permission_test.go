// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// owner is the user who owns the directories of an owned manager.
const owner = "owner:secret"

// owned gives a manager directories of its own, in which others have the rights perms.
func owned(perms int32) func(*Config) {
	return func(cfg *Config) {
		as(owner)(cfg)
		cfg.ACL = ownersACL(perms)
	}
}

// ownersACL gives owner all rights, and others perms.
func ownersACL(perms int32) []zkio.ACL {
	acl := []zkio.ACL{{Perms: zkio.PermAll, Scheme: "digest", ID: digest(owner)}}
	if perms != 0 {
		acl = append(acl, zkio.ACL{Perms: perms, Scheme: "world", ID: "anyone"})
	}
	return acl
}

// as gives a manager the credentials of user, name:password.
func as(user string) func(*Config) {
	return func(cfg *Config) { cfg.Auth = []zkio.Auth{{Scheme: "digest", Data: []byte(user)}} }
}

// eachPerms runs test on both servers for each set of rights.
func eachPerms(t *testing.T, all []int32, test func(s *backend, perms int32)) {
	for _, perms := range all {
		t.Run(fmt.Sprintf("%#x", perms), func(t *testing.T) { everywhere(t, func(s *backend) { test(s, perms) }) })
	}
}

// wantSays checks that an error contains all of the parts, in one line.
func wantSays(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		expect(t, strings.Contains(fmt.Sprint(err), part), "the error does not say %q:\n%v", part, err)
	}
	expect(t, !strings.Contains(fmt.Sprint(err), "\n"), "the error has more than one line:\n%v", err)
}

// Open finds out which rights a process lacks under the root, and says so.
func TestF011_OpenWithoutPermission(t *testing.T) {
	says := map[int32]string{
		zkio.PermRead:                   "create a node",
		zkio.PermCreate:                 "list",
		zkio.PermCreate | zkio.PermRead: "delete",
		zkio.PermRead | zkio.PermDelete: "create a node",
		0:                               "create a node",
	}
	eachPerms(t, slices.Collect(maps.Keys(says)), func(s *backend, perms int32) {
		s.open("owner", owned(perms))
		err := s.refused("a")
		wantErr(s.t, "open", err, zkio.ErrNoAuth)
		wantSays(s.t, err, "holdfast: open: ", says[perms], s.root, "not authorized", "Config.Auth is empty", "ACL", "Config.Root")
		names, _, err := s.session(owner).Children(s.root)
		expect(s.t, err == nil && len(names) == 0, "the probe left %v, %v", names, err)
	})
}

// A process that may not read its own nodes cannot hold a lock for longer than its
// first lease, since no write of its proves anything. Open says so.
func TestOpenNeedsToReadItsOwnNodes(t *testing.T) {
	everywhere(t, func(s *backend) {
		s.open("maker") // of the root, where everything is allowed
		err := s.refused("a", as(owner), func(cfg *Config) {
			cfg.ACL = []zkio.ACL{{Perms: zkio.PermAll &^ zkio.PermRead, Scheme: "digest", ID: digest(owner)}}
		})
		wantErr(s.t, "open", err, zkio.ErrNoAuth)
		wantSays(s.t, err, "read a node under the root", "ACL")
	})
}

// A user that ZooKeeper does not know, or takes for another, is told what that looks
// like: ZooKeeper never says that a password is wrong.
func TestF012_OpenWithWrongCredentials(t *testing.T) {
	for what, test := range map[string]struct {
		with func(*Config)
		want error
		says string
	}{
		"a wrong password":          {as("owner:sceret"), zkio.ErrNoAuth, "nothing else shows that the user or password is wrong"},
		"another user":              {as("somebody:secret"), zkio.ErrNoAuth, "nothing else shows that the user or password is wrong"},
		"a user without a password": {as("owner"), zkio.ErrNoAuth, "nothing else shows that the user or password is wrong"},
		"a scheme that the server does not have": {func(cfg *Config) {
			cfg.Auth = []zkio.Auth{{Scheme: "digset", Data: []byte(owner)}}
		}, zkio.ErrAuthFailed, `refused the credentials of scheme "digset"`},
		"one good scheme, and one that the server does not have": {func(cfg *Config) {
			as(owner)(cfg)
			cfg.Auth = append(cfg.Auth, zkio.Auth{Scheme: "nosuchscheme"})
		}, zkio.ErrAuthFailed, `refused the credentials of scheme "nosuchscheme"`},
	} {
		t.Run(what, func(t *testing.T) {
			everywhere(t, func(s *backend) {
				h := mustLock(s.t, s.lock("owner", owned(0)))
				err := s.refused("a", test.with)
				wantErr(s.t, "open", err, test.want)
				wantSays(s.t, err, "holdfast: open: ", test.says)
				if errors.Is(err, zkio.ErrNoAuth) {
					wantSays(s.t, err, "create a node")
				}
				for _, secret := range []string{"secret", "sceret"} {
					expect(s.t, !strings.Contains(fmt.Sprint(err), secret),
						"the error gives the password away:\n%v", err)
				}
				wantHeld(s.t, "the owner", h)
				mustRelease(s.t, h)
			})
		})
	}
}

// A stranger can do with a lock's node and directory what the ACL says, and nothing
// else.
func TestStrangers(t *testing.T) {
	eachPerms(t, []int32{0, zkio.PermRead, zkio.PermRead | zkio.PermCreate}, func(s *backend, perms int32) {
		l := s.lock("owner", owned(perms))
		h := mustLock(s.t, l)
		node, dir := grantOf(s.t, h).Path, l.Path()
		z := s.session("stranger:secret")
		may := func(what string, allowed bool, err error) {
			s.t.Helper()
			wantErr(s.t, what, err, map[bool]error{false: zkio.ErrNoAuth, true: nil}[allowed])
		}
		read, create := perms&zkio.PermRead != 0, perms&zkio.PermCreate != 0
		may("delete the node", false, z.Delete(node, -1))
		may("delete the node in a transaction", false, errOf(z.Multi(zkio.DeleteOp(node, -1))))
		may("write the node", false, errOf(z.Set(node, nil, -1)))
		_, _, err := z.Get(node)
		may("read the node", read, err)
		may("read the node's ACL", read, errOf(z.ACL(node)))
		_, _, err = z.Children(dir)
		may("list the queue", read, err)
		_, _, err = z.Get(dir)
		may("read the directory", read, err)
		may("write the directory", false, errOf(z.Set(dir, []byte("x"), -1)))
		may("delete the directory", false, z.Delete(dir, -1))
		may("create a node in the directory", create, z.Create(dir+"/x", nil, nil))
		may("create a directory", create, z.Create(s.root+"/more", nil, nil))
		if err := z.Delete(s.root+"/none", -1); !errors.Is(err, zkio.ErrNoNode) || s.zk == nil || !realzk.Before(s.t, "3.6") { // which looks for the node first
			may("delete in the root", false, err)
		}
		_, _, readable, err := z.Look(node) // which takes no right, or is told that there is one
		expect(s.t, readable == read && err == nil, "the node is readable: %v, %v; want %v", readable, err, read)
		wantHeld(s.t, "the holder", h)
		mustRelease(s.t, h)
	})
}

// A process lacks the right to create, list or look in a lock's directory: the wait
// fails at once, and other locks go on.
func TestF011_LockWithoutPermission(t *testing.T) {
	eachPerms(t, []int32{0, zkio.PermRead, zkio.PermRead | zkio.PermDelete}, func(s *backend, perms int32) {
		m := s.open("a") // makes the root, for everyone
		mustRelease(s.t, mustLock(s.t, s.lock("owner", owned(perms))))
		l := exclusive(s.t, m, "jobs")
		other := mustLock(s.t, exclusive(s.t, m, "other"))
		wantErr(s.t, "lock", errOf(l.Lock(s.t.Context())), zkio.ErrNoAuth)
		wantErr(s.t, "trylock", errOf(l.TryLock(s.t.Context())), zkio.ErrNoAuth)
		w := l.Acquire(s.t.Context())
		wantErr(s.t, "acquire", errOf(w.Granted().Wait(s.t.Context())), zkio.ErrNoAuth)
		<-w.Lost()
		wantErr(s.t, "its end", errOf(w.Release().Wait(s.t.Context())), zkio.ErrNoAuth)
		wantState(s.t, l, state.Free, 0)
		wantHeld(s.t, "another lock", other)
		mustRelease(s.t, other)
	})
}

// The client presents its credentials on every connection: what follows a reconnect
// is done with the rights of the ACL.
func TestF012_CredentialsSurviveReconnects(t *testing.T) {
	everywhere(t, func(s *backend) {
		w := &wires{via: s.dial}
		l, next := s.lock("owner", owned(0), func(cfg *Config) { cfg.Dialer = w.dial }), s.lock("next", owned(0))
		reconnect := func() {
			before := l.m.client.Stats().Reconnects
			w.cut()
			s.until("reconnected", func() bool { return l.m.client.Stats().Reconnects > before })
		}
		for range 3 {
			reconnect()
			h := mustLock(s.t, l) // creates
			reconnect()
			wantErr(s.t, "another's trylock", errOf(next.TryLock(s.t.Context())), ErrLocked)
			queued := next.Acquire(s.t.Context())
			node := grantOf(s.t, h).Path
			w.cut()
			mustRelease(s.t, h) // deletes
			_, there, err := next.m.client.Session().Exists(node)
			expect(s.t, !there && err == nil, "the node is there: %v, %v", there, err)
			s.granted(queued)
			behind := l.Acquire(s.t.Context())
			s.untilQueued(next, 2)
			reconnect()
			mustRelease(s.t, queued)
			s.granted(behind) // lists and reads
			mustRelease(s.t, behind)
		}
		wantEq(s.t, "sessions", l.m.client.Stats().Sessions, 1)
	})
}

// A process may not delete its node: the release of that lock fails with that error,
// other locks go on. The deletion is made up for when the right is given back.
func TestF083_ReleaseWithoutPermissionForAWhile(t *testing.T) {
	everywhere(t, func(s *backend) {
		strict := zkio.PermCreate | zkio.PermRead
		l, theirs := s.lock("a"), s.lock("owner", owned(strict))
		mustRelease(s.t, mustLock(s.t, theirs))
		other, more := exclusive(s.t, l.m, "other"), exclusive(s.t, l.m, "more")
		keep := mustLock(s.t, other)

		h := mustLock(s.t, l)
		_, err := h.Release().Wait(s.t.Context())
		wantErr(s.t, "release", err, zkio.ErrNoAuth)
		var e *Error
		expect(s.t, errors.As(err, &e) && e.Op == "release" && e.Name == "jobs", "which lock? %v", err)
		wantState(s.t, l, state.Releasing, 0)
		waiting, behind := l.Acquire(s.t.Context()), theirs.Acquire(s.t.Context())
		s.untilQueued(theirs, 2)

		wantHeld(s.t, "another lock", keep)
		mustRelease(s.t, mustLock(s.t, more))
		mustRelease(s.t, keep)
		mustRelease(s.t, mustLock(s.t, other))
		wantState(s.t, l, state.Releasing, 0)
		pending(s.t, "the next round's grant", waiting.Granted())
		pending(s.t, "the owner's grant", behind.Granted())

		s.setACL(l.Path(), ownersACL(strict|zkio.PermDelete)...)
		s.granted(behind)
		mustRelease(s.t, behind)
		s.granted(waiting)
		mustRelease(s.t, waiting)
		wantState(s.t, l, state.Free, 0)
	})
}

// Directories in which everyone may delete are reported if the configured ACL would
// not allow that: the root by Open, and the first such directory of a lock.
func TestWarnsOfDirectoriesThatAreOpen(t *testing.T) {
	everywhere(t, func(s *backend) {
		warned := func(what string, paths ...string) {
			s.t.Helper()
			lines := s.log.with("WARN holdfast: every client may delete")
			s.log.clear()
			if len(lines) != len(paths) {
				s.t.Fatalf("%s: %d warnings, want %d: %q", what, len(lines), len(paths), lines)
			}
			for i, path := range paths {
				wantSays(s.t, errors.New(lines[i]), "path="+path+" ", "acl=world:anyone:", "setAcl")
			}
		}
		open := func() *Manager { return s.open("owner", owned(zkio.PermRead)) }
		cycle := func(m *Manager, name string) { mustRelease(s.t, mustLock(s.t, exclusive(s.t, m, name))) }
		everyone := s.open("everyone")
		cycle(everyone, "jobs")
		cycle(everyone, "other")
		s.open("everyone too", func(cfg *Config) {
			cfg.ACL = []zkio.ACL{{Perms: zkio.PermAll, Scheme: "world", ID: "anyone"}}
		})
		s.open("everyone, in the end", owned(zkio.PermAdmin))
		warned("the ACL restricts no one")

		m := open()
		warned("open", s.root)
		for range 2 {
			cycle(m, "jobs")
			warned("the first lock", s.root+"/jobs")
			cycle(m, "jobs")
			cycle(m, "other")
			cycle(m, "own")
			warned("another lock, and one of its own")
			m = open()
			warned("open again", s.root)
		}
		for _, perms := range []int32{zkio.PermDelete, zkio.PermAdmin} {
			s.setACL(s.root, ownersACL(perms)...)
			open()
			warned(fmt.Sprintf("with %#x", perms), s.root)
		}
		s.setACL(s.root, ownersACL(zkio.PermRead|zkio.PermCreate|zkio.PermWrite)...)
		m = open()
		warned("with harmless rights")
		cycle(m, "own")
		warned("a directory of its own")
	})
}

// A process asks for no ACLs if its own restricts no one. Otherwise it sends one
// request when it looks at a lock's directory for the first time.
func TestCostOfLookingAtACLs(t *testing.T) {
	bubble(t, func(c *cluster) {
		b, m := c.open("b"), c.open("owner", owned(0))
		wantEq(c.t, "requests of Open for ACLs", m.client.Stats().Sent["getACL"], 1)
		l, n := exclusive(c.t, m, "jobs"), c.tally(m)
		c.cycle(l)
		synctest.Wait()
		n.want("the first time", "createContainer=1 delete=1 exists=1 getACL=1 getData=2 multi=1")
		for range 3 {
			c.cycle(l)
			n.want("after that", "delete=1 multi=1")
		}
		for _, name := range []string{"open", "open too"} {
			c.cycle(exclusive(c.t, b, name))
			c.cycle(exclusive(c.t, m, name))
		}
		n.want("once an open one was reported", "delete=2 getACL=1 getData=2 multi=2")
		other := c.open("b", func(cfg *Config) { cfg.Root = "/else" })
		wantEq(c.t, "those of Open without an ACL of its own", other.client.Stats().Sent["getACL"], 0)
	})
}

// A process may create nodes but not delete them: the release fails with that error,
// the lock stays taken, other locks go on, and the end of the session frees it.
func TestF083_ReleaseWithoutPermission(t *testing.T) {
	bubble(t, func(c *cluster) {
		l, owner := c.lock("a"), c.lock("owner", owned(zkio.PermCreate|zkio.PermRead))
		c.cycle(owner)
		keep := mustLock(c.t, exclusive(c.t, l.m, "other"))

		h := mustLock(c.t, l)
		end := h.Release()
		later(time.Second)
		wantErr(c.t, "release", settled(c.t, "release", end), zkio.ErrNoAuth)
		wantState(c.t, l, state.Releasing, 0)
		next, theirs := l.Acquire(c.t.Context()), owner.Acquire(c.t.Context())
		later(time.Minute)
		c.waiting(next, theirs)
		c.held(keep)

		// An administrator deletes the node.
		g, _, _ := h.Granted().Poll()
		c.remove(g.Path)
		later(time.Minute)
		c.held(theirs)
		c.unlock(theirs)
		c.held(next)

		// The end of the session does.
		wantErr(c.t, "unlock", next.Unlock(c.t.Context()), zkio.ErrNoAuth)
		c.unlock(keep)
		err := l.m.Shutdown(c.t.Context())
		expect(c.t, errors.As(err, new(*Error)) && strings.Contains(err.Error(), "jobs"),
			"Shutdown does not say which node stayed: %v", err)
		c.wantNodes(0)
		c.cycle(owner)
	})
}
