// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/zkio"
)

// start says what the guard is to run. It is the first message that run sends it.
type start struct {
	// What is run goes without the message: the guard has it as its own arguments and
	// environment, byte for byte. JSON would replace what is not UTF-8.
	Path string   `json:"-"` // of the program
	Args []string `json:"-"` // the program's, from its name on
	Env  []string `json:"-"`

	// Until is when the lock may be lost, less KillAfter, on the system's clock: see
	// systemTime. Orders extend it.
	Until     time.Duration
	KillAfter time.Duration // between SIGTERM and SIGKILL
	LostCode  int           // the guard's exit code if it has ended the program in time

	// Parent and Group are the process and the process group of run. Foreground says that
	// the program is to be in the foreground of the terminal while they are.
	Parent, Group int
	Foreground    bool

	// Takeover is what the guard closes the session of run with; nil if it is not to.
	Takeover *closing
}

// A closing closes the session of a run that is gone, so that another process can have the
// lock at once.
type closing struct {
	takeover.Order
	TLS tlsFiles
}

// newClosing returns what closes a session of these servers.
func newClosing(c connection, t zkio.Ticket, n takeover.Note) *closing {
	return &closing{takeover.New(zkio.Config{Servers: c.servers, Auth: c.auth, TLS: c.tls}, t, n), c.secrets}
}

// close closes the session. It gives up after a session timeout, or when ctx ends.
func (c *closing) close(ctx context.Context) (nodes []string, err error) {
	return c.Close(ctx, c.configure)
}

// leave leaves the note that the session is closed.
func (c *closing) leave(ctx context.Context, ended time.Time, nodes []string) error {
	return c.Leave(ctx, c.configure, ended, time.Since(ended), nodes)
}

func (c *closing) configure(cfg *zkio.Config) (err error) {
	cfg.TLS, err = c.TLS.config()
	return err
}

// An order is what run sends to the guard. One field is set.
type order struct {
	Until  time.Duration `json:",omitempty"` // the lock is held for longer: see start
	Signal int           `json:",omitempty"` // to be sent to the program
	Lost   bool          `json:",omitempty"` // the lock is lost
}
