// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/inspect"
)

type askCmd struct {
	Name string        `arg:"" help:"The lock."`
	Text string        `arg:"" optional:"" help:"The question, for the program that holds the lock. Without one, the library there answers."`
	Wait time.Duration `default:"5s" placeholder:"D" help:"How long to wait for the answer."`
}

// Help is shown by holdfast ask --help.
func (*askCmd) Help() string {
	return `Puts a question to the process that holds a lock. Without TEXT, the library answers in that process, even if its program knows of no questions: how many of its goroutines hold the lock, and for how long. So it shows whether a holder is alive. The state is "retained" while that process holds the lock for all its goroutines, "fetching" while it waits for it, "releasing" while it gives it up. Nothing proves what is answered.

It needs the right to create nodes under the root. Processes that use another client, or an old version of Holdfast, cannot answer.

Examples:
  holdfast ask jobs/nightly
  holdfast ask jobs/nightly "how far are you?"
  holdfast ask --wait 30s --json jobs/nightly`
}

// askFacts are the facts that ask prints as JSON.
type askFacts struct {
	Lock     string          `json:"lock"`
	From     *contenderFacts `json:"from"`
	Phase    string          `json:"phase"`
	Holders  int             `json:"holders"`
	Waiting  int             `json:"waiting"`
	Held     float64         `json:"held_seconds"`
	Yielding bool            `json:"yielding"`
	Revoked  bool            `json:"revoked"`
	Reply    string          `json:"reply,omitempty"`
	Binary   []byte          `json:"reply_base64,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// Run asks, and prints the answer.
func (c *askCmd) Run(a *app) error {
	if c.Wait <= 0 {
		return usagef("--wait must be positive")
	}
	m, err := a.manager(a.ctx, nil)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := a.notRecipe(m.Access().Session().Client(), c.Name); err != nil {
		return err
	}
	lock, err := m.Exclusive(c.Name) // the holder of a read/write lock answers, too
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.ctx, c.Wait)
	defer cancel()
	answer, err := lock.Ask(ctx, []byte(c.Text))
	if errors.Is(err, manager.ErrNoAnswer) && ctx.Err() == nil {
		return a.unlessMissing(c.Name, err)
	} else if err != nil {
		return late(err)
	}
	if err := a.printAnswer(lock.Name(), &answer); err != nil {
		return err
	}
	if answer.Err != "" {
		return fmt.Errorf("%s answers with an error: %s", whoElse(&answer.From), safeLine(answer.Err))
	}
	return nil
}

// printAnswer prints what the holder of a lock has answered.
func (a *app) printAnswer(name string, answer *manager.Answer) error {
	if a.JSON {
		facts := askFacts{
			Lock: name, From: factsOf(inspect.FromManager(answer.From), 0), Phase: answer.Phase.String(),
			Holders: answer.Holders, Waiting: answer.Waiting, Held: answer.Held.Seconds(),
			Yielding: answer.Yielding, Revoked: answer.Revoked, Error: answer.Err,
		}
		if utf8.Valid(answer.Reply) {
			facts.Reply = string(answer.Reply)
		} else {
			facts.Binary = answer.Reply
		}
		return a.json(facts)
	}
	a.printf("%s answers for %s:\n", whoElse(&answer.From), safe(name))
	a.printf("  state    %s, %s inside for %s\n", answer.Phase, count(answer.Holders, "holder", "holders"), age(answer.Held))
	a.printf("  waiting  %s in that process\n", count(answer.Waiting, "caller", "callers"))
	if answer.Yielding {
		a.printf("  yields   newcomers of that process let others go first\n")
	}
	if answer.Revoked {
		a.printf("  revoked  its holders have been asked to give the lock up\n")
	}
	if len(answer.Reply) > 0 {
		a.printf("  reply    %s\n", safeLine(string(answer.Reply)))
	}
	return nil
}
