// SPDX-License-Identifier: Apache-2.0

// Package child starts processes that do not outlive the one that starts them, however
// that ends: on Linux the kernel kills them with it, even if they are stopped. Elsewhere
// they outlive a process that was killed.
//
// It also runs servers until they are killed, pauses and resumes processes, and can give them a
// clock of another origin.
package child
