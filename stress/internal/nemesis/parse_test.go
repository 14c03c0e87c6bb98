// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// everything is a run that can have every kind of fault.
var everything = Facilities{Servers: 3, Links: true, Pause: true, Stalls: true, Helpers: true}

func TestParse(t *testing.T) {
	all := allNames()
	without := func(names ...string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(all), func(n string) bool { return slices.Contains(names, n) }), " ")
	}
	embedded := Facilities{Links: true, Pause: true, Clocks: errors.New("not root")}
	for _, tt := range []struct {
		text       string
		facilities Facilities
		want       string // names
		err        string // a part of it
	}{
		{"", everything, "", ""},
		{"none", everything, "", ""},
		{"all", everything, without(), ""},
		{"all,-pause-worker", everything, without("pause-worker"), ""},
		{"all,-pause", everything, without("pause-worker", "pause-server", "pause-leader"), ""},
		{"-pause", everything, without("pause-worker", "pause-server", "pause-leader"), ""},
		{"revoke, kill-worker", everything, "kill-worker revoke", ""},
		{"delete", everything, "delete-holder delete-waiter", ""},
		{"pause,-pause-leader,revoke", everything, "pause-worker pause-server revoke", ""},
		{"all,none,revoke", everything, "revoke", ""},
		{"all", embedded, "kill-worker pause-worker cut-connection blackhole-connection delay-link throttle-link swallow-answer delete-holder delete-waiter foreign-children foreign-contenders revoke", ""},
		{"all,-isolate-leader", embedded, "kill-worker pause-worker cut-connection blackhole-connection delay-link throttle-link swallow-answer delete-holder delete-waiter foreign-children foreign-contenders revoke", ""},
		{"pause", embedded, "pause-worker", ""},
		{"kill-leader", embedded, "", "kill-leader need an ensemble of the harness's own"},
		{"isolate", embedded, "", "isolate-follower, isolate-leader need an ensemble of the harness's own"},
		{"clock-offset", embedded, "", "clock-offset need root on Linux (not root)"},
		{"pause-worker", Facilities{Links: true}, "", "need a system with SIGSTOP"},
		{"cut-connection", Facilities{}, "", "need connections through relays"},
		{"kill-leader", Facilities{Servers: 1}, "", "need an ensemble"},
		{"all,kill-wroker", everything, "", `"kill-wroker" is no kind of fault: it must be all, none, or one of kill-worker, pause-worker,`},
		{"all,,revoke", everything, "", `"" is no kind of fault`},
		{"all,-all", everything, "", `"all" is no kind of fault`},
		{"worker", everything, "", `"worker" is no kind of fault`},
	} {
		t.Run(tt.text, func(t *testing.T) {
			names, _, err := Parse(tt.text, tt.facilities)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("got\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

// What is left out of all is said, each kind with what it needs.
func TestParseSaysWhatIsLacking(t *testing.T) {
	_, lacking, err := Parse("all", Facilities{Pause: true, Helpers: true, Clocks: errors.New("not root")})
	if err != nil || len(lacking) != 8+5+1 || !strings.HasPrefix(lacking[0], "kill-server needs an ensemble") {
		t.Errorf("%d: %q, %v", len(lacking), lacking, err)
	}
	if _, lacking, _ = Parse("all", everything); len(lacking) > 0 {
		t.Errorf("lacking: %q", lacking)
	}
}

// Every kind can be named, is described, and has a way of being injected.
func TestKinds(t *testing.T) {
	for _, k := range Kinds {
		if n, ok := kindNamed(k.Name); !ok || n.Name != k.Name {
			t.Errorf("there is no kind %s", k.Name)
		}
		if k.Does == "" || k.inject == nil || strings.ContainsAny(k.Does, "\n.") {
			t.Errorf("%s: does %q", k.Name, k.Does)
		}
	}
	if strings.Count(Help("  "), "\n") != len(Kinds) {
		t.Errorf("%d kinds, and help:\n%s", len(Kinds), Help("  "))
	}
}
