// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"
)

// fits prints how the library's exported API differs from that of the last release, and
// refuses a version that promises more than the change keeps: from v1 on, an incompatible
// change needs a new major version; below, a new minor one.
func fits(dir, version string) error {
	tags, err := git(dir, "tag", "--list", "v*")
	if err != nil {
		return err
	}
	last := lastBefore(version, strings.Fields(tags))
	if last == "" {
		fmt.Println("no release is before", version)
		return nil
	}
	before, err := os.MkdirTemp("", "holdfast-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(before)
	if _, err := git(dir, "worktree", "add", "--detach", before, last); err != nil {
		return err
	}
	defer func() { _, _ = git(dir, "worktree", "remove", "--force", before) }() // its directory goes anyway
	older, err := exported(before)
	if err != nil {
		return err
	}
	newer, err := exported(dir)
	if err != nil {
		return err
	}
	report := apidiff.ModuleChanges(older, newer)
	if err := report.Text(os.Stdout); err != nil {
		return err
	}
	for _, change := range report.Changes {
		if !change.Compatible && !permits(last, version) {
			return fmt.Errorf("%s does not permit incompatible changes of the API after %s: see above", version, last)
		}
	}
	return nil
}

// lastBefore returns the last of the tags before a version that is no prerelease, or "".
func lastBefore(version string, tags []string) (last string) {
	for _, tag := range tags {
		if semver.IsValid(tag) && semver.Prerelease(tag) == "" && semver.Compare(tag, version) < 0 && (last == "" || semver.Compare(tag, last) > 0) {
			last = tag
		}
	}
	return last
}

// permits reports whether a version may change the API of an earlier one incompatibly.
func permits(earlier, version string) bool {
	if semver.Major(version) == "v0" {
		return semver.MajorMinor(version) != semver.MajorMinor(earlier)
	}
	return semver.Major(version) != semver.Major(earlier)
}

// exported type-checks the public packages of the library in dir.
func exported(dir string) (*apidiff.Module, error) {
	all, err := packages.Load(&packages.Config{Mode: packages.LoadTypes | packages.NeedModule, Dir: dir}, "./...")
	if err != nil {
		return nil, err
	}
	m := new(apidiff.Module)
	for _, p := range all {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s in %s: %w", p.PkgPath, dir, p.Errors[0])
		}
		if p.Name == "main" || strings.Contains(p.PkgPath+"/", "/internal/") {
			continue
		}
		m.Path = p.Module.Path
		m.Packages = append(m.Packages, p.Types)
	}
	return m, nil
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%v: %w", cmd, err)
	}
	return string(out), nil
}
