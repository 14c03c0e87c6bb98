// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
)

// data is what the page's script draws the timeline from. Times are microseconds since
// the workers began. What is long is packed: see packed.
type data struct {
	From      int64         `json:"from"`
	Until     int64         `json:"until"`
	Wall      int64         `json:"wall"` // milliseconds since 1970, when the workers began; 0: not known
	Timeout   int64         `json:"timeout"`
	Processes []int         `json:"processes"` // their numbers
	Workers   int           `json:"workers"`   // of each process
	Locks     []string      `json:"locks"`
	LaneOf    []int         `json:"laneOf"` // of each lock
	Lanes     []string      `json:"lanes"`
	Servers   []string      `json:"servers"`
	Texts     []string      `json:"texts"`
	Faults    []faultData   `json:"faults"`
	Findings  []findingData `json:"findings"`
	Losses    []lossData    `json:"losses"`
	Lives     []lifeData    `json:"lives"`
	Outages   [][4]int64    `json:"outages"` // process, from, until, 1 if the session ended
	Points    [][6]int64    `json:"points"`  // when, pointKind, process, worker, lock or -1, text
	Gone      [][2]int64    `json:"gone"`    // times of which there are totals only
	Spans     packed        `json:"spans"`
	Cells     packed        `json:"cells"`
	CellRows  [][2]int      `json:"cellRows"` // process, lane
	CellCount int           `json:"cellCount"`
	CellWidth int64         `json:"cellWidth"`
}

type faultData struct {
	Number int      `json:"n"`
	Fault  int      `json:"told"` // the number in the history
	Kind   string   `json:"kind"`
	Target string   `json:"target"`
	From   int64    `json:"from"`
	Until  int64    `json:"until"`
	Lost   []string `json:"lost"`
}

type findingData struct {
	At     int64  `json:"at"`
	Check  string `json:"check"`
	Lock   int    `json:"lock"` // -1: none
	Text   string `json:"text"`
	Faults []int  `json:"faults"`
}

type lossData struct {
	At      int64  `json:"at"`
	Process int    `json:"p"`
	Workers []int  `json:"w"`
	Lock    int    `json:"lock"`
	Token   string `json:"token"`
	Text    string `json:"text"`
}

type lifeData struct {
	Process     int    `json:"p"`
	Incarnation int    `json:"inc"`
	From        int64  `json:"from"`
	Until       int64  `json:"until"`
	Open        bool   `json:"open"` // when the history ended
	Text        string `json:"text"`
}

// packed is columns of numbers: N of the first, then N of the second, and so on, each as
// encoding/binary's Uvarint or Varint, compressed by gzip, in base64.
type packed struct {
	N    int    `json:"n"`
	Data string `json:"data"`
}

func pack(n int, columns []byte) (packed, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(columns); err != nil {
		return packed{}, err
	}
	if err := z.Close(); err != nil {
		return packed{}, err
	}
	return packed{n, base64.StdEncoding.EncodeToString(b.Bytes())}, nil
}

// Limits in bytes: of the page, and of its parts. The acquisitions get what the others
// leave.
const (
	mostBytes     = 9_500_000
	mostSpanBytes = 5_000_000
	mostCellBytes = 1_500_000
	mostLostBytes = 500_000 // of what the faults cost, in the data and again in the table
)

// micro converts a time of the history.
func (c *collector) micro(at int64) int64 { return (at - c.begin()) / int64(time.Microsecond) }

func (c *collector) begin() int64 { return cmp.Or(c.header.Begin, c.first) }

// pack returns what the script needs of the collected history, but for the acquisitions.
func (c *collector) pack() (d data, err error) {
	d = data{
		From: c.micro(c.first), Until: c.micro(c.end), Timeout: c.header.SessionTimeout / 1000,
		Processes: c.processes, Workers: c.workers, LaneOf: c.laneOf, Texts: c.texts.all,
		Faults: []faultData{}, Findings: []findingData{}, Losses: []lossData{}, Lives: []lifeData{},
		Outages: [][4]int64{}, Points: [][6]int64{}, Gone: [][2]int64{}, CellRows: [][2]int{},
		Locks: cleaned(c.locks), Lanes: cleaned(c.lanes), Servers: cleaned(c.header.Servers),
	}
	if wall, err := time.Parse(time.RFC3339, c.header.BeginWall); err == nil {
		d.Wall = wall.UnixMilli()
	}
	room := mostLostBytes
	for _, i := range c.faults(mostFaults) {
		h := c.hits[i]
		d.Faults = append(d.Faults, faultData{
			i + 1, h.Fault, clean(h.Kind, longName), clean(h.Target, longName),
			c.micro(h.Began), c.micro(c.endOf(h)), lostTexts(h, &room),
		})
	}
	for _, f := range c.verdict.Findings {
		lock := -1
		if f.Lock != "" {
			lock = c.lock(f.Lock)
		}
		faults := []int{}
		for _, n := range f.Faults {
			if i, ok := c.faultAt[n]; ok {
				faults = append(faults, i+1)
			}
		}
		d.Findings = append(d.Findings, findingData{c.micro(f.At), clean(f.Check, longName), lock, clean(f.Text, longText), faults})
	}
	for _, l := range c.losses.items {
		d.Losses = append(d.Losses, lossData{c.micro(l.at), l.process, slices.Compact(slices.Sorted(slices.Values(l.workers))), l.lock, tokenText(l.token, l.turn), l.text})
	}
	for _, l := range c.lives.items {
		d.Lives = append(d.Lives, lifeData{l.process, l.incarnation, c.micro(l.from), c.micro(l.until), l.until == c.end && l.text == "", l.text})
	}
	for _, o := range c.outages.items {
		ended := int64(0)
		if o.ended {
			ended = 1
		}
		d.Outages = append(d.Outages, [4]int64{int64(o.process), c.micro(o.from), c.micro(o.until), ended})
	}
	for _, all := range c.points {
		for _, p := range all.items {
			d.Points = append(d.Points, [6]int64{c.micro(p.at), int64(p.kind), int64(p.process), int64(p.worker), int64(p.lock), int64(p.text)})
		}
	}
	err = c.packCells(&d)
	return d, err
}

