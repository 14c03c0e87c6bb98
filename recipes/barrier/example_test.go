// SPDX-License-Identifier: Apache-2.0

package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/barrier"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// open returns a manager, which stands for a process. With a real ensemble, name its servers
// and leave Dialer out.
func open(server *zktest.Server, label string) *manager.Manager {
	m, err := manager.Open(context.Background(), manager.Config{
		Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		Dialer:  server.Dial,
		Label:   label,
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// Three processes work in rounds. Each begins the second part when all have done the first.
func ExampleDouble() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	var processes sync.WaitGroup
	for i := range 3 {
		processes.Go(func() {
			m := open(server, fmt.Sprintf("worker%d", i))
			defer m.Close()
			b, err := barrier.NewDouble(m, "simulation/step", 3)
			if err != nil {
				log.Fatal(err)
			}
			for range 2 {
				stage, err := b.Enter(ctx) // all three begin
				if err != nil {
					log.Fatal(err)
				}
				work, done := stage.Context(ctx) // ends if this process loses its place
				_ = work
				done()
				if err := stage.Leave(ctx); err != nil { // all three have ended
					log.Fatal(err)
				}
				if i == 0 {
					fmt.Println("round", stage.Round, "is over")
				}
			}
		})
	}
	processes.Wait()
	// Output:
	// round 1 is over
	// round 2 is over
}

// A process dies inside. The other learns of it when it leaves.
func ExampleBrokenError() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dies, lives := open(server, "dies"), open(server, "lives")
	defer dies.Close()
	defer lives.Close()

	go func() {
		b, err := barrier.NewDouble(dies, "simulation/step", 2)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := b.Enter(ctx); err != nil {
			log.Fatal(err)
		}
		_ = dies.Close() // without Leave, as if it were killed
	}()
	b, err := barrier.NewDouble(lives, "simulation/step", 2)
	if err != nil {
		log.Fatal(err)
	}
	stage, err := b.Enter(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = stage.Leave(ctx)
	if broken, ok := errors.AsType[*barrier.BrokenError](err); ok {
		fmt.Println("round", broken.Round, "must be repeated:", len(broken.Died), "died")
	}
	// Output:
	// round 1 must be repeated: 1 died
}

// Consumers wait while a gate is shut: for the time of a migration, say.
func ExampleGate() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	admin, consumer := open(server, "admin"), open(server, "consumer")
	defer admin.Close()
	defer consumer.Close()

	migration, err := barrier.NewGate(admin, "migration")
	if err != nil {
		log.Fatal(err)
	}
	if err := migration.Shut(ctx); err != nil {
		log.Fatal(err)
	}
	migrated := false
	go func() {
		migrated = true
		if err := migration.Open(ctx); err != nil {
			log.Fatal(err)
		}
	}()

	gate, err := barrier.NewGate(consumer, "migration")
	if err != nil {
		log.Fatal(err)
	}
	if err := gate.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("migrated:", migrated)
	// Output:
	// migrated: true
}
