// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each error says that something is not installed, and what.
func TestNotInstalled(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	t.Setenv("JAVA_HOME", "")
	t.Setenv("CURATOR_HOME", empty)
	t.Setenv("KAZOO_PYTHON", filepath.Join(empty, "python"))
	_, curator := Curator()
	_, jdk := FindJDK()
	_, _, kazoo := Python(t.Context())
	_, debian := Debian("no-such-artifact", "libno-such-java")
	_, fetch := Fetch(t.Context(), filepath.Join(empty, "curator-1"), CuratorArtifacts("1")...)
	for want, err := range map[string]error{
		"CURATOR_HOME": curator, "javac": jdk, filepath.Join(empty, "python"): kazoo,
		"apt-get install libno-such-java": debian, "org.apache.curator:curator-recipes:1": fetch,
	} {
		if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), want) {
			t.Errorf("the error about %s: %v", want, err)
		}
	}
}

// The name of a jar has its version, and the directory of the others.
func TestCuratorHome(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"curator-recipes-5.9.0.jar", "guava.jar"} {
		if err := os.WriteFile(filepath.Join(home, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CURATOR_HOME", home)
	jars, err := Curator()
	if want := filepath.Join(home, "curator-recipes-5.9.0.jar") + separator + filepath.Join(home, "guava.jar"); err != nil || jars.Version != "5.9.0" || jars.ClassPath != want {
		t.Errorf("%+v, %v, want version 5.9.0 and the class path %s", jars, err, want)
	}
}

// An install that succeeded is not repeated, and what one left that failed is gone.
func TestOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	failure := errors.New("it broke")
	installs := 0
	for _, outcome := range []error{failure, nil, failure} {
		err := Once(dir, func() error {
			installs++
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("install %d finds %v", installs, left)
			}
			if err := os.WriteFile(filepath.Join(dir, "part"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return outcome
		})
		if installs == 1 && !errors.Is(err, failure) || installs > 1 && err != nil {
			t.Errorf("after %d installs: %v", installs, err)
		}
	}
	if installs != 2 {
		t.Errorf("%d installs, want 2", installs)
	}
}
