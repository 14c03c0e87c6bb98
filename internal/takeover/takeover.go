// SPDX-License-Identifier: Apache-2.0

// Package takeover closes the ZooKeeper session of another process, which has ended.
package takeover

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// An Order has what closes one session. It marshals its secrets, unlike a zkio.Ticket and a
// zkio.Auth, so that another process can have them. They must go through a pipe or a socket:
// other users of the machine can read arguments, and children get the environment.
type Order struct {
	Servers  []string
	Auth     []credentials
	ID       int64 // of the session
	Timeout  time.Duration
	Password []byte
	// Secure says that the process has reached the servers by TLS, or by a Dialer of its own,
	// which are not in an Order. What closes the session must not send its password in clear.
	Secure bool `json:",omitempty"`
	// Note says what to tell others of the session's end, and where.
	Note Note
}

var errPlain = errors.New("the process used TLS, or a Dialer: set TLS or Dialer in the function that sentinel.Main has, or give the agent the flags for TLS")

// credentials are a zkio.Auth, which does not marshal its secret.
type credentials struct {
	Scheme string
	Data   []byte
}

// New returns what closes a session of a client with that configuration, and leaves the note.
func New(cfg zkio.Config, t zkio.Ticket, n Note) Order {
	o := Order{Note: n, Servers: cfg.Servers, ID: t.ID, Timeout: t.Timeout, Password: t.Password, Secure: cfg.TLS != nil || cfg.Dialer != nil}
	for _, a := range cfg.Auth {
		o.Auth = append(o.Auth, credentials(a))
	}
	return o
}

// Close closes the session. It gives up after a session timeout, when the servers have closed it
// if they can hear anything, or when ctx ends. configure may set what an Order has not, such as
// TLS; it may be nil. nodes are those of the session, as in [zkio.CloseSession].
func (o Order) Close(ctx context.Context, configure func(*zkio.Config) error) (nodes []string, err error) {
	cfg, err := o.config(configure)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	return zkio.CloseSession(ctx, cfg, zkio.Ticket{ID: o.ID, Timeout: o.Timeout, Password: o.Password})
}

// config returns how to reach the servers.
func (o Order) config(configure func(*zkio.Config) error) (zkio.Config, error) {
	cfg := zkio.Config{Servers: o.Servers, SessionTimeout: o.Timeout, Logger: slog.New(slog.DiscardHandler)}
	for _, a := range o.Auth {
		cfg.Auth = append(cfg.Auth, zkio.Auth(a))
	}
	if configure != nil {
		if err := configure(&cfg); err != nil {
			return cfg, err
		}
	}
	if o.Secure && cfg.TLS == nil && cfg.Dialer == nil {
		return cfg, errPlain
	}
	return cfg, nil
}
