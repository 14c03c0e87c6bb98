// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	modpath "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// proxy writes the modules below to, in the layout that GOPROXY=file://… reads, as if version
// were released.
func proxy(dir string, all []module, version, to string) error {
	for _, m := range all {
		if err := serve(dir, m, all, version, to); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return nil
}

func serve(dir string, m module, all []module, version, to string) error {
	gomod, err := released(dir, m, all, version)
	if err != nil {
		return err
	}
	escaped, err := modpath.EscapePath(m.path)
	if err != nil {
		return err
	}
	versions := filepath.Join(to, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC()})
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".info": info,
		version + ".mod":  gomod,
	} {
		if err := os.WriteFile(filepath.Join(versions, name), text, 0o644); err != nil {
			return err
		}
	}
	return zipped(filepath.Join(dir, filepath.FromSlash(m.dir)), modpath.Version{Path: m.path, Version: version}, gomod, filepath.Join(versions, version+".zip"))
}

// A file is one of a module, as the package zip wants it. A go.mod is the release's.
type file struct {
	name, path string
	gomod      []byte
}

func (f file) Path() string                { return f.name }
func (f file) Lstat() (fs.FileInfo, error) { return os.Lstat(f.path) }
func (f file) Open() (io.ReadCloser, error) {
	if f.name == "go.mod" {
		return io.NopCloser(bytes.NewReader(f.gomod)), nil
	}
	return os.Open(f.path)
}

// zipped writes the files of a module that git knows into an archive. What is in a module
// below it the package zip leaves out.
func zipped(dir string, version modpath.Version, gomod []byte, to string) error {
	list := exec.Command("git", "ls-files", "-z", "--cached")
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("%v in %s: %w", list, dir, err)
	}
	var files []zip.File
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		files = append(files, file{name, filepath.Join(dir, filepath.FromSlash(name)), gomod})
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := zip.Create(f, version, files); err != nil {
		return err
	}
	return f.Close()
}
