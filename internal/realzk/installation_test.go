// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	const debian, java, release = "debian/zookeeper.jar ", "jre/bin/java", "JAVA_HOME ZOOKEEPER_HOME"
	tests := []struct {
		name       string
		files      string // below a new directory
		env        string // variables that are set
		version    string
		where      string
		class, err string // err: part of the error
	}{
		{"Debian's package", debian + "debian/zookeeper-3.8.0.jar debian/zookeeper-jute.jar debian/slf4j-simple.jar " + java, "JAVA_HOME",
			"3.8.0", "debian/zookeeper.jar", "debian/zookeeper.jar debian/slf4j-simple.jar", ""},
		{"Debian's package without a printing logger", debian + java, "JAVA_HOME",
			"(version unknown)", "debian/zookeeper.jar", "debian/zookeeper.jar", ""},
		{"a release, which overrides Debian's", debian + "zk/lib/zookeeper-3.9.2.jar zk/lib/zookeeper-jute-3.9.2.jar zk/lib/netty.jar " + java, release,
			"3.9.2", "zk/lib/zookeeper-3.9.2.jar", "zk/lib/netty.jar zk/lib/zookeeper-3.9.2.jar zk/lib/zookeeper-jute-3.9.2.jar", ""},
		{"a release without lib", "zk/zookeeper-3.5.10.jar zk/slf4j.jar " + java, release,
			"3.5.10", "zk/zookeeper-3.5.10.jar", "zk/slf4j.jar zk/zookeeper-3.5.10.jar", ""},
		{"a ZOOKEEPER_HOME without ZooKeeper, not replaced by Debian's", debian + "zk/lib/zookeeper-jute-3.9.2.jar " + java, release,
			"", "", "", "no zookeeper-*.jar in it"},
		{"too old", debian + "debian/zookeeper-3.4.13.jar " + java, "JAVA_HOME", "", "", "", "3.5 or newer is needed"},
		{"nothing", "", "", "", "", "", "run `make deps` as root"},
		{"a JAVA_HOME without Java", debian, "JAVA_HOME", "", "", "", "JAVA_HOME is"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
			paths := func(names string) (paths []string) {
				for name := range strings.FieldsSeq(names) {
					if name == java && runtime.GOOS == "windows" {
						name += ".exe"
					}
					paths = append(paths, at(name))
				}
				return paths
			}
			for _, path := range paths(tt.files) {
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			getenv := func(key string) string {
				if slices.Contains(strings.Fields(tt.env), key) {
					return at(map[string]string{"JAVA_HOME": "jre", "ZOOKEEPER_HOME": "zk"}[key])
				}
				return ""
			}
			got, err := find(getenv, at("debian"))
			if tt.err != "" {
				if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want ErrNotInstalled with %q", err, tt.err)
				}
				return
			}
			want := Installation{
				Java:      paths(java)[0],
				Classpath: strings.Join(paths(tt.class), string(filepath.ListSeparator)),
				Version:   tt.version,
				Where:     at(tt.where),
			}
			if err != nil || got != want {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}

func TestFindWithoutJava(t *testing.T) {
	debian := t.TempDir()
	if err := os.WriteFile(filepath.Join(debian, "zookeeper.jar"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err := find(func(string) string { return "" }, debian)
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "no java in PATH") {
		t.Errorf("error %v, want ErrNotInstalled because of a missing java", err)
	}
}

func TestBefore(t *testing.T) {
	for _, tt := range []struct {
		version, release string
		want             bool
	}{
		{"3.5.10", "3.6", true}, {"3.6.0", "3.6", false}, {"3.6.4", "3.10", true}, {"3.10.1", "3.9", false}, {"", "3.6", false},
	} {
		if got := (Installation{Version: tt.version}).before(tt.release); got != tt.want {
			t.Errorf("%q before %s: %t", tt.version, tt.release, got)
		}
	}
}
