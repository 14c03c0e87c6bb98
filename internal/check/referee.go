// SPDX-License-Identifier: Apache-2.0

// Package check judges what the processes of a test are told about their locks.
//
// A test tells a [Referee] of every grant and of every end of one. The Referee
// has its own rules and shares no code with what is under test:
//
//	ref := check.NewReferee(t.Errorf)
//	…
//	leave := ref.Granted(check.Claim{Owner: "p1", Read: true, Token: grant.Token, Held: held})
//	…
//	leave() // before the release
package check

import (
	"fmt"
	"slices"
	"sync"
)

// A Claim is what one owner asks of a lock, or has been granted.
type Claim struct {
	Lock  string // needed only if the Referee watches more than one
	Owner string // a process or its session; its goroutines never exclude each other
	Read  bool   // shared with other readers; otherwise exclusive
	Token uint64 // the fencing token; 0 if it is not known
	Node  string // the znode, for messages; may be empty

	// Upgraded says that the owner writes with the token of its read, from which it was
	// upgraded. So readers that were beside it may have higher tokens.
	Upgraded bool

	// Held reports whether the owner may still rely on the grant. Once false it
	// must stay false. If Held is nil, the owner relies on the grant until it
	// leaves. The Referee calls it with its mutex locked, so it must not block or
	// call the Referee.
	Held func() bool
}

func (c Claim) held() bool { return c.Held == nil || c.Held() }

// excludes reports whether c and d must not be granted at the same time.
func (c Claim) excludes(d Claim) bool {
	return c.Lock == d.Lock && c.Owner != d.Owner && !(c.Read && d.Read)
}

func (c Claim) String() string {
	s := "writer"
	if c.Read {
		s = "reader"
	}
	s += " " + c.Owner
	if c.Lock != "" {
		s += " of " + c.Lock
	}
	if c.Token != 0 {
		s += fmt.Sprintf(" with token %d", c.Token)
	}
	if c.Node != "" {
		s += " (" + c.Node + ")"
	}
	return s
}

// A Referee checks three properties of the locks that it watches:
//
//   - Exclusion: at no time do two owners rely on grants that exclude each other.
//   - Fencing: a writer's token is above those of all earlier writers and
//     readers, and a reader's is not below an earlier writer's. All goroutines
//     of an owner may be granted one token, and a reader may have the token of
//     its owner's write, from which it was downgraded. An upgraded writer is
//     compared with earlier writers only.
//   - Order: no claim is granted before an earlier one that excludes it, unless
//     it is a reader's beside its owner's write. This is checked between claims
//     that were announced by Queued.
//
// Its methods may be called concurrently.
type Referee struct {
	report func(format string, args ...any)

	mu      sync.Mutex // protects what follows
	inside  []*Claim
	queued  []Claim // in the order of Queued
	entries int
	tokens  map[string]*tokens // by lock
}

// tokens is what a Referee remembers of the tokens of one lock.
type tokens struct {
	writers map[uint64]string // every writer's token, and its owner
	highest uint64            // of those
	readers map[uint64]string // those of readers above highest
	count   int               // how many distinct ones there were
}

// NewReferee returns a Referee that calls report for each violation:
// [testing.T.Errorf] will do.
func NewReferee(report func(format string, args ...any)) *Referee {
	return &Referee{report: report, tokens: make(map[string]*tokens)}
}

// Granted tells r that the claim is granted, and returns a function that tells r
// that its owner is about to release the lock, or knows that it has lost it. That
// function may be called more than once.
//
// A claim that is not held any more is not judged, whenever it was lost: between
// being told of the grant and telling r, its owner may have been told of the loss.
func (r *Referee) Granted(c Claim) (leave func()) {
	for _, violation := range r.granted(&c) {
		r.report("%s", violation)
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if i := slices.Index(r.inside, &c); i >= 0 {
			r.inside = slices.Delete(r.inside, i, i+1)
		}
	}
}

