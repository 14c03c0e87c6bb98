// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// keep is for a person who wants to look at the pages:
//
//	go test ./stress/internal/report -run TestTenMinutes -args -keep /tmp/pages
var keep = flag.String("keep", "", "keep pages in this directory")

// pageOf returns the page of a scenario. With -keep it remains, under the name.
func pageOf(t *testing.T, s scenario, name string) string {
	t.Helper()
	dir := t.TempDir()
	if *keep != "" {
		dir = filepath.Join(*keep, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return pageIn(t, dir, s.header, s.verdict, s.events())
}

// pageIn writes a page and returns its text.
func pageIn(t *testing.T, dir string, h history.Header, v verdict.Verdict, events iter.Seq[history.Event]) string {
	t.Helper()
	if err := Write(dir, h, v, events); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// small is a run that is quick to make and has everything.
var small = plan{processes: 2, workers: 4, locks: 3, duration: 40 * time.Second, faults: 12, think: 100 * time.Millisecond, violation: true}

// A run of ten minutes fits on a page with all its detail. From the page alone one can
// tell which fault cost which lock.
func TestTenMinutes(t *testing.T) {
	violations := []bool{true}
	if *keep != "" { // the other has less to check, but is worth a look
		violations = append(violations, false)
	}
	for _, violation := range violations {
		t.Run(fmt.Sprintf("violation=%v", violation), func(t *testing.T) {
			p := tenMinutes
			p.violation = violation
			s := generate(p)
			page := pageOf(t, s, strings.ToLower(string(s.verdict.Outcome)))
			t.Logf("%d events, %d grants, %d lost holds: %d bytes", len(s.log), s.verdict.Grants, s.verdict.LostHolds, len(page))
			if len(page) > 4_000_000 {
				t.Errorf("the page has %d bytes", len(page))
			}
			if strings.Contains(page, "totals only, per") {
				t.Error("acquisitions were left out")
			}
			compareCosts(t, page, s.verdict)
		})
	}
}

// A check that was not made once does not look as if it had found nothing.
func TestChecksThatWereNotMade(t *testing.T) {
	page := pageIn(t, t.TempDir(), history.Header{}, verdict.Verdict{Checks: []verdict.Check{{Name: "made", Judged: 7}, {Name: "not made"}}}, slices.Values([]history.Event{}))
	for _, row := range []string{"<td>7</td><td>0</td>", `<td class="zero">0</td><td>not judged</td>`} {
		if !strings.Contains(page, row) {
			t.Errorf("the page lacks %s", row)
		}
	}
}

// compareCosts reads which fault cost which lock as a person would, and compares it with
// the verdict.
func compareCosts(t *testing.T, page string, v verdict.Verdict) {
	t.Helper()
	costs := map[int][]string{}
	rows := regexp.MustCompile(`(?s)<tr id="fault-(\d+)".*?</tr>`).FindAllStringSubmatch(page, -1)
	for _, row := range rows {
		n, _ := strconv.Atoi(row[1])
		costs[n] = nil
		for _, item := range regexp.MustCompile(`<li>(.*?) <bdi>(by process .*?)</bdi>`).FindAllStringSubmatch(row[0], -1) {
			for _, lock := range regexp.MustCompile(`<b><bdi>(.*?)</bdi></b>`).FindAllStringSubmatch(item[1], -1) {
				if text := fmt.Sprintf("lock %q %s", html.UnescapeString(lock[1]), item[2]); !slices.Contains(costs[n], text) {
					costs[n] = append(costs[n], text)
				}
			}
		}
	}
	if len(rows) != len(v.Injected) {
		t.Errorf("the table has %d faults, want %d", len(rows), len(v.Injected))
	}
	for i, h := range slices.SortedStableFunc(slices.Values(v.Injected), func(a, b verdict.Hit) int { return cmp.Compare(a.Began, b.Began) }) {
		got, want := slices.Sorted(slices.Values(costs[i+1])), slices.Compact(slices.Sorted(slices.Values(h.Lost)))
		if !slices.Equal(got, want) {
			t.Errorf("fault %d (%s): the page says that it may have cost %q, the verdict %q", i+1, h.Kind, got, want)
		}
	}
}

// What is long is closed, so that a reader of a small screen comes to all parts of the page.
// Nothing is missing.
func TestLongTablesAreClosed(t *testing.T) {
	p := tenMinutes
	p.violation = true
	s := generate(p)
	for i := range 97 {
		s.verdict.Findings = append(s.verdict.Findings, verdict.Finding{Check: "another", At: origin + int64(i)*second, Text: fmt.Sprint("finding ", i)})
		s.verdict.Standstills = append(s.verdict.Standstills, verdict.Standstill{Text: fmt.Sprint("standstill ", i)})
	}
	page := markup(pageIn(t, t.TempDir(), s.header, s.verdict, s.events()))
	open := regexp.MustCompile(`(?s)<details class="more">.*?</details>`).ReplaceAllString(page, "")
	for _, tt := range []struct {
		what, item string
		all, open  int
	}{
		{"findings", `data-kind="finding"`, len(s.verdict.Findings), openFindings},
		{"standstills", `Note that standstill`, 97, openFindings},
		{"faults", `<tr id="fault-`, len(s.verdict.Injected), openRows},
		{"lost holds", `<li id="loss-`, s.verdict.LostHolds, -1},
		{"rows of lost holds", `<th scope="row">process `, -1, openRows},
	} {
		if n := strings.Count(page, tt.item); tt.all >= 0 && n != tt.all {
			t.Errorf("the page has %d %s, want %d", n, tt.what, tt.all)
		}
		if n := strings.Count(open, tt.item); tt.open >= 0 && n != tt.open {
			t.Errorf("the page has %d %s open, want %d", n, tt.what, tt.open)
		}
	}
	for _, link := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if strings.Count(page, `id="`+link[1]+`"`) != 1 {
			t.Errorf("a link leads to %s, which the page does not have once", link[1])
		}
	}
	for _, summary := range regexp.MustCompile(`<details class="more"><summary>(.*?)</summary>`).FindAllStringSubmatch(page, -1) {
		if !regexp.MustCompile(`^[\d,]+ `).MatchString(summary[1]) {
			t.Errorf("%q does not say how many it hides", summary[1])
		}
	}
}

// The page says first what the run has shown.
func TestSentence(t *testing.T) {
	some := []verdict.Hit{{Fault: 1, Kind: "kill-worker"}, {Fault: 2, Kind: "revoke"}, {Fault: 3, Kind: "revoke"}}
	for _, tt := range []struct {
		processes int
		verdict   verdict.Verdict
		want      string
	}{
		{4, verdict.Verdict{Outcome: verdict.OK, Grants: 1234567, Injected: some, LostHolds: 21, LossesJudged: 21}, "OK 1,234,567 grants to 4 processes, 3 faults of 2 kinds, 21 holds lost, all told before their sessions expired."},
		{1, verdict.Verdict{Outcome: verdict.OK, Grants: 1}, "OK 1 grant to 1 process, no faults, no hold lost."},
		{2, verdict.Verdict{Outcome: verdict.OK, Injected: some[:1], LostHolds: 1, LossesJudged: 1}, "OK 0 grants to 2 processes, 1 fault of 1 kind, 1 hold lost, which was told before its session expired."},
		{2, verdict.Verdict{Outcome: verdict.OK, LostHolds: 21, LossesJudged: 8}, "OK 0 grants to 2 processes, no faults, 21 holds lost; of those 8 can be judged, each told before its session expired."},
		{2, verdict.Verdict{Outcome: verdict.OK, LostHolds: 1}, "OK 0 grants to 2 processes, no faults, 1 hold lost; whether that was told before sessions expired cannot be judged."},
		{2, verdict.Verdict{Outcome: verdict.Violation, Found: 2, Grants: 900, LostHolds: 3, ToldLate: 1}, "VIOLATION a lock failed to exclude (2 findings): 900 grants to 2 processes, no faults, 3 holds lost, 1 of them told late."},
		{2, verdict.Verdict{Outcome: verdict.Failed, Found: 1, Grants: 900}, "FAILED the locks excluded, but something else is wrong (1 finding): 900 grants to 2 processes, no faults, no hold lost."},
		{2, verdict.Verdict{Outcome: verdict.Void}, "VOID the run shows nothing about the locks: no worker ever got a lock. It had 0 grants to 2 processes, no faults, no hold lost."},
	} {
		page := pageIn(t, t.TempDir(), history.Header{Processes: tt.processes}, tt.verdict, slices.Values([]history.Event(nil)))
		if text, _ := dataOf(t, page); strings.Contains(text, "null") {
			t.Errorf("the data of an empty history has a null: %s", text)
		}
		heading := regexp.MustCompile(`(?s)<h1>(.*?)</h1>`).FindStringSubmatch(page)[1]
		if got := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(heading, ""); got != tt.want {
			t.Errorf("%+v:\n got %s\nwant %s", tt.verdict, got, tt.want)
		}
		if strings.Index(page, "<h1>") > strings.Index(page, "<h2>") {
			t.Error("the verdict is not first")
		}
	}
}

// The page refers to nothing outside of it, and its policy forbids the browser to load,
// run or apply anything but the page's own script and style.
func TestSelfContained(t *testing.T) {
	page := pageOf(t, generate(small), "small")
	for _, attribute := range regexp.MustCompile(`(?i)\s(src|srcset|href|xlink:href|action|formaction|poster|background|ping|cite|data)\s*=\s*["']?([^"'\s>]*)`).FindAllStringSubmatch(markup(page), -1) {
		if attribute[1] != "href" || !strings.HasPrefix(attribute[2], "#") {
			t.Errorf("the page refers to %s", attribute[0])
		}
	}
	for _, forbidden := range []string{`(?i)@import`, `(?i)url\(`, `(?i)<(link|base|iframe|object|embed|img|form|video|audio|frame)\b`, `(?i)\s(style|on[a-z]+)\s*=`, `(?i)http-equiv="refresh"`, `(?i)https?://`} {
		if found := regexp.MustCompile(forbidden).FindString(markup(page) + style(page)); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
	if found := regexp.MustCompile(`\b(fetch|XMLHttpRequest|WebSocket|EventSource|importScripts|eval|innerHTML|outerHTML|insertAdjacentHTML|document\.write)\b`).FindString(pageJS); found != "" {
		t.Errorf("the script uses %s", found)
	}
	policy := html.UnescapeString(regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="([^"]*)">`).FindStringSubmatch(page)[1])
	script := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllStringSubmatch(page, -1)
	if len(script) != 1 || strings.Count(page, "<script") != 2 || strings.Count(page, "<style") != 1 {
		t.Fatalf("the page has %d scripts", len(script))
	}
	want := "default-src 'none'; base-uri 'none'; form-action 'none'; style-src " + hashOf(style(page)) + "; script-src " + hashOf(script[0][1])
	if policy != want {
		t.Errorf("the policy is %s\nwant %s", policy, want)
	}
}

// markup returns the page without the contents of its script, style and data.
func markup(page string) string {
	return regexp.MustCompile(`(?s)(<script[^>]*>|<style>).*?(</script>|</style>)`).ReplaceAllString(page, "$1$2")
}

func style(page string) string {
	return regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(page)[1]
}

// dataOf returns the JSON on a page.
func dataOf(t *testing.T, page string) (text string, d data) {
	t.Helper()
	text = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)[1]
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return text, d
}

// Strangers write labels, names of nodes and messages. Whatever they write, the page has
// the same elements, and shows the text.
func TestHostileText(t *testing.T) {
	harmless := tags(pageOf(t, spoken("harmless"), "harmless"))
	for i, payload := range []string{
		`<script>alert(1)</script>`,
		`</script><script>alert(1)</script>`,
		`<!--<script>`,
		`</style><img src=x onerror=alert(1)>`,
		`" onmouseover="alert(1)`,
		`'><svg/onload=alert(1)>`,
		`javascript:alert(1)`,
		`{{.}} ${alert(1)} \u003cb>`,
		"\u2028alert(1)\u2029",
		"\x00\x1b[31m\r\b",
		"\xff\xfe<b>",
		"\u202etxet desrever\u2066",
		"]]>&lt;b&gt;&#60;",
		strings.Repeat("<b>", 5000),
		strings.Repeat("w", 50_000),
	} {
		page := pageOf(t, spoken(payload), fmt.Sprint("hostile-", i))
		if got := tags(page); !slices.Equal(got, harmless) {
			t.Errorf("%.60q changes the elements of the page: %q", payload, difference(got, harmless))
		}
		text, d := dataOf(t, page)
		if i := strings.IndexAny(text, "<>\u2028\u2029"); i >= 0 {
			t.Errorf("%.60q: the data has %q", payload, text[max(0, i-20):i+20])
		}
		if want := clean("lock "+payload, longName); !slices.Contains(d.Locks, want) {
			t.Errorf("%.60q: the data names the locks %.100q", payload, d.Locks)
		}
		if want := html.EscapeString(clean(payload, longFinding)); !strings.Contains(regexp.MustCompile(`&#34;|&#39;|&#43;|&quot;`).ReplaceAllStringFunc(page, normal), regexp.MustCompile(`&#34;|&#39;`).ReplaceAllStringFunc(want, normal)) {
			t.Errorf("%.60q: the page does not show it", payload)
		}
		if len(page) > 1_000_000 {
			t.Errorf("%.60q makes a page of %d bytes", payload, len(page))
		}
	}
}

// normal returns the character of an escape of which there are several spellings.
func normal(escape string) string { return html.UnescapeString(escape) }

// tags returns the tags of a page, with their attributes.
func tags(page string) []string {
	return regexp.MustCompile(`<[^>]*>`).FindAllString(markup(page), -1)
}

func difference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("%.200s instead of %.200s", got[i], want[i])
		}
	}
	return fmt.Sprintf("%d tags instead of %d", len(got), len(want))
}

