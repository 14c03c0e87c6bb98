// SPDX-License-Identifier: Apache-2.0

package chronicle

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/judge"
	"github.com/holdfast-go/holdfast/stress/internal/report"
	"github.com/holdfast-go/holdfast/stress/internal/summary"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// Check judges the history in dir again, and returns the exit status.
func Check(dir string, stdout, stderr io.Writer) int {
	v, err := check(dir, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "stress: %v\n", err)
		return wire.ExitFailure
	}
	fmt.Fprintf(stdout, "\n%s: %s\n", v.Outcome, sentence(v))
	fmt.Fprintf(stdout, "Report: %s\n", filepath.Join(dir, report.Name))
	return summary.ExitOf(v.Outcome)
}

// check judges the history, and prints and writes the verdict and the page.
func check(dir string, stdout io.Writer) (v verdict.Verdict, err error) {
	h, err := history.ReadHeader(dir)
	if err != nil {
		return v, err
	}
	claimed, err := claim(dir)
	if err != nil {
		return v, err
	}
	defer claimed.Close()
	trimmed, err := history.ReadTrimmed(dir)
	if err != nil {
		return v, err
	}
	var j *judge.Judge
	began := time.Now()
	if trimmed.Segments > 0 {
		v, j, err = checkRest(dir, h, trimmed, stdout)
	} else if j, err = judge.History(dir); err == nil {
		v = j.Finish()
		fmt.Fprintf(stdout, "The history of %s, judged in %v\n", h.Command, time.Since(began).Round(time.Millisecond))
	}
	if err != nil {
		return v, err
	}
	summary.PrintVerdict(stdout, v)
	if err := removeFiles(dir, verdict.PicturePattern); err != nil {
		return v, err
	}
	return v, errors.Join(j.WritePictures(dir), v.Write(dir), report.Write(dir, h, v, eventsOf(dir)))
}

// checkRest judges what is left of a history from which events were removed while it was
// written. What the run had found in them stands.
func checkRest(dir string, h history.Header, trimmed history.Trimmed, stdout io.Writer) (v verdict.Verdict, j *judge.Judge, err error) {
	before, err := verdict.Read(dir)
	if err != nil {
		return v, nil, err
	}
	if before.Interim {
		before.Cut()
	}
	began := time.Now()
	j, from, err := judge.Rest(dir)
	if err != nil {
		return v, nil, err
	}
	rest := j.Finish()
	fmt.Fprintf(stdout, "The history of %s, of which %s of events were removed during the run. What came until %v after the beginning was not judged again: the run had found %s in it and in what it judged later, which stands. What came from then on was judged again in %v: %s, %s.\n",
		h.Command, figures.Count(trimmed.Segments, "file"), judge.After(h, from), figures.Count(before.Found, "finding"), time.Since(began).Round(time.Millisecond), figures.Count(int(rest.Grants), "grant"), figures.Count(rest.Found, "finding"))
	return before.With(rest, judge.RestNote(h, trimmed, from)), j, nil
}

// sentence says what a verdict is based on.
func sentence(v verdict.Verdict) string {
	if v.Outcome == verdict.Void {
		return v.Why()
	}
	return fmt.Sprintf("%s, %s, %s, %s lost", figures.Count(v.Found, "finding"), figures.Count(int(v.Grants), "grant"), figures.Count(v.FaultCount(), "fault"), figures.Count(v.LostHolds, "hold"))
}
