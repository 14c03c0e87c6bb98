// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Each script is a sequence of steps for two or three processes:
//
//	w1=5     the writer of process 1 is granted the lock with token 5
//	r2=0     the reader of process 2, whose token is not known
//	u1=5     the reader of process 1 with token 5 is upgraded to a writer
//	w1-      it leaves
//	w1!      it is told that it has lost the lock, and does not leave
//	w1?      it queues
//	w1x      it leaves the queue
func TestReferee(t *testing.T) {
	const (
		overlap = "while"
		below   = "below an earlier writer's"
		above   = "not above that of the earlier reader"
		stolen  = "the token of a write of"
		order   = "which queued earlier"
	)
	for _, tt := range []struct {
		what, script string
		want         string // what each violation says; "" if there is to be none
	}{
		{"one after the other", "w1=1 w1- w2=2 w2-", ""},
		{"goroutines of one process", "w1=1 w1=1 w1- w1-", ""},
		{"readers together", "r1=1 r2=2 r1- r2-", ""},
		{"a reader beside its own writer", "w1=1 r1=1 w1- r1- w2=2", ""},
		{"the same, and the reader is told first", "r1=1 w1=1 r1- w1- w2=2", ""},
		{"readers in another order than their tokens", "r1=2 r2=1 r1- r2- w1=3", ""},
		{"no tokens", "w1=0 w1- r2=0 r2- w1=0 w1-", ""},
		{"after a loss", "w1=1 w1! w2=2", ""},

		{"two writers", "w1=1 w2=2", overlap},
		{"a reader beside another's writer", "w1=1 r2=2", overlap},
		{"a writer beside another's reader", "r1=1 w2=2", overlap},
		{"one of two goroutines is still inside", "w1=1 w1=1 w1- w2=2", overlap},
		{"a downgraded reader is still inside", "w1=1 r1=1 w1- w2=2", overlap},
		{"a third process beside two readers", "r1=1 r2=2 r1- w3=3", overlap},

		{"a writer below a writer", "w1=2 w1- w2=1", below},
		{"a reader below a writer", "w1=2 w1- r2=1", below},
		{"a writer below a reader", "r1=2 r1- w2=1", above},
		{"a writer with a reader's token", "r1=2 r1- w2=2", above},
		{"a writer below an earlier one of two readers", "r1=3 r2=2 r1- r2- w1=3 w1- w2=2", below},
		{"a writer with another's token", "w1=1 w1- w2=1", stolen},
		{"a reader with another's token", "w1=1 w1- r2=1", stolen},
		{"an old token after a new one", "w1=1 w1- w2=2 w2- r3=1", stolen},

		{"an upgrade", "r1=1 r2=2 r2- u1=1 u1- u1=1 u1- r1- w2=3", ""},
		{"an upgrade beside a reader", "r1=1 r2=2 u1=1", overlap},
		{"an upgrade below a writer", "w2=2 w2- u1=1", below},
		{"an upgrade with another reader's token", "r2=2 r2- u1=2", above},
		{"a reader with an upgrade's token", "r1=1 u1=1 u1- r1- r2=1", stolen},
		{"a writer below a reader beside an upgrade", "r1=1 r2=3 r2- u1=1 u1- r1- w2=2", above},

		{"in order", "w1? w2? r3? w1=1 w1- w2=2 w2- r3=3", ""},
		{"readers in any order", "w3? r1? r2? w3=1 w3- r2=3 r1=2", ""},
		{"a reader beside its writer overtakes", "w1? w2? r1? w1=1 r1=1", ""},
		{"and only beside it", "w1? w2? r1? w1=1 w1- r1=1", order},
		{"one that gave up", "w1? w2? w1x w2=1", ""},
		{"one that queues again", "w1? w2? w1=1 w1- w1? w2=2", ""},
		{"one that was never announced", "w1? w2=1", ""},
		{"a writer that overtakes", "w1? w2? w2=1", order},
		{"a reader that overtakes a writer", "r3? w1? r2? r3=1 r2=3", order},
		{"a writer that overtakes a reader", "r1? w2? w2=1", order},
		{"a second goroutine keeps the place", "w1? w2? w1? w2=1", order},
	} {
		t.Run(tt.what, func(t *testing.T) {
			got := play(tt.script)
			if tt.want == "" && len(got) > 0 {
				t.Errorf("%s: %q", tt.script, got)
			}
			if tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("%s: got %q, want one violation that says %q", tt.script, got, tt.want)
			}
		})
	}
}

