// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"cmp"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
)

// A report is what the handler answers, as JSON or as the page. The package
// documentation describes its fields.
type report struct {
	Time     time.Time     `json:"time"`
	Process  process       `json:"process"`
	Manager  *managerState `json:"manager,omitempty"`
	Totals   totals        `json:"totals"`
	Matching int           `json:"matching"`
	Page     int           `json:"page"`
	Pages    int           `json:"pages"`
	Locks    []lock        `json:"locks"`
	History  []record      `json:"history"`
	Troubles []record      `json:"troubles"`
}

type process struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

func thisProcess() process {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return process{Host: host, PID: os.Getpid(), Program: filepath.Base(os.Args[0])}
}

type managerState struct {
	Session   string            `json:"session,omitempty"`
	Connected bool              `json:"connected"`
	Outage    string            `json:"outage,omitempty"`
	Sentinel  string            `json:"sentinel_error,omitempty"`
	Timeout   seconds           `json:"timeout_seconds"`
	Lease     seconds           `json:"lease_seconds"`
	Locks     int               `json:"locks"`
	Sessions  uint64            `json:"sessions"`
	Reconnect uint64            `json:"reconnects"`
	Pauses    uint64            `json:"pauses"`
	Paused    seconds           `json:"paused_seconds"`
	Requests  map[string]uint64 `json:"requests"`
	Answers   uint64            `json:"answers"`
	Watches   uint64            `json:"watch_events"`
	Queued    int               `json:"queued"`
	Busy      int               `json:"busy"`
	Workers   int               `json:"workers"`
	Grants    uint64            `json:"grants"`
	Losses    uint64            `json:"losses"`
	Failures  uint64            `json:"failures"`
	Dropped   uint64            `json:"dropped_events"`
}

func stateOf(s *manager.ManagerStats) *managerState {
	m := &managerState{
		Session:   sessionText(s.Session),
		Connected: s.Connected,
		Timeout:   seconds(s.Timeout),
		Lease:     seconds(s.Lease),
		Locks:     s.Locks,
		Sessions:  s.Sessions,
		Reconnect: s.Reconnects,
		Pauses:    s.Pauses,
		Paused:    seconds(s.Paused),
		Requests:  s.Requests,
		Answers:   s.Answers,
		Watches:   s.WatchEvents,
		Queued:    s.Queued,
		Busy:      s.Busy,
		Workers:   s.Workers,
		Grants:    s.Grants,
		Losses:    s.Losses,
		Failures:  s.Failures,
		Dropped:   s.DroppedEvents,
	}
	if s.Outage != nil {
		m.Outage = s.Outage.Error()
	}
	if s.SentinelErr != nil {
		m.Sentinel = s.SentinelErr.Error()
	}
	return m
}

// totals count locks that are not free, whatever the query selects.
type totals struct {
	Waiting   int `json:"waiting"`
	Held      int `json:"held"`
	Releasing int `json:"releasing"`
	Stuck     int `json:"stuck"`
	Holders   int `json:"holders"` // callers
	Waiters   int `json:"waiters"` // callers
}

type lock struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Kind  string `json:"kind"`
	Phase string `json:"phase"`

	Holders int       `json:"holders"`
	Waiters int       `json:"waiters"`
	Stuck   bool      `json:"stuck"`
	Since   time.Time `json:"since,omitzero"`
	Age     seconds   `json:"age_seconds"`
	Node    string    `json:"node,omitempty"`
	Token   uint64    `json:"token,omitempty"`
	Lease   seconds   `json:"lease_seconds"`

	Position   int         `json:"position"`
	Ahead      *contender  `json:"ahead,omitempty"`
	Holder     *contender  `json:"holder,omitempty"`
	Contended  bool        `json:"contended"`
	Yielding   bool        `json:"yielding"`
	Revocation *revocation `json:"revocation,omitempty"`
	TakenOver  *takeover   `json:"taken_over,omitempty"`
	LastLoss   *loss       `json:"last_loss,omitempty"`

	Rounds      uint64 `json:"rounds"`
	Grants      uint64 `json:"grants"`
	Joins       uint64 `json:"joins"`
	Entries     uint64 `json:"entries"`
	LostRaces   uint64 `json:"lost_races"`
	LongestRace uint64 `json:"longest_race"`
	Foreign     int    `json:"foreign"`
}

