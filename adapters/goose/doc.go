// SPDX-License-Identifier: Apache-2.0

// Package goose has github.com/pressly/goose/v3 migrate a database under a lock of
// Holdfast: of all processes that start at the same time, one migrates, and the others wait
// for it and find nothing to do. It works with every database, also with those for which
// goose has no lock of its own, such as SQLite on a shared disk or ClickHouse, and
// behind a pool such as PgBouncer, where locks of a database session do not work.
//
// The package has the name of the one that it extends. Import it under another:
//
//	import (
//		"github.com/pressly/goose/v3"
//
//		holdfast "github.com/holdfast-go/holdfast/adapters/goose"
//	)
//
//	ctx, cancel := context.WithCancelCause(ctx)
//	defer cancel(nil)
//	locker, err := holdfast.New(m, "migrations/orders", holdfast.Config{OnLost: cancel}) // m is a *manager.Manager
//	if err != nil {
//		return err
//	}
//	provider, err := goose.NewProvider(dialect, db, migrations, goose.WithLocker(locker))
//	if err != nil {
//		return err
//	}
//	_, err = provider.Up(ctx)
//
// Give each database a name of its own. All processes that migrate it must use the lock: a
// process without it, such as goose's command, is not excluded.
//
// [Locker] fits goose.WithSessionLocker, too. It does nothing with the connection there, so
// prefer goose.WithLocker.
//
// # What happens when the lock is lost
//
// A process that is cut off from ZooKeeper, or paused for long, loses the lock, and
// another may begin to migrate. goose's interface has no way to tell. Therefore
//
//   - [Config].OnLost is called. Have it end the context of Up, as above: goose and the
//     database's driver then stop before ZooKeeper can give the lock away, within the
//     bounds that package manager states.
//   - Up fails with an error that wraps manager.ErrLost in any case, because Unlock does.
//
// Neither stops a statement that is on its way to the database. goose records a migration's
// version in the transaction of the migration, but its table accepts a version twice. So a
// migration that must never run twice has to fail by itself the second time, as CREATE
// TABLE without IF NOT EXISTS does, or to compare the fencing token: [Locker.Hold] has it.
//
// A process that dies in the middle of a migration leaves what its database leaves: the
// transaction is rolled back, and the next process runs the migration again, once ZooKeeper
// has ended the session of the dead process.
package goose
