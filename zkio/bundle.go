// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// A server takes about as long for one transaction of eight creations as for three single
// ones, and for one request that reads thirty nodes as for two that read one each. So while tasks
// wait because as many run as may, workers send their requests together: changes as one
// transaction, reads as one request. At any other time a request leaves by itself and at once,
// and so does one that would remain a request of its own, as a list does.

const (
	bundleChanges = 64       // changes in a bundle, at most
	bundleBytes   = 64 << 10 // of the requests in a bundle, at most
	// bundleWorkers: for each so many workers one bundle may be under way. What workers ask for
	// while all of these are waits, and goes in the next.
	bundleWorkers = 32
)

// A bundler sends the requests of a session's workers together.
type bundler struct {
	session *Session
	most    int // bundles that may be under way at a time

	mu       sync.Mutex // protects what follows; never held while waiting
	underWay int        // bundles that are sent and not answered
	waiting  []*parcel  // in the order in which they came; empty unless underWay == most
}

// A parcel is what one call of exchange sends, on its way in a bundle. One goroutine waits
// for it.
type parcel struct {
	calls []*call
	// turn gives that goroutine the next bundle, which has its parcel, to send; or nil, when
	// another goroutine has sent the parcel and has the answers.
	turn chan []*parcel

	// Written before turn is told.
	wire  *wire // the connection on which it was answered; nil if it was not
	alone bool  // nothing of it was changed, and its answers are dropped: it is to be sent by itself
}

// newParcel returns a parcel of calls: a change, perhaps with reads behind it, or reads of nodes.
// It returns nil if they cannot go with others.
func (b *bundler) newParcel(calls []*call) *parcel {
	for i, c := range calls {
		if !c.bundled || i > 0 && changes(c.op) || checkPath(c.path) != nil {
			return nil
		}
	}
	p := &parcel{calls: calls, turn: make(chan []*parcel, 1)}
	if p.size() > bundleBytes || p.change() == nil && (!p.onlyGets() || b.session.readsOneByOne()) {
		return nil
	}
	return p
}

func (p *parcel) size() (n int) {
	for _, c := range p.calls {
		n += len(c.body)
	}
	return n
}

// change returns the call that changes something; nil if all only read.
func (p *parcel) change() *call {
	if c := p.calls[0]; changes(c.op) {
		return c
	}
	return nil
}

// onlyGets reports whether all calls read the data of nodes.
func (p *parcel) onlyGets() bool {
	return !slices.ContainsFunc(p.calls, func(c *call) bool { return c.op != jute.OpGetData })
}

// listed reports whether p has reads behind a change. They remain requests of their own, and
// may take long: the list of a crowded directory does.
func (p *parcel) listed() bool { return p.change() != nil && len(p.calls) > 1 }

// exchange is that of the session, together with other workers' calls. It reports false if
// calls are still to be sent: by themselves.
func (b *bundler) exchange(calls []*call) bool {
	p := b.newParcel(calls)
	if p == nil {
		return false
	}
	bundle := b.enter(p)
	if bundle == nil {
		bundle = <-p.turn
	}
	if bundle != nil {
		b.send(bundle)
		b.answered()
		for _, other := range bundle {
			if other != p {
				other.turn <- nil
			}
		}
	}
	switch {
	case p.alone:
		return false
	case p.wire != nil:
		b.session.takeBack(p.wire, p.calls)
	}
	return true
}

// enter puts p in line, or returns the bundle that p's goroutine is to send at once.
func (b *bundler) enter(p *parcel) (bundle []*parcel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.underWay == b.most {
		b.waiting = append(b.waiting, p)
		return nil
	}
	b.underWay++
	return []*parcel{p}
}

// answered notes that a bundle is no longer under way, and has the next one sent by the
// goroutine whose parcel has waited for longest.
func (b *bundler) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.underWay--
		return
	}
	next := b.takeLocked()
	next[0].turn <- next
}

// takeLocked takes the next bundle: the parcel that has waited for longest, and with it
// those that fit. The others keep their order.
//
// All parcels of a bundle wait for all of its answers. So those with a list and those without
// go apart: a lock that is free is not to wait for the list of one that is not.
//
// Two nodes that one transaction makes have one Czxid, which is the fencing token of what
// they stand for. So no two parcels of a bundle make a node in the same directory.
func (b *bundler) takeLocked() (bundle []*parcel) {
	size, changes, listed := 0, 0, b.waiting[0].listed()
	dirs := make(map[string]bool)
	left := b.waiting[:0]
	for _, p := range b.waiting {
		n, c := p.size(), p.change()
		if len(bundle) > 0 && (size+n > bundleBytes || p.listed() != listed || c != nil && (changes == bundleChanges || dirs[c.dir])) {
			left = append(left, p)
			continue
		}
		bundle, size = append(bundle, p), size+n
		if c != nil {
			changes++
			dirs[c.dir] = c.dir != ""
		}
	}
	clear(b.waiting[len(left):])
	b.waiting = left
	return bundle
}

