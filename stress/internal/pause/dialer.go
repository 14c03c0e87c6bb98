// SPDX-License-Identifier: Apache-2.0

package pause

import (
	"context"
	"net"
	"time"
)

// A Dialer makes connections on which the server hears nothing between two times.
type Dialer struct{ From, Until time.Time }

// Dial connects, but not between the two times.
func (d *Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := d.wait(ctx); err != nil {
		return nil, err
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return frozenConn{c, d}, nil
}

// wait waits until the connections let something through.
func (d *Dialer) wait(ctx context.Context) error {
	if now := time.Now(); now.After(d.From) && now.Before(d.Until) {
		For(ctx, d.Until.Sub(now), nil)
	}
	return ctx.Err()
}

// A frozenConn holds back what is written while it is frozen.
type frozenConn struct {
	net.Conn
	dialer *Dialer
}

func (c frozenConn) Write(b []byte) (int, error) {
	_ = c.dialer.wait(context.Background()) // which has no error
	return c.Conn.Write(b)
}
