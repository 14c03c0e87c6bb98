// SPDX-License-Identifier: Apache-2.0

package chronicle

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// A deposal is a time in which a server may take itself for the leader, and is not.
type deposal struct {
	server   int
	from, to int64 // to is 0 while it goes on
}

// afterDeposal is how long after the end of a fault a server may do so.
const afterDeposal = 5 * time.Second

// noteDeposal notes that a fault hits a server.
func (c *Chronicle) noteDeposal(e history.Event) {
	rest, ok := strings.CutPrefix(e.Target, "server ")
	if !ok {
		return
	}
	number, _, _ := strings.Cut(rest, " ")
	server, err := strconv.Atoi(number)
	if err != nil {
		return
	}
	if e.Kind == history.FaultBegan {
		c.deposals = append(c.deposals, deposal{server: server, from: e.At})
		return
	}
	for i := range c.deposals {
		if d := &c.deposals[i]; d.server == server && d.to == 0 {
			d.to = e.At + afterDeposal.Nanoseconds()
		}
	}
	// Logs are read at once: those of an hour ago have been.
	if len(c.deposals) > 1000 {
		c.deposals = c.deposals[len(c.deposals)-500:]
	}
}

// deposed reports whether a server may have taken itself for the leader at that time.
func (c *Chronicle) deposed(server int, at int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.deposals {
		if d.server == server && d.from <= at && (d.to == 0 || at <= d.to) {
			return true
		}
	}
	return false
}
