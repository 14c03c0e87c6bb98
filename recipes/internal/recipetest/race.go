// SPDX-License-Identifier: Apache-2.0

//go:build race

package recipetest

// slowdown is by how much fewer seeds are simulated by default: the race detector takes
// most of the time, and sees in few seeds what there is to see.
const slowdown = 10
