// SPDX-License-Identifier: Apache-2.0

// Command others runs the stress harness with the locks of other libraries, each for the same time,
// with the same seed and the same faults, and writes what it found as a table: docs/others.md.
//
//	go run ./stress/others -duration 10m -seed 7 -out docs/others.md
//
// It is run in the root of the repository. A client that is not installed is left out, and named.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/contender"
	"github.com/holdfast-go/holdfast/stress/internal/summary"
)

// ours is the name of Holdfast among the clients.
const ours = "holdfast"

// faults are those that can happen to any client: to its process, its connection and the servers.
const faults = "kill-worker,pause-worker,kill-server,kill-leader,pause-server,pause-leader,restart-server,isolate-follower,isolate-leader," +
	"cut-connection,blackhole-connection,delay-link,swallow-answer"

// A set is what to run.
type set struct {
	duration time.Duration
	seed     uint64
	clients  []string
	faults   string
	out      string
}

func main() {
	if err := others(); err != nil {
		fmt.Fprintln(os.Stderr, "others:", err)
		os.Exit(1)
	}
}

func others() error {
	var s set
	flag.DurationVar(&s.duration, "duration", 10*time.Minute, "for how long each client runs")
	flag.Uint64Var(&s.seed, "seed", 7, "of all runs")
	clients := flag.String("clients", strings.Join(append([]string{ours}, contender.Names()...), ","), "which clients, with commas between them")
	flag.StringVar(&s.faults, "nemesis", faults, "which faults")
	flag.StringVar(&s.out, "out", "", "write the page to `file`; empty: to the standard output")
	flag.Parse()
	s.clients = strings.Split(*clients, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return s.run(ctx)
}

// run runs all clients, and writes the page.
func (s set) run(ctx context.Context) error {
	harness, err := filepath.Abs(filepath.Join("bin", "stress"))
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", harness, "./stress").CombinedOutput(); err != nil {
		return fmt.Errorf("building the harness: %w\n%s", err, out)
	}
	p := page{Duration: s.duration, Seed: s.seed, Faults: strings.Split(s.faults, ",")}
	for _, client := range s.clients {
		r, version, err := s.measure(ctx, harness, client)
		switch {
		case errors.Is(err, contender.ErrNotInstalled):
			p.Missing = append(p.Missing, fmt.Sprintf("%s: %v", client, err))
			continue
		case err != nil:
			return err
		}
		p.Rows, p.ZooKeeper = append(p.Rows, r), version
	}
	var out io.Writer = os.Stdout
	if s.out != "" {
		f, err := os.Create(s.out)
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	return p.write(out)
}

// measure runs one client.
func (s set) measure(ctx context.Context, harness, client string) (r row, version string, err error) {
	dir, err := os.MkdirTemp("", "holdfast-others-")
	if err != nil {
		return r, "", err
	}
	defer os.RemoveAll(dir)
	report, result := filepath.Join(dir, "report"), filepath.Join(dir, "summary.json")
	args := []string{
		"-ensemble", "3", "-nemesis", s.faults, "-duration", s.duration.String(), "-seed", strconv.FormatUint(s.seed, 10),
		"-processes", "4", "-goroutines", "4", "-locks", "4",
	}
	if client != ours {
		if _, err := contender.Command(ctx, client); err != nil {
			return r, "", err
		}
		args = append(args, "-contender", client)
	}
	fmt.Fprintf(os.Stderr, "%s %s: %v\n", time.Now().Format(time.TimeOnly), client, s.duration)
	cmd := exec.CommandContext(ctx, harness, append(args, "-report", report, "-json", result)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	output, err := cmd.CombinedOutput() // its exit status says whether it has found something
	if ctx.Err() != nil {
		return r, "", context.Cause(ctx)
	}
	text, readErr := os.ReadFile(result)
	if readErr != nil {
		return r, "", fmt.Errorf("the run of %s: %w\n%s", client, err, output)
	}
	var sum summary.Summary
	if err := json.Unmarshal(text, &sum); err != nil {
		return r, "", fmt.Errorf("the summary of %s: %w", client, err)
	}
	sum.Command = "go run ./stress " + strings.Join(args, " ")
	if r, err = rowOf(client, report, sum); err != nil {
		return r, "", err
	}
	h, err := versionOf(report)
	return r, h, err
}
