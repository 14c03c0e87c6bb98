// SPDX-License-Identifier: Apache-2.0

// Release says what a release of this repository is made of, and prepares one.
//
//	release -dir ../.. modules             print the modules that are released, a line each
//	release -dir ../.. tags v0.9.0         print their tags
//	release -dir ../.. require v0.9.0      change their go.mod files: they require each
//	                                       other at that version, and replace nothing
//	release -dir ../.. proxy v0.9.0 DIR    write them as a proxy of modules serves them
//	release -dir ../.. fits v0.9.0         does the exported API permit that version, after
//	                                       the last tag?
//
// In the repository the modules replace each other by directories, so that a change of one is
// seen by all. A module that is required by a program must not depend on that: go ignores
// the replacements of other modules, and go install refuses a program whose module has any.
// So a release is tagged on a commit of its own, after require.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	dir := flag.String("dir", ".", "the repository")
	flag.Parse()
	if err := run(*dir, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(dir string, args []string) error {
	all, err := modules(dir)
	if err != nil {
		return err
	}
	what, version := "", ""
	if len(args) > 0 {
		what = args[0]
	}
	if len(args) > 1 {
		if version, err = checked(args[1]); err != nil {
			return err
		}
	}
	switch {
	case what == "modules" && len(args) == 1:
		for _, m := range all {
			fmt.Println(m.path)
		}
	case what == "tags" && len(args) == 2:
		for _, m := range all {
			fmt.Println(m.tag(version))
		}
	case what == "require" && len(args) == 2:
		return require(dir, all, version)
	case what == "proxy" && len(args) == 3:
		return proxy(dir, all, version, args[2])
	case what == "fits" && len(args) == 2:
		return fits(dir, version)
	default:
		return fmt.Errorf("%q: want modules, tags VERSION, require VERSION, proxy VERSION DIR, or fits VERSION", args)
	}
	return nil
}
