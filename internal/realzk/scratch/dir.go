// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/internal/flock"
)

// A Dir is a temporary directory.
type Dir struct {
	path  string
	owner *os.File // has the flock
}

// canTell says whether a process can find out that another's directory has no owner.
const canTell = flock.Unsupported == ""

// claim tries to take the flock on f, and reports whether f has it. Where there are no file
// locks it succeeds without doing anything.
func claim(f *os.File) (bool, error) {
	if !canTell {
		return true, nil
	}
	return flock.Lock(f, flock.Exclusive)
}

// ownerFile is the file in a Dir that its owner has an flock on. Its text tells a person
// who that is.
const ownerFile = "owner"

// New makes a directory in [os.TempDir] whose name begins with prefix. Before that it
// removes those of the same prefix whose owners have ended.
func New(prefix string) (*Dir, error) {
	return NewIn(os.TempDir(), prefix)
}

// NewIn is New in the directory parent.
func NewIn(parent, prefix string) (*Dir, error) {
	sweep(parent, prefix)
	// Another process that sweeps may take a new directory for one that was left, until
	// this one has the flock. Then try again.
	for range 100 {
		path, err := os.MkdirTemp(parent, prefix)
		if err != nil {
			return nil, fmt.Errorf("scratch: make a temporary directory: %w", err)
		}
		d, err := own(path)
		if d != nil || err != nil {
			return d, err
		}
	}
	return nil, fmt.Errorf("scratch: make a temporary directory %s* in %s: other processes remove each before it has an owner", prefix, parent)
}

// own makes this process the owner of a new directory. It returns nil without an error if
// another process is removing the directory.
func own(path string) (*Dir, error) {
	f, err := os.OpenFile(filepath.Join(path, ownerFile), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("scratch: mark a temporary directory as owned: %w", err)
	}
	locked, err := claim(f)
	if locked && !isAt(f) {
		locked = false
	}
	if err == nil && locked {
		_, err = fmt.Fprintf(f, "process %d, started by %v\n", os.Getpid(), time.Now().Format(time.RFC3339))
		if err == nil {
			return &Dir{path, f}, nil
		}
	}
	_ = f.Close() // its flock, if any, ends with it
	if err != nil {
		return nil, fmt.Errorf("scratch: mark %s as owned: %w", path, err)
	}
	return nil, nil
}

// isAt reports whether f is still what its name names.
func isAt(f *os.File) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(opened, named)
}

// Path returns the path of the directory.
func (d *Dir) Path() string { return d.path }

// Remove removes the directory and what is in it. A second Remove does nothing.
func (d *Dir) Remove() error {
	removeBut(d.path, ownerFile) // so a Remove that is cut short leaves the mark
	err := os.RemoveAll(d.path)
	_ = d.owner.Close() // it fails only if closed before
	if err != nil {
		return fmt.Errorf("scratch: remove a temporary directory: %w", err)
	}
	return nil
}

// sweep removes the directories whose owners have ended. What it may not remove, such as
// another user's, it leaves.
func sweep(parent, prefix string) {
	if !canTell {
		return
	}
	paths, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return // the prefix is no pattern, or no owner made such names
	}
	for _, path := range paths {
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			continue
		}
		f, err := os.OpenFile(filepath.Join(path, ownerFile), os.O_RDWR, 0)
		if err != nil {
			// Its owner has been killed before it made the file, or is about to make it,
			// which it repeats. Remove succeeds only if the directory is empty.
			_ = os.Remove(path)
			continue
		}
		if free, err := claim(f); free && err == nil && isAt(f) {
			removeBut(path, ownerFile)
			_ = os.RemoveAll(path)
		}
		_ = f.Close()
	}
}

// removeBut removes everything in dir but the entry of that name.
func removeBut(dir, name string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Name() != name {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}
