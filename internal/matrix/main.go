// SPDX-License-Identifier: Apache-2.0

// Command matrix runs what needs a real ZooKeeper on each release that people run, and
// beside each release of the clients that share its locks, and writes what it saw into
// docs/compatibility.md.
//
//	go run ./internal/matrix                 all rows; some 45 minutes
//	go run ./internal/matrix -list           the rows' names
//	go run ./internal/matrix -only 3.9.5     the rows whose names contain this
//	go run ./internal/matrix -check 2        the first two columns; leaves the document as it is
//	go run ./internal/matrix -fetch 3.9.5    download that row's release, and print the
//	                                         variable that makes tests use it
//
// It needs Java, Maven and Python, downloads into bin/matrix what is not there yet, and uses
// the network for nothing else. It leaves the rows that it does not run as they are in the
// document, so the matrix may be run in parts.
//
// # Which tests
//
// A test that needs a real server, or another client, says so by [realzk.Require] and
// [realzk.NotRun]. The program lets the tests run without either first, and reads from the
// file of tests that did not run which they are. So a new test is in the matrix by itself.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	list := flag.Bool("list", false, "print the names of the rows")
	only := flag.String("only", "", "run only the rows whose names contain this")
	check := flag.Int("check", 0, "run so many columns only, the first ones, and do not write the document; fail if a test did not run")
	fetch := flag.String("fetch", "", "download the release of the row with this name, and print the variable that makes tests use it")
	document := flag.String("document", "docs/compatibility.md", "the document whose rows to write")
	bin := flag.String("bin", "bin/matrix", "the directory for what is downloaded and for logs")
	flag.Parse()
	m := matrix{bin: *bin, document: *document, out: os.Stderr, check: *check}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch {
	case *list:
		for _, r := range rows {
			fmt.Println(r.name)
		}
	case *fetch != "":
		err = m.fetch(ctx, *fetch)
	default:
		err = m.run(ctx, func(r row) bool { return strings.Contains(r.name, *only) })
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}
