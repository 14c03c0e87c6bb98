// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// The workload mixed has all recipes.
func TestRunOfAllRecipes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "report")
	r := runStress(t, append([]string{"-workload", "mixed", "-report", dir}, append(brief, "-locks", "3", "-think", "5ms", "-duration", "6s")...))
	r.expect(t, wire.ExitOK, verdict.OK, "3 locks of three kinds, and one of each recipe", "violations         0", "leaked nodes       0")
	granted := map[string]bool{}
	for e, err := range history.All(dir) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == history.Granted {
			name, _, _ := strings.Cut(e.Lock, "/")
			granted[name] = true
		}
	}
	for _, name := range append([]string{"lock-0", "lock-1", "lock-2"}, wire.RecipeWorkloads...) {
		// Few workers are in a barrier at the same time as three others.
		if !granted[name] && name != wire.BarrierWorkload {
			t.Errorf("%s was granted to no worker", name)
		}
	}
}

func TestVenues(t *testing.T) {
	tests := []struct {
		workload  wire.Workload
		names     []string
		kinds     []string
		readWrite []bool
	}{
		{wire.Workload{Kind: wire.DefaultWorkload, Locks: 2}, []string{"lock-0", "lock-1"}, []string{"default", "default"}, []bool{false, false}},
		{wire.Workload{Kind: wire.DefaultWorkload, Locks: 1, ReadWrite: true}, []string{"lock-0"}, []string{"default"}, []bool{true}},
		{wire.Workload{Kind: wire.QueueWorkload, Locks: 2}, []string{"lock-0", "lock-1"}, []string{"queue", "queue"}, []bool{false, false}},
		{
			wire.Workload{Kind: wire.MixedWorkload, Locks: 3},
			append([]string{"lock-0", "lock-1", "lock-2"}, wire.RecipeWorkloads...),
			append([]string{"default", "mutex", "upgrade"}, wire.RecipeWorkloads...),
			[]bool{false, false, true, false, false, false, false, false, false},
		},
	}
	for _, tt := range tests {
		var names, kinds []string
		var readWrite []bool
		for _, v := range tt.workload.Venues() {
			names, kinds, readWrite = append(names, v.Name), append(kinds, v.Kind), append(readWrite, v.ReadWrite)
		}
		if !slices.Equal(names, tt.names) || !slices.Equal(kinds, tt.kinds) || !slices.Equal(readWrite, tt.readWrite) {
			t.Errorf("%+v: %q, %q, %v", tt.workload, names, kinds, readWrite)
		}
	}
}
