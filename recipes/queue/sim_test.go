// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/queue"
)

// In the simulation processes offer and take elements while faults strike, and at the end
// every element must have been acked once, or be there, or be dead. Some are returned with a delay,
// and some of the dead are put into the queue again.
func TestSim(t *testing.T) {
	recipetest.Simulate(t, 200, func(w *recipetest.World) {
		j := &judge{w: w, offers: make(map[string]*record)}
		ctx, stop := context.WithCancel(context.Background())
		consumers, producers := 1+w.N(3), 1+w.N(2)
		workers := 1 + w.N(2)
		j.ordered = consumers*workers == 1 // only one takes, one at a time
		o := queue.Options{MaxAttempts: 2 + w.N(8)}
		var producing, consuming sync.WaitGroup
		for i := range producers {
			p := w.Process(fmt.Sprintf("producer%d", i))
			q := open(w.T, p.M, o)
			for g := range 2 {
				producing.Go(func() { j.produce(ctx, q, fmt.Sprintf("%d.%d", i, g)) })
			}
		}
		for i := range consumers {
			p := w.Process(fmt.Sprintf("consumer%d", i))
			q := open(w.T, p.M, o)
			for range workers {
				consuming.Go(func() { j.consume(ctx, q, p.Name) })
			}
		}
		operator := w.Process("operator")
		operating, end := context.WithCancel(ctx)
		producing.Go(func() { j.requeue(operating, open(w.T, operator.M, o)) })
		w.Harm(8+w.N(8), time.Second, j.deletable)
		end()
		producing.Wait()
		w.Heal()
		last := w.Process("last")
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			w.Until("the queue is empty", func() bool { return len(w.Srv.Children(items)) == 0 })
		}()
		<-drained
		stop()
		consuming.Wait()
		j.verdict(w)
		_, err := open(w.T, last.M, o).Poll(context.Background())
		recipetest.WantErr(w.T, "poll in the end", err, queue.ErrEmpty)
	})
}

// A judge knows what happened to every element.
type judge struct {
	w       *recipetest.World
	ordered bool // elements must be taken for the first time in the order of the offers

	mu     sync.Mutex
	offers map[string]*record
	latest map[string]string // of each producer, the element that was taken last for the first time
}

// A record is what happened to one element.
type record struct {
	offered, mayBe bool // its offer has succeeded, or its outcome is unknown
	taken, acked   int
	mayBeAcked     bool // an ack's outcome is unknown
	token          uint64
	asleep         time.Time // it is not to be taken before
	requeued       bool
	claims         []string // the paths of its claims
}

func (j *judge) record(id string) *record {
	r := j.offers[id]
	if r == nil {
		r = new(record)
		j.offers[id] = r
	}
	return r
}

// produce offers elements until a while has passed.
func (j *judge) produce(ctx context.Context, q *queue.Queue, name string) {
	for i := range 12 {
		ids := []string{fmt.Sprintf("%s/%03d", name, 2*i)}
		if j.w.N(3) == 0 {
			ids = append(ids, fmt.Sprintf("%s/%03d", name, 2*i+1))
		}
		var data [][]byte
		for _, id := range ids {
			data = append(data, []byte(id))
		}
		limit, cancel := context.WithTimeout(ctx, 30*time.Second)
		if j.w.N(4) == 0 {
			cancel()
			limit, cancel = context.WithTimeout(ctx, j.w.UpTo(50*time.Millisecond))
		}
		err := q.Offer(limit, data...)
		cancel()
		j.w.Note("offer %v: %v", ids, err)
		j.mu.Lock()
		for _, id := range ids {
			r := j.record(id)
			r.offered = err == nil
			r.mayBe = errors.Is(err, manager.ErrUnknownOutcome)
		}
		j.mu.Unlock()
		j.w.Pause(ctx, 500*time.Millisecond)
	}
}

// consume takes elements, and settles them in one way or another.
func (j *judge) consume(ctx context.Context, q *queue.Queue, name string) {
	for ctx.Err() == nil {
		limit, cancel := context.WithTimeout(ctx, j.w.UpTo(20*time.Second))
		e, err := q.Take(limit)
		cancel()
		if err != nil {
			if len(j.w.Srv.Children(items)) > 0 { // a claim may be on its way back
				j.mu.Lock()
				j.ordered = false
				j.mu.Unlock()
			}
			continue
		}
		id := string(e.Data())
		late := j.taken(e, id, name)
		j.w.Pause(ctx, 300*time.Millisecond)
		limit, cancel = context.WithTimeout(context.Background(), 30*time.Second)
		if j.w.N(8) == 0 {
			cancel()
			limit, cancel = context.WithTimeout(context.Background(), j.w.UpTo(20*time.Millisecond))
		}
		if err := j.settle(limit, e, id, name); late && err == nil {
			j.w.T.Errorf("%s: its token %d is below an earlier one, and it is settled", id, e.Token())
		}
		cancel()
	}
}

