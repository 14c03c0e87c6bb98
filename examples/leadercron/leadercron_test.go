// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/exampletest"
)

func TestMain(m *testing.M) {
	exampletest.RunIfProgram(main)
	os.Exit(m.Run())
}

// B runs what was due while no process led, and nothing is left out or run twice.
func TestCatchesUp(t *testing.T) {
	t.Parallel()
	output, err := exampletest.Run(t)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if by, inOrder := runs(output); by["A"] == 0 || by["B"] < 4 || !inOrder {
		t.Errorf("runs %v, in order: %t\n%s", by, inOrder, output)
	}
}

func TestMistakeIsFoundOut(t *testing.T) {
	t.Parallel()
	output, _ := exampletest.RunChanged(t, []exampletest.Change{
		{File: "cron.go", Old: "done, err = time.Parse", New: "_, err = time.Parse"}, // it does not catch up
	})
	if _, inOrder := runs(output); inOrder {
		t.Errorf("nothing is left out:\n%s", output)
	}
}

// runs returns how many runs of each process the output has, and whether each is due a
// second after the one before.
func runs(output string) (by map[string]int, inOrder bool) {
	by, inOrder = make(map[string]int), true
	var last time.Time
	for _, m := range regexp.MustCompile(`(A|B) runs the job of (\S+)`).FindAllStringSubmatch(output, -1) {
		due, err := time.Parse(time.TimeOnly, m[2])
		if after := due.Sub(last); err != nil || len(by) > 0 && after != time.Second && after != time.Second-24*time.Hour {
			inOrder = false
		}
		by[m[1]]++
		last = due
	}
	return by, inOrder
}
