// SPDX-License-Identifier: Apache-2.0

package main

// The tests that need a stamper are for Unix.
const stamperVerb = "stamper"

func stamperMain([]string) {}