// spoken returns a scenario in which all that may be a stranger's text is this one.
func spoken(text string) scenario {
	lock := "lock " + text
	e := func(at int64, kind history.Kind, op uint64) history.Event {
		return history.Event{At: at, Kind: kind, Op: op, Lock: lock, Text: text, Session: text, Target: text, Token: 1, Mode: history.Mode(text)}
	}
	s := scenario{
		header: history.Header{
			Command: text, Workload: text, Processes: 1, Goroutines: 1, Locks: []history.Lock{{Name: lock}}, Servers: []string{text},
			Nemesis: []string{text}, Begin: 1000, BeginWall: text, Go: text, ZooKeeper: text, SessionTimeout: 1000,
		},
		verdict: verdict.Verdict{
			Outcome: verdict.Violation, Found: 1,
			Findings:    []verdict.Finding{{Check: text, Lock: lock, At: 2000, Text: text, Faults: []int{1}}},
			Checks:      []verdict.Check{{Name: text, Note: text}},
			Faults:      []verdict.Fault{{Kind: text, N: 1}},
			Standstills: []verdict.Standstill{{At: 1500, For: 100, Text: text}},
			Injected:    []verdict.Hit{{Fault: 1, Kind: text, Target: text, Began: 1500, Ended: 1600, Lost: []string{text}}},
		},
	}
	ended := e(9000, history.Ended, 0)
	failure := e(8000, history.Failure, 0)
	began := e(1500, history.FaultBegan, 0)
	began.Process, began.Fault, began.Lock = history.Harness, 1, ""
	s.log = []history.Event{
		e(1000, history.Started, 0), e(1001, history.Session, 0), e(1100, history.Request, 1), e(1200, history.Granted, 1), began, e(1550, history.Lost, 1),
		e(1700, history.Request, 2), e(1800, history.Refused, 2), e(1900, history.Request, 3), e(1950, history.Granted, 3), e(1960, history.Revoked, 3),
		e(2100, history.Release, 3), e(2200, history.Released, 3), failure, ended,
	}
	return s
}

