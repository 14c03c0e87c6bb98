// SPDX-License-Identifier: Apache-2.0

package start

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
		program := filepath.Join(root, "bin", "peers")
		build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
		build.Dir = filepath.Join(root, "bench", "peers")
		return []string{program, subject}, run(build)
	}
}

// curator returns the command for Apache Curator, as Debian installs it.
func curator(ctx context.Context, root string) ([]string, error) {
	const jars = "/usr/share/java/"
	const jar = jars + "curator-recipes.jar" // its manifest names its dependencies
	if _, err := os.Stat(jar); err != nil {
		return nil, fmt.Errorf("%w: %s does not exist (Debian: apt-get install libcurator-recipes-java)", ErrNotInstalled, jar)
	}
	javac, java := javaTool("javac"), javaTool("java")
	if javac == "" || java == "" {
		return nil, fmt.Errorf("%w: no javac in JAVA_HOME or PATH (Debian: apt-get install default-jdk-headless)", ErrNotInstalled)
	}
	classes := filepath.Join(root, "bin", "curator")
	source := filepath.Join(root, "bench", "peers", "curator", "Curator.java")
	if err := run(exec.CommandContext(ctx, javac, "-encoding", "UTF-8", "-cp", jar, "-d", classes, source)); err != nil {
		return nil, err
	}
	// With logging that discards everything, and the defaults of the JVM.
	classpath := strings.Join([]string{classes, jar, jars + "slf4j-nop.jar"}, string(filepath.ListSeparator))
	return []string{java, "-cp", classpath, "Curator"}, nil
}

// javaTool returns the path of a program of the JDK, or "".
func javaTool(name string) string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// kazoo returns the command for the python3 that has kazoo. Debian's may have it
// although another python3 comes first in the PATH.
func kazoo(ctx context.Context, root string) ([]string, error) {
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(ctx, python, "-c", "import kazoo").Run() == nil {
			return []string{python, filepath.Join(root, "bench", "peers", "kazoo", "kazoo_lock.py")}, nil
		}
	}
	return nil, fmt.Errorf("%w: no python3 has the module kazoo (Debian: apt-get install python3-kazoo)", ErrNotInstalled)
}

// run runs a command. Its error includes the output.
func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
}
