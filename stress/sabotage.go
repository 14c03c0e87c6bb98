// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// A sabotage makes one worker of the first process misbehave, so that a test or
// -self-test can check that the harness notices. It is set by an environment variable,
// not by a flag, because only they use it.
type sabotage string

const sabotageVariable = "HOLDFAST_STRESS_SABOTAGE"

const (
	lingers   sabotage = "lingers"    // stays inside after releasing its hold
	losesRead sabotage = "loses-read" // after a downgrade releases both holds, and goes on reading
	oldToken  sabotage = "old-token"  // always enters with the token of its first grant
	getsStuck sabotage = "gets-stuck" // blocks for ever
	leaks     sabotage = "leaks"      // exits with a hold, without closing the manager
	crashes   sabotage = "crashes"    // exits at once
	partial   sabotage = "partial"    // releases one of the holds that LockAll has returned, and goes on
	onlyReads sabotage = "only-reads" // writes under an upgradable read without upgrading
	conceals  sabotage = "conceals"   // panics in Do, of which the ledger is not told
	survives  sabotage = "survives"   // does not panic in Do, but the ledger is told so
	complains sabotage = "complains"  // reports an unexpected error

	// Broken locks: see broken.go.
	ignoresLease      sabotage = "ignores-lease"      // the end of the lease is not noticed
	grantsTwice       sabotage = "grants-twice"       // a lock is granted to two processes
	forgetsWaiter     sabotage = "forgets-waiter"     // a waiter is never told
	believesOldNews   sabotage = "believes-old-news"  // news of an earlier round is taken for news of this one
	ignoresRevocation sabotage = "ignores-revocation" // the holder is not told that it is asked to give up the lock
	sloppyRegister    sabotage = "sloppy-register"    // not a lock: the register accepts every write
)

// A worker that is inside without a right to it stays for so long. On a busy machine another
// process takes that long to come in.
const caughtWithin = time.Second

var sabotages = []sabotage{"", lingers, losesRead, oldToken, getsStuck, leaks, crashes, partial, onlyReads, conceals, survives, complains,
	ignoresLease, grantsTwice, forgetsWaiter, believesOldNews, ignoresRevocation, sloppyRegister}

// sabotageFromEnvironment returns the sabotage that the environment names.
func sabotageFromEnvironment() (sabotage, error) {
	s := sabotage(os.Getenv(sabotageVariable))
	if !slices.Contains(sabotages, s) {
		return "", fmt.Errorf("%s=%s is not known; known are %q", sabotageVariable, s, sabotages[1:])
	}
	return s, nil
}
