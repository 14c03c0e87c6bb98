// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
)

// A fake stands in for a Manager.
type fake struct {
	stats manager.ManagerStats
	locks []manager.LockInfo
}

func (f fake) Stats() manager.ManagerStats { return f.stats }

func (f fake) Locks(all bool) iter.Seq[manager.LockInfo] {
	return func(yield func(manager.LockInfo) bool) {
		for _, l := range f.locks {
			if (all || l.Stats.Phase != state.Free) && !yield(l) {
				return
			}
		}
	}
}

// connected is the state of a Manager in good order.
var connected = manager.ManagerStats{
	Locks: 5, Session: 0x1000042, Connected: true, Timeout: 10 * time.Second, Lease: 4 * time.Second,
	Sessions: 1, Requests: map[string]uint64{"multi": 7}, Answers: 7, Workers: 32,
}

// info returns a lock that has been in the phase for the given time.
func info(name string, phase state.Phase, age time.Duration, change ...func(*manager.LockInfo)) manager.LockInfo {
	l := manager.LockInfo{Name: name, Path: "/holdfast/" + name, Kind: manager.KindExclusive}
	l.Stats.Phase, l.Stats.Holders = phase, 1
	if phase != state.Free {
		l.Since = time.Now().Add(-age)
	}
	for _, c := range change {
		c(&l)
	}
	return l
}

func contended(l *manager.LockInfo) { l.Contended = true }

func revoked(l *manager.LockInfo) {
	l.Revocation = &manager.Revocation{From: manager.Contender{Label: "ops", Host: "db7", PID: 3}, Reason: "rolling restart"}
}

func behind(host string) func(*manager.LockInfo) {
	return func(l *manager.LockInfo) {
		c := &manager.Contender{Label: "billing", Host: host, PID: 4711, Path: "/holdfast/x/1"}
		l.Position, l.Ahead, l.Holder = 1, c, c
	}
}

// handler returns a Handler that shows the locks.
func handler(locks ...manager.LockInfo) *Handler {
	h := New()
	h.manage(fake{connected, locks})
	return h
}

// do sends a request to the handler.
func do(h http.Handler, method, query string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/debug/holdfast?"+query, nil))
	return w
}

// get returns the page.
func get(t *testing.T, h http.Handler, query string) string {
	t.Helper()
	w := do(h, http.MethodGet, query)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: status %d: %s", query, w.Code, w.Body)
	}
	return w.Body.String()
}

// getJSON returns the report.
func getJSON(t *testing.T, h http.Handler, query string) (r report) {
	t.Helper()
	text := get(t, h, "format=json&"+query)
	// A duration is a number of seconds there, and not one that Go reads.
	text = regexp.MustCompile(`("\w+_seconds": )[-\d.e]+`).ReplaceAllString(text, "${1}0")
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return r
}

func names(r report) (names []string) {
	for _, l := range r.Locks {
		names = append(names, l.Name)
	}
	return names
}

