// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// A Mutex excludes the goroutines of a process, too. The resource remembers the last grant
// and refuses an older one: Compare takes the turn of the goroutine into account.
func ExampleMutex() {
	server := embedded()
	defer server.Close()
	m := open(server)
	defer m.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	x, err := m.Mutex("accounts/4711")
	if err != nil {
		log.Fatal(err)
	}
	var last manager.Grant // the resource's
	balance := 0
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			err := x.Do(ctx, func(_ context.Context, h manager.Hold) error {
				g, err := h.Grant()
				if err != nil {
					return err
				}
				if g.Compare(last) < 0 {
					return errors.New("an older grant")
				}
				last = g
				balance += 10
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
	fmt.Println("balance:", balance)
	// Output:
	// balance: 100
}

// A Locker is for code that takes a sync.Locker.
func ExampleMutex_Locker() {
	server := embedded()
	defer server.Close()
	m := open(server)
	defer m.Close()

	x, err := m.Mutex("queue")
	if err != nil {
		log.Fatal(err)
	}
	var jobs []string
	cond := sync.NewCond(x.Locker(context.Background()))
	go func() {
		cond.L.Lock()
		defer cond.L.Unlock()
		jobs = append(jobs, "index")
		cond.Signal()
	}()
	cond.L.Lock()
	for len(jobs) == 0 {
		cond.Wait()
	}
	fmt.Println("next:", jobs[0])
	cond.L.Unlock()
	// Output:
	// next: index
}
