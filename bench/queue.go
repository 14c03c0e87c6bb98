// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/bench/internal/work"
	recipe "github.com/holdfast-go/holdfast/recipes/queue"
)

// The numbers of consumers.
var consumers = []int{1, 16}

// drainedElements are in the queue when its consumers begin.
const drainedElements = 1000

func drained(consumers int) string { return fmt.Sprintf("drain-queue/consumers=%d", consumers) }

// draining returns the scenarios in which processes drain a queue.
func draining() (all []scenario) {
	for _, n := range consumers {
		all = append(all, scenario{
			id: drained(n), what: fmt.Sprintf("%d processes with one goroutine or thread each take %d elements from a queue, and remove them", n, drainedElements),
			job:      work.Job{Work: work.Drain, Sessions: n, Elements: drainedElements},
			subjects: []string{ours, curator, kazoo}, rounds: 3,
		})
	}
	return all
}

// Queue returns the session's way to a queue of recipes/queue.
func (s *holdfastSession) Queue(path string) (work.Queue, error) {
	q, err := recipe.New(s.m, path[1:], recipe.Options{})
	return holdfastQueue{q}, err
}

type holdfastQueue struct{ q *recipe.Queue }

func (h holdfastQueue) Offer(ctx context.Context, n int) error {
	for range n {
		if err := h.q.Offer(ctx, make([]byte, 100)); err != nil {
			return err
		}
	}
	return nil
}

func (h holdfastQueue) Take(ctx context.Context) error {
	e, err := h.q.Take(ctx)
	if err != nil {
		return err
	}
	return e.Ack(ctx)
}
