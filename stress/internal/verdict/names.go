// SPDX-License-Identifier: Apache-2.0

package verdict

import "slices"

// MaxFindings is how many findings are kept, of each check and in a verdict.
const MaxFindings = 100

// The names of the checks, in the order in which a verdict lists them.
const (
	Overlap     = "no two processes are inside at once"
	Valid       = "no hold is called valid after a later grant"
	Tokens      = "tokens rise in the order of the grants"
	Register    = "the register accepts no write after one with a higher token"
	Linear      = "each lock's history is linearizable"
	Told        = "losses are told before the session ends"
	Once        = "an element of a queue that is done is not taken again"
	Patience    = "every wait ends in time"
	Revocations = "a holder that is asked to give up the lock does"
	Left        = "nothing is left behind"
	Referees    = "the file locks beside the locks show no two processes inside"
	Failures    = "workers and the harness see nothing else that is wrong"
	Hits        = "every kind of fault hits a held lock and a waiting process"
	Decided     = "the checker of linearizability ends in time"
	Enough      = "enough happens to show something"
	Agree       = "ZooKeeper's servers do not contradict each other"
	Whole       = "the history is whole"
)

// OutcomeOf returns the outcome of a run in which the check of that name finds something.
func OutcomeOf(check string) Outcome {
	switch check {
	case Patience, Revocations, Left, Failures:
		return Failed
	case Hits, Decided, Enough, Agree, Whole:
		return Void
	}
	return Violation
}

// worst has the outcomes, the worst first.
var worst = []Outcome{Violation, Failed, Void, OK}

// Worse returns the worse one of two outcomes.
func Worse(a, b Outcome) Outcome {
	return worst[min(slices.Index(worst, a), slices.Index(worst, b))]
}

// Gravity returns the rank of the finding: the lower, the worse.
func (f Finding) Gravity() int { return slices.Index(worst, OutcomeOf(f.Check)) }
