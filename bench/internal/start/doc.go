// SPDX-License-Identifier: Apache-2.0

// Package start starts the servers that the benchmarks need (Start), and builds the
// programs of the locks that Holdfast is compared with (Peers). If something is not
// installed, the error wraps ErrNotInstalled and tells what to install.
package start
