// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	javaName := "java"
	if runtime.GOOS == "windows" {
		javaName = "java.exe"
	}
	tests := []struct {
		name    string
		files   []string // below a fresh directory
		env     map[string]string
		version string
		where   string
		class   []string
		err     string // a part of the message; "" for success
	}{
		{
			name:    "Debian's package",
			files:   []string{"debian/zookeeper.jar", "debian/zookeeper-3.8.0.jar", "debian/zookeeper-jute.jar", "debian/slf4j-simple.jar", "jre/bin/" + javaName},
			env:     map[string]string{"JAVA_HOME": "jre"},
			version: "3.8.0",
			where:   "debian/zookeeper.jar",
			class:   []string{"debian/zookeeper.jar", "debian/slf4j-simple.jar"},
		},
		{
			name:    "Debian's package without a printing logger",
			files:   []string{"debian/zookeeper.jar", "jre/bin/" + javaName},
			env:     map[string]string{"JAVA_HOME": "jre"},
			version: "(version unknown)",
			where:   "debian/zookeeper.jar",
			class:   []string{"debian/zookeeper.jar"},
		},
		{
			name:    "an unpacked release, which wins over Debian's",
			files:   []string{"debian/zookeeper.jar", "zk/lib/zookeeper-3.9.2.jar", "zk/lib/zookeeper-jute-3.9.2.jar", "zk/lib/netty.jar", "jre/bin/" + javaName},
			env:     map[string]string{"JAVA_HOME": "jre", "ZOOKEEPER_HOME": "zk"},
			version: "3.9.2",
			where:   "zk/lib/zookeeper-3.9.2.jar",
			class:   []string{"zk/lib/netty.jar", "zk/lib/zookeeper-3.9.2.jar", "zk/lib/zookeeper-jute-3.9.2.jar"},
		},
		{
			name:    "jars beside each other",
			files:   []string{"zk/zookeeper-3.5.10.jar", "zk/slf4j.jar", "jre/bin/" + javaName},
			env:     map[string]string{"JAVA_HOME": "jre", "ZOOKEEPER_HOME": "zk"},
			version: "3.5.10",
			where:   "zk/zookeeper-3.5.10.jar",
			class:   []string{"zk/slf4j.jar", "zk/zookeeper-3.5.10.jar"},
		},
		{
			name:  "a ZOOKEEPER_HOME without ZooKeeper does not fall back to Debian's",
			files: []string{"debian/zookeeper.jar", "zk/lib/zookeeper-jute-3.9.2.jar", "jre/bin/" + javaName},
			env:   map[string]string{"JAVA_HOME": "jre", "ZOOKEEPER_HOME": "zk"},
			err:   "no zookeeper-*.jar in it",
		},
		{
			name:  "a ZooKeeper that is too old",
			files: []string{"debian/zookeeper.jar", "debian/zookeeper-3.4.13.jar", "jre/bin/" + javaName},
			env:   map[string]string{"JAVA_HOME": "jre"},
			err:   "3.5 is the oldest that will do",
		},
		{
			name: "nothing",
			err:  "run `make deps` as root",
		},
		{
			name:  "ZooKeeper, but a JAVA_HOME without Java",
			files: []string{"debian/zookeeper.jar"},
			env:   map[string]string{"JAVA_HOME": "jre"},
			err:   "JAVA_HOME is",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
			for _, name := range tt.files {
				if err := os.MkdirAll(filepath.Dir(at(name)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at(name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			getenv := func(key string) string {
				if v := tt.env[key]; v != "" {
					return at(v)
				}
				return ""
			}

			got, err := find(getenv, at("debian"))
			if tt.err != "" {
				if err == nil || !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want ErrNotInstalled with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			class := make([]string, len(tt.class))
			for i, name := range tt.class {
				class[i] = at(name)
			}
			want := Installation{
				Java:      at("jre/bin/" + javaName),
				Classpath: strings.Join(class, string(filepath.ListSeparator)),
				Version:   tt.version,
				Where:     at(tt.where),
			}
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
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
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "no java is in the PATH") {
		t.Errorf("error %v, want ErrNotInstalled because of a missing java", err)
	}
}
