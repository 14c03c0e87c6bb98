// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// asSubject makes the test binary run as the subject of that name.
const asSubject = "HOLDFAST_BENCH_SUBJECT"

func TestMain(m *testing.M) {
	sentinel.Main()
	if name := os.Getenv(asSubject); name != "" {
		if err := work.Serve(context.Background(), builtIn[name], os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// embedded returns the address of an embedded server. It answers these four-letter words, or, if
// none are given, all.
func embedded(t *testing.T, words ...string) string {
	t.Helper()
	srv := zktest.NewServer(zktest.Config{FourLetterWords: words})
	t.Cleanup(func() { _ = srv.Close() })
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func TestSubjects(t *testing.T) {
	for _, test := range []struct {
		subject string
		job     work.Job
	}{
		{ours, work.Job{Work: work.Contend, Sessions: 2, Workers: 2, Locks: 1}},
		{ours, work.Job{Work: work.Contend, Sessions: 2, Workers: 2, Locks: 2, Read: true}},
		{oursUnlock, work.Job{Work: work.Contend, Sessions: 2, Workers: 1, Locks: 1}},
		{ours, work.Job{Work: work.Line, Sessions: 3, Locks: 1, HoldMicros: 1000, QueueMillis: 10}},
		{oursLinger, work.Job{Work: work.Contend, Sessions: 1, Workers: 1, Locks: 1}},
		{oursIdle, work.Job{Work: work.Contend, Sessions: 1, Workers: 1, Locks: 1}},
		{oursMutex, work.Job{Work: work.Contend, Sessions: 2, Workers: 4, Locks: 1}},
		{limitMutex, work.Job{Work: work.Contend, Sessions: 1, Workers: 4, Locks: 1}},
		{ours, work.Job{Work: work.Contend, Sessions: 2, Workers: 1, Locks: 3, Together: 3}},
		{limitTrip, work.Job{Work: work.Contend, Sessions: 1, Workers: 1, Locks: 1}},
		{limitRelay, work.Job{Work: work.Contend, Sessions: 3, Workers: 1, Locks: 1}},
		{limitBare, work.Job{Work: work.Contend, Sessions: 1, Workers: 1, Locks: 1}},
		{ours, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{oursLock, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{oursDo, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{oursDone, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{oursErr, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{limitCAS, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{limitBusy, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{limitContext, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{limitDone, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{limitRWMutex, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{limitMutex, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{limitSemaphore, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{limitClock, work.Job{Work: work.Reenter, Workers: 2, Locks: 1}},
		{ours, work.Job{Work: work.Drain, Sessions: 2, Elements: 20}},
		{ours, work.Job{Work: work.Many, Locks: 20}},
		{ours, work.Job{Work: work.Many, Locks: 20, Made: true}},
		{limitBare, work.Job{Work: work.Many, Locks: 20}},
		{limitBare, work.Job{Work: work.Many, Locks: 20, Made: true}},
	} {
		t.Run(test.subject+"/"+test.job.Work, func(t *testing.T) {
			j := test.job
			j.Server, j.Dir, j.WarmupMillis, j.MeasureMillis = embedded(t), "/bench/1", 10, 100
			r := work.Do(t.Context(), builtIn[test.subject], j)
			for r.Err == "" && r.Unsupported == "" && r.Entries == 0 && j.MeasureMillis < 60_000 {
				j.MeasureMillis *= 10 // the machine is too busy for a single batch in that time
				r = work.Do(t.Context(), builtIn[test.subject], j)
			}
			if r.Err != "" || r.Unsupported != "" || r.Entries == 0 || r.Seconds <= 0 {
				t.Fatalf("got %+v", r)
			}
			if j.Work == work.Many && test.subject == ours && r.Extra["goroutines"] <= 0 ||
				j.Work == work.Contend && (len(r.Waits) == 0 || r.Total < r.Entries || r.Fewest > r.Most) {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	for subject, job := range map[string]work.Job{
		limitCAS:   {Work: work.Contend, Sessions: 1, Workers: 1, Locks: 1},
		limitClock: {Work: work.Contend, Sessions: 1, Workers: 1, Locks: 1},
		limitTrip:  {Work: work.Contend, Sessions: 1, Workers: 1, Locks: 2, Together: 2},
		limitBare:  {Work: work.Reenter, Workers: 1, Locks: 1},
		limitRelay: {Work: work.Many, Locks: 1},
		ours:       {Work: "juggle"},
	} {
		job.Server, job.Dir = embedded(t), "/bench/1"
		if r := work.Do(t.Context(), builtIn[subject], job); r.Unsupported == "" || r.Err != "" {
			t.Errorf("%s, %s: got %+v", subject, job.Work, r)
		}
	}
}

// A relay writes once per grant.
func TestTap(t *testing.T) {
	tap, err := tapped(embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	r := work.Do(t.Context(), relay, work.Job{
		Work: work.Contend, Server: tap.addr(), Dir: "/bench/1", Sessions: 2, Workers: 1, Locks: 1, MeasureMillis: 200,
	})
	tap.close()
	if r.Err != "" {
		t.Fatal(r.Err)
	}
	// Each session also creates three directories, or tries to, and its first node,
	// and deletes its last.
	got, grants := tap.counted(), float64(r.Total)
	if want := grants + 2*(3+1) + 2 - 2; math.Abs(got["writes"]-want) > 2 {
		t.Errorf("%v writes for %v grants, want %v", got["writes"], grants, want)
	}
	if got["lists"] == 0 || got["lists"] >= got["reads"] {
		t.Errorf("%v: a relay lists, and reads the node ahead", got)
	}
	if got["reads"] < grants || got["notifications"] == 0 || got["notifications"] > grants {
		t.Errorf("%v for %v grants", got, grants)
	}
}

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{3}, spread{3, 3, 3}},
		{[]float64{4, 1}, spread{2.5, 1, 4}},
		{[]float64{9, 1, 2}, spread{2, 1, 9}},
	} {
		if got := over(slices.Clone(test.values)); got != test.want {
			t.Errorf("%v: got %v, want %v", test.values, got, test.want)
		}
	}
	text, err := json.Marshal(spread{1, math.NaN(), math.Inf(1)})
	if want := `{"high":null,"low":null,"median":1}`; err != nil || string(text) != want {
		t.Errorf("got %s, error %v, want %s", text, err, want)
	}
	if got := over(nil); !math.IsNaN(got.Median) {
		t.Errorf("of no values: %v", got)
	}
	for q, want := range map[float64]float64{0: 1, .25: 1, .5: 2, .51: 3, .99: 4, 1: 4} {
		if got := quantile([]float64{1, 2, 3, 4}, q); got != want {
			t.Errorf("quantile %v: got %v, want %v", q, got, want)
		}
	}
}

// The median must be on the right side of the goal.
func TestMet(t *testing.T) {
	for _, test := range []struct {
		r    target
		want string
	}{
		{target{Value: spread{Median: 2}, Goal: 3}, "yes"},
		{target{Value: spread{Median: 3}, Goal: 3}, "yes"},
		{target{Value: spread{Median: 3.1}, Goal: 3}, "NO"},
		{target{Value: spread{Median: 3.1}, Goal: 3, AtLeast: true}, "yes"},
		{target{Value: spread{Median: 2.9}, Goal: 3, AtLeast: true}, "NO"},
		{target{Value: spread{Median: 2.9}}, ""},
		{target{Goal: 3, Missing: "not measured"}, "not measured"},
	} {
		if got := test.r.met(); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.r, got, test.want)
		}
	}
}

// example returns results of a run: 100 entries per second for every subject in
// every scenario, but 200 for Holdfast.
func example() *measured {
	m := newMeasured()
	for _, c := range slices.Concat(scenarios(), draining(), network(), watching(), bulk(time.Minute), counted()) {
		for _, s := range c.subjects {
			r := result{
				Entries: 100, Seconds: 1, Waits: []float64{1, 2, 3000},
				Extra: map[string]float64{"writes": 1, "reads": 2, "notifications": 1, "goroutines": 40, "idle": 200, "held": 800, "queued": 1101},
			}
			if slices.Contains([]string{ours, oursUnlock, oursLinger, oursIdle, oursMutex, oursDo, oursDone}, s) {
				r.Entries = 200
			}
			m.add(c.id, s, r)
			m.add(c.id, s, r)
		}
	}
	return m
}

// Targets compare in the right direction, and every scenario that a target or a
// figure names is measured.
func TestTargets(t *testing.T) {
	for _, r := range example().targets() {
		switch want := map[string]float64{"× the rate": 2, "× the cost": .5, "× the time": 1}[r.Unit]; {
		case r.Missing != "":
			t.Errorf("%s, against %s: %s", r.Name, r.Against, r.Missing)
		case strings.Contains(r.Name, "1,000 sessions") && r.Value.Median == 1: // compared with its own rate
		case want != 0 && r.Value.Median != want:
			t.Errorf("%s, against %s: got %v %s, want %v", r.Name, r.Against, r.Value, r.Unit, want)
		case r.Unit == "round trips" && strings.HasPrefix(r.Name, "hand-over") && r.Value.Median != 2.5: // 5 ms
			t.Errorf("%s: %v, want 2.5 %s", r.Name, r.Value, r.Unit)
		case r.Unit == "round trips" && strings.HasPrefix(r.Name, "from Unlock") && r.Value.Median != 0.001: // 2 µs
			t.Errorf("%s: %v, want 0.001 %s", r.Name, r.Value, r.Unit)
		case r.Name == "memory of a lock, queued" && r.met() != "NO", r.Name == "memory of a lock, held" && r.met() != "yes":
			t.Errorf("%s: %v, met: %s", r.Name, r.Value, r.met())
		}
	}
	// A grant that lists the queue may take longer if the queue is longer.
	for lists, goal := range map[float64]float64{0: 1.3, 1: 2} {
		m := newMeasured()
		m.add(requests(100), ours, result{Extra: map[string]float64{"lists": lists}})
		for _, r := range m.targets() {
			if r.Name == "hand-over with 1,000 sessions in the queue" && r.Goal != goal {
				t.Errorf("with %v lists per grant, the goal is %v, want %v", lists, r.Goal, goal)
			}
		}
	}
	// Hold.Err is given as long as two looks at a slow clock.
	for nanos, goal := range map[int64]float64{10: 40, 100: 200} {
		m := newMeasured()
		m.add(reenter(1), limitClock, result{Entries: 1e9 / nanos, Seconds: 1})
		for _, r := range m.targets() {
			if strings.HasPrefix(r.Name, "Hold.Err") && r.Goal != goal {
				t.Errorf("with a clock of %v ns, the goal is %v, want %v", nanos, r.Goal, goal)
			}
		}
	}
	for _, r := range newMeasured().targets() {
		if r.Missing == "" {
			t.Errorf("%s, against %s: got %v without results", r.Name, r.Against, r.Value)
		}
	}
	for _, f := range example().figures() {
		for _, s := range f.Series {
			if len(s.Points) < 2 {
				t.Errorf("%s has %d points of %s", f.File, len(s.Points), s.Name)
			}
		}
	}
	if n := len(example().figures()); n != 8 {
		t.Errorf("%d figures, want 8", n)
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	remarks := filepath.Join(dir, "remarks.md")
	if err := os.WriteFile(remarks, []byte("## Remarks\n\nAs expected.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := example()
	r := &report{
		Began: time.Unix(0, 0), Took: "1m", Machine: "2 CPUs", Rounds: 2, measured: m, Targets: m.targets(), figures: m.figures(), scenarios: scenarios(),
		Versions: map[string]string{ours: "Holdfast"}, Missing: map[string]string{"etcd": "install it"}, Refused: map[string]string{readers + " " + kazoo: "it cannot"},
	}
	if err := r.write(dir, remarks); err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		"RESULTS.md":   {"| hand-over between 8 processes | relay | 2.00 × the rate | ≥ 1.00 | yes |", "not measured: install it", "kazoo: it cannot.", "| holdfast | 200 (200 – 200) | 5 ms |", "As expected.", "](throughput.svg)"},
		"results.json": {`"p99": 3000`, `"etcd": "install it"`, `"entries": 200`},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s lacks %q", file, want)
			}
		}
		if file == "RESULTS.md" && t.Failed() {
			t.Logf("%s", text)
		}
	}
	if table := r.table(true); !strings.Contains(table, "hand-over between 8 processes") {
		t.Errorf("the table is %s", table)
	}
}

// The goals of the last run are printed from its results.
func TestPrintGoals(t *testing.T) {
	dir := t.TempDir()
	remarks := filepath.Join(dir, "remarks.md")
	if err := os.WriteFile(remarks, []byte("## Remarks\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newMeasured()
	m.add(reenter(1), ours, result{Entries: 100, Seconds: 1, Allocs: 1})
	m.add(reenter(1), limitCAS, result{Entries: 200, Seconds: 1})
	r := &report{Machine: "2 CPUs", measured: m, Targets: m.targets()}
	if err := r.write(dir, remarks); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printGoals(&out, dir); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{r.table(true), "1 goals are met, 1 are not, ", " were not measured", "2 CPUs"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	if err := printGoals(&out, filepath.Join(dir, "other")); err == nil {
		t.Error("no error without results")
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		1234567: "1,234,567", 1000: "1,000", 999.4: "999", 99.94: "99.9", 1.234: "1.23", 0.0123: "0.01", 0.00123: "0.0012", 0.0005: "0.0005", 0: "0", math.Inf(1): "∞",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.5: "500 ns", 12.34: "12.3 µs", 1234: "1.23 ms", 2e6: "2 s"} {
		if got := micros(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// A measurement without an entry is repeated, and is no result.
func TestNoEntries(t *testing.T) {
	const none, five = `{"seconds":1}` + "\n", `{"entries":5,"seconds":1}` + "\n"
	for _, test := range []struct {
		answers string
		results int
		failed  int
	}{
		{five, 1, 0},
		{none + none + five, 1, 0},
		{none + none + none + five, 0, 1},
	} {
		s := &suite{
			report:   &report{Refused: make(map[string]string), measured: newMeasured()},
			programs: map[string]*program{ours: {in: nopCloser{io.Discard}, out: json.NewDecoder(strings.NewReader(test.answers))}},
			log:      io.Discard,
		}
		s.measureOne(t.Context(), 0, scenario{id: "a", job: work.Job{Work: work.Contend}}, ours)
		got := s.Scenarios["a"][ours]
		if len(got) != test.results || len(s.Failed) != test.failed || len(got) > 0 && got[0].Entries != 5 {
			t.Errorf("%q: got %+v, failures %v", test.answers, got, s.Failed)
		}
	}
}

// "-only queue" measures the draining of a queue, too. A part that has no figure is
// written without plots.
func TestOnlyQueue(t *testing.T) {
	var ids []string
	for _, sc := range only(slices.Concat(scenarios(), draining()), []string{"queue"}) {
		ids = append(ids, sc.id)
	}
	for _, id := range []string{drained(1), drained(16), queue(1000)} {
		if !slices.Contains(ids, id) {
			t.Errorf("%s is not in %q", id, ids)
		}
	}

	m := newMeasured()
	for _, sc := range draining() {
		for _, subject := range sc.subjects {
			m.add(sc.id, subject, result{Entries: 100, Seconds: 1})
		}
	}
	r := &report{measured: m, scenarios: draining(), Targets: m.targets(), figures: m.figures(), Missing: map[string]string{}, Refused: map[string]string{}}
	dir := filepath.Join(t.TempDir(), "new")
	if err := draw(t.Context(), "there is no bench/plot here", dir, r.figures); err != nil {
		t.Errorf("draw: %v", err)
	}
	remarks := filepath.Join(t.TempDir(), "remarks.md")
	if err := os.WriteFile(remarks, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.write(dir, remarks); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	if err != nil || !strings.Contains(string(text), drained(16)) {
		t.Errorf("%v: no %s in:\n%s", err, drained(16), text)
	}
}

func TestArguments(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"-rounds 0", "at least 1"},
		{"-measure 1ms", "at least 10ms"},
		{"-only nonsense", `no scenario has "nonsense"`},
		{"-subject other", `no subject is called "other"`},
		{"more", `unknown argument "more"`},
	} {
		var out bytes.Buffer
		err := command(t.Context(), strings.Fields(test.args), strings.NewReader(""), &out, &out)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.args, err, test.want)
		}
	}
}
