// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"

	"github.com/holdfast-go/holdfast/zkio"
)

// worldDeletes returns the entry of acl that lets every client delete the node's
// children, or give itself the right to. Without one, only the identities that
// acl names can delete a lock's node. An empty list forbids nothing.
func worldDeletes(acl []zkio.ACL) (zkio.ACL, bool) {
	if len(acl) == 0 {
		return zkio.ACL{Perms: zkio.PermAll, Scheme: "world", ID: "anyone"}, true
	}
	i := slices.IndexFunc(acl, func(a zkio.ACL) bool {
		return a.Scheme == "world" && a.Perms&(zkio.PermDelete|zkio.PermAdmin) != 0
	})
	if i < 0 {
		return zkio.ACL{}, false
	}
	return acl[i], true
}

// restricted reports whether Config.ACL keeps other clients from deleting nodes.
func (m *Manager) restricted() bool {
	_, open := worldDeletes(m.cfg.ACL)
	return !open
}

// openToWorld reports whether every client may delete nodes in the directory dir,
// and the entry of its ACL that allows it. If the server does not tell, because
// this process may neither read nor administer dir, it reports false.
func openToWorld(s *zkio.Session, dir string) (zkio.ACL, bool, error) {
	acl, err := s.ACL(dir)
	if err != nil {
		return zkio.ACL{}, false, err
	}
	entry, open := worldDeletes(acl)
	return entry, open, nil
}

// checkRoot logs a warning if every client may delete in the root although the
// configured ACL forbids it. That happens if the root existed before: ZooKeeper
// applies an ACL only to the node that is created with it.
func (m *Manager) checkRoot(s *zkio.Session) error {
	if !m.restricted() {
		return nil
	}
	entry, open, err := openToWorld(s, m.cfg.Root)
	if open {
		m.cfg.Logger.Warn("holdfast: every client may delete locks' directories under the root, although Config.ACL does not allow it: "+
			"the root was created with another ACL, which ZooKeeper keeps; "+
			"change it with the root's admin permission (zkCli.sh: setAcl), or use another Config.Root",
			"path", m.cfg.Root, "acl", entry.String())
	}
	if err != nil && zkio.ClassOf(err) == zkio.Definite {
		return nil // a missing warning is no reason to fail
	}
	return err
}

// checkDirectory is checkRoot for the directory of a lock that the manager looks
// at for the first time. It costs a request, so it asks nothing if the configured
// ACL restricts no client, or once one such directory was logged.
func (m *Manager) checkDirectory(s *zkio.Session, dir string) {
	if !m.restricted() || m.journal.openSeen.Load() {
		return
	}
	// An error that matters comes again with the next request.
	if entry, open, _ := openToWorld(s, dir); open && m.journal.openSeen.CompareAndSwap(false, true) {
		m.cfg.Logger.Warn("holdfast: every client may delete nodes in this lock's directory, and so take the lock from its holder, although Config.ACL does not allow it: "+
			"the directory was created with another ACL, which ZooKeeper keeps; "+
			"change it with the directory's admin permission (zkCli.sh: setAcl), or delete the directory while the lock is not in use. "+
			"Other locks' directories may be open too: only the first is reported",
			"path", dir, "acl", entry.String())
	}
}
