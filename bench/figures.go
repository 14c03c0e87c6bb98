// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/holdfast-go/holdfast/bench/internal/chart"
)

// figures returns the figures for which there is data.
func (m *measured) figures() []chart.Chart {
	log := func(label string) chart.Axis { return chart.Axis{Label: label, Log: true} }
	linear := func(label string) chart.Axis { return chart.Axis{Label: label} }
	// along returns a subject's figures in scenarios that differ in one number.
	along := func(name, subject string, xs []int, scenario func(int) string, of func(result) float64) chart.Series {
		s := chart.Series{Name: name, Emphasis: subject == ours}
		for _, x := range xs {
			if values := m.values(scenario(x), subject, of); len(values) > 0 {
				y := over(values)
				s.Points = append(s.Points, chart.Point{X: float64(x), Y: y.Median, Low: y.Low, High: y.High})
			}
		}
		return s
	}
	all := func(subjects []string, xs []int, scenario func(int) string, of func(result) float64) (s []chart.Series) {
		for _, subject := range subjects {
			s = append(s, along(subject, subject, xs, scenario, of))
		}
		return s
	}
	// words compares what goroutines do to a word in memory.
	words := func(of func(result) float64) []chart.Series {
		return []chart.Series{along("Acquire + Release", ours, crowds, reenter, of), along("two compare-and-swaps", limitCAS, crowds, reenter, of)}
	}
	// latency returns the distribution of a subject's waits.
	latency := func(subject string) chart.Series {
		s := chart.Series{Name: subject, Emphasis: subject == ours}
		var waits []float64
		for _, r := range m.Scenarios[handOver(8)][subject] {
			waits = append(waits, r.Waits...)
		}
		slices.Sort(waits)
		for percent := 0; percent <= 100 && len(waits) > 0; percent++ {
			q := float64(percent) / 100
			x := quantile(waits, q) / 1000
			s.Points = append(s.Points, chart.Point{X: x, Y: q, Low: q, High: q})
		}
		return s
	}
	// In the same order everywhere: the place in the list determines the look.
	queuers := []string{ours, limitRelay, gozk, curator, kazoo, naive, etcd, redsync}
	var latencies []chart.Series
	for _, subject := range queuers {
		latencies = append(latencies, latency(subject))
	}
	charts := []chart.Chart{
		{
			File: "throughput.svg", Title: "Grants of one lock for which processes contend",
			X: log("contending processes"), Y: log("grants per second (higher is better)"),
			Series: all(queuers, contenders, handOver, rate),
		},
		{
			File: "network.svg", Title: "Hand-over " + atTrip,
			X: log("contending processes"), Y: log("round trips from grant to grant (lower is better)"),
			Series: all(append(slices.Clone(queuers[:6]), oursUnlock), contenders, func(n int) string { return farHandOver(far, n) }, perTrip),
		},
		{
			File: "depth.svg", Title: "Time from grant to grant, by length of the queue",
			X: log("sessions in the queue"), Y: log("milliseconds per hand-over (lower is better)"),
			Series: all([]string{ours, limitRelay}, depths, queue, func(r result) float64 { return 1000 / rate(r) }),
		},
		{
			File: "latency.svg", Title: "Wait for a lock for which 8 processes contend",
			X: log("wait in milliseconds"), Y: linear("share of waits (further left is better)"),
			Series: latencies,
		},
		{
			File: "many.svg", Title: "Locks taken and released concurrently by one process",
			X: log("locks"), Y: linear("microseconds per lock (lower is better)"),
			Series: all([]string{ours, limitBare}, manyLocks, many, func(r result) float64 { return 1e6 / rate(r) }),
		},
		{
			File: "word.svg", Title: "Goroutines that take and release a lock that their process holds",
			X: log("goroutines on one word"), Y: linear("nanoseconds per pair (lower is better)"),
			Series: words(nanos),
		},
		{
			File: "lost.svg", Title: "Compare-and-swaps that failed",
			X: log("goroutines on one word"), Y: linear("failures per 1,000 pairs (lower is better)"),
			Series: words(func(r result) float64 { return 1000 * r.Lost }),
		},
		{
			File: "herd.svg", Title: "Requests and notifications per grant",
			X: log("contending processes"), Y: log("requests and notifications per grant (lower is better)"),
			Series: all(queuers[:6], tappedContenders, requests, func(r result) float64 {
				return r.Extra["writes"] + r.Extra["reads"] + r.Extra["notifications"]
			}),
		},
	}
	return slices.DeleteFunc(charts, func(c chart.Chart) bool {
		return !slices.ContainsFunc(c.Series, func(s chart.Series) bool { return len(s.Points) > 0 })
	})
}

// draw runs bench/plot, which draws the figures into dir. A part of the benchmarks may have
// none.
func draw(ctx context.Context, root, dir string, figures []chart.Chart) error {
	if len(figures) == 0 {
		return nil
	}
	text, err := json.Marshal(figures)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "run", ".", dir)
	cmd.Dir = filepath.Join(root, "bench", "plot")
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("draw the figures: %w\n%s", err, out)
	}
	return nil
}
