// SPDX-License-Identifier: Apache-2.0

package main

import "sync"

// A Store keeps the accounts, as a database would. It is fenced: it refuses a token lower
// than the highest that it has seen of an account.
type Store struct {
	mu      sync.Mutex
	entries map[string][]Entry // of each account; protected by mu
}

// An Entry is a message that an owner has applied, with the token of its grant.
type Entry struct {
	Message
	Token uint64
}

// Ask adds an entry to its account. A new owner adds one without a message, and gets all
// before it: as that has the new token, no former owner can write from then on.
func (s *Store) Ask(e Entry, before *[]Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token, _ := s.state(e.Entity); e.Token < token {
		return errFenced
	}
	if e.ID == 0 {
		*before = s.entries[e.Entity]
	}
	s.entries[e.Entity] = append(s.entries[e.Entity], e)
	return nil
}

// state returns the last token and the balance of an account. The caller holds s.mu.
func (s *Store) state(entity string) (token uint64, balance int64) {
	for _, e := range s.entries[entity] {
		token, balance = e.Token, balance+e.Amount
	}
	return token, balance
}
