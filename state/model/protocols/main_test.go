// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/state/model/internal/checker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		args string
		err  string // a part of it; "" for none
		out  []string
	}{
		{`-run ^lockall:.(two.groups.\[|nested,.the.group.never)`, "", []string{"lockall: two groups [GXY GYX]", "holds", "deadlock", "group 0 queues everywhere; nested 1 enters X; nested 1 queues in Y", "searches, "}},
		{"-run ^abandoned:.two.clients,.three.rounds$ -limit 50", "1 of 1 searches did not end as expected", []string{"cut off (WRONG)"}},
		{"-run ^lockall:.nested,.the.group.never -v", "", []string{"  4 nested 1 queues in Y", "X: N1 (inside) G0; Y: G0 N1"}},
		{"-run nothing", "matches no search", nil},
		{"-run (", "-run: ", nil},
		{"-set all", "it must be quick, full or long", nil},
	} {
		var out strings.Builder
		err := run(strings.Fields(tt.args), &out)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.args, err, tt.err)
		}
		for _, part := range tt.out {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: no %q in\n%s", tt.args, part, out.String())
			}
		}
	}
}

func TestPrintTrace(t *testing.T) {
	trace := []checker.Event{{Action: "start"}}
	for _, action := range strings.Fields("a b c d e f g") {
		trace = append(trace, checker.Event{Actor: "p", Action: action})
	}
	for n, want := range map[int]string{
		0: "",
		1: "    \n",
		2: "    p a\n",
		7: "    p a; p b; p c; p d; p e; p f\n",
		8: "    1 more, p b; p c; p d; p e; p f; p g\n",
	} {
		var out strings.Builder
		printTrace(&out, trace[:n], false)
		if out.String() != want {
			t.Errorf("%d events: %q, want %q", n, out.String(), want)
		}
	}
}
