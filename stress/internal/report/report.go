// SPDX-License-Identifier: Apache-2.0

// Package report writes what a run of the stress harness has shown as one page of HTML,
// which a browser shows without a network: the verdict, what is wrong, the faults and
// what they cost, and a timeline of every process.
//
// A page stays below 10 MB. Of a long run it has every acquisition around faults, losses
// and findings, and totals of the rest; it says of which times. See thinner.
//
// The texts of a history are not trusted: other clients of the ZooKeeper ensemble wrote
// parts of them. The template escapes them, a Content-Security-Policy lets the browser
// run the page's own script only, and that script never makes HTML out of text.
//
// What is long is closed until a reader opens it: see folded. Print shows all.
//
//   - report.go writes the page, page.html is its template, and page.go says what that gets;
//     finding.go, hit.go and lost.go have its tables.
//   - collector.go reads the history, thin.go and meter.go keep it small.
//   - data.go packs it for the script, page.js, which draws the timeline.
package report

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Name is the name of the page in its directory.
const Name = "index.html"

// Write writes the page of a run into dir, in place of an older one. The events are in
// the order of their times. Write reads them once.
func Write(dir string, header history.Header, v verdict.Verdict, events iter.Seq[history.Event]) error {
	return writeIn(dir, header, v, events, 0)
}

// WriteSoFar writes the page of a run that goes on, and whose events have been judged until
// that time. It does not read them, so that it takes little time however many they are: the
// page has the verdict and the faults, and says that the rest is missing and how to get it.
func WriteSoFar(dir string, header history.Header, v verdict.Verdict, until int64) error {
	none := func(func(history.Event) bool) {}
	return writeIn(dir, header, v, none, max(until, 1))
}

// writeIn writes the page of a run that has ended, or goes on at soFar if that is not 0.
func writeIn(dir string, header history.Header, v verdict.Verdict, events iter.Seq[history.Event], soFar int64) (err error) {
	name := filepath.Join(dir, Name)
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing the report %s: %w", name, err)
		}
	}()
	// A reader must not find half a page, even if the harness is killed now.
	f, err := os.CreateTemp(dir, Name+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()           // the first error counts
			os.Remove(f.Name()) // likewise
		}
	}()
	pictures, err := filepath.Glob(filepath.Join(dir, verdict.PicturePattern))
	if err != nil {
		return err
	}
	for i := range pictures {
		pictures[i] = filepath.Base(pictures[i])
	}
	trimmed, err := history.ReadTrimmed(dir)
	if err != nil {
		return err
	}
	c := newCollector(header, v)
	c.trimmed, c.soFar = trimmed, soFar
	c.end = max(c.end, soFar)
	w := bufio.NewWriter(f)
	if err := write(w, c, events, pictures); err != nil {
		return err
	}
	if err := cmp.Or(w.Flush(), f.Chmod(0o644), f.Close()); err != nil { //nolint:gosec // a page is for others to read
		return err
	}
	return os.Rename(f.Name(), name)
}

// write writes the page, with links to the pictures that the judge has made.
func write(w io.Writer, c *collector, events iter.Seq[history.Event], pictures []string) error {
	for e := range events {
		c.add(e)
	}
	c.finish()
	d, err := c.pack()
	if err != nil {
		return err
	}
	// How large is the page without the acquisitions? The JSON is safe in a script element:
	// encoding/json escapes <, >, & and the line separators of JavaScript.
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	var size counter
	if err := page.Execute(&size, newView(c, text, pictures)); err != nil {
		return err
	}
	if err := c.packSpans(&d, min(mostSpanBytes, max(mostBytes-int(size), 0))); err != nil {
		return err
	}
	if text, err = json.Marshal(d); err != nil {
		return err
	}
	return page.Execute(w, newView(c, text, pictures))
}

// A counter counts what is written to it.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