type takeover struct {
	From  *contender `json:"from,omitempty"`
	Ended time.Time  `json:"ended"`
	After seconds    `json:"after_seconds"`
}

type contender struct {
	Path       string    `json:"path,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Label      string    `json:"label,omitempty"`
	Host       string    `json:"host,omitempty"`
	PID        int       `json:"pid,omitempty"`
	Endpoint   string    `json:"endpoint,omitempty"`
	Identity   string    `json:"identity,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	Session    string    `json:"session,omitempty"`
	Own        bool      `json:"own"`
	Persistent bool      `json:"persistent"`

	short, long string // for a person
}

type revocation struct {
	From   *contender `json:"from,omitempty"`
	Reason string     `json:"reason,omitempty"`
	Until  time.Time  `json:"until,omitzero"`
}

type loss struct {
	Time    time.Time `json:"time"`
	Held    seconds   `json:"held_seconds"`
	Error   string    `json:"error"`
	Session string    `json:"session,omitempty"`
	Node    string    `json:"node,omitempty"`
	Token   uint64    `json:"token,omitempty"`
}

// A snapshot is a lock together with what it is sorted by.
type snapshot struct {
	manager.LockInfo
	age   time.Duration
	stuck time.Duration // for how long others have waited, or this process has; 0: not at all
}

func snapshotOf(l manager.LockInfo, now time.Time) *snapshot {
	s := &snapshot{LockInfo: l}
	if !l.Since.IsZero() {
		s.age = max(now.Sub(l.Since), 0)
	}
	if l.Stats.Phase == state.Fetching || l.Contended || l.Revocation != nil {
		s.stuck = s.age
	}
	return s
}

// choose counts the locks, and takes those that q asks for.
func (r *report) choose(locks iter.Seq[manager.LockInfo], q query) {
	patience := time.Duration(r.Manager.Timeout)
	if patience == 0 {
		patience = 10 * time.Second
	}
	text := strings.ToLower(q.text)
	var chosen []*snapshot
	for info := range locks {
		s := snapshotOf(info, r.Time)
		stuck := s.stuck > patience
		r.Totals.add(s, stuck)
		if q.shows(s, stuck) && matches(s, text) {
			chosen = append(chosen, s)
		}
	}
	slices.SortFunc(chosen, q.compare)

	r.Matching = len(chosen)
	limit := q.limit
	if limit == 0 {
		limit = max(len(chosen), 1)
	}
	r.Pages = max((len(chosen)+limit-1)/limit, 1)
	r.Page = min(q.page, r.Pages)
	first := (r.Page - 1) * limit
	for _, s := range chosen[first:min(first+limit, len(chosen))] {
		r.Locks = append(r.Locks, lockOf(s, s.stuck > patience))
	}
}

func (t *totals) add(s *snapshot, stuck bool) {
	switch s.Stats.Phase {
	case state.Fetching:
		t.Waiting++
		t.Waiters += s.Stats.Holders
	case state.Retained:
		t.Held++
		t.Holders += s.Stats.Holders
	case state.Releasing:
		t.Releasing++
	}
	if stuck {
		t.Stuck++
	}
}

// shows reports whether q.show includes the lock.
func (q query) shows(s *snapshot, stuck bool) bool {
	switch q.show {
	case "waiting":
		return s.Stats.Phase == state.Fetching
	case "held":
		return s.Stats.Phase == state.Retained
	case "releasing":
		return s.Stats.Phase == state.Releasing
	case "stuck":
		return stuck
	case "free":
		return phaseText(s.Stats.Phase) == "free"
	}
	return phaseText(s.Stats.Phase) != "free"
}

// matches reports whether the lower-case text is in the lock's name or path, or in what
// is known of the other processes.
func matches(s *snapshot, text string) bool {
	contains := func(in string) bool { return strings.Contains(strings.ToLower(in), text) }
	said := func(c *manager.Contender) bool {
		return c != nil && (contains(c.Label) || contains(c.Host) || contains(c.Endpoint) || contains(c.Identity))
	}
	return text == "" || contains(s.Name) || contains(s.Path) || said(s.Holder) || said(s.Ahead) ||
		s.Revocation != nil && said(&s.Revocation.From)
}

