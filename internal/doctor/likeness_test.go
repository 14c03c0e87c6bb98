// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// What a server does otherwise than ZooKeeper is named, and nothing else is.
func TestLikeness(t *testing.T) {
	const (
		resumes  = "warn the servers do not resume"
		watches  = "note the servers forget watches"
		requests = "note the servers do not know"
		counts   = "note the servers count changes"
	)
	container := []zktest.Op{zktest.OpCreateContainer}
	for name, tt := range map[string]struct {
		quirks zktest.Quirks
		want   []string
	}{
		"none":                    {zktest.Quirks{}, []string{"ok the servers behave"}},
		"no resume":               {zktest.Quirks{NoResume: true}, []string{resumes}},
		"child watches forgotten": {zktest.Quirks{ForgetsChildWatches: true}, []string{watches}},
		"containers refused":      {zktest.Quirks{Unknown: container}, []string{requests}},
		"containers ignored":      {zktest.Quirks{Unknown: container, Reaction: zktest.IgnoreUnknown}, []string{requests}},
		"containers close":        {zktest.Quirks{Unknown: container, Reaction: zktest.CloseUnknown}, []string{requests}},
		"other stats":             {zktest.Quirks{OtherStats: true}, []string{counts}},
		"ClickHouse Keeper":       {zktest.ClickHouseKeeper(), []string{resumes, requests, counts}},
		"RaftKeeper":              {zktest.RaftKeeper(), []string{requests}},
	} {
		t.Run(name, func(t *testing.T) {
			embedded(t, zktest.Config{Quirks: tt.quirks}, 10*time.Second, func(t *testing.T, srv *zktest.Server, examine func() []Finding) {
				var got []string
				for _, f := range examine() {
					switch {
					case f.Check == "likeness":
						got = append(got, f.Level.String()+" "+f.Found)
					case f.Check == "latency" && f.Level == OK: // the trial has gone on
						got = append(got, "")
					}
				}
				match := strings.HasPrefix
				if want := append(slices.Clone(tt.want), ""); !slices.EqualFunc(got, want, match) {
					t.Errorf("found %q, want %q", got, want)
				}
				<-time.After(time.Minute)                 // containers go
				if nodes := srv.Nodes(); len(nodes) > 4 { // ZooKeeper's own
					t.Errorf("left behind: %v", nodes)
				}
			})
		})
	}
}

// A program that is not ZooKeeper says so in its answer to srvr.
func TestProduct(t *testing.T) {
	for answer, want := range map[string]string{
		"Zookeeper version: 3.8.0-5a02a05, built on 2022-02-25\nMode: standalone\n":    "",
		"ClickHouse Keeper version: v24.1.1.2048-testing-5a024dfc09\nMode: follower\n": "ClickHouse Keeper v24.1.1.2048-testing-5a024dfc09",
		"RaftKeeper version: RaftKeeper v2.3.0\nMode: leader\n":                        "RaftKeeper RaftKeeper v2.3.0",
		"": "",
	} {
		s := server{addr: "zk1:2181", srvr: parse(answer, ": ")}
		if got := s.product(); got != want {
			t.Errorf("%q is %q, want %q", answer, got, want)
		}
		findings := diagnose(&facts{named: 1, servers: []server{s}})
		is := slices.ContainsFunc(findings, func(f Finding) bool {
			return f.Check == "likeness" && f.Level == Note && strings.Contains(f.Found, want) && f.Where == "zk1:2181"
		})
		noVersion := slices.ContainsFunc(findings, func(f Finding) bool { return f.Check == "version" })
		if is != (want != "") || answer != "" && noVersion == (want != "") {
			t.Errorf("%q: %+v", answer, findings)
		}
	}
}
