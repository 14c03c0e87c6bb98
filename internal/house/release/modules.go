// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// A module of the repository that is released.
type module struct {
	dir  string // relative to the repository, with slashes; "." is the library
	path string
}

// tag returns the name of a version of the module in git.
func (m module) tag(version string) string { return path.Join(m.dir, version) }

// kept are the directories whose modules are not for other programs.
var kept = []string{"bench", "examples", "internal"}

// modules returns the modules that go.work joins, without those in kept.
func modules(dir string) ([]module, error) {
	name := filepath.Join(dir, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return nil, err
	}
	var all []module
	for _, use := range work.Use {
		m := module{dir: path.Clean(use.Path)}
		first, _, _ := strings.Cut(m.dir, "/")
		if slices.Contains(kept, first) {
			continue
		}
		file, err := read(dir, m)
		if err != nil {
			return nil, err
		}
		m.path = file.Module.Mod.Path
		all = append(all, m)
	}
	return all, nil
}

// checked returns a version if it is one that can be released.
func checked(version string) (string, error) {
	if !semver.IsValid(version) || semver.Canonical(version) != version || semver.Build(version) != "" {
		return "", fmt.Errorf("%q is no version such as v0.9.0 or v1.0.0-rc.1", version)
	}
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return "", fmt.Errorf("%s: from v2 on, the paths of the modules end in the major version, and theirs do not", version)
	}
	return version, nil
}

// read parses a module's go.mod.
func read(dir string, m module) (*modfile.File, error) {
	name := filepath.Join(dir, filepath.FromSlash(m.dir), "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, text, nil)
}

// released returns the go.mod of a module's release: what it requires of all is required at
// version, and nothing is replaced.
func released(dir string, m module, all []module, version string) ([]byte, error) {
	file, err := read(dir, m)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Clone(file.Replace) {
		if !slices.ContainsFunc(all, func(other module) bool { return other.path == r.Old.Path }) {
			return nil, fmt.Errorf("%s replaces %s, which is not released with it", m.path, r.Old.Path)
		}
		if err := file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return nil, err
		}
	}
	for _, r := range slices.Clone(file.Require) {
		if slices.ContainsFunc(all, func(other module) bool { return other.path == r.Mod.Path }) {
			if err := file.AddRequire(r.Mod.Path, version); err != nil {
				return nil, err
			}
		}
	}
	file.Cleanup()
	return file.Format()
}

// require writes the go.mod of each module's release into the repository.
func require(dir string, all []module, version string) error {
	for _, m := range all {
		text, err := released(dir, m, all, version)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(m.dir), "go.mod"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
