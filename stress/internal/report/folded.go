// SPDX-License-Identifier: Apache-2.0

package report

// A folded list is one of which a reader sees the first items at once, and the rest after
// opening it. Print shows all.
type folded[T any] struct{ First, Rest []T }

// fold returns a list of which about so many items are open: hiding a few is not worth a line.
func fold[T any](all []T, open int) folded[T] {
	if len(all) <= open+open/2 {
		open = len(all)
	}
	return folded[T]{all[:open], all[open:]}
}
