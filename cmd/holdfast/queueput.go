// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
)

type queuePutCmd struct {
	Wait     bool     `help:"Wait while the queue is full, instead of failing."`
	Name     string   `arg:"" help:"The queue."`
	Elements []string `arg:"" optional:"" name:"element" help:"The elements; by default, each line of standard input is one."`
}

// Help is shown by holdfast queue put --help.
func (*queuePutCmd) Help() string {
	return `Puts elements into a queue, in their order: the arguments, or the lines of standard input, each as soon as it is there. In the end it says how many it has put. Those of a call that fails may be there in part.

Examples:
  holdfast queue put mails one two
  holdfast queue put --wait mails < list.txt
  tail -f log.txt | grep --line-buffered ERROR | holdfast queue put errors`
}

// putTogether is how many elements are offered together, and how many bytes they may have
// together before.
const (
	putTogether = 100
	putBytes    = 256 << 10
)

// Run puts the elements into the queue.
func (c *queuePutCmd) Run(a *app) error {
	m, q, err := openQueue(a, c.Name)
	if err != nil {
		return err
	}
	defer m.Close()
	p := &putter{offer: q.Offer}
	if c.Wait {
		p.offer = q.OfferWait
	}
	if len(c.Elements) > 0 {
		err = p.putAll(a.ctx, c.Elements)
	} else {
		err = p.putLines(a.ctx, a.stdin)
	}
	if err != nil {
		if a.ctx.Err() != nil && !a.JSON {
			c.say(a, p.offered) // the signal's exit code says the rest
		}
		return fmt.Errorf("%d elements are in the queue, and then: %w", p.offered, err)
	}
	if a.JSON {
		return a.json(map[string]any{"queue": c.Name, "offered": p.offered})
	}
	c.say(a, p.offered)
	return nil
}

func (c *queuePutCmd) say(a *app, offered int) {
	a.printf("%s: %s put\n", safe(c.Name), count(offered, "element", "elements"))
}

// A putter puts elements into a queue, some together.
type putter struct {
	offer   func(ctx context.Context, data ...[]byte) error
	some    [][]byte // to be offered together
	bytes   int      // of some
	offered int      // how many are in the queue
}

// putAll puts the elements.
func (p *putter) putAll(ctx context.Context, elements []string) error {
	for _, e := range elements {
		if err := p.add(ctx, []byte(e)); err != nil {
			return err
		}
	}
	return p.put(ctx)
}

// putLines puts each line of in, as soon as it is there: those that have come while the ones
// before were put travel together.
func (p *putter) putLines(ctx context.Context, in io.Reader) error {
	lines := make(chan []byte, putTogether)
	var failed error // written before lines is closed
	// A read of standard input cannot be interrupted. If ctx ends meanwhile, the goroutine
	// ends with the process.
	go func() {
		defer close(lines)
		s := bufio.NewScanner(in)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			select {
			case lines <- slices.Clone(s.Bytes()):
			case <-ctx.Done():
				return
			}
		}
		failed = s.Err()
	}()
	for {
		select {
		case line, more := <-lines:
			if !more {
				if failed != nil {
					failed = fmt.Errorf("standard input: %w", failed)
				}
				return cmp.Or(failed, context.Cause(ctx))
			}
			if err := p.add(ctx, line); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if len(lines) == 0 {
			if err := p.put(ctx); err != nil {
				return err
			}
		}
	}
}

// add adds an element to those that are offered together, before which it may have to put
// those.
func (p *putter) add(ctx context.Context, data []byte) error {
	if len(p.some) == putTogether || p.bytes+len(data) > putBytes {
		if err := p.put(ctx); err != nil {
			return err
		}
	}
	p.some, p.bytes = append(p.some, data), p.bytes+len(data)
	return nil
}

// put puts those that were added.
func (p *putter) put(ctx context.Context) error {
	if len(p.some) == 0 {
		return nil
	}
	if err := p.offer(ctx, p.some...); err != nil {
		return err
	}
	p.offered += len(p.some)
	p.some, p.bytes = nil, 0
	return nil
}