// packSpans packs the acquisitions into at most so many bytes.
func (c *collector) packSpans(d *data, most int) (err error) {
	for budget := mostAcquisitions; ; {
		c.thin(budget)
		d.Spans, err = pack(len(c.closed), c.columns())
		size := len(d.Spans.Data)
		if err != nil || size <= most || len(c.closed) == 0 {
			break
		}
		budget = int(float64(min(budget, len(c.closed))) * 0.9 * float64(most) / float64(size))
	}
	d.Gone = [][2]int64{}
	for _, g := range c.thinner.gone {
		d.Gone = append(d.Gone, [2]int64{c.micro(g.from), c.micro(min(g.until, c.end))})
	}
	return err
}

// columns returns the acquisitions, in the order of their requests.
func (c *collector) columns() []byte {
	slices.SortStableFunc(c.closed, func(a, b acquisition) int {
		return cmp.Or(cmp.Compare(a.requested, b.requested), cmp.Compare(a.process, b.process), cmp.Compare(a.worker, b.worker))
	})
	var b []byte
	last := c.micro(c.first)
	for i := range c.closed {
		at := c.micro(c.closed[i].requested)
		b = binary.AppendUvarint(b, uint64(at-last))
		last = at
	}
	length := func(from, until int64) uint64 { return uint64(max(c.micro(until)-c.micro(from), 0)) }
	each := func(value func(*acquisition) uint64) {
		for i := range c.closed {
			b = binary.AppendUvarint(b, value(&c.closed[i]))
		}
	}
	each(func(a *acquisition) uint64 { return length(a.requested, a.granted) })
	each(func(a *acquisition) uint64 { return length(a.granted, a.ended) })
	each(func(a *acquisition) uint64 { return length(a.ended, a.settled) })
	each(func(a *acquisition) uint64 { return uint64(a.process*c.workers + a.worker) })
	each(func(a *acquisition) uint64 { return uint64(a.lock) })
	each(func(a *acquisition) uint64 { return uint64(int(a.outcome) + 8*(int(a.mode)+8*int(a.last))) })
	each(func(a *acquisition) uint64 { return uint64(a.text) })
	// Tokens and turns of a lock rise slowly. A difference of unsigned numbers wraps round,
	// and so does the sum of it in the script.
	rising := func(value func(*acquisition) uint64) {
		last := make([]uint64, len(c.locks))
		for i := range c.closed {
			a := &c.closed[i]
			b = binary.AppendVarint(b, int64(value(a)-last[a.lock]))
			last[a.lock] = value(a)
		}
	}
	rising(func(a *acquisition) uint64 { return a.token })
	rising(func(a *acquisition) uint64 { return a.turn })
	return b
}

// packCells packs what the meters have measured: for each row the share of each cell in
// which the lock was held, in 255ths; the mean number of waiters, in tenths; the grants.
func (c *collector) packCells(d *data) (err error) {
	rows := slices.SortedFunc(maps.Keys(c.meters.all), func(a, b row) int {
		return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.lane, b.lane))
	})
	for _, r := range rows {
		d.CellRows = append(d.CellRows, [2]int{r.process, r.lane})
	}
	for {
		width, n := c.meters.width, 0
		for _, m := range c.meters.all {
			n = max(n, len(m.cells))
		}
		var b []byte
		each := func(value func(cell) int64) {
			for _, r := range rows {
				cells := c.meters.all[r].cells
				for i := range n {
					v := int64(0)
					if i < len(cells) {
						v = value(cells[i])
					}
					b = binary.AppendUvarint(b, uint64(v))
				}
			}
		}
		each(func(l cell) int64 { return min((255*l.held+width-1)/width, 255) })
		each(func(l cell) int64 { return (10*l.waited + width - 1) / width })
		each(func(l cell) int64 { return int64(l.grants) })
		d.CellCount, d.CellWidth = n, width/int64(time.Microsecond)
		if d.Cells, err = pack(n*len(rows), b); err != nil || len(d.Cells.Data) <= mostCellBytes || n < 2 {
			return err
		}
		c.meters.widen()
	}
}

// tokenText returns a grant's fencing token.
func tokenText(token, turn uint64) string {
	if turn == 0 {
		return fmt.Sprint(token)
	}
	return fmt.Sprintf("%d/%d", token, turn)
}
