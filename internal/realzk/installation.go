// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// ErrNotInstalled is wrapped by all errors of [Find]: the machine lacks ZooKeeper or
// Java. The text of the error says what to do.
var ErrNotInstalled = errors.New("no ZooKeeper is installed")

// An Installation is a ZooKeeper on this machine.
type Installation struct {
	// Java is the path of the java command.
	Java string
	// Classpath is the JVM's. A server puts its configuration directory first.
	Classpath string
	// Version is the version in the name of ZooKeeper's jar, such as "3.8.0", or
	// "(version unknown)".
	Version string
	// Where is the path of the jar.
	Where string
}

// String returns the version and where it was found.
func (i Installation) String() string {
	return fmt.Sprintf("ZooKeeper %s found at %s", i.Version, i.Where)
}

// debianJars is the directory of the jars in the package libzookeeper-java.
const debianJars = "/usr/share/java"

// Find finds ZooKeeper in $ZOOKEEPER_HOME, if that is set, or else as Debian's
// package. $ZOOKEEPER_HOME is an unpacked release with the jars in it or in lib. Find
// takes java from $JAVA_HOME, if that is set, or else from PATH. Its errors wrap
// [ErrNotInstalled].
func Find() (Installation, error) {
	return find(os.Getenv, debianJars)
}

// find is Find with the given environment and Debian's directory.
func find(getenv func(string) string, debian string) (Installation, error) {
	var in Installation
	if home := getenv("ZOOKEEPER_HOME"); home != "" {
		jars := jarsOf(home)
		jar := zookeeperJar(jars)
		if jar == "" {
			// Do not look further: a user who sets the variable wants that
			// ZooKeeper, and would not notice a test of another.
			return in, fmt.Errorf("%w: ZOOKEEPER_HOME is %q, but there is no zookeeper-*.jar in it or in its lib directory; set it to an unpacked ZooKeeper release, or unset it to use Debian's package", ErrNotInstalled, home)
		}
		in.Classpath = strings.Join(jars, string(filepath.ListSeparator))
		in.Where = jar
	} else {
		// The manifest of Debian's jar lists its dependencies, except the binding
		// with which slf4j prints.
		jar := filepath.Join(debian, "zookeeper.jar")
		if _, err := os.Stat(jar); err != nil {
			return in, fmt.Errorf("%w: there is neither %s (Debian and Ubuntu: run `make deps` as root) nor a ZOOKEEPER_HOME in the environment (elsewhere: unpack a ZooKeeper 3.8 release and set ZOOKEEPER_HOME to its directory)", ErrNotInstalled, jar)
		}
		in.Classpath = jar
		if simple := filepath.Join(debian, "slf4j-simple.jar"); isFile(simple) {
			in.Classpath += string(filepath.ListSeparator) + simple
		}
		in.Where = jar
	}
	in.Version = versionOf(in.Where)
	if tooOld.MatchString(in.Version) {
		return Installation{}, fmt.Errorf("%w that is new enough: %s is version %s, and 3.5 or newer is needed; unpack a ZooKeeper 3.8 release and set ZOOKEEPER_HOME to its directory", ErrNotInstalled, in.Where, in.Version)
	}

	var err error
	if in.Java, err = findJava(getenv); err != nil {
		return Installation{}, err
	}
	return in, nil
}

// jarsOf returns the jars of an unpacked release, in a fixed order.
func jarsOf(home string) []string {
	for _, pattern := range []string{filepath.Join(home, "lib", "*.jar"), filepath.Join(home, "*.jar")} {
		// Glob fails only on a malformed pattern, if home contains a bracket.
		// Then there are no jars.
		jars, err := filepath.Glob(pattern)
		if err == nil && zookeeperJar(jars) != "" {
			return jars
		}
	}
	return nil
}

var zookeeperJarName = regexp.MustCompile(`^zookeeper(-\d[\w.]*(-[\w.]+)*)?\.jar$`)

// zookeeperJar returns the jar that contains the server, or "".
func zookeeperJar(jars []string) string {
	for _, jar := range jars {
		if zookeeperJarName.MatchString(filepath.Base(jar)) && isFile(jar) {
			return jar
		}
	}
	return ""
}

// tooOld matches versions without container nodes, which some distributions still
// have.
var tooOld = regexp.MustCompile(`^([0-2]|3\.[0-4])(\.|$)`)

var versionInName = regexp.MustCompile(`^zookeeper-(\d.*)\.jar$`)

// versionOf returns the version in a jar's name. Debian's jar is called zookeeper.jar;
// a link beside it has the versioned name.
func versionOf(jar string) string {
	names := []string{jar}
	if beside, err := filepath.Glob(filepath.Join(filepath.Dir(jar), "zookeeper-[0-9]*.jar")); err == nil {
		names = append(names, beside...)
	}
	for _, name := range names {
		if m := versionInName.FindStringSubmatch(filepath.Base(name)); m != nil {
			return m[1]
		}
	}
	return "(version unknown)"
}

func findJava(getenv func(string) string) (string, error) {
	if home := getenv("JAVA_HOME"); home != "" {
		name := "java"
		if runtime.GOOS == "windows" {
			name = "java.exe"
		}
		java := filepath.Join(home, "bin", name)
		if !isFile(java) {
			return "", fmt.Errorf("%w: JAVA_HOME is %q, but there is no %s; correct it, or unset it to use the java in the PATH", ErrNotInstalled, home, java)
		}
		return java, nil
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("%w: its jar exists, but there is no java in PATH and JAVA_HOME is not set (Debian and Ubuntu: run `make deps` as root; elsewhere: install a Java runtime): %w", ErrNotInstalled, err)
	}
	return java, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Before reports whether the machine's ZooKeeper is older than a release, such as 3.6. The test
// fails if there is none.
func Before(tb testing.TB, release string) bool {
	tb.Helper()
	here, err := Find()
	if err != nil {
		tb.Fatal(err)
	}
	return here.before(release)
}

// before reports whether the installed release is older than another: a number, a dot and a
// number. It is false if the release is not known.
func (i Installation) before(release string) bool {
	var is, than [2]int
	if _, err := fmt.Sscanf(i.Version, "%d.%d", &is[0], &is[1]); err != nil {
		return false
	}
	_, _ = fmt.Sscanf(release, "%d.%d", &than[0], &than[1])
	return slices.Compare(is[:], than[:]) < 0
}