// Which locks a request selects, and in which order.
func TestQueries(t *testing.T) {
	h := handler(
		info("busy", state.Retained, time.Hour, func(l *manager.LockInfo) { l.Stats.Holders, l.Lease = 9, 4*time.Second }),
		info("stuck", state.Retained, time.Minute, contended, func(l *manager.LockInfo) { l.Lease = 3 * time.Second }),
		info("asked", state.Retained, 30*time.Second, revoked, func(l *manager.LockInfo) { l.Lease = 2 * time.Second }),
		info("patient", state.Fetching, 20*time.Second, behind("db7")),
		info("quick", state.Fetching, time.Second, behind("web1")),
		info("going", state.Releasing, 100*time.Millisecond),
		info("unused", state.Free, 0),
	)
	for _, tt := range []struct {
		query string
		want  string
	}{
		{"", "stuck asked patient quick busy going"},
		{"sort=age", "busy stuck asked patient quick going"},
		{"sort=holders", "busy stuck asked patient quick going"},
		{"sort=lease", "asked stuck busy patient quick going"},
		{"sort=name", "asked busy going patient quick stuck"},
		{"show=stuck", "stuck asked patient"},
		{"show=held&sort=name", "asked busy stuck"},
		{"show=waiting", "patient quick"},
		{"show=releasing", "going"},
		{"show=free", "unused"},
		{"q=STUCK", "stuck"},
		{"q=/holdfast/b", "busy"},
		{"q=db7", "asked patient"}, // by host: of the one that asks, and of the holder
		{"q=billing&sort=name", "patient quick"},
		{"q=nothing", ""},
		{"limit=2", "stuck asked"},
		{"limit=2&page=3", "busy going"},
		{"limit=2&page=99", "busy going"}, // the last one
		{"limit=4&page=2&sort=name", "quick stuck"},
	} {
		t.Run(tt.query, func(t *testing.T) {
			r := getJSON(t, h, tt.query)
			got := names(r)
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if want := (totals{Waiting: 2, Held: 3, Releasing: 1, Stuck: 3, Holders: 11, Waiters: 2}); r.Totals != want {
				t.Errorf("totals %+v, want %+v", r.Totals, want)
			}
			// The page shows the same locks in the same order.
			text := get(t, h, tt.query)
			for _, name := range strings.Fields(tt.want) {
				row := `title="` + name + `"`
				if strings.Count(text, row) != 1 {
					t.Errorf("the page has %d rows of %s, want one", strings.Count(text, row), name)
				}
			}
			if n := strings.Count(text, `<td class="lock">`); n != len(got) {
				t.Errorf("the page has %d rows, want %d", n, len(got))
			}
		})
	}
}

func TestBadRequests(t *testing.T) {
	h := handler()
	for _, tt := range []struct {
		method, query string
		status        int
		text          string
	}{
		{"GET", "", 200, "<!DOCTYPE html>"},
		{"HEAD", "", 200, ""},
		{"POST", "", 405, "only GET and HEAD"},
		{"DELETE", "", 405, "only GET and HEAD"},
		{"GET", "show=all", 400, `show="all": it can be busy, waiting, held`},
		{"GET", "sort=x", 400, `sort="x": it can be stuck, age`},
		{"GET", "format=xml", 400, `format="xml": it can be html, json`},
		{"GET", "limit=0", 400, `limit="0": it must be a number from 1 to 1000`},
		{"GET", "limit=1001", 400, "from 1 to 1000"},
		{"GET", "page=-1", 400, `page="-1"`},
		{"GET", "page=99999999999999999999", 400, "page="},
		{"GET", "q=%zz", 400, "bad query"},
	} {
		w := do(h, tt.method, tt.query)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.text) {
			t.Errorf("%s ?%s: %d %.100q, want %d and %q", tt.method, tt.query, w.Code, w.Body, tt.status, tt.text)
		}
		if tt.status == 405 && w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow is %q", tt.method, w.Header().Get("Allow"))
		}
		if w.Header().Get("Content-Security-Policy") == "" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s ?%s: headers %v", tt.method, tt.query, w.Header())
		}
	}
}

// A browser runs the script and applies the style only if their hashes are right, and
// the page needs nothing else.
func TestSelfContained(t *testing.T) {
	w := do(handler(info("a", state.Retained, time.Second)), "GET", "")
	policy, text := w.Header().Get("Content-Security-Policy"), w.Body.String()
	for _, tag := range []string{"style", "script"} {
		found := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(text, -1)
		if len(found) != 1 || !strings.Contains(policy, tag+"-src "+hashOf(found[0][1])) {
			t.Errorf("%d elements %s; the policy %s allows another", len(found), tag, policy)
		}
	}
	for _, bad := range []string{"unsafe", "*", "http:"} {
		if strings.Contains(policy, bad) {
			t.Errorf("the policy has %s: %s", bad, policy)
		}
	}
	if found := regexp.MustCompile(`(?i)https?:|\ssrc=|@import|url\(|\sstyle=|\son\w+=`).FindString(text); found != "" {
		t.Errorf("the page has %q, which needs another file or is against the policy", found)
	}
}

