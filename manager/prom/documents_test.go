// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
)

const (
	dashboardFile = "../../docs/grafana/holdfast.json"
	rulesFile     = "../../docs/alerts/holdfast.yml"
	rulesTestFile = "../../docs/alerts/holdfast-test.yml"
	monitoring    = "../../docs/monitoring.md"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// exported returns the names of all metrics and of the series of classic histograms, and
// the labels of each, where locks are grouped.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	c := New(Config{Group: FirstSegment})
	for _, e := range everything() {
		c.Observe(e)
	}
	names := map[string][]string{}
	all := slices.Concat(gather(t, c), gather(t, scraped{c.scrape, manager.ManagerStats{Requests: map[string]uint64{"multi": 1}}, list(info("jobs/nightly", manager.KindExclusive, state.Retained, time.Second))}))
	for _, family := range all {
		var labels []string
		for _, l := range family.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		names[family.GetName()] = labels
		if family.GetType() == dto.MetricType_HISTOGRAM {
			names[family.GetName()+"_bucket"] = append(slices.Clone(labels), "le")
			names[family.GetName()+"_sum"], names[family.GetName()+"_count"] = labels, labels
		}
	}
	return names
}

// A dashboard is what these tests need of Grafana's format.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
	Templating struct{ List []struct{ Name string } }
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

var (
	metricName = regexp.MustCompile(`\bholdfast_[a-z_]+\b`)
	selector   = regexp.MustCompile(`\b(holdfast_[a-z_]+)\{([^}]*)\}`)
	labelName  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*\\?"`)
)

// checkNames reports metrics in the text that are not exported, and labels that a metric
// does not have. The labels instance and job come from the scrape.
func checkNames(names map[string][]string, text string) (faults []string) {
	for _, name := range metricName.FindAllString(text, -1) {
		if _, ok := names[name]; !ok {
			faults = append(faults, fmt.Sprintf("%s is not exported", name))
		}
	}
	for _, m := range selector.FindAllStringSubmatch(text, -1) {
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "instance" && l[1] != "job" && !slices.Contains(names[m[1]], l[1]) {
				faults = append(faults, fmt.Sprintf("%s has no label %s", m[1], l[1]))
			}
		}
	}
	return faults
}

func TestNamesInDocuments(t *testing.T) {
	names := exported(t)
	d := readDashboard(t)
	queries := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries++
			for _, fault := range checkNames(names, target.Expr) {
				t.Errorf("%s, panel %q: %s", dashboardFile, p.Title, fault)
			}
		}
	}
	if queries < 20 {
		t.Errorf("%s has %d queries", dashboardFile, queries)
	}
	for _, file := range []string{rulesFile, rulesTestFile, monitoring} {
		for _, fault := range checkNames(names, read(t, file)) {
			t.Errorf("%s: %s", file, fault)
		}
	}
	// Every metric is described, and shown in the dashboard.
	for _, file := range []string{monitoring, dashboardFile} {
		text := read(t, file)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			part := regexp.MustCompile(`_(bucket|sum|count)$`).MatchString(name)
			if !part && !regexp.MustCompile(name+`(_bucket)?\b`).MatchString(text) {
				t.Errorf("%s does not have %s", file, name)
			}
		}
	}
}

func TestCheckNamesCatches(t *testing.T) {
	names := map[string][]string{"holdfast_a": {"kind"}}
	for text, want := range map[string]string{
		`sum(rate(holdfast_a{kind="x", job=~"$job"}[5m]))`: "",
		`holdfast_b`:                 "holdfast_b is not exported",
		`holdfast_a{cause!="x"} > 0`: "holdfast_a has no label cause",
		`holdfast_a_total`:           "holdfast_a_total is not exported",
	} {
		if got := strings.Join(checkNames(names, text), "; "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Panels neither overlap nor leave the grid, refer to variables that there are, show only the
// groups of locks that the reader has chosen, and nothing where there are no data.
func TestDashboardLayout(t *testing.T) {
	d, names := readDashboard(t), exported(t)
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%q has the id of another panel", p.Title)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%q leaves the grid", p.Title)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("%q and %q overlap", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		for _, target := range p.Targets {
			if strings.Contains(target.Expr, "vector(") {
				t.Errorf("%q shows a number where there are no data", p.Title)
			}
			for _, m := range selector.FindAllStringSubmatch(target.Expr, -1) {
				if slices.Contains(names[m[1]], "group") && !strings.Contains(m[2], `group=~"$group"`) {
					t.Errorf("%q counts %s of all groups", p.Title, m[1])
				}
			}
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !strings.HasPrefix(v[1], "__") && !slices.Contains(variables, v[1]) {
					t.Errorf("%q refers to $%s", p.Title, v[1])
				}
			}
		}
	}
}

// Prometheus' tool accepts the rules, they fire when they should, and it can read the
// dashboard's queries.
func TestPromtool(t *testing.T) {
	promtool(t, nil, "check", "rules", rulesFile)
	promtool(t, nil, "test", "rules", rulesTestFile)

	variable := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$job", ".*", "$instance", ".*", "$group", ".*")
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for _, p := range readDashboard(t).Panels {
		for i, target := range p.Targets {
			expr, err := json.Marshal(variable.Replace(target.Expr)) // which YAML reads, too
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&rules, "  - record: panel_%d_%d\n    expr: %s\n", p.ID, i, expr)
		}
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, nil, "check", "rules", file)
}

// The programs in the document are those of the three modules' examples, line by line, so
// they compile and work.
func TestProgramsInDocuments(t *testing.T) {
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	programs := regexp.MustCompile("(?s)```golang\n(.*?)```").FindAllStringSubmatch(read(t, monitoring), -1)
	for i, call := range []string{"prom.New(", "otel.NewMetrics(", "otel.New(", "debug.New("} { // in the order of the document
		if i >= len(programs) || !strings.Contains(programs[i][1], call) {
			t.Fatalf("%s has no program with %s in its place", monitoring, call)
		}
		module, _, _ := strings.Cut(call, ".")
		example := words(read(t, "../"+module+"/example_test.go"))
		for line := range strings.Lines(programs[i][1]) {
			if !strings.Contains(example, words(line)) {
				t.Errorf("%s has a line that is not in the example of %s: %s", monitoring, module, line)
			}
		}
	}
}
