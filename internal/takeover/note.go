// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A Note says where a note of the session's end is to be left, and what it says of the process.
type Note struct {
	Root    string          // of the locks: the note is below it; "": there is none
	ACL     []zkio.ACL      // of the note
	Process json.RawMessage // as the process's nodes describe it
}

// A Record is a note: the session of a process was closed for it when it had ended. It is in a node
// of its own in [Directory]. The next holders of the locks and people read it.
type Record struct {
	Name string `json:"-"` // of its node

	Process json.RawMessage `json:"process,omitempty"`
	Session int64           `json:"session"`
	Ended   time.Time       `json:"ended"` // when that was seen, by the clock of the machine
	After   time.Duration   `json:"after"` // from then until the session was closed, in nanoseconds

	// Nodes are the paths of the session's nodes when it was closed, in order, as far as a server
	// said so. More is how many do not fit.
	Nodes []string `json:"nodes,omitempty"`
	More  int      `json:"more,omitempty"`
}

// Kind is what the description of a process says that it is for.
const Kind = "takeover"

// Segment is the directory of the notes, under the root of the locks.
const Segment = "_taken_"

// Directory returns the path of the directory of the notes.
func Directory(root string) string { return strings.TrimSuffix(root, "/") + "/" + Segment }

// prefix begins the names of notes. ZooKeeper appends a number that grows, so that they are in the
// order in which they were left, whatever the clocks of their machines say.
const prefix = "note-"

// Most is how many notes are kept.
const Most = 64

const (
	mostNodes = 256 << 10 // bytes of paths in a Record: some 3,000 locks
	noteTime  = 5 * time.Second
)

// Leave leaves the note that the session, which had these nodes, is closed. It blocks for a few round
// trips, and for seconds at most. A session is left without a note if it had no node, or if no
// server said which: then no lock was taken over, as far as is known.
func (o Order) Leave(ctx context.Context, configure func(*zkio.Config) error, ended time.Time, after time.Duration, nodes []string) (err error) {
	r := Record{Process: o.Note.Process, Session: o.ID, Ended: ended.UTC().Truncate(time.Millisecond), After: after}
	if r.Nodes, r.More = fitting(o.Note.Root, nodes); len(r.Nodes) == 0 || o.Note.Root == "" {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	cfg, err := o.config(configure)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	client, err := zkio.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	defer context.AfterFunc(ctx, func() { _ = client.Close(ctx) })()
	return o.leave(client.Session(), text)
}

// leave creates the node, and deletes the oldest if there are too many.
func (o Order) leave(s *zkio.Session, text []byte) error {
	dir := Directory(o.Note.Root)
	note := zkio.CreateOp(dir+"/"+prefix, text, o.Note.ACL).Sequential()
	_, err := s.Multi(note)
	if errors.Is(err, zkio.ErrNoNode) {
		if err := s.Create(dir, nil, o.Note.ACL); err != nil && !errors.Is(err, zkio.ErrNodeExists) {
			return fmt.Errorf("it could not be left: %w", err)
		}
		_, err = s.Multi(note)
	}
	if err != nil {
		return fmt.Errorf("it could not be left: %w", err)
	}
	names, _, err := s.Children(dir)
	if err != nil {
		return fmt.Errorf("it is there, but older ones could not be listed: %w", err)
	}
	notes := Notes(names)
	for _, old := range notes[min(Most, len(notes)):] {
		if err := s.Delete(dir+"/"+old, -1); err != nil && !errors.Is(err, zkio.ErrNoNode) {
			return fmt.Errorf("it is there, but an older one stays: %w", err)
		}
	}
	return nil
}

// Notes returns which of the names in the directory are those of notes, the last first.
func Notes(names []string) []string {
	notes := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, prefix) })
	slices.Sort(notes)
	slices.Reverse(notes)
	return notes
}

// fitting returns as many of the nodes below root as a Record takes, in order, and how many more there
// are. What is elsewhere concerns no lock.
func fitting(root string, nodes []string) (fit []string, more int) {
	below := strings.TrimSuffix(root, "/") + "/"
	size := 0
	for _, node := range slices.Sorted(slices.Values(nodes)) {
		switch {
		case !strings.HasPrefix(node, below):
		case size+len(node) > mostNodes:
			more++
		default:
			size += len(node)
			fit = append(fit, node)
		}
	}
	return fit, more
}

// HadNode reports whether the session had the node at path.
func (r *Record) HadNode(path string) bool {
	_, found := slices.BinarySearch(r.Nodes, path)
	return found
}

// HadNodeIn reports whether the session had a node in the directory.
func (r *Record) HadNodeIn(dir string) bool {
	dir += "/"
	i, _ := slices.BinarySearch(r.Nodes, dir)
	for _, node := range r.Nodes[i:] {
		name, below := strings.CutPrefix(node, dir)
		if !below {
			return false
		}
		if !strings.Contains(name, "/") {
			return true
		}
	}
	return false
}

// Read reads the notes called names, of those below root, in that order. It leaves out what is gone, and
// what is no note.
func Read(s *zkio.Session, root string, names []string) ([]Record, error) {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = Directory(root) + "/" + name
	}
	var found []Record
	for i, read := range s.GetAll(paths...) {
		var r Record
		switch {
		case errors.Is(read.Err, zkio.ErrNoNode), errors.Is(read.Err, zkio.ErrNoAuth):
		case read.Err != nil:
			return nil, read.Err
		case json.Unmarshal(read.Data, &r) == nil && r.Session != 0:
			r.Name = names[i]
			found = append(found, r)
		}
	}
	return found, nil
}

// guarded is set once: another process closes the sessions of this one when it has ended.
var guarded atomic.Bool

// SetGuarded says that another process closes the sessions of this one when it has ended, although
// it has no Sentinel. It is called before the first session begins.
func SetGuarded() { guarded.Store(true) }

// Guarded reports whether SetGuarded was called.
func Guarded() bool { return guarded.Load() }
