// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/examples/internal/exampletest"
)

func TestMain(m *testing.M) {
	exampletest.RunIfProgram(main)
	os.Exit(m.Run())
}

func TestCache(t *testing.T) {
	t.Parallel()
	output, err := exampletest.Run(t)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if !strings.Contains(output, "version 3 written") {
		t.Errorf("want several versions\n%s", output)
	}
	readers := regexp.MustCompile(`, (\d+) per load`).FindAllStringSubmatch(output, -1)
	if len(readers) != 3 {
		t.Fatalf("%d reports of readers, want 3\n%s", len(readers), output)
	}
	for _, r := range readers {
		if n, err := strconv.Atoi(r[1]); err != nil || n < 10 {
			t.Errorf("%s reads per load (error %v): the goroutines do not share it\n%s", r[1], err, output)
		}
	}
}

func TestMistakesAreFoundOut(t *testing.T) {
	exampletest.FindsOut(t, "no lock", map[string]exampletest.Mistake{
		"own readers inside": {Changes: []exampletest.Change{{File: "cache.go", Old: "\tc.changing.RLock()\n\tdefer c.changing.RUnlock()\n", New: ""}}, Says: `half-written|from the cache, after version \d+ was written`},
		"own change missed": {Changes: []exampletest.Change{
			{File: "cache.go", Old: "\t\tdefer c.forget() // readers may have come in beside us, and loaded before we wrote\n", New: ""},
			{File: "cache.go", Old: "\t\tc.changing.Lock()\n", New: "\t\ttime.Sleep(20 * time.Millisecond)\n\t\tc.changing.Lock()\n"}, // to give it a chance
			{File: "cache.go", Old: "\t\"sync\"\n", New: "\t\"sync\"\n\t\"time\"\n"},
		}, Says: `from the cache, after version \d+ was written`},

		"two locks":      {Changes: []exampletest.Change{{File: "main.go", Old: `m.ReadWrite("cache/prices")`, New: `m.ReadWrite("cache/" + role)`}}, Says: `half-written|from the cache, after version \d+ was written`},
		"never reloaded": {Changes: []exampletest.Change{{File: "cache.go", Old: "if c.token != token {", New: "if c.token == 0 {"}}, Says: `version \d+ from the cache, after version \d+ was written`},
		"no lock":        {Changes: []exampletest.Change{{File: "main.go", Old: "version, failed := c.Get(ctx)", New: "version, failed := d.read()"}}, Says: "half-written: part a is of version"},
	})
}
