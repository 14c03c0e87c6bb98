// SPDX-License-Identifier: Apache-2.0

// Package exporters measures what the exporters cost a process that acquires and releases
// a lock, and tests that those of metrics agree. It has nothing else, and is a module of its
// own since the exporters are.
package exporters
