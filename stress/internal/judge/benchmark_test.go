// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"path"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/checks"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// BenchmarkJudge judges a million events.
func BenchmarkJudge(b *testing.B) {
	h, events := generate(1, 1_000_000)
	for b.Loop() {
		if v := judged(h, events); v.Outcome != verdict.OK {
			b.Fatalf("%v: %+v", v.Outcome, v.Findings[0])
		}
	}
	b.ReportMetric(float64(len(events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// remembered returns how many items a check has in its maps and slices, and in those of what
// these have.
func remembered(check any) int { return itemsIn(reflect.ValueOf(check)) }

func itemsIn(v reflect.Value) (n int) {
	switch own := path.Base(v.Type().PkgPath()) == "checks"; {
	case v.Kind() == reflect.Pointer && path.Base(v.Type().Elem().PkgPath()) == "checks" && !v.IsNil():
		n = itemsIn(v.Elem())
	case v.Kind() == reflect.Struct && own:
		for i := range v.NumField() {
			n += itemsIn(v.Field(i))
		}
	case v.Kind() == reflect.Map:
		n = v.Len()
		for all := v.MapRange(); all.Next(); {
			n += itemsIn(all.Value())
		}
	case v.Kind() == reflect.Slice:
		n = v.Len()
		for i := range v.Len() {
			n += itemsIn(v.Index(i))
		}
	}
	return n
}

// What the judge has in memory is bounded by what is open, however long the history is.
func TestMemoryIsBounded(t *testing.T) {
	h, events := generate(1, 50_000)
	j := New(h)
	for i, e := range events {
		j.Add(e)
		if i%1000 != 0 {
			continue
		}
		holds := 0
		for _, p := range j.scene.Processes {
			holds += len(p.Holds)
		}
		for what, tt := range map[string]struct{ got, most int }{
			"holds":       {holds, 1000}, // whose requests are open: the generator writes many
			"faults":      {len(j.scene.Faults.Recent), 100},
			"overlap":     {remembered(j.overlap), 1000},
			"patience":    {remembered(j.patience), 4000},
			"revocations": {remembered(j.revocations), 1000},
			"linear":      {remembered(j.linear), 5*checks.ManyOperations + 1000},
			"register":    {remembered(j.register), 6 * checks.Memory},
		} {
			if tt.got > tt.most {
				t.Fatalf("%s after %d events: %d, want at most %d", what, i+1, tt.got, tt.most)
			}
		}
	}
}
