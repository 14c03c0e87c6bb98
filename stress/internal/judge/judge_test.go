// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/checks"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Histories, and what the judge finds in them: text of a finding, or nothing.
func TestJudge(t *testing.T) {
	tests := []struct {
		name    string
		history string
		outcome verdict.Outcome
		checks  []string // that find something
		text    string   // in the first finding
	}{
		{"one after the other", `
			1 p0 request a
			1.1 p0 granted a t10
			1.2 p1 request a
			2 p0 release a
			2.1 p1 granted a t11
			2.2 p0 released a
			3 p1 release a
			3.1 p1 released a
			4 h stopping now`, verdict.OK, nil, ""},
		{"double grant", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10
			1.2 p1 granted a t11
			2 p0 release a
			2.1 p0 released a
			2.2 p1 release a
			2.3 p1 released a`, verdict.Violation, []string{verdict.Overlap, verdict.Linear}, `lock "a" was held twice at 1.200 s: by process 0, worker 0, token 10, since 1.100 s, and by process 1, worker 0, token 11, since 1.200 s`},
		{"goroutines of one process share", `
			1 p0 request a
			1 p0w1 request a
			1.1 p0 granted a t10
			1.2 p0w1 granted a t10
			2 p0 release a
			2.1 p0w1 release a
			2.2 p0 released a
			2.2 p0w1 released a`, verdict.OK, nil, ""},
		{"goroutines of one process share, and one stays", `
			1 p0 request a
			1 p0w1 request a
			1 p1 request a
			1.1 p0 granted a t10
			1.2 p0w1 granted a t10
			2 p0 release a
			2.1 p0 released a
			2.2 p1 granted a t11
			2.3 p0w1 release a
			2.4 p0w1 released a
			2.5 p1 release a
			2.5 p1 released a`, verdict.Violation, []string{verdict.Overlap, verdict.Linear}, `by process 0, worker 1`},
		{"mutex", `
			1 p0 request m
			1 p0w1 request m
			1 p1 request m
			1.1 p0 granted m t10.1
			2 p0 release m
			2.1 p0w1 granted m t10.2
			2.1 p0 released m
			3 p0w1 release m
			3.1 p0w1 released m
			3.1 p1 granted m t11.1
			3.2 p1 release m
			3.2 p1 released m`, verdict.OK, nil, ""},
		{"mutex that goroutines share", `
			1 p0 request m
			1 p0w1 request m
			1.1 p0 granted m t10.1
			1.2 p0w1 granted m t10.2
			2 p0 release m
			2.1 p0 released m
			3 p0w1 release m
			3.1 p0w1 released m`, verdict.Violation, []string{verdict.Overlap, verdict.Linear}, "held twice"},
		{"turn repeated", `
			1 p0 request m
			1 p0w1 request m
			1.1 p0 granted m t10.1
			2 p0 release m
			2.1 p0 released m
			2.1 p0w1 granted m t10.1
			3 p0w1 release m
			3.1 p0w1 released m`, verdict.Violation, []string{verdict.Tokens, verdict.Linear}, "token 10 turn 1 was granted to process 0 at 1.100 s and again at 2.100 s"},
		{"token repeated", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10
			2 p0 release a
			2.1 p0 released a
			2.1 p1 granted a t10
			3 p1 release a
			3.1 p1 released a`, verdict.Violation, []string{verdict.Tokens, verdict.Linear}, "token 10 was granted to process 0 at 1.100 s and again at 2.100 s, to process 1"},
		{"token fell", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t11
			2 p0 release a
			2.1 p0 released a
			2.1 p1 granted a t10
			3 p1 release a
			3.1 p1 released a`, verdict.Violation, []string{verdict.Tokens, verdict.Linear}, `lock "a" was granted at 2.100 s to process 1, worker 0, token 10, after process 0 had been granted it with token 11`},
		{"lingering", `
			1 p0 request a
			1.1 p0 granted a t10
			2 p0 release a
			2.5 p0w1 request a
			2.5 p0w1 granted a t10
			3 p0w1 release a
			4 p0 released a
			4 p0w1 released a`, verdict.OK, nil, ""},
		{"readers together", `
			1 p0 request rw read
			1 p1 request rw read
			1.1 p1 granted rw read t11
			1.2 p0 granted rw read t10
			1.3 p2 request rw write
			1.5 p3 request rw upgradable
			1.6 p3 granted rw upgradable t9
			2 p0 release rw
			2.1 p1 release rw
			2.2 p0 released rw
			2.2 p1 released rw
			2.3 p3 release rw
			2.4 p3 released rw
			2.5 p2 granted rw write t12
			3 p2 release rw
			3 p2 released rw`, verdict.OK, nil, ""},
		{"reader beside writer", `
			1 p0 request rw read
			1 p1 request rw write
			1.1 p0 granted rw read t10
			1.2 p1 granted rw write t11
			2 p0 release rw
			2.1 p1 release rw
			2.2 p0 released rw
			2.2 p1 released rw`, verdict.Violation, []string{verdict.Overlap, verdict.Linear}, "process 0, worker 0, read, token 10"},
		{"two upgradable readers", `
			1 p0 request rw upgradable
			1 p1 request rw upgradable
			1.1 p0 granted rw upgradable t10
			1.2 p1 granted rw upgradable t11
			2 p0 release rw
			2 p1 release rw`, verdict.Violation, []string{verdict.Overlap, verdict.Linear}, "upgradable, token 11"},
		{"downgrade", `
			1 p0 request rw write
			1 p1 request rw read
			1.1 p0 granted rw write t10
			1.2 p0 changed rw read
			1.3 p1 granted rw read t11
			2 p0 release rw
			2.1 p1 release rw
			2.2 p0 released rw
			2.2 p1 released rw`, verdict.OK, nil, ""},
		{"downgrade by a second handle", `
			1 p0 request rw write
			1.1 p0 granted rw write t10
			1.2 p0w1 request rw read
			1.2 p0w1 granted rw read t10
			1.2 p1 request rw read
			1.3 p0 release rw
			1.4 p1 granted rw read t11
			1.5 p0 released rw
			2 p0w1 release rw
			2.1 p1 release rw
			2.2 p0w1 released rw
			2.2 p1 released rw`, verdict.OK, nil, ""},
		{"downgrade that lets a writer in", `
			1 p0 request rw write
			1 p1 request rw write
			1.1 p0 granted rw write t10
			1.2 p0 changed rw read
			1.3 p1 granted rw write t11
			2 p0 release rw
			2.1 p1 release rw
			2.2 p0 released rw
			2.2 p1 released rw`, verdict.Violation, []string{verdict.Overlap, verdict.Linear}, "process 0, worker 0, read, token 10, since 1.100 s, and by process 1"},
		{"upgrade", `
			1 p0 request rw upgradable
			1 p1 request rw read
			1.1 p0 granted rw upgradable t10
			1.2 p1 granted rw read t11
			1.3 p1 release rw
			1.4 p1 released rw
			1.5 p0 changed rw write
			1.6 p0 changed rw upgradable
			1.6 p1 request rw read
			1.7 p1 granted rw read t12
			2 p0 release rw
			2.1 p1 release rw
			2.2 p0 released rw
			2.2 p1 released rw`, verdict.OK, nil, ""},
		{"upgrade beside a reader", `
			1 p0 request rw upgradable
			1 p1 request rw read
			1.1 p0 granted rw upgradable t10
			1.2 p1 granted rw read t11
			1.5 p0 changed rw write
			1.6 p1 release rw
			1.7 p1 released rw
			2 p0 release rw
			2.2 p0 released rw`, verdict.Violation, []string{verdict.Overlap, verdict.Linear}, "process 0, worker 0, write, token 10"},
		{"permits", `
			1 p0 request s
			1 p1 request s
			1 p2 request s
			1.1 p0 granted s t12
			1.2 p1 granted s t11
			2 p0 release s
			2.1 p2 granted s t10
			3 p1 release s
			3 p2 release s`, verdict.OK, nil, ""},
		{"too many permits", `
			1 p0 request s
			1 p1 request s
			1.1 p0 granted s t12 n2
			1.2 p1 granted s t11
			2 p0 release s
			3 p1 release s`, verdict.Violation, []string{verdict.Overlap}, `3 permits of "s" were in use at 1.200 s, of 2`},

		{"killed", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10 0x1
			2 h began 1 kill-worker process 0
			2 h ended p0
			2 h over 1
			4.2 h expired 0x1
			4.3 p1 granted a t11
			5 p1 release a`, verdict.OK, nil, ""},
		{"killed, and granted a moment later", `
			1 p0 request a
			1 p1 request a
			2 h ended p0
			2.001 p0 granted a t10
			4.3 p1 granted a t11
			5 p1 release a`, verdict.OK, nil, ""},
		{"stopped", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10 0x1
			2 h began 1 pause-worker process 0
			4.3 h expired 0x1
			4.3 p1 granted a t11
			6 h over 1
			6.1 p0 lost a 0x1
			7 p1 release a
			7.1 p1 released a
			8 h alive now`, verdict.OK, nil, ""},
		{"stopped, and not told afterwards", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10
			2 h began 1 pause-worker process 0
			4.3 p1 granted a t11
			6 h over 1
			7.5 h alive now
			8 p0 release a
			9 p1 release a`, verdict.Violation, []string{verdict.Overlap, verdict.Linear}, `is still held twice at 7.500 s`},
		{"stopped too late to be an excuse", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10
			1.9 p1 granted a t11
			2 h began 1 pause-worker process 0
			6 h over 1
			6.1 p0 lost a
			7 p1 release a`, verdict.Violation, []string{verdict.Overlap, verdict.Linear}, "held twice at 1.900 s"},
		{"the next one was stopped, which is no excuse", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10
			2 h began 1 pause-worker process 1
			4.3 p1 granted a t11
			6 h over 1
			7 p0 release a
			8 p1 release a`, verdict.Violation, []string{verdict.Overlap, verdict.Linear}, "held twice at 4.300 s"},
		{"told of the grant after a stop", `
			1 p0 request a
			1 p1 request a
			1.5 h began 1 pause-worker process 0
			4 p1 granted a t11
			6 h over 1
			6.1 p0 granted a t10
			6.2 p0 lost a
			7 p1 release a`, verdict.OK, nil, ""},
		{"written after a stop", `
			1 p0 request a
			1 p1 request a
			1.5 h began 1 pause-worker process 0
			4 p1 granted a t11
			5 p1 release a` + late(`
			1.4 p0 granted a t10
			1.45 p0 lost a`), verdict.OK, nil, ""},
		{"node deleted under the holder", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10
			2 h began 1 delete-holder process 0 of a
			2.01 h over 1
			2.01 p1 granted a t11
			2.02 p0 valid a
			2.05 p0 lost a
			3 p1 release a`, verdict.OK, nil, ""},
		{"node deleted under another holder", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10
			2 h began 1 delete-holder process 0 of m
			2.01 h over 1
			2.01 p1 granted a t11
			2.05 p0 lost a
			3 p1 release a`, verdict.Violation, []string{verdict.Overlap, verdict.Linear}, "held twice at 2.010 s"},
		{"node deleted under the holder, who is not told", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10
			2 h began 1 delete-holder process 0 of a
			2.01 h over 1
			2.01 p1 granted a t11
			4.1 h alive now
			5 p0 lost a
			6 p1 release a`, verdict.Violation, []string{verdict.Overlap, verdict.Linear}, "is still held twice at 4.100 s"},
		{"a double grant that is written late", `
			1 p0 request a
			1 p1 request a
			3 p1 granted a t11
			3.5 h alive now` + late(`
			2.9 p0 granted a t10
			3.1 p0 release a
			4 p1 release a`), verdict.Violation, []string{verdict.Overlap, verdict.Linear}, "held twice at 3.000 s"},
		{"permits of a process that is stopped", `
			1 p0 request s
			1 p1 request s
			1.1 p0 granted s t10 n2
			2 h began 1 pause-worker process 0
			4 p1 granted s t11
			6 h over 1
			6.1 p0 lost s
			7 p1 release s`, verdict.OK, nil, ""},
		{"permits of a process that is stopped, and not told afterwards", `
			1 p0 request s
			1 p1 request s
			1.1 p0 granted s t10 n2
			2 h began 1 pause-worker process 0
			4 p1 granted s t11
			6 h over 1
			7.1 p0 lost s
			8 p1 release s`, verdict.Violation, []string{verdict.Overlap}, "3 permits of \"s\" are still in use at 7.100 s"},

		{"called valid", `
			1 p0 request a
			1.1 p0 granted a t10
			1.2 p0 valid a
			2 p0 release a
			2 p1 request a
			2.1 p1 granted a t11
			2.2 p1 valid a
			3 p1 release a`, verdict.OK, nil, ""},
		{"called valid after a stop", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10
			2 h began 1 pause-worker process 0
			4.3 p1 granted a t11
			6 h over 1
			6.1 p0 valid a
			6.2 p0 lost a
			7 p1 release a`, verdict.Violation, []string{verdict.Valid}, "was told at 6.100 s that its hold of \"a\" is valid, but process 1, worker 0, token 11 holds it since 4.300 s"},
		{"called valid after a stop, when the next one has left", `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10
			2 h began 1 pause-worker process 0
			4.3 p1 granted a t11
			5 p1 release a
			6 h over 1
			6.1 p0 valid a
			6.2 p0 lost a`, verdict.Violation, []string{verdict.Valid}, "but process 1 was granted it with token 11 at 4.300 s"},

		{"register", `
			1 p0 request a
			1.1 p0 granted a t10
			1.2 h accepted a t10
			1.2 p0 write a t10 ok
			2 p0 release a
			2 p1 request a
			2.1 p1 granted a t11
			2.2 h accepted a t11
			2.3 h stale a t10
			2.4 h accepted a t11
			3 p1 release a`, verdict.OK, nil, ""},
		{"write accepted late", `
			1 p0 request a
			1.1 p0 granted a t10
			2 p0 release a
			2 p1 request a
			2.1 p1 granted a t11
			2.2 h accepted a t11
			2.3 h accepted a t10
			3 p1 release a`, verdict.Violation, []string{verdict.Register}, `accepted a write to "a" with token 10 at 2.300 s, after one with token 11`},
		{"write with a token that was not granted", `
			1 p0 request a
			1.1 p0 granted a t10
			1.2 h accepted a t11
			2 p0 release a`, verdict.Violation, []string{verdict.Register}, `with token 11 at 1.200 s, which was granted to no process`},
		{"write refused without need", `
			1 p0 request a
			1.1 p0 granted a t10
			1.2 h accepted a t10
			1.3 h stale a t10
			2 p0 release a`, verdict.Violation, []string{verdict.Register}, `refused a write to "a" with token 10`},
		{"write of a holder refused", `
			1 p0 request a
			1.1 p0 granted a t10
			1.3 p0 write a t10
			2 p0 release a`, verdict.Violation, []string{verdict.Register}, `although it held the lock since 1.100 s`},
		{"turns in the register", `
			1 p0 request m
			1.1 p0 granted m t10.1
			1.2 h accepted m t10.1
			1.3 p0 release m
			1.4 p0w1 request m
			1.5 p0w1 granted m t10.2
			1.6 h accepted m t10.2
			1.7 h accepted m t10.1
			2 p0w1 release m`, verdict.Violation, []string{verdict.Register}, `with token 10 turn 1 at 1.700 s, after one with token 10 turn 2`},

		{"told in time", `
			1 p0 request a
			1.1 p0 granted a t10 0x1
			2 p0 lost a 0x1
			2.4 h expired 0x1`, verdict.OK, nil, ""},
		{"told late", `
			1 p0 request a
			1.1 p0 granted a t10 0x1
			2.1 h expired 0x1
			2.3 p0 lost a 0x1
			3 h alive now`, verdict.Violation, []string{verdict.Told}, `was told at 2.300 s that it had lost "a" (token 10), but the leader ended its session 0x1 at 2.100 s, 200ms before`},
		{"told late, as the log says afterwards", `
			1 p0 request a
			1.1 p0 granted a t10 0x1
			2.3 p0 lost a 0x1
			3 h alive now` + late(`
			2.1 h expired 0x1`), verdict.Violation, []string{verdict.Told}, `was told at 2.300 s that it had lost "a" (token 10), but the leader ended its session 0x1 at 2.100 s, 200ms before`},
		{"never told", `
			1 p0 request a
			1.1 p0 granted a t10 0x1
			2.3 p0 release a 0x1
			3 h alive now` + late(`
			2.1 h expired 0x1`), verdict.Violation, []string{verdict.Told}, `process 0 still held a lock at 2.300 s, and was not told that the leader had ended its session 0x1`},
		{"told late, but it was stopped", `
			1 p0 request a
			1.1 p0 granted a t10 0x1
			2 h began 1 pause-worker process 0
			4.1 h expired 0x1
			6 h over 1
			6.3 p0 lost a 0x1`, verdict.OK, nil, ""},
		{"told late, long after it was stopped", `
			1 p0 request a
			1.1 p0 granted a t10 0x1
			2 h began 1 pause-worker process 0
			3 h over 1
			4.1 h expired 0x1
			6.3 p0 lost a 0x1`, verdict.Violation, []string{verdict.Told}, `was told at 6.300 s that it had lost "a" (token 10), but the leader ended its session 0x1 at 4.100 s`},

		{"a wait in an outage", `
			1 p0 request a
			2 h began 1 kill-leader server 1
			20 h over 1
			22 p0 granted a t10
			23 p0 release a
			24 h stopping now`, verdict.OK, nil, ""},
		{"a wait that is too long", `
			1 p0 request a
			22 p0 granted a t10
			23 p0 release a
			24 h stopping now`, verdict.Failed, []string{verdict.Patience}, `process 0, worker 0 still waits for lock "a" after 21s`},
		{"a wait that has not ended for too long", `
			1 p0 request a
			22 h alive now
			23 h ended p0`, verdict.Failed, []string{verdict.Patience}, `process 0, worker 0 still waits for lock "a"`},
		{"a waiter that is forgotten", `
			1 p0 request a
			2 h stopping now
			3 h alive now`, verdict.Failed, []string{verdict.Patience}, `has waited for lock "a" since 1.000 s, and the wait never ended`},
		{"a waiter that is forgotten, and does not keep its process from ending", `
			1 p0 request a
			2 h stopping now
			3 h ended p0 well
			4 h alive now`, verdict.Failed, []string{verdict.Patience}, `has waited for lock "a" since 1.000 s, and the wait never ended`},
		{"waits that end", `
			1 p0 request a
			1 p1 request a
			1 p2 request a
			2 p0 refused a
			2 h stopping now
			3 h ended p1
			3 h ended p0 well
			3 p2 granted a t10`, verdict.OK, nil, ""},
		{"a run that was cut short", `
			1 p0 request a
			2 h alive now`, verdict.Void, nil, ""},

		{"asked and given up", `
			1 p0 request a
			1.1 p0 granted a t10
			2 h began 1 revoke process 0 of a
			2 h over 1
			2.1 p0 revoked a
			2.2 p0 release a`, verdict.OK, nil, ""},
		{"asked, and not given up", `
			1 p0 request a
			1.1 p0 granted a t10
			2 h began 1 revoke process 0 of a
			2 h over 1
			22 h alive now
			22.2 p0 release a`, verdict.Failed, []string{verdict.Revocations}, `was asked at 2.000 s to give up lock "a", and still held it at 22.000 s`},

		{"element of a queue", `
			1 p0 request e1
			1.1 p0 granted e1
			2 p0 lost e1
			2 p1 request e1
			2.1 p1 granted e1
			3 p1 release e1
			3.1 p1 released e1
			3.2 p0 request e2
			3.3 p0 granted e2
			3.4 p0 release e2
			3.5 p0 released e2`, verdict.OK, nil, ""},
		{"element whose holder writes when it has lost it", `
			1 p0 request e1
			1.1 p0 granted e1 t10
			1.2 h accepted e1 t10
			2 p0 lost e1
			2.1 h accepted e1 t10
			2.2 p1 request e1
			2.3 p1 granted e1 t11
			2.4 h accepted e1 t11
			2.5 h stale e1 t10
			3 p1 release e1`, verdict.OK, nil, ""},
		{"element that was given back", `
			1 p0 request e1
			1.1 p0 granted e1
			2 p0 release e1
			2 p0 released e1 unsure
			2 p1 request e1
			2.1 p1 granted e1
			3 p1 release e1
			3.1 p1 released e1`, verdict.OK, nil, ""},
		{"element taken twice", `
			1 p0 request e1
			1.1 p0 granted e1
			2 p0 release e1
			2 p0 released e1
			2 p1 request e1
			2.1 p1 granted e1
			3 p1 release e1
			3.1 p1 released e1`, verdict.Violation, []string{verdict.Once}, `"e1" was granted at 2.100 s to process 1, worker 0, although it had been released in good order`},

		{"leadership that is given up once", `
			1 p0 request one
			1.1 p0 granted one t1
			2 p0 release one
			2 p0 released one
			2 p1 request one
			2.1 p1 granted one t2
			3 p1 release one`, verdict.Violation, []string{verdict.Once}, `"one" was granted at 2.100 s`},

		{"left", `
			1 p0 request a
			1.1 p0 granted a t10
			2 p0 release a
			3 h left /locks/a/_c_1
			3 h left /locks/a/_c_2`, verdict.Failed, []string{verdict.Left}, "left in ZooKeeper at the end: /locks/a/_c_1"},
		{"seen by a referee", `
			1 p0 request a
			1.1 p0 granted a t10
			2 p0 release a
			2 h overlap on purpose`, verdict.Violation, []string{verdict.Referees}, "a referee has seen at 2.000 s: on purpose"},
		{"failure", `
			1 p0 request a
			1.1 p0 granted a t10
			2 p0 release a
			3 h failure on purpose`, verdict.Failed, []string{verdict.Failures}, "on purpose"},
		{"too little", `
			1 p0 request a
			1.1 p0 granted a t10
			2 p0 release a
			3 h little happened`, verdict.Void, []string{verdict.Enough}, "happened"},
	}
	names := map[string]bool{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := judged(header(), script(t, tt.history))
			if v.Outcome != tt.outcome {
				t.Errorf("the outcome is %v, want %v", v.Outcome, tt.outcome)
			}
			var found []string
			for _, c := range v.Checks {
				if c.Found > 0 {
					found = append(found, c.Name)
				}
			}
			slices.Sort(found)
			slices.Sort(tt.checks)
			if !slices.Equal(found, tt.checks) {
				t.Errorf("found by %q, want %q: %+v", found, tt.checks, v.Findings)
			}
			if len(tt.checks) > 0 && !slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return strings.Contains(f.Text, tt.text) }) {
				t.Errorf("%q is in none of %+v", tt.text, v.Findings)
			}
		})
		for _, name := range tt.checks {
			names[name] = true
		}
	}
	for _, c := range New(header()).checks() {
		if !names[c.Name] && c.Name != verdict.Hits && c.Name != verdict.Decided && c.Name != verdict.Agree { // these have tests of their own
			t.Errorf("no history fails the check %q", c.Name)
		}
		if verdict.OutcomeOf(c.Name) == "" {
			t.Errorf("the check %q has no outcome", c.Name)
		}
	}
}

