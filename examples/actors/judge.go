// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// A judge compares the replies with the store. It knows nothing of locks.
type judge struct {
	store *Store

	mu         *sync.Mutex // protects what follows
	balances   map[string]int64
	replies    map[uint64]Message // that were handled
	reroutes   int
	errors     map[string]int
	violations []string
}

// An expectation is what must be true of a reply to a message that is sent now.
type expectation struct {
	token   uint64 // its handler's token is no lower: otherwise that was no longer the owner
	balance int64  // the balance is no lower: no amount is negative
}

func newJudge(s *Store) judge {
	return judge{store: s, mu: new(sync.Mutex), balances: map[string]int64{}, replies: map[uint64]Message{}, errors: map[string]int{}}
}

// before returns what is to be expected of the reply to m, which has not been sent.
func (j *judge) before(m Message) expectation {
	j.mu.Lock()
	defer j.mu.Unlock()
	return expectation{j.store.token(m.Entity), j.balances[m.Entity]}
}

// handled judges a reply.
func (j *judge) handled(m Message, r Reply, e expectation) {
	if r.Token < e.token {
		j.violation("message %d for account %s was handled under token %d, after token %d", m.ID, m.Entity, r.Token, e.token)
	}
	if r.Balance < e.balance {
		j.violation("message %d for account %s was told the balance %d, after %d", m.ID, m.Entity, r.Balance, e.balance)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.replies[m.ID] = m
	j.reroutes += r.Reroutes
	j.balances[m.Entity] = max(j.balances[m.Entity], r.Balance)
}

// failed counts an error that a sender was told.
func (j *judge) failed(err error) {
	kind := "not handled (503)"
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			kind = fmt.Sprintf("%v (%d)", s.err, s.code)
			break
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.errors[kind]++
}

// violation notes that something happened that must not.
func (j *judge) violation(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.violations = append(j.violations, fmt.Sprintf(format, args...))
}

// summary compares the store with all replies, prints the result, and returns an error
// if there are violations.
func (j *judge) summary() error {
	j.store.mu.Lock() // messages whose senders have given up may still arrive
	defer j.store.mu.Unlock()
	told := j.violations
	j.violations = nil // first what is wrong with what is stored
	stored := map[uint64]bool{}
	for entity, account := range j.store.accounts {
		var token uint64
		for _, e := range account.entries {
			if stored[e.ID] {
				j.violation("message %d for account %s was applied twice", e.ID, entity)
			}
			if e.Token < token {
				j.violation("message %d for account %s was written under token %d, after token %d", e.ID, entity, e.Token, token)
			}
			stored[e.ID], token = true, e.Token
		}
	}
	for id, m := range j.replies {
		if m.Amount != 0 && !stored[id] {
			j.violation("message %d for account %s was handled, and is lost", id, m.Entity)
		}
	}
	j.violations = append(j.violations, told...)
	fmt.Printf("messages handled %6d\n", len(j.replies))
	for _, kind := range slices.Sorted(maps.Keys(j.errors)) {
		fmt.Printf("errors           %6d  %s; the sender has tried again\n", j.errors[kind], kind)
	}
	fmt.Printf("re-routes        %6d  by which a host spared the sender an error, as the owner had changed\n", j.reroutes)
	fmt.Printf("activations      %6d  of %d entities\n", j.store.activations, len(j.store.accounts))
	fmt.Printf("late requests    %6d  refused by the store, because of the token\n", j.store.refused)
	fmt.Printf("violations       %6d\n", len(j.violations))
	if len(j.violations) == 0 {
		return nil
	}
	for _, v := range j.violations[:min(10, len(j.violations))] {
		fmt.Println("VIOLATION:", v)
	}
	return fmt.Errorf("%d violations", len(j.violations))
}
