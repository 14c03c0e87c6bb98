// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Trimmed says what was removed from a history while it was written.
type Trimmed struct {
	Segments int   `json:"segments"`
	Bytes    int64 `json:"bytes"`
	Until    int64 `json:"until"` // the time of the last event that was removed
}

const trimmedName = "trimmed.json"

// ReadTrimmed returns what was removed from the history in dir.
func ReadTrimmed(dir string) (t Trimmed, err error) {
	err = ReadJSON(filepath.Join(dir, trimmedName), &t)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, fmt.Errorf("read what was removed from the history: %w", err)
	}
	return t, nil
}

// A Limit is how much of a history there may be. 0 means any number.
type Limit struct {
	Bytes int64
	Files int // as many processes as are killed leave small ones
}

// within reports whether so much is within factor times the limit.
func (l Limit) within(factor, bytes int64, files int) bool {
	return (l.Bytes == 0 || bytes <= factor*l.Bytes) && (l.Files == 0 || int64(files) <= factor*int64(l.Files))
}

// Trim removes segments whose events have all been yielded, the oldest first, until the
// rest is within the limit. Segments of which keep says that they should stay are removed
// only if there is twice as much as that without the others; keep gets the times of the first
// and the last event.
func (f *Follower) Trim(limit Limit, keep func(first, last int64) bool) error {
	var bytes int64
	var files int
	for _, s := range f.streams {
		if s.file != nil {
			bytes += s.present.bytes
			files++
		}
	}
	var old, wanted []span
	for _, r := range f.read {
		bytes += r.bytes
		files++
		switch {
		case r.last >= f.yielded-slack:
		case keep != nil && keep(r.first, r.last):
			wanted = append(wanted, r)
		default:
			old = append(old, r)
		}
	}
	if limit.within(1, bytes, files) {
		return nil
	}
	gone, err := ReadTrimmed(f.dir)
	if err != nil {
		return err
	}
	removed := map[segment]bool{}
	for factor, some := range [][]span{old, wanted} {
		slices.SortFunc(some, func(a, b span) int { return cmp.Compare(a.last, b.last) })
		for _, r := range some {
			if limit.within(int64(factor)+1, bytes, files) {
				break
			}
			if err := os.Remove(r.in(f.dir)); err != nil {
				return fmt.Errorf("remove old events: %w", err)
			}
			removed[r.segment] = true
			bytes -= r.bytes
			files--
			gone.Segments++
			gone.Bytes += r.bytes
			gone.Until = max(gone.Until, r.last)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	f.read = slices.DeleteFunc(f.read, func(r span) bool { return removed[r.segment] })
	return WriteJSON(filepath.Join(f.dir, trimmedName), gone)
}
