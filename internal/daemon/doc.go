// SPDX-License-Identifier: Apache-2.0

// Package daemon runs servers of etcd and Redis, with whose locks Holdfast is compared, on
// 127.0.0.1 with their data in a temporary directory: one by [Run], several by [RunCluster].
//
// On Linux a server ends with the process that started it, even if that is killed, which leaves
// only its data. Elsewhere a killed process leaves the server running.
package daemon