// play plays a script, and returns the violations.
func play(script string) (violations []string) {
	ref := NewReferee(func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) })
	leave, lost := map[string][]func(){}, map[string]bool{}
	for step := range strings.FieldsSeq(script) {
		name, do := step[:2], step[2:]
		c := Claim{Owner: name[1:], Read: name[0] == 'r', Upgraded: name[0] == 'u', Held: func() bool { return !lost[name] }}
		switch do {
		case "?":
			ref.Queued(c)
		case "x":
			ref.Withdrawn(c)
		case "!":
			lost[name] = true
		case "-":
			last := len(leave[name]) - 1
			leave[name][last]()
			leave[name] = leave[name][:last]
		default:
			if _, err := fmt.Sscanf(do, "=%d", &c.Token); err != nil {
				panic(err)
			}
			leave[name] = append(leave[name], ref.Granted(c))
		}
	}
	return violations
}

// A grant that was lost before the Referee heard of it is not judged, but counts
// as inside until it leaves.
func TestLostBeforeItIsJudged(t *testing.T) {
	ref := NewReferee(t.Errorf)
	defer ref.Granted(Claim{Owner: "1", Token: 2})()
	leave := ref.Granted(Claim{Owner: "2", Token: 1, Held: func() bool { return false }})
	if n, in := ref.Entries(), ref.Inside(); n != 1 || in != 2 {
		t.Errorf("%d entries, %d inside, want 1 and 2", n, in)
	}
	leave()
	leave()
	if in := ref.Inside(); in != 1 {
		t.Errorf("%d inside, want 1", in)
	}
	ref.LeaveAll()
	if in := ref.Inside(); in != 0 {
		t.Errorf("%d inside after all have left", in)
	}
}

// Locks have nothing to do with each other.
func TestLocksAreApart(t *testing.T) {
	ref := NewReferee(t.Errorf)
	a, b := Claim{Lock: "a", Owner: "1", Token: 2}, Claim{Lock: "b", Owner: "2", Token: 1}
	ref.Queued(a)
	ref.Queued(b)
	for _, c := range []Claim{b, a, b} {
		defer ref.Granted(c)()
	}
	if n, k := ref.Entries(), ref.Tokens(); n != 3 || k != 2 {
		t.Errorf("%d entries with %d tokens, want 3 and 2", n, k)
	}
}

// The messages name the processes, the lock and the nodes.
func TestMessages(t *testing.T) {
	var got []string
	ref := NewReferee(func(format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) })
	ref.Granted(Claim{Lock: "jobs", Owner: "p1", Token: 7, Node: "lock-0000000001"})
	ref.Granted(Claim{Lock: "jobs", Owner: "p2", Read: true})
	want := []string{"reader p2 of jobs was granted the lock while writer p1 of jobs with token 7 (lock-0000000001) is inside"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// With the race detector this shows that the methods may be called concurrently.
func TestConcurrentCalls(t *testing.T) {
	ref := NewReferee(t.Errorf)
	var lock sync.Mutex
	token := uint64(0)
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			for range 100 {
				lock.Lock()
				token++
				leave := ref.Granted(Claim{Owner: fmt.Sprint(p), Token: token})
				leave()
				lock.Unlock()
				ref.Inside()
			}
		})
	}
	wg.Wait()
	if n, k := ref.Entries(), ref.Tokens(); n != 400 || k != 400 {
		t.Errorf("%d entries with %d tokens, want 400 and 400", n, k)
	}
}
