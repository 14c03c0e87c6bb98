// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"bytes"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

func TestReporterOnATerminal(t *testing.T) {
	var b bytes.Buffer
	r := &Reporter{w: &b, live: true}
	r.Phase("phase")
	r.Status("one")
	r.Status("two")
	r.Line("news: %d\n", 1)
	r.Status("three")
	r.Done()
	r.Line("end")
	const el = "\r\x1b[K"
	if want := el + "one" + el + "two" + el + "news: 1\ntwo" + el + "three" + el + "end\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestReporterElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		r := New(&b)
		for range 50 { // a status every 250 ms, a line every 5 s
			r.Status("status")
			time.Sleep(StatusEvery)
		}
		r.Phase("phase")
		r.Line("news")
		r.Done()
		if want := "status\nstatus\nphase\nnews\n"; b.String() != want {
			t.Errorf("got %q, want %q", b.String(), want)
		}
	})
}

func TestAFileIsNoTerminal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if isTerminal(f) {
		t.Error("a file is taken for a terminal")
	}
}

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		var c wire.Counts
		var entries, grants float64
		// 1000 entries a second for 10 s, then 100 a second.
		for i := range 20 {
			entries, grants = m.Add(time.Now(), c)
			time.Sleep(time.Second)
			n := uint64(1000)
			if i >= 10 {
				n = 100
			}
			c.Entries += n
			c.Grants += n / 10
		}
		if entries != 100 || grants != 10 {
			t.Errorf("%v entries/s and %v grants/s, want the recent 100 and 10", entries, grants)
		}
	})
}
