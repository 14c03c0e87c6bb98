// SPDX-License-Identifier: Apache-2.0

package sentinel

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// Serve is an agent: the helper of all processes that connect to l, which is a listener of the
// network "unixpacket". The kernel says when a process has ended, whatever PID namespace it is in.
// configure says how the servers are reached, as that of Main; an agent should set Servers, too,
// because any client that reaches the socket can name others. log gets a line for each session that
// is closed, and for each that could not be.
//
// Serve blocks until ctx ends, and then returns nil: the processes go on without it. It closes l.
// An error is that of Accept.
func Serve(ctx context.Context, l *net.UnixListener, configure func(*zkio.Config) error, log io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	var wards sync.WaitGroup
	defer wards.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	shared := &lockedWriter{w: log}
	for {
		conn, err := l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			_ = l.Close()
			return err
		}
		wards.Go(func() { attend(ctx, conn, configure, shared) })
	}
}

// attend is the helper of one process.
func attend(ctx context.Context, conn *net.UnixConn, configure func(*zkio.Config) error, log io.Writer) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetReadDeadline(time.Now().Add(readyTime))
	w, err := admit(conn)
	if err != nil {
		return // the process logs why
	}
	_ = conn.SetReadDeadline(time.Time{})
	w.hear()
	w.close(ctx, configure, log)
}

// A lockedWriter lets one goroutine write at a time.
type lockedWriter struct {
	mu sync.Mutex // protects w
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
