// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"log/slog"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Servers returns the connection string of the ZooKeeper to use. It is the one given,
// or if that is empty, the address of an embedded server that runs until stop is
// called.
func Servers(given string) (servers string, stop func(), err error) {
	if given != "" {
		return given, func() {}, nil
	}
	s := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	stop = func() { _ = s.Close() }
	if servers, err = s.Listen("127.0.0.1:0"); err != nil {
		stop()
		return "", nil, err
	}
	return servers, stop, nil
}
