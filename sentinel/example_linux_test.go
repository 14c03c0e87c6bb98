// SPDX-License-Identifier: Apache-2.0

package sentinel_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A process starts its helper before it opens its Manager. If the process is killed, the
// helper closes the Manager's session, and the locks are free.
func Example() {
	// The function main begins with sentinel.Main(): the helper is this program, started once
	// more.
	quiet := slog.New(slog.DiscardHandler)
	server := zktest.NewServer(zktest.Config{Logger: quiet}) // in production: an ensemble
	defer server.Close()
	addr, err := server.Listen("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	helper, err := sentinel.Start(sentinel.Config{Logger: quiet})
	if err != nil {
		log.Fatal(err) // or go on: without a helper, the locks of a killed process stay for a while
	}
	defer helper.Close() // after the Manager
	m, err := manager.Open(ctx, manager.Config{Servers: []string{addr}, Sentinel: helper, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println("the helper is missing because of:", helper.Err())
	// Output:
	// the helper is missing because of: <nil>
}
