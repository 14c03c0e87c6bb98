// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// owner is the user whose the directories of a manager are that is owned.
const owner = "owner:secret"

// owned makes a manager one whose directories are its own: others may do in them
// what perms says.
func owned(perms int32) func(*Config) {
	return func(cfg *Config) {
		as(owner)(cfg)
		cfg.ACL = ownersACL(perms)
	}
}

// ownersACL lets owner do everything, and others what perms says.
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

// Open finds out what a process may not do under the root, and says it.
func TestF011_OpenWithoutPermission(t *testing.T) {
	for _, test := range []struct {
		perms int32
		says  string
	}{
		{zkio.PermRead, "create a node"},
		{zkio.PermCreate, "list"},
		{zkio.PermCreate | zkio.PermRead, "delete"},
		{zkio.PermRead | zkio.PermDelete, "create a node"},
		{0, "create a node"},
	} {
		t.Run(fmt.Sprintf("%#x", test.perms), func(t *testing.T) {
			everywhere(t, func(p *premises) {
				p.open("owner", owned(test.perms))
				err := p.refused("a")
				var e *Error
				if !errors.As(err, &e) || e.Op != "open" || !errors.Is(err, zkio.ErrNoAuth) {
					p.t.Errorf("got %v", err)
				}
				for _, part := range []string{test.says, p.root, "not authorized", "Config.Auth is empty", "ACL", "Config.Root"} {
					if !strings.Contains(fmt.Sprint(err), part) {
						p.t.Errorf("the error does not say %q:\n%v", part, err)
					}
				}
				names, _, err := p.session(owner).Children(p.root)
				if err != nil || len(names) != 0 {
					p.t.Errorf("the probe left %v, %v", names, err)
				}
			})
		})
	}
}

// Whom ZooKeeper does not know, or takes for somebody else, Open says what that
// looks like: ZooKeeper never says that a password is wrong.
func TestF012_OpenWithWrongCredentials(t *testing.T) {
	for _, test := range []struct {
		what string
		with func(*Config)
		want error
		says []string
	}{
		{"a wrong password", as("owner:sceret"), zkio.ErrNoAuth, []string{"create a node", "user or password is wrong"}},
		{"another user", as("somebody:secret"), zkio.ErrNoAuth, []string{"create a node", "user or password is wrong"}},
		{"a user without a password", as("owner"), zkio.ErrNoAuth, []string{"create a node", "user or password is wrong"}},
		{"a scheme that the server does not have", func(cfg *Config) {
			cfg.Auth = []zkio.Auth{{Scheme: "digset", Data: []byte(owner)}}
		}, zkio.ErrAuthFailed, []string{`refused the credentials of scheme "digset"`}},
		{"one good scheme, and one that the server does not have", func(cfg *Config) {
			as(owner)(cfg)
			cfg.Auth = append(cfg.Auth, zkio.Auth{Scheme: "nosuchscheme"})
		}, zkio.ErrAuthFailed, []string{`refused the credentials of scheme "nosuchscheme"`}},
	} {
		t.Run(test.what, func(t *testing.T) {
			everywhere(t, func(p *premises) {
				m := p.open("owner", owned(0))
				h := mustLock(p.t, exclusive(p.t, m, "jobs"))
				err := p.refused("a", test.with)
				wantErr(p.t, "open", err, test.want)
				for _, part := range append(test.says, "holdfast: open: ") {
					if !strings.Contains(fmt.Sprint(err), part) {
						p.t.Errorf("the error does not say %q:\n%v", part, err)
					}
				}
				for _, secret := range []string{"secret", "sceret"} {
					if strings.Contains(fmt.Sprint(err), secret) {
						p.t.Errorf("the error gives the password away:\n%v", err)
					}
				}
				wantErr(p.t, "the owner", h.Err(), nil)
				mustRelease(p.t, h)
			})
		})
	}
}

