// SPDX-License-Identifier: Apache-2.0

package start

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/holdfast-go/holdfast/internal/foreign"
)

// A Peer is a lock that Holdfast is compared with: a program that speaks the
// protocol of package work.
type Peer struct {
	Name   string // such as "curator"
	Server string // the kind of server that it needs

	command func(ctx context.Context, root string) ([]string, error)
}

// Command builds the peer from bench/peers into bin, both below the root of the
// repository, and returns the program and its arguments. The error wraps
// ErrNotInstalled if the peer needs something that is missing; Command does not look
// for its server. It blocks for some seconds, or longer if Go must fetch modules.
// The end of ctx kills the build.
func (p Peer) Command(ctx context.Context, root string) ([]string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	argv, err := p.command(ctx, root)
	if err != nil {
		return nil, fmt.Errorf("build the peer %s: %w", p.Name, err)
	}
	return argv, nil
}

// Peers returns all peers in the order in which they are shown.
func Peers() []Peer {
	return []Peer{
		{"go-zookeeper", ZooKeeper, inGo("go-zookeeper")},
		{"naive", ZooKeeper, inGo("naive")},
		{"curator", ZooKeeper, curator},
		{"kazoo", ZooKeeper, kazoo},
		{"etcd", Etcd, inGo("etcd")},
		{"redsync", Redis, inGo("redsync")},
	}
}

// inGo returns the command of a subject of bench/peers. It builds that program for
// each subject; from the second time on, this is quick.
func inGo(subject string) func(context.Context, string) ([]string, error) {
	return func(ctx context.Context, root string) ([]string, error) {
		program, err := build(ctx, root, filepath.Join("bench", "peers"))
		return []string{program, subject}, err
	}
}

// Holdfast builds the command holdfast into bin below the root of the repository, and returns its path.
func Holdfast(ctx context.Context, root string) (string, error) {
	return build(ctx, root, filepath.Join("cmd", "holdfast"))
}

// build builds the program in a directory below root into bin, and returns its path.
func build(ctx context.Context, root, dir string) (string, error) {
	program := filepath.Join(root, "bin", filepath.Base(dir))
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = filepath.Join(root, dir)
	return program, foreign.Run(build)
}

// curator returns the command for Apache Curator, with logging that discards everything, and the
// defaults of the JVM.
func curator(ctx context.Context, root string) ([]string, error) {
	jars, err := foreign.Curator()
	if err != nil {
		return nil, err
	}
	jdk, err := foreign.FindJDK()
	if err != nil {
		return nil, err
	}
	classes := filepath.Join(root, "bin", "curator")
	if err := jdk.Compile(ctx, jars.ClassPath, classes, filepath.Join(root, "bench", "peers", "curator", "Curator.java")); err != nil {
		return nil, err
	}
	return []string{jdk.Java, "-cp", classes + string(filepath.ListSeparator) + jars.ClassPath, "Curator"}, nil
}

// kazoo returns the command for kazoo.
func kazoo(ctx context.Context, root string) ([]string, error) {
	python, _, err := foreign.Python(ctx)
	return []string{python, filepath.Join(root, "bench", "peers", "kazoo", "kazoo_lock.py")}, err
}
