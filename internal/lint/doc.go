// SPDX-License-Identifier: Apache-2.0

// Package lint checks the tree for what the compiler and golangci-lint cannot
// see: which package may import which, that documents name only what exists,
// that every fault has its tests, and that tests neither sleep nor skip. Its tests
// are the checks; each has a table of small trees that it must object to.
package lint