// A stranger can do with a lock's node and directory what the ACL says, and
// nothing else.
func TestStrangers(t *testing.T) {
	for _, perms := range []int32{0, zkio.PermRead, zkio.PermRead | zkio.PermCreate} {
		t.Run(fmt.Sprintf("%#x", perms), func(t *testing.T) {
			everywhere(t, func(p *premises) {
				l := exclusive(p.t, p.open("owner", owned(perms)), "jobs")
				h := mustLock(p.t, l)
				node := grantOf(p.t, h).Path
				s := p.session("stranger:secret")
				may := func(what string, allowed bool, err error) {
					p.t.Helper()
					if allowed {
						wantErr(p.t, what, err, nil)
					} else {
						wantErr(p.t, what, err, zkio.ErrNoAuth)
					}
				}
				read, create := perms&zkio.PermRead != 0, perms&zkio.PermCreate != 0
				may("delete the node", false, s.Delete(node, -1))
				_, err := s.Multi(zkio.DeleteOp(node, -1))
				may("delete the node in a transaction", false, err)
				_, err = s.Set(node, nil, -1)
				may("write the node", false, err)
				_, _, err = s.Get(node)
				may("read the node", read, err)
				_, err = s.ACL(node)
				may("read the node's ACL", read, err)
				_, _, err = s.Children(l.Path())
				may("list the queue", read, err)
				_, _, err = s.Get(l.Path())
				may("read the directory", read, err)
				_, err = s.Set(l.Path(), []byte("x"), -1)
				may("write the directory", false, err)
				may("delete the directory", false, s.Delete(l.Path(), -1))
				may("create a node in the directory", create, s.Create(l.Path()+"/x", nil, nil))
				may("create a directory", create, s.Create(p.root+"/more", nil, nil))
				may("delete in the root", false, s.Delete(p.root+"/none", -1))
				_, there, err := s.Exists(node)
				if !there || err != nil {
					p.t.Errorf("the node is there: %v, %v", there, err) // ZooKeeper tells everybody
				}
				wantErr(p.t, "the holder", h.Err(), nil)
				mustRelease(p.t, h)
			})
		})
	}
}

// A process may not create, list or look in a lock's directory: the wait fails
// with that error, at once, and other locks go on.
func TestF011_LockWithoutPermission(t *testing.T) {
	for _, perms := range []int32{0, zkio.PermRead, zkio.PermRead | zkio.PermDelete} {
		t.Run(fmt.Sprintf("%#x", perms), func(t *testing.T) {
			everywhere(t, func(p *premises) {
				m := p.open("a") // makes the root, for everybody
				mustRelease(p.t, mustLock(p.t, exclusive(p.t, p.open("owner", owned(perms)), "jobs")))
				l, other := exclusive(p.t, m, "jobs"), exclusive(p.t, m, "other")
				h := mustLock(p.t, other)
				_, err := l.Lock(p.t.Context())
				wantErr(p.t, "lock", err, zkio.ErrNoAuth)
				_, err = l.TryLock(p.t.Context())
				wantErr(p.t, "trylock", err, zkio.ErrNoAuth)
				w := l.Acquire(p.t.Context())
				_, err = w.Granted().Wait(p.t.Context())
				wantErr(p.t, "acquire", err, zkio.ErrNoAuth)
				<-w.Lost()
				_, err = w.Release().Wait(p.t.Context())
				wantErr(p.t, "its end", err, zkio.ErrNoAuth)
				wantState(p.t, l, state.Free, 0)
				wantErr(p.t, "another lock", h.Err(), nil)
				mustRelease(p.t, h)
			})
		})
	}
}

// The directory's owner lets others write no data into it: the short way in is
// closed, the long one is not.
func TestDirectoryThatMayNotBeWritten(t *testing.T) {
	everywhere(t, func(p *premises) {
		b := exclusive(p.t, p.open("b"), "jobs")
		a := exclusive(p.t, p.open("owner", owned(zkio.PermCreate|zkio.PermRead|zkio.PermDelete)), "jobs")
		mustRelease(p.t, mustLock(p.t, a))
		for range 2 {
			h := mustLock(p.t, b)
			_, err := a.TryLock(p.t.Context())
			wantErr(p.t, "the owner's trylock", err, ErrLocked)
			mustRelease(p.t, h)
			mustRelease(p.t, mustLock(p.t, a))
		}
		names, _, err := p.session(owner).Children(a.Path())
		if err != nil || len(names) != 0 {
			p.t.Errorf("left: %v, %v", names, err)
		}
	})
}