// granted judges the grant, and lets c in whatever it finds.
func (r *Referee) granted(c *Claim) (violations []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.inside = append(r.inside, c) }()
	violations = r.dequeue(*c)
	// The others are asked first. If c is held after that, it was held when they
	// said that they were, since it had been granted before.
	for _, other := range r.inside {
		if other.excludes(*c) && other.held() {
			violations = append(violations, fmt.Sprintf("%v was granted the lock while %v is inside", *c, *other))
		}
	}
	if !c.held() {
		return nil
	}
	r.entries++
	return append(violations, r.checkToken(*c)...)
}

// LeaveAll tells r that everyone inside has left.
func (r *Referee) LeaveAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside = nil
}

// Inside returns how many grants have not left.
func (r *Referee) Inside() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.inside)
}

// Entries returns how many grants were judged.
func (r *Referee) Entries() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries
}

// Tokens returns how many distinct tokens the grants of all locks had: how often
// a lock went to an owner, rather than to a goroutine of it.
func (r *Referee) Tokens() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, ts := range r.tokens {
		n += ts.count
	}
	return n
}

// Queued tells r that the claim is in the queue, behind all that r was told of
// before. An owner has one claim to read and one to write in the queue of a lock;
// Queued does nothing if it is there already. Only the claim's Lock, Owner and Read
// matter.
func (r *Referee) Queued(c Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.queued, c.same) {
		r.queued = append(r.queued, c)
	}
}

// Withdrawn tells r that the claim has left the queue without a grant.
func (r *Referee) Withdrawn(c Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dequeue(c)
}

func (c Claim) same(d Claim) bool { return c.Lock == d.Lock && c.Owner == d.Owner && c.Read == d.Read }

// dequeue takes c out of the queue, and returns which claims that exclude it were
// ahead of it. The caller holds r.mu.
func (r *Referee) dequeue(c Claim) (violations []string) {
	i := slices.IndexFunc(r.queued, c.same)
	if i < 0 {
		return nil
	}
	downgraded := c.Read && slices.ContainsFunc(r.inside, func(in *Claim) bool { return in.Lock == c.Lock && in.Owner == c.Owner && !in.Read })
	for _, ahead := range r.queued[:i] {
		if ahead.excludes(c) && !downgraded {
			violations = append(violations, fmt.Sprintf("%v was granted the lock before %v, which queued earlier", c, ahead))
		}
	}
	r.queued = slices.Delete(r.queued, i, i+1)
	return violations
}

// checkToken checks the token of a grant that is judged. The caller holds r.mu.
//
// Grants are judged in the order in which they were made, those that do not
// exclude each other aside: each was still held when it was judged.
func (r *Referee) checkToken(c Claim) (violations []string) {
	if c.Token == 0 {
		return nil
	}
	ts := r.tokens[c.Lock]
	if ts == nil {
		ts = &tokens{writers: make(map[uint64]string), readers: make(map[uint64]string)}
		r.tokens[c.Lock] = ts
	}
	owner, written := ts.writers[c.Token]
	_, read := ts.readers[c.Token]
	if !written && !read {
		ts.count++
	}
	switch {
	case written && owner != c.Owner:
		violations = append(violations, fmt.Sprintf("%v was granted the token of a write of %s", c, owner))
	case written:
		// Another goroutine of the writer, or a reader beside it.
	case c.Read:
		if c.Token < ts.highest {
			violations = append(violations, fmt.Sprintf("%v was granted a token below an earlier writer's, %d", c, ts.highest))
		}
		ts.readers[c.Token] = c.Owner
	default:
		if c.Token < ts.highest {
			violations = append(violations, fmt.Sprintf("%v was granted a token below an earlier writer's, %d", c, ts.highest))
		}
		for token, reader := range ts.readers {
			// A reader beside its own writer may have been told of its grant first.
			if c.Token < token && !c.Upgraded || c.Token == token && c.Owner != reader {
				violations = append(violations, fmt.Sprintf("%v was granted a token that is not above that of the earlier reader %s, %d", c, reader, token))
			}
		}
		ts.writers[c.Token] = c.Owner
		ts.highest = max(ts.highest, c.Token)
		for token := range ts.readers { // those below are of no interest any more
			if token <= ts.highest {
				delete(ts.readers, token)
			}
		}
	}
	return violations
}
