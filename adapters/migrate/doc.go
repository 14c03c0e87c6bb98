// SPDX-License-Identifier: Apache-2.0

// Package migrate has github.com/golang-migrate/migrate/v4 migrate a database under a
// lock of Holdfast: of all processes that start at the same time, one migrates, and the
// others wait for it and find nothing to do. It wraps any database driver of migrate.
//
// The package has the name of the one that it extends. Import it under another:
//
//	import (
//		"github.com/golang-migrate/migrate/v4"
//
//		holdfast "github.com/holdfast-go/holdfast/adapters/migrate"
//	)
//
//	inner, err := postgres.WithInstance(db, &postgres.Config{})
//	if err != nil {
//		return err
//	}
//	driver, err := holdfast.New(inner, m, "migrations/orders", holdfast.Config{}) // m is a *manager.Manager
//	if err != nil {
//		return err
//	}
//	migration, err := migrate.NewWithInstance("iofs", source, "postgres", driver)
//	if err != nil {
//		return err
//	}
//	err = migration.Up()
//
// Give each database a name of its own.
//
// # Beside the database's lock, or instead of it
//
// By default the driver takes both: Holdfast's lock first, and then that of the database, if
// it has one. So processes that do not use Holdfast yet, and migrate's command, are
// excluded as far as the database excludes them. With [Config].Alone it takes
// Holdfast's lock only. Choose that
//
//   - if the database's lock stays when a process dies, as in CockroachDB, where a row of a
//     table is the lock, and a person must remove it;
//   - if the database's lock does not work, because a pool such as PgBouncer gives each
//     statement another connection.
//
// Every process that migrates must use Holdfast's lock then.
//
// # What happens when the lock is lost
//
// A process that is cut off from ZooKeeper, or paused for long, loses the lock, and
// another may begin to migrate. Then
//
//   - no further migration begins: Run, Drop, and SetVersion with dirty fail with
//     manager.ErrLost. A migration that has begun goes on, and its version is set when it
//     ends. Until then the database is dirty, and migrate refuses it in other processes;
//   - Unlock, and so Up, fails with manager.ErrLost. migrate.Migrate takes itself for locked
//     after that: make a new one;
//   - [Config].OnLost is called. migrate has no context that it could end; to interrupt a
//     statement, close the database.
//
// Nothing stops a statement that is on its way to the database. [Driver.Hold] has the
// fencing token for a resource that compares it.
//
// A process that dies in the middle of a migration leaves the database dirty, whichever lock
// it had. Then migrate wants a person to look.
package migrate