// Credentials are presented again on every connection: whatever comes after one
// was cut is done with the rights of the ACL.
func TestF012_CredentialsSurviveReconnects(t *testing.T) {
	everywhere(t, func(p *premises) {
		w := &wires{via: p.via}
		l := exclusive(p.t, p.open("owner", owned(0), func(cfg *Config) { cfg.Dialer = w.dial }), "jobs")
		next := exclusive(p.t, p.open("next", owned(0)), "jobs")
		s := p.session(owner)
		reconnect := func() {
			before := l.m.client.Stats().Reconnects
			w.cut()
			for l.m.client.Stats().Reconnects == before {
				<-time.After(time.Millisecond)
			}
		}
		for range 3 {
			reconnect()
			h := mustLock(p.t, l) // creates
			reconnect()
			_, err := next.TryLock(p.t.Context())
			wantErr(p.t, "another's trylock", err, ErrLocked)
			queued := next.Acquire(p.t.Context())
			node := grantOf(p.t, h).Path
			w.cut()
			mustRelease(p.t, h) // deletes
			if _, there, err := s.Exists(node); there || err != nil {
				p.t.Errorf("the node is there: %v, %v", there, err)
			}
			if _, err := queued.Granted().Wait(p.t.Context()); err != nil {
				p.t.Error(err)
			}
			behind := l.Acquire(p.t.Context())
			<-behind.round.io().positionKnown().Done()
			reconnect()
			mustRelease(p.t, queued)
			if _, err := behind.Granted().Wait(p.t.Context()); err != nil { // lists and reads
				p.t.Error(err)
			}
			mustRelease(p.t, behind)
		}
		if n := l.m.client.Stats().Sessions; n != 1 {
			p.t.Errorf("%d sessions", n)
		}
	})
}

// A process may not delete its node: the release of that lock says so, and no
// other. When the right is given back, the deletion is made up for.
func TestF083_ReleaseWithoutPermissionForAWhile(t *testing.T) {
	everywhere(t, func(p *premises) {
		m := p.open("a")
		strict := zkio.PermCreate | zkio.PermRead
		theirs := exclusive(p.t, p.open("owner", owned(strict)), "jobs")
		mustRelease(p.t, mustLock(p.t, theirs))
		p.setACL(theirs.Path(), ownersACL(strict)...) // the last run on this server may have left another
		l, other, more := exclusive(p.t, m, "jobs"), exclusive(p.t, m, "other"), exclusive(p.t, m, "more")
		keep := mustLock(p.t, other)

		h := mustLock(p.t, l)
		_, err := h.Release().Wait(p.t.Context())
		wantErr(p.t, "release", err, zkio.ErrNoAuth)
		var e *Error
		if !errors.As(err, &e) || e.Op != "release" || e.Name != "jobs" {
			p.t.Errorf("which lock? %v", err)
		}
		wantState(p.t, l, state.Releasing, 0)
		waiting := l.Acquire(p.t.Context())
		behind := theirs.Acquire(p.t.Context())
		<-behind.round.io().positionKnown().Done()

		wantErr(p.t, "another lock", keep.Err(), nil)
		mustRelease(p.t, mustLock(p.t, more))
		mustRelease(p.t, keep)
		mustRelease(p.t, mustLock(p.t, other))
		wantState(p.t, l, state.Releasing, 0)
		pending(p.t, "the next round's grant", waiting.Granted())
		pending(p.t, "the owner's grant", behind.Granted())

		p.setACL(l.Path(), ownersACL(strict|zkio.PermDelete)...)
		if _, err := behind.Granted().Wait(p.t.Context()); err != nil {
			p.t.Error(err)
		}
		mustRelease(p.t, behind)
		if _, err := waiting.Granted().Wait(p.t.Context()); err != nil {
			p.t.Error(err)
		}
		mustRelease(p.t, waiting)
		wantState(p.t, l, state.Free, 0)
	})
}

// Directories that let everybody delete are reported if the configured ACL
// would not: the root in Open, and the first such directory of a lock.
func TestWarnsOfDirectoriesThatAreOpen(t *testing.T) {
	everywhere(t, func(p *premises) {
		const warning = "WARN holdfast: everybody may delete"
		warned := func(what string, paths ...string) {
			p.t.Helper()
			lines := p.log.with(warning)
			p.log.clear()
			if len(lines) != len(paths) {
				p.t.Fatalf("%s: %d warnings, want %d: %q", what, len(lines), len(paths), lines)
			}
			for i, path := range paths {
				for _, part := range []string{"path=" + path + " ", "acl=world:anyone:", "setAcl"} {
					if !strings.Contains(lines[i], part) {
						p.t.Errorf("%s: the warning does not say %q: %s", what, part, lines[i])
					}
				}
			}
		}
		open := func(with ...func(*Config)) *Manager {
			return p.open("owner", append([]func(*Config){owned(zkio.PermRead)}, with...)...)
		}
		everybody := p.open("everybody")
		for _, name := range []string{"jobs", "other"} {
			mustRelease(p.t, mustLock(p.t, exclusive(p.t, everybody, name)))
		}
		all := zkio.ACL{Perms: zkio.PermAll, Scheme: "world", ID: "anyone"}
		p.open("everybody too", func(cfg *Config) { cfg.ACL = []zkio.ACL{all} })
		p.open("everybody, in the end", owned(zkio.PermAdmin))
		warned("nobody is restricted")

		m := open()
		warned("open", p.root)
		for range 2 {
			mustRelease(p.t, mustLock(p.t, exclusive(p.t, m, "jobs")))
			warned("the first lock", p.root+"/jobs")
			mustRelease(p.t, mustLock(p.t, exclusive(p.t, m, "jobs")))
			mustRelease(p.t, mustLock(p.t, exclusive(p.t, m, "other")))
			mustRelease(p.t, mustLock(p.t, exclusive(p.t, m, "own")))
			warned("another lock, and one of its own")
			m = open()
			warned("open again", p.root)
		}
		for _, perms := range []int32{zkio.PermDelete, zkio.PermAdmin} {
			p.setACL(p.root, ownersACL(perms)...)
			open()
			warned(fmt.Sprintf("with %#x", perms), p.root)
		}
		p.setACL(p.root, ownersACL(zkio.PermRead|zkio.PermCreate|zkio.PermWrite)...)
		open()
		warned("with nothing that harms")
		mustRelease(p.t, mustLock(p.t, exclusive(p.t, open(), "own")))
		warned("a directory of its own")
	})
}

