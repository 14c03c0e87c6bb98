// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// A tap is a proxy between clients and a ZooKeeper server that counts requests and
// notifications, except pings and those that begin and end sessions.
type tap struct {
	server string
	l      net.Listener
	wg     sync.WaitGroup

	writes, reads, notifications atomic.Int64
	lists                        atomic.Int64 // of the reads
}

// tapped starts a tap in front of a server.
func tapped(server string) (*tap, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &tap{server: server, l: l}
	t.wg.Go(t.accept)
	return t, nil
}

func (t *tap) addr() string { return t.l.Addr().String() }

// close stops accepting connections and waits until all of them have ended.
func (t *tap) close() {
	_ = t.l.Close()
	t.wg.Wait()
}

// counted returns what the tap has counted, under the names that Result.Extra has for it.
func (t *tap) counted() map[string]float64 {
	return map[string]float64{
		"writes": float64(t.writes.Load()), "reads": float64(t.reads.Load()),
		"notifications": float64(t.notifications.Load()), "lists": float64(t.lists.Load()),
	}
}

func (t *tap) accept() {
	for {
		client, err := t.l.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", t.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		pass := func(from, to net.Conn, count func(frame []byte)) {
			t.wg.Go(func() {
				_, _ = io.Copy(to, io.TeeReader(from, &frames{each: count})) // either end closes both
				_ = from.Close()
				_ = to.Close()
			})
		}
		pass(client, server, t.request)
		pass(server, client, t.answer)
	}
}

// request counts a request.
func (t *tap) request(frame []byte) {
	r := jute.NewReader(frame)
	_ = r.Int32() // xid
	switch r.Int32() {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData, jute.OpSetACL, jute.OpMulti:
		t.writes.Add(1)
	case jute.OpGetChildren, jute.OpGetChildren2:
		t.lists.Add(1)
		t.reads.Add(1)
	case jute.OpExists, jute.OpGetData, jute.OpGetACL, jute.OpSync, jute.OpMultiRead:
		t.reads.Add(1)
	}
}

// answer counts a notification.
func (t *tap) answer(frame []byte) {
	if jute.NewReader(frame).Int32() == jute.XidWatchEvent {
		t.notifications.Add(1)
	}
}