// compare orders two locks as q.order says. Those that are equal in that come oldest
// first, and then by name.
func (q query) compare(a, b *snapshot) int {
	first := 0
	switch q.order {
	case "stuck":
		first = cmp.Compare(b.stuck, a.stuck)
	case "holders":
		first = cmp.Compare(b.Stats.Holders, a.Stats.Holders)
	case "lease":
		first = compareLeases(a, b)
	case "name":
		first = cmp.Compare(a.Name, b.Name)
	}
	return cmp.Or(first, cmp.Compare(b.age, a.age), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
}

// compareLeases puts the held lock first whose lease ends first, and locks that are not
// held last.
func compareLeases(a, b *snapshot) int {
	aHeld, bHeld := a.Stats.Phase == state.Retained, b.Stats.Phase == state.Retained
	switch {
	case aHeld && bHeld:
		return cmp.Compare(a.Lease, b.Lease)
	case aHeld:
		return -1
	case bHeld:
		return 1
	}
	return 0
}

func lockOf(s *snapshot, stuck bool) lock {
	l := lock{
		Name:  s.Name,
		Path:  s.Path,
		Kind:  s.Kind.String(),
		Phase: phaseText(s.Stats.Phase),

		Stuck: stuck,
		Since: s.Since,
		Age:   seconds(s.age),
		Node:  s.Node,
		Token: s.Token,
		Lease: seconds(s.Lease),

		Position:  s.Position,
		Ahead:     contenderOf(s.Ahead),
		Holder:    contenderOf(s.Holder),
		Contended: s.Contended,
		Yielding:  s.Yielding,

		Rounds:      s.Stats.Rounds,
		Grants:      s.Stats.Grants,
		Joins:       s.Stats.Joins,
		Entries:     s.Stats.Entries,
		LostRaces:   s.Stats.LostRaces,
		LongestRace: s.Stats.LongestRace,
		Foreign:     s.Stats.Foreign,
	}
	switch s.Stats.Phase {
	case state.Fetching:
		l.Waiters = s.Stats.Holders
	case state.Retained:
		l.Holders = s.Stats.Holders
	}
	if r := s.Revocation; r != nil {
		l.Revocation = &revocation{From: contenderOf(&r.From), Reason: cut(r.Reason), Until: r.Until}
	}
	if by := s.TakenOver; by != nil {
		l.TakenOver = &takeover{From: contenderOf(&by.From), Ended: by.Ended, After: seconds(by.After)}
	}
	if last := s.LastLoss; last != nil {
		l.LastLoss = &loss{
			Time: last.Time, Held: seconds(last.Held), Error: cut(last.Err.Error()),
			Session: sessionText(last.Session), Node: last.Node, Token: last.Token,
		}
	}
	return l
}

func contenderOf(c *manager.Contender) *contender {
	if c == nil || *c == (manager.Contender{}) {
		return nil
	}
	brief := *c
	brief.Endpoint, brief.Since, brief.Persistent = "", time.Time{}, false
	return &contender{
		short: brief.String(), long: c.String(),

		Path:       c.Path,
		Kind:       c.Kind.String(),
		Label:      c.Label,
		Host:       c.Host,
		PID:        c.PID,
		Endpoint:   c.Endpoint,
		Identity:   c.Identity,
		Since:      c.Since,
		Session:    sessionText(c.Session),
		Own:        c.Own,
		Persistent: c.Persistent,
	}
}

// Short and Long describe the contender for a person, in a few words or by all that is
// known.
func (c *contender) Short() string { return c.short }
func (c *contender) Long() string  { return c.long }

// phaseText returns a phase as the page and JSON call it.
func phaseText(p state.Phase) string {
	switch p {
	case state.Fetching:
		return "waiting"
	case state.Retained:
		return "held"
	case state.Releasing:
		return "releasing"
	}
	return "free" // one that is released can be asked for at once
}

// sessionText returns the id of a session as ZooKeeper's log has it, or "".
func sessionText(id int64) string {
	if id == 0 {
		return ""
	}
	return "0x" + strconv.FormatUint(uint64(id), 16)
}

// seconds is a duration that is a number of seconds in JSON.
type seconds time.Duration

// MarshalJSON returns the duration in seconds, to the microsecond.
func (s seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(time.Duration(s).Microseconds())/1e6, 'f', -1, 64), nil
}

// maxText is how much is kept of a text that other processes have written, in bytes.
const maxText = 512

// cut returns the beginning of a text.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}