// Windows of operations follow each other. What spans them is judged in each.
func TestWindows(t *testing.T) {
	// turns has many processes hold lock a, or rw, one after the other.
	turns := func(from float64, lock, mode string, token int) string {
		var text strings.Builder
		text.WriteString("\n")
		for range 3 * checks.FewOperations {
			from += 0.01
			token++
			who := "p" + strconv.Itoa(2+token%3)
			fmt.Fprintf(&text, "%.4f %s request %s %s\n", from-0.05, who, lock, mode)
			fmt.Fprintf(&text, "%.4f %s granted %s %s t%d\n", from, who, lock, mode, token)
			fmt.Fprintf(&text, "%.4f %s release %s\n%.4f %s released %s\n", from+0.005, who, lock, from+0.006, who, lock)
		}
		return text.String()
	}
	for _, tt := range []struct {
		name, history string
		want          verdict.Outcome
	}{
		{"exclusive", turns(1, "a", "exclusive", 0), verdict.OK},
		{"readers only", turns(1, "rw", "read", 0) + turns(3, "rw", "read", 500) + turns(5, "rw", "read", 1000), verdict.OK},
		{"a reader that stays", `
			1 p0 request rw read
			1.1 p0 granted rw read t1` + turns(2, "rw", "read", 10) + turns(4, "rw", "read", 500) + `
			8 p0 release rw`, verdict.OK},
		{"a reader that stays when a writer comes", `
			1 p0 request rw read
			1.1 p0 granted rw read t1` + turns(2, "rw", "read", 10) + turns(4, "rw", "read", 500) + `
			7 p1 request rw write
			7.1 p1 granted rw write t900
			8 p0 release rw`, verdict.Violation},
		{"a token from an earlier window", turns(1, "a", "exclusive", 0) + `
			3 p0 request a
			3.1 p0 granted a t60
			3.2 p0 release a`, verdict.Violation},
		{"a holder that is stopped", `
			1 p0 request a
			1.1 p0 granted a t1
			1.2 h began 1 pause-worker process 0` + turns(2, "a", "exclusive", 10) + `
			5 h over 1
			5.1 p0 lost a`, verdict.OK},
		{"a holder that was stopped before, and holds on", `
			0.1 h began 1 pause-worker process 0
			0.2 h over 1
			1.5 p0 request a
			1.6 p0 granted a t1` + turns(2, "a", "exclusive", 10) + `
			5.1 p0 release a`, verdict.Violation},
		{"a holder that is told after a stop", `
			1 p0 request a
			1.2 h began 1 pause-worker process 0` + turns(2, "a", "exclusive", 10) + `
			5 h over 1
			5.05 p0 granted a t1
			5.1 p0 lost a`, verdict.OK},
		{"a reader that is told after a stop", `
			1 p0 request rw read
			1.2 h began 1 pause-worker process 0
			2 p1 request rw write
			4 p1 granted rw write t9
			5 h over 1
			5.05 p0 granted rw read t1
			5.1 p0 lost rw
			5.2 p1 release rw`, verdict.OK},
		{"a holder whose grant comes late", turns(2, "a", "exclusive", 10) + late(`
			1 p0 request a
			1.1 p0 granted a t1
			1.2 p0 release a`), verdict.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := header()
			h.Processes = 5
			v := judged(h, script(t, tt.history))
			for _, c := range v.Checks {
				if c.Name == verdict.Linear && (c.Found > 0) != (tt.want == verdict.Violation) {
					t.Errorf("%d of %d windows are wrong", c.Found, c.Judged)
				}
			}
			if v.Outcome != tt.want {
				t.Errorf("the outcome is %v, want %v: %+v", v.Outcome, tt.want, v.Findings)
			}
		})
	}
}

