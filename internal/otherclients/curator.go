// SPDX-License-Identifier: Apache-2.0

package otherclients

import (
	"context"
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

// recipesJar is Apache Curator; its manifest names what it needs.
const recipesJar = "/usr/share/java/curator-recipes.jar"

// Curator returns a program in Java that uses Apache Curator, ready to start. Its main class
// is called as its source is, which is compiled once for a test binary. The end of ctx kills
// the program.
func Curator(ctx context.Context, tb testing.TB, source string, args ...string) *exec.Cmd {
	tb.Helper()
	if _, err := os.Stat(recipesJar); err != nil {
		realzk.NotRun(tb, "there is no "+recipesJar+" (Debian: apt-get install libcurator-recipes-java)")
	}
	javac, java := javaTool("javac"), javaTool("java")
	if javac == "" || java == "" {
		realzk.NotRun(tb, "there is no javac in the PATH, nor in JAVA_HOME (Debian: apt-get install default-jdk-headless)")
	}
	files, err := classesOf(javac, source)
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
	classpath := strings.Join([]string{classes, recipesJar, "/usr/share/java/slf4j-nop.jar"}, string(filepath.ListSeparator))
	return exec.CommandContext(ctx, java, append([]string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath, class}, args...)...)
}

// compiled has the classes of each source that this test binary has compiled. They are kept
// in memory, since there is no moment at which the last test that needs a file has ended.
var compiled sync.Map // from the source's path to func() (classes, error)

// classes are the contents of class files, by name.
type classes map[string][]byte

// classesOf returns the classes of a source. The first call compiles it, and others that
// come meanwhile wait for that.
func classesOf(javac, source string) (classes, error) {
	once, _ := compiled.LoadOrStore(source, sync.OnceValues(func() (classes, error) { return compile(javac, source) }))
	return once.(func() (classes, error))()
}

// compile compiles a source, which is UTF-8 whatever the locale says.
func compile(javac, source string) (classes, error) {
	dir, err := os.MkdirTemp("", "holdfast-classes-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command(javac, "-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-encoding", "UTF-8", "-cp", recipesJar, "-d", dir, source)
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
