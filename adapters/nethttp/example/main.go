// SPDX-License-Identifier: Apache-2.0

// Example has three servers of one service, each of which gets a request to charge the same order.
// They do so one after the other. The first one is killed in the middle; the next one begins anew,
// and the last one sees that the order is charged.
//
//	go run ./example
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/adapters/internal/demo"
	"github.com/holdfast-go/holdfast/adapters/nethttp"
	"github.com/holdfast-go/holdfast/manager"
)

func main() {
	var check checker
	demo.Main(demo.Program{Work: work, Watch: check.watch})
}

// work is a server, and a client that sends it a request.
func work(ctx context.Context, m *manager.Manager, dir string) error {
	oneAtATime, err := nethttp.New(m, nethttp.Config{
		Key:  func(r *http.Request) string { return r.URL.Path },
		Wait: time.Minute,
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: oneAtATime(charge(filepath.Join(dir, "charged"))), ReadHeaderTimeout: time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until Close
	}()
	defer func() { _ = server.Close(); <-served }()

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+listener.Addr().String()+"/orders/7", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	fmt.Println("answers:", answer.Status)
	<-ctx.Done()
	return nil
}

// charge charges an order, and notes in a file that it is charged.
func charge(file string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, err := os.Stat(file); {
		case err == nil:
			fmt.Println("finds the order charged")
			return
		case !errors.Is(err, os.ErrNotExist):
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Println("charges the order")
		select {
		case <-time.After(500 * time.Millisecond): // the bank takes its time
		case <-r.Context().Done(): // the client has gone, or the lock is lost
			return
		}
		if err := os.WriteFile(file, []byte(r.URL.Path), 0o600); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Println("has charged the order")
	})
}

// A checker follows what the servers print.
type checker struct{ begun, charged, answered int }

func (c *checker) watch(_, line string) (demo.Next, error) {
	switch line {
	case "charges the order":
		if c.begun++; c.begun == 1 {
			return demo.Kill, nil
		}
	case "has charged the order":
		c.charged++
	case "answers: 200 OK":
		c.answered++
	}
	if c.begun > 2 || c.charged > 1 {
		return demo.End, fmt.Errorf("the order was charged %d times, and begun %d times", c.charged, c.begun)
	}
	if c.answered == 2 {
		fmt.Println("the order was charged once")
		return demo.End, nil
	}
	return demo.GoOn, nil
}
