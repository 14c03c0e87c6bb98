// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A State says what became of a planned time. Later versions may have further states; a planned time
// in one of those counts as run.
type State string

// The states.
const (
	StateNew   State = "new"   // the schedule begins after this time: nothing has run yet
	StateBegun State = "begun" // a process runs the job, or was interrupted
	StateDone  State = "done"  // the job has returned
)

// A Record is what ZooKeeper says of the newest planned time that was run.
type Record struct {
	Planned time.Time `json:"planned"` // in UTC
	State   State     `json:"state"`
	Token   uint64    `json:"token,omitempty"`   // of the run, as in [Tick]
	Attempt int       `json:"attempt,omitempty"` // the same
	ID      string    `json:"id,omitempty"`      // Options.ID of the process that has written the record
}

// ErrBadRecord says that the record's node has something else in it. The text has the path of the
// node. No process runs the job until the node is mended or deleted: see "When the record is
// damaged" in the package documentation.
var ErrBadRecord = errors.New("the record cannot be read")

func parseRecord(path string, data []byte) (Record, error) {
	var r Record
	err := json.Unmarshal(data, &r)
	switch {
	case err != nil:
	case r.Planned.IsZero():
		err = errors.New("it has no planned time")
	case r.State == "":
		err = errors.New("it has no state")
	default:
		r.Planned = r.Planned.UTC()
		return r, nil
	}
	return Record{}, fmt.Errorf("%w: %s says %.100q: %w; mend it, or delete it to have the schedule begin anew", ErrBadRecord, path, data, err)
}

// sameRun reports whether both say the same of the same run.
func (r Record) sameRun(o Record) bool {
	return r.Planned.Equal(o.Planned) && r.State == o.State && r.Token == o.Token && r.Attempt == o.Attempt
}

func (r Record) text() ([]byte, error) { return json.Marshal(r) }
