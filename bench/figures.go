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
)

// The document that bench/plot reads.
type (
	figure struct {
		File   string   `json:"file"`
		Title  string   `json:"title"`
		Kind   string   `json:"kind,omitempty"`
		X      axis     `json:"x"`
		Y      axis     `json:"y"`
		Series []series `json:"series"`
	}
	axis struct {
		Label string `json:"label"`
		Log   bool   `json:"log,omitempty"`
	}
	series struct {
		Name     string    `json:"name"`
		Emphasis bool      `json:"emphasis,omitempty"`
		Points   []point   `json:"points,omitempty"`
		Samples  []float64 `json:"samples,omitempty"`
	}
	point struct {
		X    float64 `json:"x"`
		Y    float64 `json:"y"`
		Low  float64 `json:"low"`
		High float64 `json:"high"`
	}
)

// figures returns the figures for which there is data.
func (m *measured) figures() []figure {
	var figures []figure
	add := func(f figure, s ...series) {
		f.Series = slices.DeleteFunc(s, func(s series) bool { return len(s.Points)+len(s.Samples) == 0 })
		if len(f.Series) > 0 {
			figures = append(figures, f)
		}
	}
	// along returns a subject's figures in scenarios that differ in one number.
	along := func(name, subject string, xs []int, scenario func(int) string, of func(result) float64) series {
		s := series{Name: name, Emphasis: subject == ours}
		for _, x := range xs {
			if values := m.values(scenario(x), subject, of); len(values) > 0 {
				y := over(values)
				s.Points = append(s.Points, point{X: float64(x), Y: y.Median, Low: y.Low, High: y.High})
			}
		}
		return s
	}
	all := func(subjects []string, xs []int, scenario func(int) string, of func(result) float64) (s []series) {
		for _, subject := range subjects {
			s = append(s, along(subject, subject, xs, scenario, of))
		}
		return s
	}
	// In the same order everywhere: the place in the list determines the look.
	queuers := []string{ours, limitRelay, gozk, curator, kazoo, naive, etcd, redsync}

	add(figure{
		File: "throughput.svg", Title: "Grants of one lock for which processes contend",
		X: axis{Label: "contending processes", Log: true}, Y: axis{Label: "grants per second (higher is better)", Log: true},
	}, all(queuers, contenders, handOver, rate)...)

	add(figure{
		File: "network.svg", Title: "Hand-over " + atTrip,
		X: axis{Label: "contending processes", Log: true}, Y: axis{Label: "round trips from grant to grant (lower is better)", Log: true},
	}, all(append(slices.Clone(queuers[:6]), oursUnlock), contenders, func(n int) string { return farHandOver(far, n) }, perTrip)...)

	millis := func(r result) float64 { return 1000 / rate(r) }
	add(figure{
		File: "depth.svg", Title: "Time from grant to grant, by length of the queue",
		X: axis{Label: "sessions in the queue", Log: true}, Y: axis{Label: "milliseconds per hand-over (lower is better)", Log: true},
	}, all([]string{ours, limitRelay}, depths, queue, millis)...)

	latency := func(subject string) series {
		s := series{Name: subject, Emphasis: subject == ours}
		for _, r := range m.Scenarios[handOver(8)][subject] {
			for _, w := range r.Waits {
				s.Samples = append(s.Samples, w/1000)
			}
		}
		s.Samples = thin(s.Samples, 500)
		return s
	}
	var latencies []series
	for _, subject := range queuers {
		latencies = append(latencies, latency(subject))
	}
	add(figure{
		File: "latency.svg", Title: "Wait for a lock for which 8 processes contend", Kind: "cdf",
		X: axis{Label: "wait in milliseconds", Log: true}, Y: axis{Label: "share of waits (further left is better)"},
	}, latencies...)

	perLock := func(r result) float64 { return r.Seconds * 1e6 / float64(r.Entries) }
	add(figure{
		File: "many.svg", Title: "Locks taken and released concurrently by one process",
		X: axis{Label: "locks", Log: true}, Y: axis{Label: "microseconds per lock (lower is better)"},
	}, all([]string{ours, limitBare}, manyLocks, many, perLock)...)

	add(figure{
		File: "word.svg", Title: "Goroutines that take and release a lock that their process holds",
		X: axis{Label: "goroutines on one word", Log: true}, Y: axis{Label: "nanoseconds per pair (lower is better)"},
	}, along("Acquire + Release", ours, crowds, reenter, nanos), along("two compare-and-swaps", limitCAS, crowds, reenter, nanos))

	lost := func(r result) float64 { return 1000 * r.Lost }
	add(figure{
		File: "lost.svg", Title: "Compare-and-swaps that failed",
		X: axis{Label: "goroutines on one word", Log: true}, Y: axis{Label: "failures per 1,000 pairs (lower is better)"},
	}, along("Acquire + Release", ours, crowds, reenter, lost), along("two compare-and-swaps", limitCAS, crowds, reenter, lost))

	add(figure{
		File: "herd.svg", Title: "Requests and notifications per grant",
		X: axis{Label: "contending processes", Log: true}, Y: axis{Label: "requests and notifications per grant (lower is better)", Log: true},
	}, all(queuers[:6], tappedContenders, requests, func(r result) float64 {
		return r.Extra["writes"] + r.Extra["reads"] + r.Extra["notifications"]
	})...)
	return figures
}

// thin sorts values and returns n of them, evenly spaced.
func thin(values []float64, n int) []float64 {
	slices.Sort(values)
	if len(values) <= n {
		return values
	}
	kept := make([]float64, n)
	for i := range kept {
		kept[i] = values[i*(len(values)-1)/(n-1)]
	}
	return kept
}

// draw runs bench/plot, which draws the figures into dir. A part of the benchmarks may have
// none.
func draw(ctx context.Context, root, dir string, figures []figure) error {
	if len(figures) == 0 {
		return nil
	}
	text, err := json.Marshal(map[string]any{"figures": figures})
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
