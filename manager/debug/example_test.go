// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/debug"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A process serves the page beside its other debugging pages.
func Example() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)}) // in production: an ensemble
	defer server.Close()

	page := debug.New()
	m, err := manager.Open(context.Background(), manager.Config{
		Servers:  []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		Dialer:   server.Dial, // leave it out to dial the servers
		Logger:   slog.New(slog.DiscardHandler),
		Observer: page.Observe,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	page.Manage(m)
	mux := http.NewServeMux()
	mux.Handle("/debug/holdfast", page)
	web := httptest.NewServer(mux) // in production: one that listens on a private address
	defer web.Close()

	nightly, err := m.Exclusive("jobs/nightly")
	if err != nil {
		log.Fatal(err)
	}
	hold, err := nightly.Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release()

	// People open the page in a browser; programs read it as JSON.
	answer, err := http.Get(web.URL + "/debug/holdfast?format=json&q=nightly")
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	var state struct {
		Locks []struct {
			Name    string `json:"name"`
			Phase   string `json:"phase"`
			Holders int    `json:"holders"`
		} `json:"locks"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&state); err != nil {
		log.Fatal(err)
	}
	for _, l := range state.Locks {
		fmt.Printf("%s is %s by %d\n", l.Name, l.Phase, l.Holders)
	}
	// Output: jobs/nightly is held by 1
}
