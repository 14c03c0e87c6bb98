// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

// Each verb has a manual page, and so has the command. A page has the verb's flags and
// examples, and no line of text is taken for a request.
func TestManual(t *testing.T) {
	command := manualOf(t)
	for _, tt := range []struct {
		verb string
		want []string
	}{
		{"", []string{`.TH "HOLDFAST" 1`, `.B "run"`, `.B "\-\-servers=`, `holdfast\-run(1)`}},
		{"run", []string{`.TH "HOLDFAST\-RUN" 1`, `holdfast\-run \- Run a program while holding a lock`, `.B "\-\-kill\-after=`, `holdfast run jobs/nightly \-\- ./nightly.sh \-\-full`}},
		{"queue", []string{`.SH "QUEUE PUT"`, `.SH "QUEUE TAKE"`}},
	} {
		page := manualOf(t, strings.Fields(tt.verb)...)
		for _, want := range tt.want {
			if !strings.Contains(page, want) {
				t.Errorf("the page of %q lacks %q:\n%s", tt.verb, want, page)
			}
		}
	}
	requests := []string{".TH", ".nh", ".SH", ".SS", ".PP", ".TP", ".B", ".RS", ".RE", ".nf", ".fi"}
	for line := range strings.Lines(command) {
		verb, isVerb := strings.CutPrefix(line, `.B "`)
		if verb = strings.TrimSuffix(verb, "\"\n"); !isVerb || strings.HasPrefix(verb, `\-`) {
			continue
		}
		for line := range strings.Lines(manualOf(t, verb)) {
			if request, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, ".") && !slices.Contains(requests, request) {
				t.Errorf("the page of %s has %q", verb, line)
			}
		}
	}
	if _, errs, code := do(t, "man", "nothing"); code != exitUsage || !strings.Contains(errs, `no verb "nothing"`) {
		t.Errorf("of a verb that does not exist: exit code %d, %q", code, errs)
	}
}

// manualOf returns what holdfast man prints.
func manualOf(t *testing.T, verb ...string) string {
	t.Helper()
	page, stderr, code := do(t, append([]string{"man"}, verb...)...)
	if code != 0 {
		t.Fatalf("holdfast man %q: exit code %d, %s", verb, code, stderr)
	}
	return page
}

func TestManualText(t *testing.T) {
	var p manual
	p.text("One.\n.two \\ three\n\nExample:\n    'quoted' --flag\n    next\nand so on")
	const want = ".PP\nOne.\n\\&.two \\e three\n.PP\nExample:\n.RS 4\n.nf\n\\&'quoted' \\-\\-flag\nnext\n.fi\n.RE\nand so on\n"
	if p.String() != want {
		t.Errorf("got %q, want %q", p.String(), want)
	}
}
