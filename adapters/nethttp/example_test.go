// SPDX-License-Identifier: Apache-2.0

package nethttp_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-go/holdfast/adapters/nethttp"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// connect returns a Manager on a ZooKeeper server within this process. A program would
// have its own configuration here.
func connect() (m *manager.Manager, done func()) {
	quiet := slog.New(slog.DiscardHandler)
	srv := zktest.NewServer(zktest.Config{Logger: quiet})
	m, err := manager.Open(context.Background(), manager.Config{
		Servers: []string{"embedded"}, Dialer: srv.Dial, Logger: quiet,
	})
	if err != nil {
		log.Fatal(err)
	}
	return m, func() {
		_ = m.Close()
		_ = srv.Close()
	}
}

// An order is paid by one request at a time, whichever process it reaches.
func Example() {
	m, done := connect()
	defer done()
	lock, err := nethttp.New(m, nethttp.Config{
		Key: func(r *http.Request) string { return r.PathValue("order") },
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{order}/pay", lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		grant, err := nethttp.Hold(r.Context()).Grant()
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		fmt.Println("paying", r.PathValue("order"), "with a token:", grant.Token != 0)
		if r.Header.Get("Again") == "" { // the client is impatient
			again := httptest.NewRequest(http.MethodPost, r.URL.Path, http.NoBody)
			again.Header.Set("Again", "yes")
			answer := httptest.NewRecorder()
			mux.ServeHTTP(answer, again)
			fmt.Println("meanwhile:", answer.Code, answer.Header().Get("Retry-After"))
		}
	})))
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/17/pay", http.NoBody))
	fmt.Println("then:", answer.Code)
	// Output:
	// paying 17 with a token: true
	// meanwhile: 423 1
	// then: 200
}
