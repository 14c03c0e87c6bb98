// SPDX-License-Identifier: Apache-2.0

package prom_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/prom"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A process exports the metrics of its Manager, grouped by the first segments of the
// locks' names.
func Example() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)}) // in production: an ensemble
	defer server.Close()

	metrics := prom.New(prom.Config{Group: prom.FirstSegment})
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(metrics)
	m, err := manager.Open(context.Background(), manager.Config{
		Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		Dialer:  server.Dial, // leave it out to dial the servers
		Logger:  slog.New(slog.DiscardHandler),
		Observer: func(e manager.Event) {
			metrics.Observe(e)
			// Call other observers here.
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	metrics.Manage(m)

	nightly, err := m.Exclusive("jobs/nightly")
	if err != nil {
		log.Fatal(err)
	}
	hold, err := nightly.Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release()

	// A program serves the registry with promhttp.HandlerFor. Here is what is scraped.
	const want = `
# HELP holdfast_holders Callers in this process that hold a lock.
# TYPE holdfast_holders gauge
holdfast_holders{group="jobs",kind="exclusive"} 1
`
	fmt.Println(testutil.GatherAndCompare(registry, strings.NewReader(want), "holdfast_holders"))
	// Output: <nil>
}