// settle acks the element, or sometimes returns or buries it.
func (j *judge) settle(ctx context.Context, e *queue.Element, id, name string) error {
	what, do := "acks", e.Ack
	var until time.Time
	switch j.w.N(10) {
	case 0:
		what, do = "returns", e.Return
	case 1:
		what, do = "buries", e.Bury
	case 2, 3:
		d := j.w.UpTo(3 * time.Second)
		what, do = fmt.Sprint("returns for ", d), func(ctx context.Context) error { return e.ReturnAfter(ctx, d) }
		until = time.Now().Add(d)
	}
	err := do(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		// It goes on, unless ctx had ended before.
		if again := do(context.Background()); !errors.Is(again, queue.ErrSettled) {
			err = again
		}
	}
	j.w.Note("%s %s %s: %v", name, what, id, err)
	if what == "acks" {
		j.acked(id, err)
	}
	if err == nil && !until.IsZero() {
		j.asleep(id, e.Token(), until)
	}
	return err
}

// asleep notes until when the element must not be taken that was returned with a delay.
func (j *judge) asleep(id string, token uint64, until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r := j.record(id); r.token == token {
		r.asleep = until
	}
}

// requeue puts buried elements into the queue again, until ctx ends.
func (j *judge) requeue(ctx context.Context, q *queue.Queue) {
	for ctx.Err() == nil {
		j.w.Pause(ctx, 3*time.Second)
		for b, err := range q.Dead(ctx) {
			if err != nil || j.w.N(2) == 0 {
				continue
			}
			j.mu.Lock()
			j.record(string(b.Data)).requeued = true
			j.mu.Unlock()
			err := q.Requeue(context.Background(), b.Name)
			j.w.Note("requeue %s: %v", b.Data, err)
			if err != nil {
				j.w.T.Errorf("requeue %s: %v", b.Data, err)
			}
		}
	}
}

// taken judges that a consumer has an element. late says that another has had it since, by its
// token: the consumer's session is over, and it does not know yet.
func (j *judge) taken(e *queue.Element, id, name string) (late bool) {
	j.w.Note("%s takes %s, %s, attempt %d, token %d", name, id, e.Name(), e.Attempt(), e.Token())
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.record(id)
	r.taken++
	claim := items + "/" + e.Name() + "/claim"
	r.claims = append(r.claims, claim)
	if r.acked > 0 {
		j.w.T.Errorf("%s is taken after its ack", id)
	}
	if early := time.Until(r.asleep); early > 0 && !j.w.HasDeleted(claim) {
		j.w.T.Errorf("%s is taken %v before its delay is over", id, early)
	}
	late = e.Token() <= r.token
	r.token = max(r.token, e.Token())
	if producer, _, _ := strings.Cut(id, "/"); j.ordered && r.taken == 1 && e.Attempt() == 1 && !r.requeued {
		if j.latest == nil {
			j.latest = make(map[string]string)
		}
		if id <= j.latest[producer] {
			j.w.T.Errorf("%s is taken for the first time after %s", id, j.latest[producer])
		}
		j.latest[producer] = id
	}
	return late
}

func (j *judge) acked(id string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.record(id)
	switch {
	case err == nil:
		r.acked++
	case errors.Is(err, manager.ErrUnknownOutcome), errors.Is(err, context.DeadlineExceeded):
		r.mayBeAcked = true
	}
}

// deletable returns what an administrator may delete: claims, and the nodes of processes.
func (j *judge) deletable() (all []string) {
	for _, path := range j.w.Srv.Nodes() {
		if strings.HasPrefix(path, "/holdfast/q/") && (strings.HasSuffix(path, "/claim") ||
			strings.Contains(path, "/consumers/") || strings.Contains(path, "/producers/") || strings.Contains(path, "-lock-")) {
			all = append(all, path)
		}
	}
	return all
}

// verdict is called when the queue is empty and nothing moves any more.
func (j *judge) verdict(w *recipetest.World) {
	dead := make(map[string]bool)
	for _, name := range w.Srv.Children("/holdfast/q/dead") {
		data, _, _ := w.Srv.Get("/holdfast/q/dead/" + name)
		if dead[string(data)] {
			w.T.Errorf("%s is dead twice", data)
		}
		dead[string(data)] = true
	}
	for id, r := range j.offers {
		switch {
		case r.acked > 1 && !slices.ContainsFunc(r.claims, w.HasDeleted): // else two have had it at once
			w.T.Errorf("%s was acked %d times", id, r.acked)
		case r.acked == 1 && dead[id]:
			w.T.Errorf("%s was acked, and is dead", id)
		case r.offered && r.acked == 0 && !r.mayBeAcked && !dead[id]:
			w.T.Errorf("%s was offered, and lost", id)
		case r.taken > 0 && !r.offered && !r.mayBe:
			w.T.Errorf("%s was taken, and its offer had failed", id)
		}
	}
}
