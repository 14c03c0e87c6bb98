// SPDX-License-Identifier: Apache-2.0

// Package delay puts a network between a benchmark's clients and its server: a relay
// on the loopback interface that delivers what it receives a fixed time later, in each
// direction.
//
// Real locks are used over a network, where a round trip takes longer than everything
// that a client computes. On the loopback interface it takes no time, so a lock that
// needs a round trip less than another hardly shows it. The relay needs no privileges
// and no particular operating system.
//
// It delays, and does nothing else. Chunks of data are in flight at the same time, so
// throughput is not limited, and none is lost or reordered. Only data and the end of a
// connection are delayed; establishing a connection is not.
package delay
