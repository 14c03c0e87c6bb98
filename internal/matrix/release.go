// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/internal/foreign"
)

// A release is one version of the server or of a client.
type release struct {
	name     string // such as "zookeeper-3.9.5"
	variable string // makes the tests use it, such as ZOOKEEPER_HOME
	inside   string // what the variable names in the directory of the release
	// install puts the release into a directory, if it is not there.
	install func(ctx context.Context, dir string) error
}

func zookeeper(version string) release {
	// A release of the server brings these two; for programs that link it they are optional.
	artifacts := []string{"org.apache.zookeeper:zookeeper:" + version,
		"io.dropwizard.metrics:metrics-core:4.1.12.1", "org.xerial.snappy:snappy-java:1.1.10.5"}
	// And so is what prints its log, since 3.8. The harness reads there when sessions end.
	for series, simple := range map[string]string{"3.8.": "1.7.36", "3.9.": "2.0.13"} {
		if strings.HasPrefix(version, series) {
			artifacts = append(artifacts, "org.slf4j:slf4j-simple:"+simple)
		}
	}
	return release{"zookeeper-" + version, "ZOOKEEPER_HOME", "", maven(artifacts...)}
}

func curator(version string) release {
	return release{"curator-" + version, "CURATOR_HOME", "lib",
		maven(foreign.CuratorArtifacts(version)...)}
}

func kazoo(version string) release {
	return release{"kazoo-" + version, "KAZOO_PYTHON", "bin/python", pip("kazoo==" + version)}
}

// setting returns the setting of the release's variable, for an environment. It installs the
// release below bin if it is not there.
func (r release) setting(ctx context.Context, bin string) (string, error) {
	home, err := filepath.Abs(filepath.Join(bin, r.name))
	if err != nil {
		return "", err
	}
	setting := r.variable + "=" + filepath.Join(home, r.inside)
	if err := r.install(ctx, home); err != nil {
		return "", fmt.Errorf("get %s: %w", r.name, err)
	}
	return setting, nil
}

// maven returns an install of artifacts, and of what they depend on, into lib.
func maven(artifacts ...string) func(ctx context.Context, dir string) error {
	return func(ctx context.Context, dir string) error {
		_, err := foreign.Fetch(ctx, dir, artifacts...)
		return err
	}
}

// pip returns an install that makes an environment of Python with a package in it.
func pip(requirement string) func(ctx context.Context, dir string) error {
	return func(ctx context.Context, dir string) error {
		return foreign.Once(dir, func() error {
			if err := run(ctx, dir, "python3", "-m", "venv", "."); err != nil {
				return err
			}
			return run(ctx, dir, "bin/python", "-m", "pip", "install", "-q", requirement)
		})
	}
}

// run runs a command in a directory. The error has what the command wrote.
func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if strings.Contains(name, "/") {
		cmd.Path = filepath.Join(dir, name)
	}
	return foreign.Run(cmd)
}
