// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// owned makes a manager one whose directories are its own: others may do in them
// what perms says.
func owned(perms int32) func(*Config) {
	return func(cfg *Config) {
		const user = "owner:secret"
		sum := sha1.Sum([]byte(user)) // what ZooKeeper's digest scheme prescribes
		cfg.Auth = []zkio.Auth{{Scheme: "digest", Data: []byte(user)}}
		cfg.ACL = []zkio.ACL{{Perms: zkio.PermAll, Scheme: "digest", ID: "owner:" + base64.StdEncoding.EncodeToString(sum[:])}}
		if perms != 0 {
			cfg.ACL = append(cfg.ACL, zkio.ACL{Perms: perms, Scheme: "world", ID: "anyone"})
		}
	}
}

// Open finds out what a process may not do under the root, and says it.
func TestOpenWithoutPermission(t *testing.T) {
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
		bubble(t, func(c *cluster) {
			c.open("owner", owned(test.perms))
			start := time.Now()
			_, err := Open(c.t.Context(), c.config("a"))
			var e *Error
			if !errors.As(err, &e) || e.Op != "open" || !errors.Is(err, zkio.ErrNoAuth) ||
				!strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "/holdfast") || !strings.Contains(err.Error(), "ACL") {
				c.t.Errorf("with %#x: got %v, want one that says %q", test.perms, err, test.says)
			}
			if d := time.Since(start); d > 10*time.Second {
				c.t.Errorf("with %#x: it took %v", test.perms, d)
			}
			synctest.Wait()
			if n := len(c.srv.Sessions()); n != 1 {
				c.t.Errorf("%d sessions, want the owner's only", n)
			}
			for _, name := range c.srv.Children("/holdfast") {
				c.t.Errorf("the probe left %s", name)
			}
		})
	}
}

// A process may not create, list or look in a lock's directory: the wait fails
// with that error, at once, and other locks go on.
func TestLockWithoutPermission(t *testing.T) {
	for _, perms := range []int32{0, zkio.PermRead, zkio.PermRead | zkio.PermDelete} {
		bubble(t, func(c *cluster) {
			m := c.open("a") // makes the root, for everybody
			mustRelease(c.t, mustLock(c.t, c.lock("owner", owned(perms))))
			l, other := exclusive(c.t, m, "jobs"), exclusive(c.t, m, "other")
			h := mustLock(c.t, other)
			_, err := l.Lock(c.t.Context())
			wantErr(c.t, "lock", err, zkio.ErrNoAuth)
			_, err = l.TryLock(c.t.Context())
			wantErr(c.t, "trylock", err, zkio.ErrNoAuth)
			w := l.Acquire(c.t.Context())
			synctest.Wait()
			wantErr(c.t, "acquire", settled(c.t, "grant", w.Granted()), zkio.ErrNoAuth)
			if !isClosed(w.Lost()) {
				c.t.Error("lost is not closed, though the round has failed")
			}
			wantErr(c.t, "its end", settled(c.t, "release", w.Release()), zkio.ErrNoAuth)
			wantState(c.t, l, state.Free, 0)
			wantErr(c.t, "another lock", h.Err(), nil)
			mustRelease(c.t, h)
			c.wantNodes(0)
		})
	}
}

// The directory's owner lets others write no data into it: the short way in is
// closed, the long one is not.
func TestDirectoryThatMayNotBeWritten(t *testing.T) {
	bubble(t, func(c *cluster) {
		b := c.lock("b")
		a := c.lock("owner", owned(zkio.PermCreate|zkio.PermRead|zkio.PermDelete))
		mustRelease(c.t, mustLock(c.t, a))
		for range 2 {
			h := mustLock(c.t, b)
			_, err := a.TryLock(c.t.Context())
			wantErr(c.t, "the owner's trylock", err, ErrLocked)
			mustRelease(c.t, h)
			mustRelease(c.t, mustLock(c.t, a))
		}
		c.wantNodes(0)
	})
}

// A process may create nodes but not delete them: the release says so, the lock
// stays taken, other locks are not touched, and the end of the session frees it.
func TestReleaseWithoutPermission(t *testing.T) {
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