// Elements of a queue are forgotten long after they were done, so that memory is bounded.
// That they are done is remembered for longer.
func TestPassingLocks(t *testing.T) {
	j := New(header())
	take := func(name string, at int64) {
		for i, k := range []history.Kind{history.Request, history.Granted, history.Release, history.Released} {
			j.Add(history.Event{At: at + int64(i), Kind: k, Op: uint64(at), Lock: name, Mode: history.Exclusive})
		}
	}
	const n = 3 * scene.ManyResting
	for i := range int64(n) {
		take(fmt.Sprintf("e%d", i), 10*i+1)
	}
	if len(j.scene.Locks) > scene.ManyResting+10 || len(j.scene.Resting) > scene.ManyResting {
		t.Errorf("%d locks and %d that rest are remembered", len(j.scene.Locks), len(j.scene.Resting))
	}
	for what, n := range map[string]int{"linear": j.linear.Remembers(), "register": j.register.Remembers(), "overlap": j.overlap.Remembers()} {
		if n > scene.ManyResting+10 {
			t.Errorf("the check %s remembers %d", what, n)
		}
	}
	if v := j.Interim(); v.Outcome != verdict.OK {
		t.Errorf("%v: %+v", v.Outcome, v.Findings)
	}
	take("e7", 10*n)
	if v := j.Finish(); v.Outcome != verdict.Violation {
		t.Errorf("an element that is taken again: %v", v.Outcome)
	}
}

// late marks the lines of a script that come after all others, out of order.
func late(lines string) string { return "\nlate" + lines }
