// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

// embeddedKinds are those that are possible without an ensemble of one's own.
var embeddedKinds = slices.DeleteFunc(allNames(), func(name string) bool {
	k, _ := kindNamed(name)
	return k.server
})

// The same seed makes the same schedule, and another seed another one. This one is as it
// is: if it changes, seeds of earlier reports no longer repeat their runs.
func TestScheduleBySeed(t *testing.T) {
	// A kind that is added changes only the schedules that have it.
	names := slices.DeleteFunc(allNames(), func(name string) bool { return name == "slow-disk" })
	make := func(seed uint64) Schedule { return NewSchedule(seed, names, time.Minute, 4*time.Second) }
	if !reflect.DeepEqual(make(7), make(7)) {
		t.Error("one seed, two schedules")
	}
	if reflect.DeepEqual(make(7), make(8)) {
		t.Error("two seeds, one schedule")
	}
	var got []string
	for _, in := range make(7).Injections[:8] {
		got = append(got, fmt.Sprintf("%d %s after %v for %v", in.Number, in.Kind, in.After, in.Lasts))
	}
	want := []string{
		"1 restart-server after 2s for 0s",
		"2 pause-worker after 2s for 6.504s",
		"3 swallow-answer after 6.814s for 3s",
		"4 delay-link after 9.027s for 4s",
		"5 pause-leader after 9.782s for 1.613s",
		"6 throttle-link after 12.895s for 2.439s",
		"7 blackhole-connection after 16.042s for 3.398s",
		"8 late-helper after 19.103s for 2.669s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("seed 7 begins with\n%q, want\n%q", got, want)
	}
}

// Workers stay inside for the first fault of each kind, and for two in three of all. In ten
// minutes every kind comes both ways.
func TestScheduleStays(t *testing.T) {
	for _, tt := range []struct {
		kinds       []string
		duration    time.Duration
		least, most float64 // the share of faults for which no worker stays
		both        bool    // each kind comes both ways
	}{
		{allNames(), 10 * time.Minute, 0.25, 0.4, true},
		{embeddedKinds, 10 * time.Minute, 0.25, 0.4, true},
		{[]string{"revoke"}, 10 * time.Minute, 0.3, 0.36, true},
		{allNames(), 24 * time.Hour, 0.32, 0.34, true},
		{allNames(), 30 * time.Second, 0, 0.3, false},
	} {
		t.Run(fmt.Sprintf("%d kinds, %v", len(tt.kinds), tt.duration), func(t *testing.T) {
			for seed := range uint64(100) {
				if tt.duration > time.Hour && seed > 2 {
					break
				}
				s := NewSchedule(seed, tt.kinds, tt.duration, 4*time.Second)
				staying, moving := make(map[string]int), make(map[string]int)
				n := 0
				for _, in := range s.Injections {
					switch {
					case in.Stays:
						staying[in.Kind]++
					case staying[in.Kind] == 0:
						t.Errorf("seed %d: %+v is the first of its kind", seed, in)
					default:
						moving[in.Kind]++
						n++
					}
				}
				if share := float64(n) / float64(len(s.Injections)); share < tt.least || share > tt.most {
					t.Errorf("seed %d: no worker stays for %.2f of the faults, want %.2f to %.2f", seed, share, tt.least, tt.most)
				}
				if tt.both && (len(staying) < len(tt.kinds) || len(moving) < len(tt.kinds)) {
					t.Errorf("seed %d: workers stay for %v, and do not for %v", seed, staying, moving)
				}
			}
		})
	}
}

func TestSchedule(t *testing.T) {
	for _, tt := range []struct {
		kinds     []string
		duration  time.Duration
		timeout   time.Duration
		least     int // faults
		leastEach int // of each kind
		distinct  int // kinds at least
	}{
		{allNames(), 10 * time.Minute, 4 * time.Second, 85, 2, 20},
		{allNames(), 10 * time.Minute, 10 * time.Second, 75, 2, 20},
		{embeddedKinds, 10 * time.Minute, 4 * time.Second, 65, 4, 13},
		{embeddedKinds, 10 * time.Minute, 10 * time.Second, 65, 3, 13},
		{allNames(), 2 * time.Minute, 4 * time.Second, 20, 0, 15},
		{allNames(), 30 * time.Second, 4 * time.Second, 16, 0, 15},
		{embeddedKinds, 30 * time.Second, 4 * time.Second, 12, 0, 12},
		{allNames(), 30 * time.Second, 2 * time.Second, 16, 0, 16},
		{[]string{"kill-leader"}, 10 * time.Minute, 4 * time.Second, 20, 20, 1},
		{[]string{"revoke"}, 10 * time.Minute, 4 * time.Second, 60, 60, 1},
		{nil, 10 * time.Minute, 4 * time.Second, 0, 0, 0},
		{allNames(), 24 * time.Hour, 10 * time.Second, 10_000, 400, 20},
		{allNames(), time.Second, 10 * time.Second, 0, 0, 0},
		{allNames(), 0, 10 * time.Second, 0, 0, 0},
	} {
		t.Run(fmt.Sprintf("%d kinds, %v, T=%v", len(tt.kinds), tt.duration, tt.timeout), func(t *testing.T) {
			fewest, least := 1<<30, 1<<30
			for seed := range uint64(200) {
				if tt.duration > time.Hour && seed > 3 {
					break
				}
				s := NewSchedule(seed, tt.kinds, tt.duration, tt.timeout)
				checkSchedule(t, s, tt.timeout)
				each := make(map[string]int)
				for _, in := range s.Injections {
					each[in.Kind]++
				}
				for _, name := range tt.kinds {
					least = min(least, each[name])
				}
				if len(each) < tt.distinct || len(s.Kinds()) != len(each) {
					t.Errorf("seed %d: %d kinds of at least %d, %v", seed, len(each), tt.distinct, s.Kinds())
				}
				fewest = min(fewest, len(s.Injections))
			}
			if fewest < tt.least || len(tt.kinds) > 0 && least < tt.leastEach {
				t.Errorf("%d faults of at least %d, %d of each kind of at least %d", fewest, tt.least, least, tt.leastEach)
			}
			t.Logf("at least %d faults, %d of each kind", fewest, least)
		})
	}
}

// checkSchedule checks what is true of every schedule.
func checkSchedule(t *testing.T, s Schedule, timeout time.Duration) {
	t.Helper()
	var serverFree time.Duration
	for i, in := range s.Injections {
		k, ok := kindNamed(in.Kind)
		if !ok || in.Number != i+1 || i > 0 && in.After < s.Injections[i-1].After {
			t.Fatalf("injection %d is %+v", i, in)
		}
		if in.After+in.Lasts > s.End {
			t.Errorf("%+v is over after the end, %v", in, s.End)
		}
		if in.Kind == "pause-worker" && in.Lasts < timeout+timeout/4 {
			t.Errorf("%+v is no longer than the session timeout of %v", in, timeout)
		}
		if k.server {
			if in.After < serverFree {
				t.Errorf("%+v begins before %v: it hits a server soon after another fault", in, serverFree)
			}
			serverFree = in.After + in.Lasts + settling
			if in.Lasts > 10*time.Second {
				t.Errorf("%+v takes a server away for too long", in)
			}
		}
		active := 0
		for _, before := range s.Injections[max(0, i-30):i] {
			if other, _ := kindNamed(before.Kind); !other.server && before.After+before.Lasts > in.After {
				active++
			}
		}
		if !k.server && active >= atOnce {
			t.Errorf("%+v begins while %d others are active", in, active)
		}
	}
}
