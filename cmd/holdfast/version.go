// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
)

// versionCmd prints what this program was built from.
type versionCmd struct{}

// Help describes the verb.
func (*versionCmd) Help() string {
	return `Examples:

    holdfast version
    holdfast version --json`
}

// A version is what a program was built from.
type version struct {
	Version  string `json:"version"`            // the module's
	Revision string `json:"revision,omitempty"` // the commit
	Time     string `json:"time,omitempty"`     // the commit's
	Modified bool   `json:"modified,omitempty"` // the files differed from it
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Run prints the version.
func (*versionCmd) Run(a *app) error {
	info, _ := debug.ReadBuildInfo()
	v := versionOf(info)
	if a.asJSON {
		return a.json(v)
	}
	a.printf("holdfast %s\n", v.Version)
	if v.Revision != "" {
		modified := ""
		if v.Modified {
			modified = ", modified"
		}
		a.printf("revision %s of %s%s\n", v.Revision, v.Time, modified)
	}
	a.printf("%s %s\n", v.Go, v.Platform)
	return nil
}

// versionOf returns the version that info tells, which is nil if the program was built
// without modules.
func versionOf(info *debug.BuildInfo) version {
	v := version{Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
