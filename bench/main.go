// SPDX-License-Identifier: Apache-2.0

// Bench measures Holdfast beside the limits of what it is built on, and beside
// other locks, on the same work and in the same run:
//
//	go run ./bench                  # everything: some minutes
//	go run ./bench -only hand-over  # some of it
//
// It starts real servers of its own on free ports of 127.0.0.1 (ZooKeeper, and etcd
// and Redis where they are installed), builds and starts the subjects (see package
// work), and prints a table of what it is to show: RESULTS.md in bench has the same,
// with all figures and plots, and results.json has every round. A subject that is
// not installed is named as missing.
//
// What is compared is done by turns: see suite.run. Trust the ratios, not the
// figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/start"
	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// builtIn are the subjects that this program is, when it is started as one.
var builtIn = map[string]work.Subject{
	ours:       holdfast{},
	oursUnlock: holdfast{wait: true},
	limitCAS:   cas{},
	limitBare:  bare{},
	limitRelay: relay{},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command is the program.
func command(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var (
		subject = flags.String("subject", "", "be this subject: read jobs, write results (the program starts itself so)")
		some    = flags.String("only", "", "measure only what has one of these, separated by commas, in its name: retained, uncontended, hand-over, queue, readers, shared, many, footprint, requests")
		rounds  = flags.Int("rounds", 5, "how often everything is measured")
		measure = flags.Duration("measure", 600*time.Millisecond, "how long a subject is measured at a time")
		out     = flags.String("out", "", "the directory for RESULTS.md, results.json and the plots; by default bench, or none if -only is given")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *subject != "" {
		s, ok := builtIn[*subject]
		if !ok {
			return fmt.Errorf("there is no subject %q", *subject)
		}
		return work.Serve(ctx, s, stdin, stdout)
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	case *rounds < 1:
		return fmt.Errorf("-rounds is %d: at least one is needed", *rounds)
	case *measure < 10*time.Millisecond:
		return fmt.Errorf("-measure is %v: in less than 10 ms nothing can be measured", *measure)
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	var parts []string
	if *some != "" {
		parts = strings.Split(*some, ",")
	} else if *out == "" {
		*out = filepath.Join(root, "bench")
	}
	cells, tap := only(cells(), parts), only(counted(), parts)
	if len(cells)+len(tap) == 0 {
		return fmt.Errorf("nothing is called %q: see -help", *some)
	}

	began := time.Now()
	s := &suite{
		programs: make(map[string]*program), missing: make(map[string]string), refused: make(map[string]string),
		rounds: *rounds, warmup: int(measure.Milliseconds() / 3), measure: int(measure.Milliseconds()),
		log: stderr, got: newMeasured(),
	}
	r := &report{
		Began: began, Versions: make(map[string]string), Missing: s.missing, Refused: s.refused, Rounds: *rounds,
		Machine:  fmt.Sprintf("%d CPUs, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version()),
		measured: s.got, cells: append(cells, tap...),
	}
	servers, err := s.start(ctx, root, r)
	defer func() {
		for _, p := range s.programs {
			_ = p.end() // what it has said is here
		}
		for _, server := range servers {
			_ = server.Stop()
		}
	}()
	if err != nil {
		return err
	}
	if err := s.run(ctx, cells); err != nil {
		return err
	}
	if err := s.count(ctx, tap, servers[start.ZooKeeper].Addr()); err != nil {
		return err
	}
	r.Rows = s.got.rows()
	r.figures = s.got.figures()
	r.Took = time.Since(began).Round(time.Second).String()
	for _, err := range s.failed {
		r.Failed = append(r.Failed, err.Error())
	}
	fmt.Fprintf(stdout, "\n%s", r.table())
	for name, why := range s.missing {
		fmt.Fprintf(stdout, "missing: %s: %s\n", name, why)
	}
	if *out != "" {
		if err := draw(ctx, root, *out, r.figures); err != nil {
			return err
		}
		if err := r.write(*out, filepath.Join(root, "bench", "remarks.md")); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "\nwritten into %s: RESULTS.md, results.json and %d plots\n", *out, len(r.figures))
	}
	fmt.Fprintf(stdout, "took %s\n", r.Took)
	return errors.Join(s.failed...)
}

// start starts the servers and the subjects. What is not installed is noted; only
// ZooKeeper has to be there. The servers are returned in any case.
func (s *suite) start(ctx context.Context, root string, r *report) (map[string]*start.Server, error) {
	servers := make(map[string]*start.Server)
	missing := make(map[string]error)
	for _, kind := range []string{start.ZooKeeper, start.Etcd, start.Redis} {
		server, err := start.Start(ctx, kind)
		switch {
		case err == nil:
			servers[kind] = server
			r.Versions[kind] = server.Version()
		case errors.Is(err, start.ErrNotInstalled) && kind != start.ZooKeeper:
			missing[kind] = err
		default:
			return servers, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return servers, err
	}
	add := func(name, server string, argv []string) error {
		p, err := run(ctx, name, server, argv)
		if err != nil {
			return err
		}
		s.programs[name] = p
		r.Versions[name] = p.version
		return nil
	}
	for name := range builtIn {
		if err := add(name, servers[start.ZooKeeper].Addr(), []string{self, "-subject", name}); err != nil {
			return servers, err
		}
	}
	for _, peer := range start.Peers() {
		err := missing[peer.Server]
		var argv []string
		if err == nil {
			fmt.Fprintf(s.log, "building %s\n", peer.Name)
			argv, err = peer.Command(ctx, root)
		}
		if err == nil {
			err = add(peer.Name, servers[peer.Server].Addr(), argv)
		} else if errors.Is(err, start.ErrNotInstalled) {
			s.missing[peer.Name] = err.Error()
			err = nil
		}
		if err != nil {
			return servers, err
		}
	}
	return servers, nil
}

// moduleRoot returns the directory of the module that this program is of.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/holdfast-go/holdfast").Output()
	if err != nil {
		return "", fmt.Errorf("find the root of Holdfast's repository, in which this is to be run: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
