// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/otel"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A process reports its waits and holds as spans.
func Example() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)}) // in production: an ensemble
	defer server.Close()

	recorder := tracetest.NewSpanRecorder() // in production: sdktrace.NewBatchSpanProcessor
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	spans := otel.New(provider)
	m, err := manager.Open(context.Background(), manager.Config{
		Servers:  []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		Dialer:   server.Dial, // leave it out to dial the servers
		Logger:   slog.New(slog.DiscardHandler),
		Observer: spans.Observe,
	})
	if err != nil {
		log.Fatal(err)
	}

	nightly, err := m.Exclusive("jobs/nightly")
	if err != nil {
		log.Fatal(err)
	}
	err = nightly.Do(context.Background(), func(ctx context.Context, h manager.Hold) error { return nil })
	if err != nil {
		log.Fatal(err)
	}

	// First the Manager, which tells the Observer what is left, and then the provider.
	if err := m.Close(); err != nil {
		log.Fatal(err)
	}
	if err := provider.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	for _, span := range recorder.Ended() {
		fmt.Println(span.Name(), span.Attributes()[0].Value.AsString())
	}
	// Output:
	// holdfast.wait jobs/nightly
	// holdfast.hold jobs/nightly
}

// A process reports metrics of its locks, grouped by the first segments of their names.
func ExampleMetrics() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)}) // in production: an ensemble
	defer server.Close()

	reader := sdkmetric.NewManualReader() // in production: a PeriodicReader, or the exporter for Prometheus
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	metrics, err := otel.NewMetrics(provider, otel.MetricsConfig{Group: otel.FirstSegment})
	if err != nil {
		log.Fatal(err)
	}
	m, err := manager.Open(context.Background(), manager.Config{
		Servers:  []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		Dialer:   server.Dial, // leave it out to dial the servers
		Logger:   slog.New(slog.DiscardHandler),
		Observer: metrics.Observe,
	})
	if err != nil {
		log.Fatal(err)
	}
	metrics.Manage(m)

	nightly, err := m.Exclusive("jobs/nightly")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := nightly.Lock(context.Background()); err != nil {
		log.Fatal(err)
	}
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &collected); err != nil {
		log.Fatal(err)
	}
	for _, metric := range collected.ScopeMetrics[0].Metrics {
		if metric.Name == "holdfast.holders" {
			holders := metric.Data.(metricdata.Gauge[int64]).DataPoints[0]
			fmt.Println(metric.Name, holders.Attributes.Encoded(attribute.DefaultEncoder()), holders.Value)
		}
	}

	// First the Manager, which tells the Observer what is left, and then the provider.
	if err := m.Close(); err != nil {
		log.Fatal(err)
	}
	if err := provider.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: holdfast.holders group=jobs,kind=exclusive 1
}
