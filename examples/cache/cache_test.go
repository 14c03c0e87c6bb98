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
	for name, tt := range map[string]struct {
		changes []exampletest.Change
		want    string
	}{
		"own readers inside": {[]exampletest.Change{{File: "cache.go", Old: "\tc.changing.RLock()\n\tdefer c.changing.RUnlock()\n", New: ""}}, `half-written|from the cache, after version \d+ was written`},
		"own change missed": {[]exampletest.Change{
			{File: "cache.go", Old: "\t\tdefer c.forget() // readers may have come in beside us, and loaded before we wrote\n", New: ""},
			{File: "cache.go", Old: "\t\tc.changing.Lock()\n", New: "\t\ttime.Sleep(20 * time.Millisecond)\n\t\tc.changing.Lock()\n"}, // to give it a chance
			{File: "cache.go", Old: "\t\"sync\"\n", New: "\t\"sync\"\n\t\"time\"\n"},
		}, `from the cache, after version \d+ was written`},

		"two locks":      {[]exampletest.Change{{File: "main.go", Old: `m.ReadWrite("cache/prices")`, New: `m.ReadWrite("cache/" + role)`}}, `half-written|from the cache, after version \d+ was written`},
		"never reloaded": {[]exampletest.Change{{File: "cache.go", Old: "if c.token != token {", New: "if c.token == 0 {"}}, `version \d+ from the cache, after version \d+ was written`},
		"no lock":        {[]exampletest.Change{{File: "main.go", Old: "version, failed := c.Get(ctx)", New: "version, failed := d.read()"}}, "half-written: part a is of version"},
	} {
		if testing.Short() && name != "no lock" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := exampletest.RunChanged(t, tt.changes)
			if err == nil || !regexp.MustCompile(tt.want).MatchString(output) {
				t.Errorf("ended with %v, want %q\n%s", err, tt.want, output)
			}
		})
	}
}
