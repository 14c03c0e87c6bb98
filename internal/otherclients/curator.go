// SPDX-License-Identifier: Apache-2.0

package otherclients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// debianRecipes is Apache Curator as Debian ships it; its manifest names what it needs.
const debianRecipes = "/usr/share/java/curator-recipes.jar"

// curatorJars returns the class path of Apache Curator: the jars in $CURATOR_HOME, if that is
// set, or else Debian's package. The error says what is missing.
func curatorJars() (string, error) {
	const separator = string(filepath.ListSeparator)
	if home := os.Getenv("CURATOR_HOME"); home != "" {
		jars, err := filepath.Glob(filepath.Join(home, "*.jar"))
		if err != nil || !slices.ContainsFunc(jars, func(jar string) bool { return strings.HasPrefix(filepath.Base(jar), "curator-recipes-") }) {
			return "", fmt.Errorf("CURATOR_HOME is %q, and there is no curator-recipes-*.jar in it", home)
		}
		return strings.Join(jars, separator), nil
	}
	if _, err := os.Stat(debianRecipes); err != nil {
		return "", errors.New("there is no " + debianRecipes + " (Debian: apt-get install libcurator-recipes-java)")
	}
	return debianRecipes + separator + "/usr/share/java/slf4j-nop.jar", nil
}

// CuratorMended reports whether Curator is 5.9 or newer, and not the 5.4 that Debian ships, in which
// a downgrade from write to read lets a writer in.
func CuratorMended(tb testing.TB) bool {
	tb.Helper()
	jars, err := curatorJars()
	if err != nil {
		realzk.NotRun(tb, err.Error())
	}
	_, version, _ := strings.Cut(jars, "curator-recipes-")
	var major, minor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor) // Debian's has no number
	return major > 5 || major == 5 && minor >= 9
}

// Curator returns a program in Java that uses Apache Curator, ready to start. Its main class
// is called as its source is, which is compiled once for a test binary. The end of ctx kills
// the program.
func Curator(ctx context.Context, tb testing.TB, source string, args ...string) *exec.Cmd {
	tb.Helper()
	jars, err := curatorJars()
	if err != nil {
		realzk.NotRun(tb, err.Error())
	}
	javac, java := javaTool("javac"), javaTool("java")
	if javac == "" || java == "" {
		realzk.NotRun(tb, "there is no javac in the PATH, nor in JAVA_HOME (Debian: apt-get install default-jdk-headless)")
	}
	files, err := classesOf(javac, jars, source)
	if err != nil {
		tb.Fatal(err)
	}
	classes := tb.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(classes, name), data, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	class := strings.TrimSuffix(filepath.Base(source), ".java")
	classpath := classes + string(filepath.ListSeparator) + jars
	return exec.CommandContext(ctx, java, append([]string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath, class}, args...)...)
}

// compiled has the classes of each source that this test binary has compiled. They are kept
// in memory, since there is no moment at which the last test that needs a file has ended.
var compiled sync.Map // from the source's path to func() (classes, error)

// classes are the contents of class files, by name.
type classes map[string][]byte

// classesOf returns the classes of a source. The first call compiles it, and others that
// come meanwhile wait for that.
func classesOf(javac, jars, source string) (classes, error) {
	once, _ := compiled.LoadOrStore(source, sync.OnceValues(func() (classes, error) { return compile(javac, jars, source) }))
	return once.(func() (classes, error))()
}

// compile compiles a source, which is UTF-8 whatever the locale says.
func compile(javac, jars, source string) (classes, error) {
	dir, err := os.MkdirTemp("", "holdfast-classes-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command(javac, "-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-encoding", "UTF-8", "-cp", jars, "-d", dir, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.class"))
	if err != nil {
		return nil, err
	}
	found := make(classes)
	for _, path := range paths {
		if found[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	if main := strings.TrimSuffix(filepath.Base(source), ".java") + ".class"; found[main] == nil {
		return nil, fmt.Errorf("%v has made no %s, but %q", cmd, main, slices.Sorted(maps.Keys(found)))
	}
	return found, nil
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
