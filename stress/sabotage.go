// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
)

// A sabotage makes one goroutine of the first process do wrong, so that a test
// can see the harness notice. It is set in the environment, not by a flag,
// since it is of no use to anybody else.
type sabotage string

const sabotageVariable = "HOLDFAST_STRESS_SABOTAGE"

const (
	lingers   sabotage = "lingers"    // goes on inside after it has released its hold
	losesRead sabotage = "loses-read" // releases the read lock that it has downgraded to together with the write lock, and reads on
	oldToken  sabotage = "old-token"  // enters with the token of its first grant every time
	getsStuck sabotage = "gets-stuck" // waits for what never comes
	leaks     sabotage = "leaks"      // its process ends with a hold, without closing the manager
	crashes   sabotage = "crashes"    // ends its process
	complains sabotage = "complains"  // meets an error that it did not expect
)

var sabotages = []sabotage{"", lingers, losesRead, oldToken, getsStuck, leaks, crashes, complains}

// sabotageFromEnvironment returns what the environment asks for.
func sabotageFromEnvironment() (sabotage, error) {
	s := sabotage(os.Getenv(sabotageVariable))
	if !slices.Contains(sabotages, s) {
		return "", fmt.Errorf("%s=%s is not known; known are %q", sabotageVariable, s, sabotages[1:])
	}
	return s, nil
}
