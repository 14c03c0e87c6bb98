// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// CuratorArtifacts are what Maven calls a release of Curator, and the logging that discards
// everything.
func CuratorArtifacts(version string) []string {
	return []string{"org.apache.curator:curator-recipes:" + version, "org.slf4j:slf4j-nop:1.7.36"}
}

// Fetch puts artifacts of Maven, as GROUP:NAME:VERSION, and what they need into the directory lib of
// a directory, and returns the path of that. The first call downloads them, which blocks for so long
// as that takes; the end of ctx kills it.
func Fetch(ctx context.Context, dir string, artifacts ...string) (lib string, err error) {
	return filepath.Join(dir, "lib"), Once(dir, func() error {
		mvn, err := exec.LookPath("mvn")
		if err != nil {
			return fmt.Errorf("%w: there is no mvn in the PATH, which downloads %s (Debian: apt-get install maven)", ErrNotInstalled, artifacts[0])
		}
		var pom strings.Builder
		pom.WriteString("<project><modelVersion>4.0.0</modelVersion><groupId>holdfast</groupId><artifactId>fetch</artifactId><version>1</version><dependencies>")
		for _, artifact := range artifacts {
			part := strings.Split(artifact, ":")
			fmt.Fprintf(&pom, "<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>", part[0], part[1], part[2])
		}
		pom.WriteString("</dependencies></project>\n")
		if err := os.WriteFile(filepath.Join(dir, "pom.xml"), []byte(pom.String()), 0o600); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib")
		cmd.Dir = dir
		if err := Run(cmd); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%w: fetching %s: %w", ErrNotInstalled, artifacts[0], err) // there is no network, most likely
		}
		return nil
	})
}

// installing is held by Once: goroutines may want the same release.
var installing sync.Mutex

// Once calls install, which fills the directory, unless it has done so before. What an install left
// that failed is removed. One install goes on at a time in a process.
func Once(dir string, install func() error) error {
	installing.Lock()
	defer installing.Unlock()
	complete := filepath.Join(dir, "complete")
	if _, err := os.Stat(complete); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := install(); err != nil {
		return err
	}
	return os.WriteFile(complete, nil, 0o600)
}