// What a process asks about ACLs: nothing if its own restricts nobody, else one
// request when a lock's directory is looked at for the first time.
func TestCostOfLookingAtACLs(t *testing.T) {
	bubble(t, func(c *cluster) {
		b := c.open("b")
		m := c.open("owner", owned(0))
		if n := m.client.Stats().Sent["getACL"]; n != 1 {
			c.t.Errorf("Open asks %d times", n)
		}
		l := exclusive(c.t, m, "jobs")
		n := c.tally(m)
		mustRelease(c.t, mustLock(c.t, l))
		n.want("the first time", "createContainer=1 delete=1 getACL=1 getData=2 multi=1")
		for range 3 {
			mustRelease(c.t, mustLock(c.t, l))
			n.want("after that", "delete=1 multi=1")
		}
		for _, name := range []string{"open", "open too"} {
			mustRelease(c.t, mustLock(c.t, exclusive(c.t, b, name)))
			mustRelease(c.t, mustLock(c.t, exclusive(c.t, m, name)))
		}
		n.want("when one that is open was reported", "delete=2 getACL=1 getData=2 multi=2")
		if n := c.open("b", func(cfg *Config) { cfg.Root = "/else" }).client.Stats().Sent["getACL"]; n != 0 {
			c.t.Errorf("without an ACL of its own, Open asks %d times", n)
		}
	})
}

// A process may create nodes but not delete them: the release says so, the lock
// stays taken, other locks are not touched, and the end of the session frees it.
func TestF083_ReleaseWithoutPermission(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		owner := c.lock("owner", owned(zkio.PermCreate|zkio.PermRead))
		mustRelease(c.t, mustLock(c.t, owner))
		l, other := exclusive(c.t, m, "jobs"), exclusive(c.t, m, "other")
		keep := mustLock(c.t, other)

		h := mustLock(c.t, l)
		node := grantOf(c.t, h).Path
		end := h.Release()
		later(time.Second)
		wantErr(c.t, "release", settled(c.t, "release", end), zkio.ErrNoAuth)
		wantState(c.t, l, state.Releasing, 0)
		next := l.Acquire(c.t.Context())
		theirs := owner.Acquire(c.t.Context())
		later(time.Minute)
		pending(c.t, "the next grant here", next.Granted())
		pending(c.t, "the owner's grant", theirs.Granted())
		wantErr(c.t, "another lock", keep.Err(), nil)

		// An administrator helps.
		if err := c.srv.Delete(node); err != nil {
			c.t.Fatal(err)
		}
		later(time.Minute)
		wantErr(c.t, "the owner", theirs.Err(), nil)
		mustRelease(c.t, theirs)
		synctest.Wait()
		wantErr(c.t, "the next round here", next.Err(), nil)

		// Nobody helps: the session's end does.
		wantErr(c.t, "unlock", next.Unlock(c.t.Context()), zkio.ErrNoAuth)
		mustRelease(c.t, keep)
		err := m.Shutdown(c.t.Context())
		if !errors.As(err, new(*Error)) || !strings.Contains(err.Error(), "jobs") {
			c.t.Errorf("Shutdown does not say which node stayed: %v", err)
		}
		c.wantNodes(0)
		mustRelease(c.t, mustLock(c.t, owner))
	})
}
