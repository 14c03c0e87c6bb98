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

	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/realzk"
)

// CuratorMended reports whether Curator is 5.9 or newer, and not the 5.4 that Debian ships, in which
// a downgrade from write to read lets a writer in.
func CuratorMended(tb testing.TB) bool {
	tb.Helper()
	jars, err := foreign.Curator()
	if err != nil {
		realzk.NotRun(tb, err.Error())
	}
	var major, minor int
	if _, err := fmt.Sscanf(jars.Version, "%d.%d", &major, &minor); err != nil {
		tb.Fatalf("Curator has the version %q: %v", jars.Version, err)
	}
	return major > 5 || major == 5 && minor >= 9
}

// Curator returns a program in Java that uses Apache Curator, ready to start. Its main class
// is called as its source is, which is compiled once for a test binary. The end of ctx kills
// the program.
func Curator(ctx context.Context, tb testing.TB, source string, args ...string) *exec.Cmd {
	tb.Helper()
	jars, err := foreign.Curator()
	if err != nil {
		realzk.NotRun(tb, err.Error())
	}
	jdk, err := foreign.FindJDK()
	if err != nil {
		realzk.NotRun(tb, err.Error())
	}
	files, err := classesOf(jdk, jars.ClassPath, source)
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
	classpath := classes + string(filepath.ListSeparator) + jars.ClassPath
	return exec.CommandContext(ctx, jdk.Java, append([]string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath, class}, args...)...)
}

// compiled has the classes of each source that this test binary has compiled. They are kept
// in memory, since there is no moment at which the last test that needs a file has ended.
var compiled sync.Map // from the source's path to func() (classes, error)

// classes are the contents of class files, by name.
type classes map[string][]byte

// classesOf returns the classes of a source. The first call compiles it, and others that
// come meanwhile wait for that.
func classesOf(jdk foreign.JDK, jars, source string) (classes, error) {
	once, _ := compiled.LoadOrStore(source, sync.OnceValues(func() (classes, error) { return compile(jdk, jars, source) }))
	return once.(func() (classes, error))()
}

func compile(jdk foreign.JDK, jars, source string) (classes, error) {
	dir, err := os.MkdirTemp("", "holdfast-classes-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := jdk.Compile(context.Background(), jars, dir, source); err != nil {
		return nil, err
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
		return nil, fmt.Errorf("compiling %s has made no %s, but %q", source, main, slices.Sorted(maps.Keys(found)))
	}
	return found, nil
}