// What other processes say of themselves, and names, cannot leave their places.
func TestHostileTexts(t *testing.T) {
	const evil = `"'><script>alert(1)</script><b onclick=x>` + "\u202e"
	hostile := func(l *manager.LockInfo) {
		l.Node, l.Ahead = evil, &manager.Contender{Label: evil, Host: evil, Endpoint: evil, Path: evil}
		l.Holder = l.Ahead
		l.Revocation = &manager.Revocation{From: *l.Ahead, Reason: evil}
		l.LastLoss = &manager.Loss{Time: time.Now(), Err: errors.New(evil)}
		l.TakenOver = &manager.Takeover{From: *l.Ahead}
	}
	h := handler(info(evil, state.Retained, time.Hour, hostile), info(evil+"2", state.Fetching, time.Hour, hostile))
	h.Observe(manager.Event{Kind: manager.EventLost, Lock: evil, Err: errors.New(evil)})
	h.Observe(manager.Event{Kind: manager.EventRevoked, Lock: evil, From: &manager.Contender{Identity: evil}, Reason: evil})
	h.Observe(manager.Event{Kind: manager.EventSessionOver, Err: errors.New(evil)})
	text := get(t, h, "q="+"%22%3E%3Cscript")
	if n := strings.Count(text, "<script"); n != 1 {
		t.Errorf("%d elements script, want that of the page only", n)
	}
	if strings.Contains(text, "<b onclick") || strings.Contains(text, `"'>`) {
		t.Error("a text has left its place")
	}
	if !strings.Contains(text, html.EscapeString("<script>alert(1)")) && !strings.Contains(text, "&lt;script&gt;alert(1)") {
		t.Error("the texts are not there at all")
	}
}

// A lock that was taken over says from which process, and how fast.
func TestTakenOver(t *testing.T) {
	by := manager.Takeover{From: manager.Contender{Label: "worker-2", Host: "db7", PID: 17, Session: 0x42}, Ended: time.Now(), After: 4 * time.Millisecond}
	h := handler(info("jobs/nightly", state.Retained, time.Hour, func(l *manager.LockInfo) { l.TakenOver = &by }))
	if text := get(t, h, ""); !strings.Contains(text, "worker-2@db7, pid 17") || !strings.Contains(text, "closed 4 ms later") {
		t.Error("the page does not say it")
	}
	got := getJSON(t, h, "").Locks[0].TakenOver
	if got == nil || got.From.Label != "worker-2" || got.From.Session != "0x42" || !got.Ended.Equal(by.Ended) {
		t.Errorf("JSON says %+v", got)
	}
	if text, err := seconds(by.After).MarshalJSON(); err != nil || string(text) != "0.004" {
		t.Errorf("it took %s, %v", text, err)
	}
}

// With 10,000 locks a page has a hundred rows, however often it is renewed.
func TestManyLocks(t *testing.T) {
	locks := make([]manager.LockInfo, 10_000)
	for i := range locks {
		locks[i] = info(fmt.Sprintf("jobs/%05d", i), state.Retained, time.Hour)
	}
	contended(&locks[4711])
	h := handler(locks...)
	text := get(t, h, "")
	if n := strings.Count(text, `<td class="lock">`); n != 100 {
		t.Errorf("%d rows, want 100", n)
	}
	if len(text) > 1<<18 {
		t.Errorf("the page has %d bytes", len(text))
	}
	if !strings.Contains(text, "1–100 of 10000") || !strings.Contains(text, `href="?page=2"`) {
		t.Error("there is no way to the others")
	}
	if r := getJSON(t, h, "limit=1"); names(r)[0] != "jobs/04711" || r.Pages != 10_000 || r.Matching != 10_000 {
		t.Errorf("%q comes first, on page 1 of %d", names(r), r.Pages)
	}
	if r := getJSON(t, h, ""); len(r.Locks) != 10_000 {
		t.Errorf("JSON has %d locks, want all", len(r.Locks))
	}
}

