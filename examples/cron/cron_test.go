// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/holdfast-go/holdfast/examples/internal/exampletest"
)

func TestMain(m *testing.M) {
	exampletest.RunIfProgram(main)
	os.Exit(m.Run())
}

func TestCron(t *testing.T) {
	t.Parallel()
	output, err := exampletest.Run(t)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	// The machine that gets SIGTERM finishes its run; the one that is killed does not;
	// a third goes on.
	const want = `(?s)machine (.): <- SIGTERM.*machine .: run is done.*machine (.): <- kill -9.*machine (.): run begins.*machine .: ends`
	m := regexp.MustCompile(want).FindStringSubmatch(output)
	if len(m) != 4 || m[1] == m[2] || m[2] == m[3] || m[3] == m[1] {
		t.Errorf("machines %q, want three\n%s", m, output)
	}
}

func TestMistakesAreFoundOut(t *testing.T) {
	const stopped = "the run ends with its machine"
	exampletest.FindsOut(t, stopped, map[string]exampletest.Mistake{
		stopped: {Changes: []exampletest.Change{{File: "cron.go", Old: "context.WithoutCancel(stop)", New: "stop"}}, Says: `machine . has begun 2 runs, and finished 1`},
	})
}
