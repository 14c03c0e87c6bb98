// SPDX-License-Identifier: Apache-2.0

// Package scratch makes temporary directories that do not stay behind.
//
// A process that ends properly removes its own. What a killed process has left is removed
// by the next one that makes a directory of the same prefix: each directory has a file
// that its owner has an flock on, which ends with the owner. On systems without flock,
// directories of killed processes stay.
package scratch