// Before Open has returned, there is a page with what has been observed.
func TestWithoutManager(t *testing.T) {
	h := New()
	h.Observe(manager.Event{Kind: manager.EventSessionBegan, Session: 0x42, Time: time.Now()})
	if text := get(t, h, ""); !strings.Contains(text, "There is no Manager yet") || !strings.Contains(text, "session began") || !strings.Contains(text, "0x42") {
		t.Error("the page is\n" + text)
	}
	if r := getJSON(t, h, ""); r.Manager != nil || r.Locks == nil || len(r.History) != 1 {
		t.Errorf("got %+v", r)
	}
	for name, h := range map[string]*Handler{"without troubles": h, "without events": New()} {
		// A list that is empty is no null, which jq's .troubles[] refuses.
		if r := getJSON(t, h, ""); r.Locks == nil || r.History == nil || r.Troubles == nil {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}

// Each number of the Manager is where it belongs.
func TestCounters(t *testing.T) {
	h := New()
	h.manage(fake{stats: manager.ManagerStats{
		Locks: 1, Sessions: 2, Reconnects: 3, Answers: 4, WatchEvents: 5, Queued: 6, Busy: 7, Workers: 8,
		Grants: 9, Losses: 10, Failures: 11, DroppedEvents: 12, SentinelErr: errors.New("it has ended"),
	}})
	if page := get(t, h, ""); !strings.Contains(page, "until the session times out: the sentinel has no helper: it has ended") {
		t.Error("the page does not say that there is no helper")
	}
	got := *getJSON(t, h, "").Manager
	got.Requests = nil
	want := managerState{Locks: 1, Sessions: 2, Reconnect: 3, Answers: 4, Watches: 5, Queued: 6, Busy: 7, Workers: 8,
		Grants: 9, Losses: 10, Failures: 11, Dropped: 12, Sentinel: "it has ended"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// What is kept of the events.
func TestObserve(t *testing.T) {
	failed := errors.New("failed")
	lost := &manager.Error{Op: "hold", Name: "a", Err: manager.ErrLost}
	h := New()
	h.manage(fake{stats: connected})
	for _, e := range []manager.Event{
		{Kind: manager.EventSessionBegan, Session: 1},
		{Kind: manager.EventQueued, Lock: "a"},
		{Kind: manager.EventPlaced, Lock: "a"},
		{Kind: manager.EventGranted, Lock: "a"},
		{Kind: manager.EventYielded, Lock: "a"},
		{Kind: manager.EventReleased, Lock: "a"},
		{Kind: manager.EventReleased, Lock: "b", Err: failed},
		{Kind: manager.EventRevoked, Lock: "c", Reason: strings.Repeat("x", 10_000)},
		{Kind: manager.EventConnectionLost, Session: 1, Err: failed},
		{Kind: manager.EventConnectionResumed, Session: 1, Waited: 1500 * time.Millisecond},
		{Kind: manager.EventLost, Lock: "d", LockKind: manager.KindMutex, Err: lost, Held: time.Second},
		{Kind: manager.EventFailed, Lock: "e", Err: manager.ErrNotGranted}, // the callers gave up
		{Kind: manager.EventFailed, Lock: "f", Err: manager.ErrClosed},
		{Kind: manager.EventSessionOver, Session: 1, Err: failed},
	} {
		h.Observe(e)
	}
	kept := func(records []record) (kept []string) {
		for _, r := range records {
			kept = append(kept, strings.TrimSpace(r.Event+" "+r.Lock))
		}
		return kept
	}
	r := getJSON(t, h, "")
	if got, want := kept(r.History), []string{"session over", "connection resumed", "connection lost", "session began"}; !slices.Equal(got, want) {
		t.Errorf("history %q, want %q", got, want)
	}
	if got, want := kept(r.Troubles), []string{"failed f", "lost d", "revoked c", "released b"}; !slices.Equal(got, want) {
		t.Errorf("troubles %q, want %q", got, want)
	}
	if n := len(r.Troubles[2].Reason); n > maxText+len("…") {
		t.Errorf("%d bytes of the reason are kept", n)
	}
	if r.Troubles[1].Kind != "mutex" || r.Troubles[0].Cause != "closed" {
		t.Errorf("got %+v", r.Troubles[:2])
	}
	if text := get(t, h, "format=json"); !strings.Contains(text, `"outage_seconds": 1.5`) {
		t.Errorf("no outage of 1.5 s in\n%s", text)
	}
}

// A pause of the process ends its session, and a thousand locks with it. The page shows few
// rows, the pause beside what came of it.
func TestEqualLossesAreOne(t *testing.T) {
	h := New()
	h.manage(fake{stats: connected})
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	lost := func(i int, at time.Time, paused time.Duration) manager.Event {
		err := &manager.Error{Op: "hold", Name: fmt.Sprint("jobs/", i), Err: manager.ErrLost, Paused: paused}
		return manager.Event{Kind: manager.EventLost, Time: at, Lock: err.Name, Err: err, Held: time.Second, Session: 7, Token: uint64(i), Paused: paused}
	}
	h.Observe(lost(9999, at.Add(-time.Hour), 0))
	h.Observe(manager.Event{Kind: manager.EventPaused, Time: at, Session: 7, Paused: 16 * time.Second})
	for i := range 1000 {
		h.Observe(lost(i, at.Add(time.Duration(i)*time.Millisecond), 16*time.Second))
	}
	h.Observe(manager.Event{Kind: manager.EventSessionOver, Time: at.Add(2 * time.Second), Session: 7, Err: errors.New("expired"), Paused: 16 * time.Second})
	h.Observe(lost(0, at.Add(time.Minute), 16*time.Second)) // the same, but much later

	r := getJSON(t, h, "")
	if len(r.Troubles) != 3 || len(r.History) != 2 {
		t.Fatalf("%d troubles, %d events of the session", len(r.Troubles), len(r.History))
	}
	many := r.Troubles[1]
	if many.Count != 1000 || many.Lock != "jobs/0" || len(many.Locks) != namesKept || many.Locks[1] != "jobs/1" || many.More() != 980 ||
		many.Cause != "paused" || many.Session != "0x7" {
		t.Errorf("the losses are shown as %+v", many)
	}
	if one := r.Troubles[0]; one.Count != 1 || one.Locks != nil || one.More() != 0 {
		t.Errorf("a single loss is shown as %+v", one)
	}
	if text := get(t, h, "format=json"); strings.Count(text, `"paused_seconds": 16`) != 4 {
		t.Errorf("the pause is not in\n%s", text)
	}
	text := get(t, h, "")
	last := 0
	for _, want := range []string{">session over<", "1000 × lost <", "and 980 more. The first:", ">paused<", "This process did not run for 16.0 s.", ">lost <"} {
		i := strings.Index(text[last:], want)
		if i < 0 {
			t.Fatalf("the page does not have %q, or not in this place", want)
		}
		last += i
	}
}

func TestRing(t *testing.T) {
	var r ring
	for i := range 3*kept + 7 {
		r.add(record{Event: fmt.Sprint(i)})
		got := r.newestFirst()
		if want := min(i+1, kept); len(got) != want || got[0].Event != fmt.Sprint(i) || got[want-1].Event != fmt.Sprint(i+1-want) {
			t.Fatalf("after %d: %d records, from %s to %s", i, len(got), got[0].Event, got[len(got)-1].Event)
		}
	}
}

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                     "0 ms",
		999*time.Millisecond + 999999:         "999 ms",
		time.Second:                           "1.0 s",
		9990 * time.Millisecond:               "9.9 s",
		59*time.Second + 999*time.Millisecond: "59 s",
		time.Minute:                           "1m 0s",
		time.Hour - 1:                         "59m 59s",
		25 * time.Hour:                        "1d 1h",
		23*time.Hour + 59*time.Minute:         "23h 59m",
	} {
		if got := durationText(seconds(d)); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// The package documentation names every field of the JSON.
func TestFieldsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	collectFields(reflect.TypeFor[report](), fields)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !regexp.MustCompile(`\b` + name + `\b`).Match(doc) {
			t.Errorf("doc.go does not describe %q", name)
		}
	}
}

func collectFields(t reflect.Type, fields map[string]bool) {
	switch {
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice:
		collectFields(t.Elem(), fields)
	case t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]():
		for field := range t.Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
				fields[name] = true
				collectFields(field.Type, fields)
			}
		}
	}
}
