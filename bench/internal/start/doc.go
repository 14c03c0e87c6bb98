// SPDX-License-Identifier: Apache-2.0

// Package start starts what the benchmarks need beside themselves: servers
// (Start), and the locks that Holdfast is measured against, which are programs
// (Peers). What is not installed is told by an error that wraps ErrNotInstalled
// and says what to install.
package start
