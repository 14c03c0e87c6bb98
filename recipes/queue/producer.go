// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

// A producer sends what this process offers. A goroutine does so while there is anything,
// one transaction after the other, which keeps the order of the offers.
type producer struct {
	*nodes

	mu      sync.Mutex // protects the next two; held for a few instructions
	waiting []*offer
	sending bool // the goroutine is there

	// These are used by that goroutine, or by the worker that it waits for.
	mark    mark
	batches int
	length  int // of the queue, when it was last seen
	last    int // the number of an element that was put into the queue lately
}

// A mark is the producer's ephemeral node. Every transaction that puts elements into the
// queue changes it, so its version tells whether a transaction without an answer was
// carried out.
type mark struct {
	session *zkio.Session // nil: there is none
	path    string
	version int32
}

// An offer is one call of Offer.
type offer struct {
	data [][]byte
	size int           // what it takes in a request
	done chan struct{} // closed when err is set
	err  error
}

func (p *producer) offer(ctx context.Context, data [][]byte) error {
	o := &offer{done: make(chan struct{})}
	size := 0
	for _, d := range data {
		if most := p.options.MaxSize; len(d) > most {
			return fmt.Errorf("%w: an element has %d bytes, at most %d are allowed", ErrTooLarge, len(d), most)
		}
		o.data = append(o.data, bytes.Clone(d))
		size += len(d)
		o.size += len(d) + p.overhead()
	}
	switch {
	case len(data) == 0:
		return nil
	case size > maxOffer || len(data) > maxCount:
		return fmt.Errorf("%w: %d elements with %d bytes, at most %d with %d travel together", ErrTooLarge, len(data), size, maxCount, maxOffer)
	case o.size > maxRequest:
		return fmt.Errorf("%w: %d elements with %d bytes, and %d for the path and the ACL of each, of which at most %d travel together",
			ErrTooLarge, len(data), size, p.overhead(), maxRequest)
	case len(data) > p.options.MaxLength:
		return fmt.Errorf("%w: %d elements, and the queue never has more than %d", ErrTooLarge, len(data), p.options.MaxLength)
	case ctx.Err() != nil:
		return ctxerr.Of(ctx)
	}
	if p.add(o) {
		p.access.Go(p.send)
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		if p.withdraw(o) {
			return ctxerr.Of(ctx)
		}
		return fmt.Errorf("%w: %w", ctxerr.Of(ctx), manager.ErrUnknownOutcome)
	}
}

// overhead returns about how many bytes an element takes in a request, besides its data.
func (p *producer) overhead() int {
	n := len(p.dirs.items) + 64
	for _, a := range p.access.ACL() {
		n += len(a.Scheme) + len(a.ID) + 12
	}
	return n
}

// add queues o, and reports whether the caller must start the sender.
func (p *producer) add(o *offer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, o)
	start := !p.sending
	p.sending = true
	return start
}

