// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Histories that were recorded, with their verdicts of then, get the same verdicts. Each file of
// testdata/recorded is of a run of two processes with three workers each and two locks: ok and
// recipes of correct locks; faults and void with faults, too few of some kinds; killed of a run
// whose parent was killed. The others are of locks that are broken on purpose: twice (granted
// twice), token (an old one), register (accepts every write), lease (its end is not noticed),
// forgotten (a waiter), revocation (ignored), left (a node).
//
// A change of the judge that is meant to change a verdict has to record it anew: -check of the
// unpacked directory writes verdict.json.
func TestRecorded(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/recorded/*.tgz")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tgz"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, file, dir)
			want := verdictFile(t, dir)
			j, err := History(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Finish().Write(dir); err != nil {
				t.Fatal(err)
			}
			got := verdictFile(t, dir)
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Fatalf("line %d of the verdict is\n%s\nwant\n%s", i+1, got[i], want[i])
				}
			}
			if len(got) != len(want) {
				t.Fatalf("the verdict has %d lines, want %d", len(got), len(want))
			}
		})
	}
}

// verdictFile returns the lines of the verdict in dir.
func verdictFile(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(b), "\n")
}

// unpack unpacks a file into dir.
func unpack(t *testing.T, file, dir string) {
	t.Helper()
	packed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		path := filepath.Join(dir, filepath.Clean("/"+h.Name))
		content, err := io.ReadAll(r)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, content, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
