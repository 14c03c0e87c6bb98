// SPDX-License-Identifier: Apache-2.0

// Package fencing shows resources that compare fencing tokens: a SQL database, Redis,
// MongoDB, an object store, and ZooKeeper. Each refuses a holder that has lost its lock
// without knowing it, however late its request arrives. docs/fencing.md explains how.
//
// Copy the file that you need: each stands on its own but for [ErrStale]. The package is
// a module of its own, so that Holdfast does not depend on databases.
package fencing

import "errors"

// ErrStale is what a resource says to a holder that comes too late: a later holder of the
// lock has been there. The caller has lost its lock, and must stop. Nothing was changed.
var ErrStale = errors.New("refused: a later holder of the lock has been here")
