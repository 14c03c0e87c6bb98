// SPDX-License-Identifier: Apache-2.0

//go:build !race

package recipetest

const slowdown = 1
