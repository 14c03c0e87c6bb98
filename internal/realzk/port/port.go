// SPDX-License-Identifier: Apache-2.0

// Package port finds ports on which a server of a test or a command can listen, be killed, and
// listen again.
package port

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// reserved has the ports that Free has returned and Release was not called for. Each is kept
// from the other processes that use this package by a UDP socket of the same number: a server
// such as ZooKeeper, which needs the TCP port, takes seconds to listen on it.
var reserved struct {
	mu    sync.Mutex // protects what follows
	ports map[int]net.PacketConn
}

// Free returns a port of 127.0.0.1 on which no program listens, and reserves it. It is
// below the range of ephemeral ports, which begins at 32768 on Linux and at 49152
// elsewhere, so it is probably still free when a server is restarted.
func Free() (int, error) {
	var last error
	for range 100 {
		port := 15000 + rand.IntN(32000-15000)
		if last = reserve(port); last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port on 127.0.0.1: %w", last)
}

func reserve(port int) error {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	mark, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		_ = mark.Close()
		return err
	}
	reserved.mu.Lock()
	defer reserved.mu.Unlock()
	if reserved.ports == nil {
		reserved.ports = make(map[int]net.PacketConn)
	}
	reserved.ports[port] = mark
	return l.Close()
}

// Release ends the reservation of a port, if there is one.
func Release(port int) {
	reserved.mu.Lock()
	defer reserved.mu.Unlock()
	if mark := reserved.ports[port]; mark != nil {
		_ = mark.Close()
		delete(reserved.ports, port)
	}
}
