// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// A Sabotage makes one worker of the first process misbehave, so that a test or
// -self-test can check that the harness notices. It is set by an environment variable,
// not by a flag, because only they use it.
type Sabotage string

// SabotageVariable is the environment variable.
const SabotageVariable = "HOLDFAST_STRESS_SABOTAGE"

// The sabotages.
const (
	Lingers   Sabotage = "lingers"    // stays inside after releasing its hold
	LosesRead Sabotage = "loses-read" // after a downgrade releases both holds, and goes on reading
	OldToken  Sabotage = "old-token"  // always enters with the token of its first grant
	GetsStuck Sabotage = "gets-stuck" // blocks for ever
	Leaks     Sabotage = "leaks"      // exits with a hold, without closing the manager
	Crashes   Sabotage = "crashes"    // exits at once
	Partial   Sabotage = "partial"    // releases one of the holds that LockAll has returned, and goes on
	OnlyReads Sabotage = "only-reads" // writes under an upgradable read without upgrading
	Conceals  Sabotage = "conceals"   // panics in Do, of which the ledger is not told
	Survives  Sabotage = "survives"   // does not panic in Do, but the ledger is told so
	Complains Sabotage = "complains"  // reports an unexpected error

	// Broken locks: see worker/broken.go.
	IgnoresLease      Sabotage = "ignores-lease"      // the end of the lease is not noticed
	GrantsTwice       Sabotage = "grants-twice"       // a lock is granted to two processes
	ForgetsWaiter     Sabotage = "forgets-waiter"     // a waiter is never told
	BelievesOldNews   Sabotage = "believes-old-news"  // news of an earlier round is taken for news of this one
	IgnoresRevocation Sabotage = "ignores-revocation" // the holder is not told that it is asked to give up the lock
	SloppyRegister    Sabotage = "sloppy-register"    // not a lock: the register accepts every write
)

// A worker that is inside without a right to it stays for so long. On a busy machine another
// process takes that long to come in.
const CaughtWithin = time.Second

var sabotages = []Sabotage{"", Lingers, LosesRead, OldToken, GetsStuck, Leaks, Crashes, Partial, OnlyReads, Conceals, Survives, Complains,
	IgnoresLease, GrantsTwice, ForgetsWaiter, BelievesOldNews, IgnoresRevocation, SloppyRegister}

// SabotageFromEnvironment returns the sabotage that the environment names.
func SabotageFromEnvironment() (Sabotage, error) {
	s := Sabotage(os.Getenv(SabotageVariable))
	if !slices.Contains(sabotages, s) {
		return "", fmt.Errorf("%s=%s is not known; known are %q", SabotageVariable, s, sabotages[1:])
	}
	return s, nil
}
