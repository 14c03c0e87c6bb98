// SPDX-License-Identifier: Apache-2.0

// Command weave prepares a build for the simulation, in which a seed decides
// the schedule of the goroutines:
//
//	go run ./internal/sim/weave DIR
//	go test -c -tags woven -overlay DIR/overlay.json ./internal/sim
//
// It writes changed copies of some source files to DIR, and the list of them
// for go's -overlay flag. The sources stay as they are, and no other build is
// affected. The changes are:
//
//   - In the packages under test, a call of yield.Point stands before every
//     statement with an atomic operation: other goroutines can come in there. In
//     some functions it is yield.Stall, and some begin with yield.Lag.
//   - A comment "//holdfast:reached NAME" becomes a call that counts how often
//     the point was reached, and "//holdfast:reached-if CONDITION: NAME" one that
//     counts how often it was reached with the condition true. They mark the
//     branches that simulations must reach to show anything.
//   - In Go's runtime, all random numbers (the order of a select and of a map's
//     elements, math/rand's) come from a generator that yield.Seed seeds, and
//     the monitor thread, which preempts goroutines by real time, is off.
//   - Clocks that keep running while the machine is suspended are not read: they
//     do not follow virtual time.
//
// With GOMAXPROCS=1 and without the garbage collector, a run is then a function
// of its seed.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// woven are the packages under test, by their directories.
var woven = []string{"state", "futures", "zkio", "manager", "manager/internal/errand"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: weave DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "weave:", err)
		os.Exit(1)
	}
}

// run weaves the module in the working directory into dir.
func run(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	o := &overlay{dir: dir, Replace: make(map[string]string)}
	branches, err := o.weave(root)
	if err != nil {
		return err
	}
	if err := o.add(filepath.Join(root, "internal", "sim", "yield", "plain.go"), wovenYield(branches)); err != nil {
		return err
	}

	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	std := filepath.Join(strings.TrimSpace(string(goroot)), "src")
	for _, p := range patches {
		file := filepath.Join(std, filepath.FromSlash(p.file))
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text, err := p.apply(string(src))
		if err != nil {
			return fmt.Errorf("%s: %w; weave knows Go 1.26 (without weaving: go test ./internal/sim)", file, err)
		}
		if err := o.add(file, text); err != nil {
			return err
		}
	}
	return o.write()
}

// overlay is what go's -overlay flag reads.
type overlay struct {
	dir     string
	Replace map[string]string
}

// weave adds the woven packages of the module in root, and returns the branches
// that are marked in them.
func (o *overlay) weave(root string) (branches []string, err error) {
	w := newWeaver()
	for _, pkg := range woven {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("no Go files in %s: run it in the module's root directory", filepath.Join(root, pkg))
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			text, err := w.weave(file, src)
			if err != nil {
				return nil, err
			}
			if pkg+"/"+filepath.Base(file) == clockPatch.file {
				if text, err = clockPatch.apply(text); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
			}
			if err := o.add(file, text); err != nil {
				return nil, err
			}
		}
	}
	if err := w.unknown(); err != nil {
		return nil, err
	}
	return w.branches, nil
}

// add replaces the file by text.
func (o *overlay) add(file, text string) error {
	// The name does not end in .go: tools would take it for one of the module's files.
	copied := filepath.Join(o.dir, strings.ReplaceAll(strings.TrimPrefix(file, string(filepath.Separator)), string(filepath.Separator), "_")+".woven")
	o.Replace[file] = copied
	return os.WriteFile(copied, []byte(text), 0o666)
}

func (o *overlay) write() error {
	text, err := json.MarshalIndent(o, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.dir, "overlay.json"), text, 0o666)
}

// wovenYield returns the yield package's plain.go for a woven program.
func wovenYield(branches []string) string {
	return fmt.Sprintf(`package yield

import _ "unsafe" // for go:linkname

const Woven = true

var Branches = %#v

//go:linkname seedRuntime runtime.holdfastSeed
func seedRuntime(uint64)
`, branches)
}
