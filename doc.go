// SPDX-License-Identifier: Apache-2.0

// Package holdfast is the root of a process-level distributed lock manager on
// Apache ZooKeeper. Import package manager to use it.
package holdfast
