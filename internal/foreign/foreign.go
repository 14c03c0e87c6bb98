// SPDX-License-Identifier: Apache-2.0

// Package foreign finds what tests, benchmarks and the stress harness run beside Holdfast and did
// not build: Java, Apache Curator and kazoo. CURATOR_HOME, a directory of jars, and KAZOO_PYTHON, a
// Python interpreter, choose other releases than those of the machine. [Fetch] downloads a release.
package foreign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNotInstalled is wrapped by errors about what this machine does not have. They say how to
// install it.
var ErrNotInstalled = errors.New("not installed")

// Jars are a release of a library for Java.
type Jars struct {
	ClassPath string
	Version   string // such as "5.4.0"; empty: unknown
}

const separator = string(filepath.ListSeparator)

// In returns the jars in a directory, of which the artifact is the one that a program uses, and
// says which version they are. ErrNotInstalled means that it is not there.
func In(dir, artifact string) (Jars, error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.jar"))
	if err != nil {
		return Jars{}, err
	}
	for _, jar := range all {
		if version, ok := versionOf(jar, artifact); ok {
			return Jars{strings.Join(all, separator), version}, nil
		}
	}
	return Jars{}, fmt.Errorf("%w: there is no %s-VERSION.jar in %s", ErrNotInstalled, artifact, dir)
}

// Debian returns an artifact as Debian's package installs it. The manifest of its jar names what it
// needs.
func Debian(artifact, pkg string) (Jars, error) {
	const dir = "/usr/share/java/"
	jar := dir + artifact + ".jar"
	if _, err := os.Stat(jar); err != nil {
		return Jars{}, fmt.Errorf("%w: there is no %s (Debian: apt-get install %s)", ErrNotInstalled, jar, pkg)
	}
	jars := Jars{ClassPath: jar + separator + dir + "slf4j-nop.jar"}
	links, err := filepath.Glob(dir + artifact + "-[0-9]*.jar") // to it
	if err == nil && len(links) == 1 {
		jars.Version, _ = versionOf(links[0], artifact)
	}
	return jars, err
}

// versionOf returns the version in the name of a jar, if it is the artifact's.
func versionOf(jar, artifact string) (version string, ok bool) {
	name := strings.TrimSuffix(filepath.Base(jar), ".jar")
	return strings.CutPrefix(name, artifact+"-")
}

// WriteLock returns ZooKeeper's recipe of a lock, which Maven Central does not have.
func WriteLock() (Jars, error) { return Debian("zookeeper-recipes-lock", "libzookeeper-java") }

// Curator returns Apache Curator: the jars in $CURATOR_HOME, if that is set, or else Debian's.
func Curator() (Jars, error) {
	if home := os.Getenv("CURATOR_HOME"); home != "" {
		jars, err := In(home, "curator-recipes")
		if err != nil {
			err = fmt.Errorf("CURATOR_HOME: %w", err)
		}
		return jars, err
	}
	return Debian("curator-recipes", "libcurator-recipes-java")
}

// A JDK is the paths of programs of a Java Development Kit.
type JDK struct{ Javac, Java string }

// FindJDK returns the JDK in $JAVA_HOME, if that is set, or else in the PATH.
func FindJDK() (j JDK, err error) {
	for name, path := range map[string]*string{"javac": &j.Javac, "java": &j.Java} {
		if home := os.Getenv("JAVA_HOME"); home != "" {
			name = filepath.Join(home, "bin", name)
		}
		if *path, err = exec.LookPath(name); err != nil {
			return j, fmt.Errorf("%w: there is no javac in the PATH, nor in JAVA_HOME (Debian: apt-get install default-jdk-headless)", ErrNotInstalled)
		}
	}
	return j, nil
}

// Compile compiles sources, which are UTF-8 whatever the locale says, into a directory. It blocks
// for some seconds, and the end of ctx kills the compiler.
func (j JDK) Compile(ctx context.Context, classPath, dir string, sources ...string) error {
	args := []string{"-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-encoding", "UTF-8", "-cp", classPath, "-d", dir}
	return Run(exec.CommandContext(ctx, j.Javac, append(args, sources...)...))
}

// Python returns the interpreter that has kazoo, and the version of kazoo: $KAZOO_PYTHON, if that is
// set, or else the first python3. Debian's may have it although another python3 comes first in the
// PATH. It blocks for a moment.
func Python(ctx context.Context) (python, version string, err error) {
	pythons := []string{"/usr/bin/python3", "python3"}
	if chosen := os.Getenv("KAZOO_PYTHON"); chosen != "" {
		pythons = []string{chosen}
	}
	for _, python := range pythons {
		out, err := exec.CommandContext(ctx, python, "-c", "import kazoo; print(kazoo.__version__)").Output()
		if err != nil {
			continue
		}
		path, err := exec.LookPath(python)
		return path, strings.TrimSpace(string(out)), err
	}
	return "", "", fmt.Errorf("%w: the module kazoo is in none of %s (Debian: apt-get install python3-kazoo)", ErrNotInstalled, strings.Join(pythons, ", "))
}

// Run runs a command until it ends. Its error has what the command wrote.
func Run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
}
