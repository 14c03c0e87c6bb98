// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"database/sql"
)

// InFencedTx runs fn in a transaction of a holder of the lock called name, with the token
// of its grant. It returns [ErrStale] if a later holder has begun one; then nothing is
// changed. What fn returns as an error rolls the transaction back.
//
// The transactions of one lock come one after the other: the first statement locks the
// fence's row until the commit. The table is
//
//	CREATE TABLE fences (name TEXT PRIMARY KEY, token BIGINT NOT NULL)
func InFencedTx(ctx context.Context, db *sql.DB, name string, token uint64, fn func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	raised, err := tx.ExecContext(ctx, `
		INSERT INTO fences (name, token) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET token = excluded.token
		WHERE fences.token <= excluded.token`, name, int64(token))
	if err != nil {
		return err
	}
	if n, err := raised.RowsAffected(); err != nil {
		return err
	} else if n == 0 {
		return ErrStale
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}
