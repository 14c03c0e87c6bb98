// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/inspect"
)

type revokeCmd struct {
	Name   string        `arg:"" help:"The lock."`
	Grace  time.Duration `default:"30s" placeholder:"D" help:"How long to wait until the lock is given up. The holder learns of this time."`
	Reason string        `placeholder:"TEXT" help:"Why, for the holder's program and its log."`
}

// Help is shown by holdfast revoke --help.
func (*revokeCmd) Help() string {
	return `Asks each process that holds a lock to give it up, and waits until all have, for --grace at most. It takes nothing away: the program that holds the lock decides. A program under "holdfast run" is ended.

Exit codes: 0 if the lock was given up, or was free; 4 if it is still held after the grace; 7 if there is no such lock; 1 if a holder cannot be told, because it uses another client. Then see holdfast break.

Examples:
  holdfast revoke jobs/nightly
  holdfast revoke --grace 2m --reason "deploying 4.1" jobs/nightly`
}

// revokeFacts are the facts that revoke prints as JSON.
type revokeFacts struct {
	Lock    string            `json:"lock"`
	GivenUp bool              `json:"given_up"`
	Holders []*contenderFacts `json:"holders"` // those that were asked
	Seconds float64           `json:"seconds"`
	Error   string            `json:"error,omitempty"`
}

// Run revokes the lock.
func (c *revokeCmd) Run(a *app) error {
	if c.Grace <= 0 {
		return usagef("--grace must be positive")
	}
	m, err := a.manager(a.ctx, nil)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := a.notRecipe(m.Access().Session().Client(), c.Name); err != nil {
		return err
	}
	lock, err := m.Exclusive(c.Name) // every holder of a read/write lock is in its way, too
	if err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(a.ctx, c.Grace)
	defer cancel()
	holders, err := holdersOf(ctx, lock)
	if err != nil {
		return err
	}
	if len(holders) == 0 {
		if err := a.unlessMissing(c.Name, nil); err != nil {
			return err
		}
	}
	if !a.JSON {
		a.printAsked(lock.Name(), holders, c.Grace)
	}
	err = late(lock.Revoke(ctx, c.Reason))
	if exitCode(err) == exitNotGranted {
		err = exitf(exitNotGranted, "%w; it had %v: give it more by --grace, or see holdfast break --help", err, c.Grace)
	}
	if a.JSON {
		facts := revokeFacts{Lock: lock.Name(), GivenUp: err == nil, Seconds: time.Since(began).Seconds(), Holders: []*contenderFacts{}}
		for i := range holders {
			facts.Holders = append(facts.Holders, factsOf(inspect.FromManager(holders[i]), i+1))
		}
		if err != nil {
			facts.Error = oneLine(err)
		}
		if err := a.json(facts); err != nil {
			return err
		}
	}
	if err == nil && !a.JSON && len(holders) > 0 {
		a.printf("given up after %s\n", time.Since(began).Round(100*time.Millisecond))
	}
	return err
}

// holdersOf returns the contenders that hold a lock.
func holdersOf(ctx context.Context, lock *manager.Lock) (holders []manager.Contender, err error) {
	const most = 100 // of which more than the position is read
	queue, err := lock.Queue(ctx, most)
	if err != nil {
		return nil, err
	}
	for i := range queue {
		if queue[i].Holds {
			holders = append(holders, queue[i])
		}
	}
	return holders, nil
}

// printAsked says which processes are asked to give a lock up.
func (a *app) printAsked(name string, holders []manager.Contender, grace time.Duration) {
	if len(holders) == 0 {
		a.printf("%s is free\n", safe(name))
	}
	for i := range holders {
		a.printf("asking %s to give %s up within %s\n", whoElse(&holders[i]), safe(name), grace)
	}
}
