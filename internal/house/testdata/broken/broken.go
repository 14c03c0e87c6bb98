// SPDX-License-Identifier: Apache-2.0

// Package broken has a type error.
package broken

var X int = "no number"