// Equal histories make equal pages.
func TestSamePageAgain(t *testing.T) {
	s := generate(small)
	last := s.log[len(s.log)-1].At
	for i := range 50 { // a worker asks for several locks at once, and has none when the history ends
		s.log = append(s.log, history.Event{At: last, Kind: history.Request, Op: 1_000_000, Lock: fmt.Sprint("of many ", i)})
	}
	first := pageOf(t, s, "first")
	for range 3 {
		if again := pageOf(t, s, "again"); again != first {
			t.Fatal("the page of the same history differs")
		}
	}
}

// A page stays below ten megabytes, and says what it leaves out.
func TestLargeHistory(t *testing.T) {
	const acquisitions = 300_000 // a million events
	h := history.Header{Processes: 8, Goroutines: 32, Begin: 1, SessionTimeout: 4 * second}
	v := verdict.Verdict{Outcome: verdict.OK, Findings: []verdict.Finding{{At: 1 + 500*second, Text: "here"}}, Found: 1}
	for i := range 8640 { // as many as in a day
		v.Injected = append(v.Injected, verdict.Hit{Fault: i + 1, Kind: "kill-worker", Target: "process 1", Began: 1 + int64(i)*second/9, Ended: 1 + int64(i)*second/9, Lost: []string{fmt.Sprint("lock ", i)}})
	}
	noisy := func(yield func(history.Event) bool) {
		chance := rand.New(rand.NewPCG(1, 2))
		for i := range acquisitions {
			e := history.Event{
				At: 1 + int64(i)*3*milli, Process: chance.IntN(8), Worker: chance.IntN(32), Op: uint64(i), Lock: fmt.Sprint("lock ", chance.IntN(500)),
				Token: chance.Uint64(), Turn: chance.Uint64(), Text: fmt.Sprint("reason ", i),
			}
			stages := []history.Kind{history.Request, history.Granted, history.Release, history.Released}
			if i%3 == 0 {
				stages = []history.Kind{history.Request, history.Refused}
			}
			for _, e.Kind = range stages {
				if !yield(e) {
					return
				}
				e.At += chance.Int64N(milli)
			}
		}
	}
	page := pageIn(t, t.TempDir(), h, v, noisy)
	_, d := dataOf(t, page)
	t.Logf("%d bytes, %d of %d acquisitions, %d cells of %d µs", len(page), d.Spans.N, acquisitions, d.Cells.N, d.CellWidth)
	if len(page) > 10_000_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	if d.Spans.N < 100_000 {
		t.Errorf("only %d acquisitions were kept", d.Spans.N)
	}
	for _, text := range []string{
		"The timeline draws " + figures.Number(d.Spans.N) + " of 300,000 acquisitions one by one",
		"8,240 more faults are not in this table: 8,240 of them cost locks",
		"The timeline has 5,000 of 8,640 faults",
		"texts of why a lock was lost or refused are left out",
	} {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not say: %s", text)
		}
	}
}