// send sends a bundle in one packet, and waits for the answers.
func (b *bundler) send(bundle []*parcel) {
	s := b.session
	var changed, read mergedCalls // what becomes one request
	packet := bundle[0].calls
	if len(bundle) > 1 {
		var lists []*call // each behind the change of its parcel
		for _, p := range bundle {
			switch {
			case p.change() != nil:
				changed.add(p, p.calls[0])
				lists = append(lists, p.calls[1:]...)
			case s.readsOneByOne(): // known since it came into line
				p.alone = true
			default:
				for _, c := range p.calls {
					read.add(p, c)
				}
			}
		}
		packet = changed.packet(jute.OpMulti)
		packet = append(packet, read.watches()...)
		packet = append(packet, read.packet(jute.OpMultiRead)...)
		packet = append(packet, lists...)
	}
	if len(packet) == 0 {
		return
	}
	w, err := s.send(packet)
	if err != nil {
		//holdfast:reached-if ClassOf(err) == Unknown: bundle: the answer is lost
		for _, p := range bundle {
			if !p.alone {
				p.fail(err)
			}
		}
		return
	}
	//holdfast:reached-if changed.merged != nil: bundle: changes go together
	//holdfast:reached-if read.merged != nil: bundle: reads go together
	if read.merged != nil && notKnown(read.merged.code) {
		s.noMultiRead.Store(true)
	}
	changed.share()
	read.share()
	for _, p := range bundle {
		p.wire = w
	}
}

// fail notes that the packet with p's calls has failed with err, which names another's.
func (p *parcel) fail(err error) {
	for _, c := range p.calls {
		c.failed = err
		if e, ok := err.(*opError); ok { //nolint:errorlint // it is what send returns, not what that wraps
			own := *e
			own.op, own.path = c.what, c.path
			c.failed = &own
		}
	}
}

// mergedCalls are calls of several parcels that are made as one.
type mergedCalls struct {
	parcels []*parcel
	calls   []*call
	merged  *call // nil if there are fewer than two
}

func (m *mergedCalls) add(p *parcel, c *call) {
	m.parcels, m.calls = append(m.parcels, p), append(m.calls, c)
}

// packet returns the calls to be sent, which are of kind op if there is more than one.
func (m *mergedCalls) packet(op int32) []*call {
	if len(m.calls) < 2 {
		return m.calls
	}
	size := multiHeader
	for _, c := range m.calls {
		size += multiHeader + len(c.body)
	}
	body := make([]byte, 0, size)
	for _, c := range m.calls {
		if c.op == op { // it ends as the whole will
			body = append(body, c.body[:len(c.body)-multiHeader]...)
		} else {
			body = append(appendMultiHeader(body, c.op, false), c.body...)
		}
	}
	m.merged = &call{what: "bundle", path: m.calls[0].path, op: op, body: appendMultiHeader(body, -1, true), parts: m.calls}
	return []*call{m.merged}
}

// watches returns the call that sets the watches that the reads m ask for, if there is one.
// A request for several nodes sets none, so this one goes before it: that which sets watches
// again after a reconnect, with a zxid so high that no node counts as changed since. If a node
// changes or goes between the two, its watchers are told before the read is answered. For a node
// that is missing the server sets none: see noWatchOfMissing.
func (m *mergedCalls) watches() []*call {
	var parts []*call
	for _, c := range m.calls {
		if c.watch != "" {
			parts = append(parts, c)
		}
	}
	if len(m.calls) < 2 || len(parts) == 0 {
		return nil
	}
	calls := watchCalls(func(fn func(path string, k watchKind)) {
		for _, c := range parts {
			fn(c.watch, dataWatch)
		}
	}, math.MaxInt64)
	calls[0].path, calls[0].parts = parts[0].path, parts // bundleBytes fit into one
	return calls
}

// share gives each call its part of the answer. If ZooKeeper has refused a transaction, because
// of one of its operations, it has changed nothing, and each call is made by itself. So is each if
// a request that reads has failed as a whole. If the answer to a transaction does not say whether
// it happened, the outcome of each call is unknown.
func (m *mergedCalls) share() {
	if m.merged == nil {
		return
	}
	results, err := m.merged.parted(m.operations())
	switch {
	case err == nil:
	case ClassOf(err) == Unknown && changes(m.merged.op):
		for _, p := range m.parcels {
			p.fail(err)
		}
		return
	default:
		//holdfast:reached-if changes(m.merged.op): bundle: refused, each change goes alone
		for _, p := range m.parcels {
			p.startAgain()
		}
		return
	}
	for i, c := range m.calls {
		if c.op == jute.OpGetData {
			node := m.merged.answer.nodes[i]
			c.code, c.answer.data, c.answer.stat = node.code, node.data, node.stat
			continue
		}
		n := c.operations
		c.answer.results, results = results[:n:n], results[n:]
	}
}

// operations returns how many operations the calls have.
func (m *mergedCalls) operations() (n int) {
	for _, c := range m.calls {
		n += c.operations
	}
	return n
}

// parted returns the results of the n operations of which c is made; or why it has failed as a
// whole.
func (c *call) parted(n int) ([]OpResult, error) {
	a := &c.answer
	switch {
	case c.code != jute.ErrOK:
		return nil, refusal(c.what, c.path, c.code)
	case a.code != jute.ErrOK:
		return nil, refusal(c.what, c.path, a.code)
	case len(a.results)+len(a.nodes) != n:
		return nil, &opError{op: c.what, path: c.path, kind: ErrUnknown, why: fmt.Errorf("%d results for %d operations", len(a.results)+len(a.nodes), n)}
	}
	return a.results, nil
}

// startAgain has p sent by itself, as if it had not been sent before.
func (p *parcel) startAgain() {
	p.alone = true
	for _, c := range p.calls {
		*c = call{what: c.what, path: c.path, op: c.op, body: c.body, watch: c.watch}
	}
}
