// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// A presence is the part of a lock's file in which the processes say that they are inside, so
// that a referee whose flock is refused can name those that may have been the reason. A
// process says so before it takes an flock, and takes it back after it has released the
// flock: so each that has an flock is named. One that was killed may be, too.
//
// Each process has a record for its writers and one for its readers, of fixed lengths. Only
// it writes them, so that there is no need of a lock.
type presence struct {
	file    *os.File
	begin   int64 // in the file
	process int
}

// A Party is a process that is inside, as its record says.
type Party struct {
	Process int    `json:"process"`
	PID     int    `json:"pid"`
	Mode    string `json:"mode"`  // exclusive, read, upgradable, write or upgraded
	Token   uint64 `json:"token"` // of its latest entry
	Turn    uint64 `json:"turn,omitempty"`
}

// Upgraded is the mode of a writer with the token of its upgradable read.
const Upgraded = "upgraded"

const presenceFormat = "pid %10d %-10s token %20d turn %20d\n"

var presenceLength = len(fmt.Sprintf(presenceFormat, 0, "", 0, 0))

// reset says that no worker of the process is inside. One of that number may have been killed.
func (p *presence) reset() error { return errors.Join(p.leave(true), p.leave(false)) }

// place returns where the record of a process is.
func (p *presence) place(process int, reads bool) int64 {
	return p.begin + int64((2*process+number(reads))*presenceLength)
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// enter says that the process is inside.
func (p *presence) enter(reads bool, in Party) error {
	_, err := p.file.WriteAt(fmt.Appendf(nil, presenceFormat, in.PID, in.Mode, in.Token, in.Turn), p.place(p.process, reads))
	return err
}

// leave takes that back.
func (p *presence) leave(reads bool) error {
	_, err := p.file.WriteAt(make([]byte, presenceLength), p.place(p.process, reads))
	return err
}

// read returns all records as they are now, for others.
func (p *presence) read() ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(p.file, p.begin, 1<<62))
}

// others adds to all the other processes that are inside according to the records, but not
// the readers among them if the one that asks reads, too.
func (p *presence) others(all []Party, records []byte, reads bool) []Party {
	for i := 0; len(records) >= presenceLength; i++ {
		record := string(records[:presenceLength])
		records = records[presenceLength:]
		in := Party{Process: i / 2}
		if in.Process == p.process || reads && i%2 == number(true) || record[0] == 0 {
			continue
		}
		if _, err := fmt.Sscanf(record, "pid %d %s token %d turn %d\n", &in.PID, &in.Mode, &in.Token, &in.Turn); err != nil {
			continue // it is being written
		}
		if !contains(all, in) {
			all = append(all, in)
		}
	}
	return all
}

func contains(all []Party, in Party) bool {
	for _, p := range all {
		if p.PID == in.PID && p.Mode == in.Mode {
			return true
		}
	}
	return false
}

// parties lists processes in a text.
func parties(all []Party) string {
	texts := make([]string, 0, len(all))
	for _, p := range all {
		texts = append(texts, fmt.Sprintf("pid %d (%s, %s)", p.PID, p.Mode, fence(p.Token, p.Turn)))
	}
	return strings.Join(texts, ", ")
}
