// SPDX-License-Identifier: Apache-2.0

package sentinel

import (
	"context"
	"errors"
	"fmt"
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
// If it cannot accept connections for a while, it says so in log, and tries again. It returns an
// error if l was closed before.
func Serve(ctx context.Context, l *net.UnixListener, configure func(*zkio.Config) error, log io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	var wards sync.WaitGroup
	defer wards.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	a := &agent{configure: configure, log: &lockedWriter{w: log}, ends: make(map[string]*tenure)}
	for fails := 0; ; {
		conn, err := l.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // such as too many open files: it passes
			if fails == 0 {
				_, _ = fmt.Fprintf(a.log, "holdfast: cannot accept connections for now: %v\n", err)
			}
			fails++
			pause := time.NewTimer(zkio.Backoff(fails, firstPause, time.Second))
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			pause.Stop()
		default:
			fails = 0
			wards.Go(func() { a.attend(ctx, conn) })
		}
	}
}

// An agent is the helper of many processes.
type agent struct {
	configure func(*zkio.Config) error
	log       io.Writer

	mu   sync.Mutex // protects what follows
	ends map[string]*tenure
}

// A tenure is the time in which a connection is the present one of its Sentinel.
type tenure struct {
	link uint64 // see hello
	end  context.CancelCauseFunc
}

// begin makes a connection the present one of its Sentinel, and ends those before: what they have told
// is old. A process may have made several while the agent was stopped.
func (a *agent) begin(ctx context.Context, h hello) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &tenure{h.Link, cancel}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch before := a.ends[h.ID]; {
	case before != nil && before.link > t.link:
		cancel(errReplaced)
		return ctx, func() {}
	case before != nil:
		before.end(errReplaced)
	}
	a.ends[h.ID] = t
	return ctx, func() {
		cancel(nil)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.ends[h.ID] == t {
			delete(a.ends, h.ID)
		}
	}
}

// attend is the helper of one process.
func (a *agent) attend(ctx context.Context, conn *net.UnixConn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetReadDeadline(time.Now().Add(readyTime))
	w, err := admit(conn)
	if err != nil {
		return // the process logs why
	}
	_ = conn.SetReadDeadline(time.Time{})
	ctx, end := a.begin(ctx, w.hello)
	defer end()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	w.hear()
	w.close(ctx, a.configure, a.log)
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
