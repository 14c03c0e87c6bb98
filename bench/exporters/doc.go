// SPDX-License-Identifier: Apache-2.0

// Package exporters measures what the exporters cost a process that acquires and releases
// a lock. It has only a benchmark, in a module of its own since the exporters are.
package exporters
