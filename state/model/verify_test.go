// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

const (
	clean = "State-vector 252 byte, depth reached 1607, errors: 0\n    13447 states, stored\n  396.2	total actual memory usage\npan: elapsed time 0.03 seconds\n"
	broke = "pan:1: assertion violated (stopped==3) (at depth 51)\npan: wrote rounds.pml.trail\nWarning: Search not completed\nState-vector 252 byte, depth reached 51, errors: 1\n      122 states, stored\n"
)

// Each output is judged as that of a search expected to pass, and as that of a search
// of a wrong variant.
func TestJudge(t *testing.T) {
	const ok = ""
	tests := []struct {
		name, out   string
		holds, fail string // parts of the verdicts
	}{
		{"nothing found", clean, ok, "found no error"},
		{"an assertion", broke, "found: assertion violated (stopped==3)", ok},
		{"a cycle", strings.Replace(broke, "assertion violated (stopped==3)", "acceptance cycle", 1), "found: acceptance cycle", ok},
		{"depth", "error: max search depth too small\n" + clean, "incomplete", "incomplete"},
		{"memory", "pan: reached -DMEMLIM bound\n" + clean, "incomplete", "incomplete"},
		{"no memory", "pan: out of memory\n", "incomplete", "incomplete"},
		{"not completed", "Warning: Search not completed\n" + clean, "incomplete", "incomplete"},
		{"interrupted", "Interrupted\n" + clean, "incomplete", "incomplete"},
		{"killed", "Depth= 1706 States= 1e+06\n", "incomplete", "incomplete"},
		{"nothing at all", "", "incomplete", "incomplete"},
		{"the model's own limit", strings.Replace(broke, "stopped==3", "hi<5", 1), "too small", "too small"},
		{"the model's own queue", strings.Replace(broke, "(stopped==3)", "( !(q_full(rq[p])))", 1), "too small", "too small"},
		{"an unnamed error", strings.Replace(clean, "errors: 0", "errors: 1", 1), "not known", ok},
	}
	for _, tt := range tests {
		r := parse(tt.out)
		for want, verdict := range map[outcome]string{holds: tt.holds, fails: tt.fail} {
			got := search{want: want}.judge(r)
			if (got == "") != (verdict == "") || !strings.Contains(got, verdict) {
				t.Errorf("%s, if it %s: judged %q, want %q", tt.name, want, got, verdict)
			}
		}
	}
}

func TestParse(t *testing.T) {
	want := result{complete: true, states: 13447, depth: 1607, memory: 396.2, seconds: 0.03}
	if got := parse(clean); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Every variant of the models is searched, and every definition is one of the model's.
func TestSetsAndModels(t *testing.T) {
	for name, set := range sets {
		seen := map[string]bool{}
		for _, s := range set() {
			text, err := models.ReadFile(s.model)
			if err != nil {
				t.Fatal(err)
			}
			key := s.config() + ": " + s.property()
			if seen[key] {
				t.Errorf("%s: %s twice", name, key)
			}
			seen[key] = true
			for _, def := range s.defs {
				flag, _, _ := strings.Cut(def, "=")
				if !strings.Contains(string(text), flag) {
					t.Errorf("%s: %s does not use %s", name, s.model, flag)
				}
				if (strings.HasPrefix(flag, "V_") || strings.HasPrefix(flag, "NAIVE_")) && s.want != fails {
					t.Errorf("%s: %s is expected to hold", name, key)
				}
			}
		}
	}
	searched := map[string]bool{}
	for _, s := range slices.Concat(wrong(), naive()) {
		searched[s.defs[0]] = true
	}
	for _, model := range []string{"rounds.pml", "lock.pml"} {
		text, err := models.ReadFile(model)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.FieldsFunc(string(text), func(r rune) bool {
			return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
		}) {
			if (strings.HasPrefix(word, "V_") || strings.HasPrefix(word, "NAIVE_")) && len(word) > 2 && !searched[word] {
				t.Errorf("%s has the variant %s, which is not searched", model, word)
				searched[word] = true
			}
		}
	}
}