// A page that cannot be written says where, and leaves nothing behind.
func TestWriteFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	err := Write(dir, history.Header{}, verdict.Verdict{}, slices.Values([]history.Event(nil)))
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, Name)) {
		t.Errorf("the error is %v", err)
	}
	dir = t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, Name, "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, history.Header{}, verdict.Verdict{}, slices.Values([]history.Event(nil))); err == nil {
		t.Error("a directory was replaced")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Of a run from which events were removed while it went on, the page says so.
func TestTrimmed(t *testing.T) {
	dir := t.TempDir()
	gone := history.Trimmed{Segments: 12, Bytes: 100 << 20, Until: int64(90 * time.Minute)}
	if err := history.WriteJSON(filepath.Join(dir, "trimmed.json"), gone); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, history.Header{}, verdict.Verdict{Outcome: verdict.OK}, func(func(history.Event) bool) {}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	if want := "100 MiB of events, until 1 h 30 min after the beginning, were removed during the run"; !strings.Contains(string(text), want) {
		t.Errorf("the page lacks %q", want)
	}
}

// The page links to the judge's pictures.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"linearizability-1-a.html", "linearizability-2-b.html", "other.html"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := generate(small)
	page := pageIn(t, dir, s.header, s.verdict, s.events())
	if n := strings.Count(page, `<a href="linearizability-`); n != 2 || strings.Contains(page, "other.html") {
		t.Errorf("the page has %d links", n)
	}
}
