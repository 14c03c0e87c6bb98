// SPDX-License-Identifier: Apache-2.0

// Package nested is in a module of its own: only its lines count.
package nested

func Long() {
	Long()
}
