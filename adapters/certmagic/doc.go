// SPDX-License-Identifier: Apache-2.0

// Package certmagic gives github.com/caddyserver/certmagic locks of Holdfast: of all
// processes that share a storage, one obtains or renews a certificate, and the others wait
// for it and find the certificate in the storage.
//
// It wraps any certmagic.Storage. The files stay where they are; only the locks go to
// ZooKeeper. So the storage's own locks may be weak or missing, as those of an object
// store are, and the lock of a process that died is free once its session has ended.
//
// The package has the name of the one that it extends. Import it under another:
//
//	import (
//		"github.com/caddyserver/certmagic"
//
//		holdfast "github.com/holdfast-go/holdfast/adapters/certmagic"
//	)
//
//	storage, err := holdfast.New(&certmagic.FileStorage{Path: "/shared/certs"}, m, holdfast.Config{})
//	if err != nil {
//		return err
//	}
//	certmagic.Default.Storage = storage // before the first certmagic.Config is made
//
// All processes that share the storage must use it so: Holdfast's locks and those of the
// storage do not exclude each other.
//
// # What happens when a lock is lost
//
// A process that is cut off from ZooKeeper, or paused for long, loses its locks, and
// another may obtain the same certificate. Certmagic's Lock has no way to tell. Therefore
//
//   - RenewLockLease, which certmagic calls before each attempt to obtain or renew a
//     certificate in the background, returns manager.ErrLost. The attempt fails then, and
//     certmagic makes another one later. For that the lock is taken anew, and certmagic looks
//     whether another process has put the certificate into the storage;
//   - [Config].OnLost is called.
//
// Unlock returns nil then, because there is nothing left to release: certmagic would keep a lock
// whose Unlock has failed in its list of those that it holds.
//
// An attempt that is under way goes on. So a certificate may be obtained twice, which the
// certificate authority counts, and the storage keeps the one that was stored last. The
// interface has no place for a fencing token. [Storage.Hold] has it, for an event handler of
// certmagic, say.
package certmagic
