// SPDX-License-Identifier: Apache-2.0

// Package part is too small to be looked into.
package part

type Part struct{ a, b, c int }
