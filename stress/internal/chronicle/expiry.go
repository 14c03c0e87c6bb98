// SPDX-License-Identifier: Apache-2.0

package chronicle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/cluster"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/journal"
)

// An Obituary reads from the servers which sessions they have ended because nothing was
// heard of them, and writes that into the history. A holder must have been told before. The
// parent's goroutine alone uses it. A nil obituary does nothing.
type Obituary struct {
	cluster   *cluster.Cluster
	chronicle *Chronicle
	logs      []*serverLog
	embedded  int // expired sessions of the embedded server that have been written
}

// A serverLog is the log of a server of the ensemble.
type serverLog struct {
	id     int
	path   string
	offset int64
}

// NewObituary returns one for the sessions of c, which writes into ch.
func NewObituary(c *cluster.Cluster, ch *Chronicle) *Obituary {
	if ch == nil {
		return nil
	}
	o := &Obituary{cluster: c, chronicle: ch}
	if c.Ensemble != nil {
		for _, p := range c.Ensemble.Members() {
			o.logs = append(o.logs, &serverLog{id: p.ID(), path: p.LogFile()})
		}
	}
	return o
}

// Look writes what is new.
func (o *Obituary) Look() error {
	if o == nil {
		return nil
	}
	anchor := history.TakeAnchor()
	if o.cluster.Embedded != nil {
		expired := o.cluster.Embedded.Expired()
		for _, e := range expired[o.embedded:] {
			if !e.Forced {
				o.write(journal.SessionName(e.Session), anchor.At(e.At), "")
			}
		}
		o.embedded = len(expired)
	}
	for _, l := range o.logs {
		err := l.read(func(session string, at time.Time) {
			mono, by := anchor.At(at), ""
			// A leader that is cut off from the others, or was stopped, ends sessions that
			// live on under the next leader.
			if o.chronicle.deposed(l.id, mono) {
				by = history.Deposed
			}
			o.write(session, mono, by)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *Obituary) write(session string, at int64, by string) {
	o.chronicle.Write(history.Event{At: at, Kind: history.Expired, Process: history.Harness, Session: session, Text: by})
}

// expiring matches the line of a leader that ends a session.
var expiring = regexp.MustCompile(`^(\d\d:\d\d:\d\d\.\d\d\d) .*Expiring session (0x[0-9a-f]+), timeout of`)

// read calls found for each session that the server has ended since the last call.
func (l *serverLog) read(found func(session string, at time.Time)) error {
	f, err := os.Open(l.path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	defer f.Close()
	if _, err := f.Seek(l.offset, io.SeekStart); err != nil {
		return err
	}
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil // the rest of the line comes later
		}
		l.offset += int64(len(line))
		if m := expiring.FindStringSubmatch(line); m != nil {
			found(m[2], timeOfDay(m[1], time.Now()))
		}
	}
}

// timeOfDay returns the time before now at which a log says that it was that time of day.
func timeOfDay(text string, now time.Time) time.Time {
	at, err := time.ParseInLocation("15:04:05.000", text, now.Location())
	if err != nil {
		return now // the expression admits only such texts
	}
	y, m, d := now.Date()
	at = time.Date(y, m, d, at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), now.Location())
	if at.After(now.Add(time.Hour)) {
		at = at.AddDate(0, 0, -1)
	}
	return at
}

// A deposal is a time in which a server may take itself for the leader, and is not.
type deposal struct {
	server   int
	from, to int64 // to is 0 while it goes on
}

// afterDeposal is how long after the end of a fault a server may do so.
const afterDeposal = 5 * time.Second

// noteDeposal notes that a fault hits a server.
func (c *Chronicle) noteDeposal(e history.Event) {
	var server int
	if n, _ := fmt.Sscanf(e.Target, "server %d", &server); n != 1 {
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
	return slices.ContainsFunc(c.deposals, func(d deposal) bool {
		return d.server == server && d.from <= at && (d.to == 0 || at <= d.to)
	})
}