// withdraw reports whether o was still waiting.
func (p *producer) withdraw(o *offer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.waiting {
		if other == o {
			p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// next returns the offers that travel together next. Without any, the sender ends.
func (p *producer) next() []*offer {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, size, count := 0, 0, 0
	for ; n < len(p.waiting); n++ {
		size += p.waiting[n].size
		count += len(p.waiting[n].data)
		if size > maxRequest || count > maxCount {
			break // not at the first: offer has checked it
		}
	}
	batch := p.waiting[:n:n]
	p.waiting = p.waiting[n:]
	p.sending = n > 0
	return batch
}

// send sends until nothing is waiting.
func (p *producer) send() {
	for batch := p.next(); len(batch) > 0; batch = p.next() {
		p.batches++
		d := &delivery{producer: p, batch: batch, id: strconv.Itoa(p.batches)}
		err := access.Do(context.Background(), p.access, d.do)
		if d.doubt != nil && errors.Is(err, manager.ErrClosed) {
			err = fmt.Errorf("%w: %w", err, manager.ErrUnknownOutcome)
		}
		d.end(d.batch, err)
	}
}

// A delivery puts one batch of offers into the queue.
type delivery struct {
	*producer
	batch []*offer
	id    string
	doubt *zkio.Session // the session of a request whose outcome is not known; nil: there is none
}

// end tells the callers of offers how it went.
func (d *delivery) end(offers []*offer, err error) {
	for _, o := range offers {
		o.err = err
		close(o.done)
	}
}

// do is called by a worker, until it returns nil or a definite error.
func (d *delivery) do(s *zkio.Session) error {
	if d.doubt != nil && d.doubt != s {
		return access.Verdict(fmt.Errorf("%w: the session ended meanwhile", manager.ErrUnknownOutcome))
	}
	for tries := 0; ; tries++ {
		if d.doubt == nil {
			if err := d.checkRoom(s); err != nil || len(d.batch) == 0 {
				return err
			}
		}
		again, err := d.try(s)
		switch {
		case !again:
			return err
		case tries == 3:
			return errHindered
		}
	}
}

// errHindered has a worker try again after a pause.
var errHindered = fmt.Errorf("%w: others keep changing the nodes of the queue", zkio.ErrNotSent)

// try sends the transaction. If it reports again, nothing was done; try once more.
func (d *delivery) try(s *zkio.Session) (again bool, err error) {
	if d.mark.session != s {
		d.mark = mark{session: s, path: d.dirs.producers + "/" + d.access.GUID(), version: -1}
	}
	ops := []zkio.Op{zkio.SetOp(d.mark.path, []byte(d.id), d.mark.version)}
	if d.mark.version < 0 {
		ops[0] = zkio.CreateOp(d.mark.path, []byte(d.id), d.access.ACL()).Ephemeral()
	}
	count := 0
	for _, o := range d.batch {
		for _, data := range o.data {
			ops = append(ops, zkio.CreateOp(d.dirs.items+"/"+prefix, data, d.access.ACL()).Sequential())
			count++
		}
	}
	length := &zkio.Read{Path: d.dirs.items, What: zkio.ReadStat}
	results, err := s.MultiAndRead([]*zkio.Read{length}, ops...)
	if err == nil {
		d.mark.version++ // a node that was just created has version 0
		d.length += count
		if length.Err == nil {
			d.length = int(length.Stat.NumChildren)
		}
		d.last, _ = numberOf(results[len(results)-1].Path)
		return false, nil
	}
	switch which := failed(results); {
	case zkio.ClassOf(err) != zkio.Definite:
		if errors.Is(err, zkio.ErrUnknown) {
			d.doubt = s
		}
		return false, err
	case which == 0 && errors.Is(err, zkio.ErrNodeExists):
		d.mark.version++ // no other process knows the name: the first try has succeeded
		return false, nil
	case which == 0 && errors.Is(err, zkio.ErrBadVersion):
		return d.changed(s)
	case which == 0 && errors.Is(err, zkio.ErrNoNode) && d.mark.version >= 0:
		if d.doubt != nil {
			return false, access.Verdict(fmt.Errorf("%w: another client deleted %s meanwhile", manager.ErrUnknownOutcome, d.mark.path))
		}
		d.mark = mark{}
		return true, nil
	}
	// The server has accepted the mark, so nothing was carried out before.
	d.doubt = nil
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		if made := d.makeDirs(s); made != nil {
			return false, made
		}
		return true, nil
	case errors.Is(err, zkio.ErrNodeExists) && d.last < highNumber:
		d.last = highNumber // have checkRoom look
		return true, nil
	case errors.Is(err, zkio.ErrNodeExists):
		return false, access.Verdict(ErrSequenceExhausted)
	}
	return false, err
}

// changed is called when the mark has another version than expected. If the batch in doubt
// has made it, that has succeeded; otherwise an administrator has changed the mark.
func (d *delivery) changed(s *zkio.Session) (again bool, err error) {
	data, stat, err := s.Get(d.mark.path)
	if err != nil {
		return errors.Is(err, zkio.ErrNoNode), err // if it has gone meanwhile, try notices
	}
	d.mark.version = stat.Version
	return d.doubt == nil || string(data) != d.id, nil
}

// checkRoom refuses the offers for which the queue has no room. It asks only if there was
// no room when the queue was last seen, or if the numbers of the elements are high.
func (d *delivery) checkRoom(s *zkio.Session) error {
	count := 0
	for _, o := range d.batch {
		count += len(o.data)
	}
	room := d.options.MaxLength - d.length
	if count <= room && d.last < highNumber {
		return nil
	}
	stat, there, err := s.Exists(d.dirs.items)
	if err != nil {
		return err
	}
	if d.length = int(stat.NumChildren); there && d.length == 0 && d.last >= highNumber {
		if err := access.Unless(d.restart(s), zkio.ErrNotEmpty); err != nil {
			return err
		}
	}
	room = d.options.MaxLength - d.length
	fit := d.batch[:0:0]
	for _, o := range d.batch {
		if len(o.data) > room {
			d.end([]*offer{o}, fmt.Errorf("%w: it has %d elements, at most %d are allowed", ErrFull, d.length, d.options.MaxLength))
			continue
		}
		room -= len(o.data)
		fit = append(fit, o)
	}
	d.batch = fit
	return nil
}

// restart replaces the directory of elements by a new one, which counts from zero, unless
// there is an element.
func (d *delivery) restart(s *zkio.Session) error {
	_, err := s.Multi(zkio.DeleteOp(d.dirs.items, -1), zkio.CreateOp(d.dirs.items, nil, d.access.ACL()))
	if err == nil {
		d.last = 0
	}
	return err
}
