// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/start"
	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/internal/figures"
)

// A death is a way in which a holder ends: its subject, the number of its locks, and how often
// it ends so. Another process of the subject (of Holdfast, if the holder is holdfast run) waits for
// the locks.
type death struct {
	how     string // as in work.Job, or underRun
	subject string
	locks   int
	times   int
	goal    float64 // of the 99th percentile, in milliseconds; 0: none
}

// underRun is a program under holdfast run. The program and its guard live on when run is killed.
const underRun = "run"

// deaths are measured with a session timeout of 10 s throughout.
var deaths = []death{
	{work.ByKill, oursSentinel, 1, 200, 50},
	{work.ByKill, oursSentinel, 10, 200, 100},
	{work.ByKill, oursSentinel, 1000, 200, 500},
	{work.ByPanic, oursSentinel, 1, 50, 50},
	{work.ByExit, oursSentinel, 1, 50, 50},
	{work.ByGroup, oursSentinel, 1, 50, 50},
	{work.ByOOM, oursSentinel, 1, 50, 0}, // it takes until the memory is used up
	{underRun, ours, 1, 50, 1000},
	{work.ByKill, ours, 1, 5, 0},
	{work.ByKill, curator, 1, 5, 0},
	{work.ByKill, etcd, 1, 5, 0},
}

func (d death) id() string { return fmt.Sprintf("takeover/%s/locks=%d", d.how, d.locks) }

// title says what happens.
func (d death) title() string {
	return map[string]string{
		work.ByKill: "SIGKILL of a process", work.ByGroup: "SIGKILL of a process group", work.ByPanic: "panic of a process", work.ByExit: "os.Exit of a process", work.ByOOM: "OOM kill of a process",
		underRun: "SIGKILL of holdfast run",
	}[d.how]
}

func (d death) what() string {
	return fmt.Sprintf("%s, which holds %s, %d times: until another process has them all, on an ensemble of three (etcd: one server); session timeout 10 s", d.title(), figures.Count(d.locks, "lock"), d.times)
}

// takeovers returns the scenarios of the deaths. All deaths of a kind are one result.
func takeovers() (all []scenario) {
	for _, d := range deaths {
		i := slices.IndexFunc(all, func(sc scenario) bool { return sc.id == d.id() })
		if i < 0 {
			i = len(all)
			all = append(all, scenario{id: d.id(), what: d.what(), at: ensemble, rounds: 1, cold: true, by: byDeaths})
		}
		all[i].subjects = append(all[i].subjects, d.subject)
	}
	return all
}

// byDeaths measures the deaths of holders of a subject.
func byDeaths(ctx context.Context, s *suite, p *program, sc scenario) (r work.Result, ok bool) {
	d := deaths[slices.IndexFunc(deaths, func(d death) bool { return d.id() == sc.id && d.subject == p.name })]
	command := ""
	switch d.how {
	case underRun:
		var err error
		if command, err = start.Holdfast(ctx, s.root); err != nil {
			return r, s.fail(sc, err)
		}
	case work.ByOOM:
		g, err := newMemoryGroup("holdfast-bench-probe")
		if err != nil {
			fmt.Fprintf(s.log, "%s: not measured: %v\n", sc.id, err)
			return r, false
		}
		g.remove()
	}
	r.Allocs = -1
	for i := range d.times {
		one, err := s.dieOnce(ctx, command, p, d)
		if err != nil {
			fmt.Fprintf(s.log, "%-50s %-16s FAILED: %v\n", sc.id, d.subject, err)
			s.fail(sc, err)
			break
		}
		r.Entries, r.Seconds, r.Waits = r.Entries+1, r.Seconds+one.Seconds, append(r.Waits, one.Waits...)
		if (i+1)%25 == 0 || i+1 == d.times {
			fmt.Fprintf(s.log, "%d of %d  %-36s %-16s p50 %.1f ms, p99 %.1f ms\n", i+1, d.times, sc.id, d.subject, waitMillis(.5)(r), waitMillis(.99)(r))
		}
	}
	return r, len(r.Waits) > 0
}

// dieOnce starts a holder, and has another process wait for its locks and end it. command is the path of
// holdfast, for underRun.
func (s *suite) dieOnce(ctx context.Context, command string, next *program, d death) (r work.Result, err error) {
	j := s.job(scenario{at: ensemble, job: work.Job{Sessions: 1, Locks: d.locks, Death: d.how, QueueMillis: 200 + 3*d.locks, MeasureMillis: 1}})
	if d.subject == etcd {
		j.Server = next.server
	}
	var holder *exec.Cmd
	var group *memoryGroup
	switch d.how {
	case underRun:
		j.Death = work.ByKill
		holder, err = runHolder(ctx, command, j)
	case work.ByOOM:
		if group, err = newMemoryGroup(fmt.Sprintf("holdfast-bench-%d", os.Getpid())); err != nil {
			return r, err
		}
		defer group.remove()
		fallthrough
	default:
		holder, err = keeper(ctx, next, j, group)
	}
	if err != nil {
		return r, err
	}
	defer func() {
		_ = holder.Process.Kill()
		_ = holder.Wait() // it was killed, or ended as it was meant to
	}()
	j.Work, j.Kill = work.Succeed, holder.Process.Pid
	return next.do(j)
}

// keeper starts a process of the same subject as p, in a process group of its own, which keeps a
// job's locks. It is in the memory group, if that is not nil.
func keeper(ctx context.Context, p *program, j work.Job, group *memoryGroup) (*exec.Cmd, error) {
	k := newProgram(ctx, p.name, p.server, p.cmd.Args)
	k.cmd.Stderr, k.cmd.SysProcAttr = nil, ownGroup() // its panic, and its helper's words, are of no interest
	if err := k.begin(); err != nil {
		return nil, err
	}
	if group != nil {
		if err := group.add(k.cmd.Process.Pid); err != nil {
			return nil, errors.Join(err, k.end())
		}
	}
	j.Work = work.Keep
	if _, err := k.do(j); err != nil {
		return nil, errors.Join(err, k.end())
	}
	return k.cmd, nil
}

// runHolder starts a program under holdfast run, and returns when it runs.
func runHolder(ctx context.Context, command string, j work.Job) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, command, "run", "--servers", j.Server, "--root", "/", j.Lock(0)[1:], "--", "sh", "-c", "echo in; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = nil // the guard says there what it does
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "in\n" {
		return nil, errors.Join(fmt.Errorf("%v says %q, %w", cmd, line, err), cmd.Process.Kill(), cmd.Wait())
	}
	return cmd, nil
}
