// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Version is the Version of headers that this package writes and reads.
const Version = 1

const headerName = "run.json"

// WriteHeader begins a history in dir, which it makes if it does not exist, and writes
// the header. The Version is filled in.
func WriteHeader(dir string, h Header) error {
	h.Version = Version
	if err := os.MkdirAll(filepath.Join(dir, eventsName), 0o777); err != nil {
		return fmt.Errorf("begin the history in %s: %w", dir, err)
	}
	return WriteJSON(filepath.Join(dir, headerName), h)
}

// Remove removes the history in dir, if there is one, and nothing else that is there. It
// returns an error if there are other files among the events.
func Remove(dir string) error {
	events := filepath.Join(dir, eventsName)
	files, err := os.ReadDir(events)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the history in %s: %w", dir, err)
	}
	for _, f := range files {
		if _, ok := parseSegment(f.Name()); !ok {
			return fmt.Errorf("remove the history in %s: %s has the file %s, which is none of a history: name another directory, or remove it", dir, events, f.Name())
		}
	}
	for _, f := range files {
		if err := os.Remove(filepath.Join(events, f.Name())); err != nil {
			return fmt.Errorf("remove the history in %s: %w", dir, err)
		}
	}
	for _, name := range []string{events, filepath.Join(dir, trimmedName), filepath.Join(dir, headerName)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the history in %s: %w", dir, err)
		}
	}
	return nil
}

// ReadHeader reads the header of the history in dir.
func ReadHeader(dir string) (h Header, err error) {
	if err := ReadJSON(filepath.Join(dir, headerName), &h); err != nil {
		return h, fmt.Errorf("read the history in %s: %w: is it the directory of a run's report?", dir, err)
	}
	if h.Version != Version {
		return h, fmt.Errorf("the history in %s has version %d, but this program reads version %d only: use the program that wrote it", dir, h.Version, Version)
	}
	return h, nil
}

// ReadJSON reads the file into v.
func ReadJSON(name string, v any) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err // names the file
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// WriteJSON writes v to the file as indented JSON, all at once: a reader sees the old
// file or the new one, also if this process is killed in between.
func WriteJSON(name string, v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	next := name + ".new"
	if err := os.WriteFile(next, text.Bytes(), 0o666); err != nil {
		return err // names the file
	}
	return os.Rename(next, name)
}
