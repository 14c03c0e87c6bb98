// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"

	"github.com/holdfast-go/holdfast/zkio"
)

// worldDeletes returns the entry of acl that lets everybody delete the node's
// children, or give himself the right to: without it, only those whom the list
// names can take a lock's node away. An empty list forbids nothing.
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

// restricted reports whether Config.ACL keeps strangers from deleting nodes.
func (m *Manager) restricted() bool {
	_, open := worldDeletes(m.cfg.ACL)
	return !open
}

// openToWorld reports whether everybody may delete nodes in the directory dir, and by
// which entry of its ACL. What the server does not tell about is taken for
// closed: who may neither read nor administer dir is not told.
func openToWorld(s *zkio.Session, dir string) (zkio.ACL, bool, error) {
	acl, err := s.ACL(dir)
	if err != nil {
		return zkio.ACL{}, false, err
	}
	entry, open := worldDeletes(acl)
	return entry, open, nil
}

// checkRoot warns of a root that was there before with an ACL that lets
// everybody delete, although the configured one does not: ZooKeeper applies an
// ACL to the node that is created with it, and to nothing that exists.
func (m *Manager) checkRoot(s *zkio.Session) error {
	if !m.restricted() {
		return nil
	}
	entry, open, err := openToWorld(s, m.cfg.Root)
	if open {
		m.cfg.Logger.Warn("holdfast: everybody may delete directories of locks under the root, though Config.ACL does not allow it: "+
			"the root was created with another ACL, which stays until somebody changes it; "+
			"set it as an administrator of the root (zkCli.sh: setAcl), or use another Config.Root",
			"path", m.cfg.Root, "acl", entry.String())
	}
	if err != nil && zkio.ClassOf(err) == zkio.Definite {
		return nil // a warning that cannot be given is no reason to fail
	}
	return err
}

// checkDirectory is checkRoot for the directory of a lock that the manager looks
// at for the first time. It costs a request, so nothing is asked if the
// configured ACL restricts nobody, nor after one such directory was reported.
func (m *Manager) checkDirectory(s *zkio.Session, dir string) {
	if !m.restricted() || m.openSeen.Load() {
		return
	}
	// An error that matters comes again with the next request.
	if entry, open, _ := openToWorld(s, dir); open && m.openSeen.CompareAndSwap(false, true) {
		m.cfg.Logger.Warn("holdfast: everybody may delete nodes in this lock's directory, and so take the lock from its holder, though Config.ACL does not allow it: "+
			"the directory was created with another ACL, which stays until somebody changes it; "+
			"set it as an administrator of the directory (zkCli.sh: setAcl), or delete the directory while nobody uses the lock. "+
			"Directories of other locks may be like it: only the first is reported",
			"path", dir, "acl", entry.String())
	}
}
