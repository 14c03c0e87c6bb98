// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

// A record is the data of a double barrier's node "round". It is changed by its version only,
// together with what depends on it.
type record struct {
	Size     int       `json:"size"`               // how many members a round has
	Round    uint64    `json:"round"`              // the number of the last round that has begun; 0: none has
	Members  []member  `json:"members,omitempty"`  // those of that round, until it was ended
	Outcomes []outcome `json:"outcomes,omitempty"` // of rounds that were ended, the last one last
}

// A member is a process in a round.
type member struct {
	Name string `json:"name"` // unique
	ID   string `json:"id"`   // for people
}

// An outcome is how a round ended.
type outcome struct {
	Round uint64   `json:"round"`
	Died  []member `json:"died,omitempty"`
}

const (
	keptOutcomes = 16   // how many outcomes a record keeps
	keptDied     = 1000 // of how many members that have died, so that it stays small
)

// begin returns the record once its round has ended like this, if one was under way, and one
// of these members has begun.
func (r record) begin(ended outcome, members []member) record {
	r = r.end(ended)
	r.Round++
	r.Members = members
	return r
}

// end returns the record once its round has ended like this.
func (r record) end(ended outcome) record {
	if len(r.Members) == 0 {
		return r
	}
	r.Members = nil
	r.Outcomes = append(slices.Clone(r.Outcomes), ended)
	for len(r.Outcomes) > keptOutcomes || len(r.Outcomes) > 1 && deaths(r.Outcomes) > keptDied {
		r.Outcomes = r.Outcomes[1:]
	}
	return r
}

func deaths(all []outcome) (n int) {
	for _, o := range all {
		n += len(o.Died)
	}
	return n
}

// has reports whether the process with this name is a member of the round under way.
func (r record) has(name string) bool { return contains(r.Members, name) }

func contains(members []member, name string) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.Name == name })
}

// outcomeOf returns how a round ended, if that is recorded.
func (r record) outcomeOf(round uint64) (outcome, bool) {
	for _, o := range r.Outcomes {
		if o.Round == round {
			return o, true
		}
	}
	return outcome{}, false
}

func (r record) encode() []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic("barrier: a record cannot be encoded: " + err.Error())
	}
	return data
}

// decode takes a record apart. Its error is a verdict.
func decode(path string, data []byte) (r record, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, access.Verdict(fmt.Errorf("%s is not the record of a barrier, and has to be deleted: %w", path, err))
	}
	return r, nil
}

// What the names of a barrier's nodes begin with.
const (
	inPrefix   = "in-"
	leftPrefix = "left-"
)

// A view is what a double barrier's nodes looked like at one moment.
type view struct {
	rec     record
	version int32
	inside  []string // members of the round that are inside, sorted
	waiting []string // processes that wait to enter, sorted
	left    []string // processes that have left, sorted
}

func newView(rec record, stat zkio.Stat, names []string) view {
	v := view{rec: rec, version: stat.Version}
	for _, name := range names {
		if in, ok := strings.CutPrefix(name, inPrefix); ok && rec.has(in) {
			v.inside = append(v.inside, in)
		} else if ok {
			v.waiting = append(v.waiting, in)
		} else if left, ok := strings.CutPrefix(name, leftPrefix); ok {
			v.left = append(v.left, left)
		}
	}
	slices.Sort(v.inside)
	slices.Sort(v.waiting)
	slices.Sort(v.left)
	return v
}

// outcome returns how the round ended of which no member is inside any more: who has not left
// has died.
func (v view) outcome() outcome {
	o := outcome{Round: v.rec.Round}
	for _, m := range v.rec.Members {
		if _, left := slices.BinarySearch(v.left, m.Name); !left {
			o.Died = append(o.Died, m)
		}
	}
	return o
}

// next returns the member inside that a process with this name watches: the next one by name,
// in a circle, so that each is watched by few.
func (v view) next(name string) string {
	i, _ := slices.BinarySearch(v.inside, name)
	return v.inside[i%len(v.inside)]
}

// among reports whether the process with this name has a node and has not left.
func (v view) among(name string) bool {
	_, inside := slices.BinarySearch(v.inside, name)
	_, waiting := slices.BinarySearch(v.waiting, name)
	return inside || waiting
}
