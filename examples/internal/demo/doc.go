// SPDX-License-Identifier: Apache-2.0

// Package demo starts what a demonstration runs on: a ZooKeeper server, and several
// processes of the program itself. It has nothing to do with locks.
package demo
