// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"time"

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
	Takeover *takeover
}

// A takeover closes the session of a run that is gone, so that another process can have the
// lock at once. It has secrets, so it goes through the pipe: other users of the machine can read
// arguments, and the program gets the environment.
type takeover struct {
	Servers  []string
	Auth     []credentials
	TLS      tlsFiles
	ID       int64 // of the session
	Timeout  time.Duration
	Password []byte
}

// credentials are a zkio.Auth, which does not marshal its secret.
type credentials struct {
	Scheme string
	Data   []byte
}

// newTakeover returns what closes a session of these servers.
func newTakeover(c connection, t zkio.Ticket) *takeover {
	to := &takeover{Servers: c.servers, TLS: c.secrets, ID: t.ID, Timeout: t.Timeout, Password: t.Password}
	for _, a := range c.auth {
		to.Auth = append(to.Auth, credentials(a))
	}
	return to
}

// close closes the session. It gives up after a session timeout, or when ctx ends.
func (to *takeover) close(ctx context.Context) error {
	cfg := zkio.Config{Servers: to.Servers, Logger: slog.New(slog.DiscardHandler)}
	for _, a := range to.Auth {
		cfg.Auth = append(cfg.Auth, zkio.Auth(a))
	}
	var err error
	if cfg.TLS, err = to.TLS.config(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, to.Timeout)
	defer cancel()
	return zkio.CloseSession(ctx, cfg, zkio.Ticket{ID: to.ID, Timeout: to.Timeout, Password: to.Password})
}

// An order is what run sends to the guard. One field is set.
type order struct {
	Until  time.Duration `json:",omitempty"` // the lock is held for longer: see start
	Signal int           `json:",omitempty"` // to be sent to the program
	Lost   bool          `json:",omitempty"` // the lock is lost
}
