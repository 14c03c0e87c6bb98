// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// A Store keeps the accounts, as a database would. It is fenced: it remembers the
// highest token that it has seen of each account, and refuses lower ones.
type Store struct {
	mu          sync.Mutex // protects what follows
	accounts    map[string]*record
	activations int
	refused     int // late writes and loads of former owners
}

// A record is an account in the store.
type record struct {
	token   uint64   // the highest so far
	owners  []string // the processes that have loaded it, in order
	entries []Entry
}

// An Entry is a change of an account.
type Entry struct {
	ID     uint64 // of the message
	Amount int64
	Token  uint64 // of the owner that has written it
}

// A storeRequest asks for an account, and adds an entry to it if there is one.
type storeRequest struct {
	Entity, Owner string
	Token         uint64
	Entry         *Entry
}

func newStore() *Store { return &Store{accounts: map[string]*record{}} }

// ServeHTTP answers a storeRequest with the account's entries, or, if it adds one, with
// none.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) { answers(s.answer)(w, r) }

func (s *Store) answer(_ context.Context, r storeRequest) ([]Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	account := s.account(r.Entity)
	if r.Token < account.token {
		s.refused++
		return nil, fmt.Errorf("%w: token %d after %d", errFenced, r.Token, account.token)
	}
	account.token = r.Token // a load counts as well: from here on, no former owner can write
	if r.Entry != nil {
		account.entries = append(account.entries, *r.Entry)
		return nil, nil
	}
	s.activations++
	account.owners = append(account.owners, r.Owner)
	return slices.Clone(account.entries), nil
}

// account returns the record of an account. The caller holds s.mu.
func (s *Store) account(entity string) *record {
	if s.accounts[entity] == nil {
		s.accounts[entity] = &record{}
	}
	return s.accounts[entity]
}

// token returns the highest token that the store has seen of an account.
func (s *Store) token(entity string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account(entity).token
}

// takenFrom returns the accounts that a process has owned and another owns now.
func (s *Store) takenFrom(owner string) (entities []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for entity, a := range s.accounts {
		if slices.Contains(a.owners, owner) && a.owners[len(a.owners)-1] != owner {
			entities = append(entities, entity)
		}
	}
	return entities
}
