// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// own returns how long a relay delays data in one direction, besides the delay that it
// is told: it is woken when the data comes, and again when the delay is over. On a
// virtual machine, whose processors sleep meanwhile, this can take a tenth of a
// millisecond. own takes about 200 ms.
func own() (time.Duration, error) {
	const told = time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("listen: %w", err)
	}
	var echoes sync.WaitGroup
	echoes.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			echoes.Go(func() {
				_, _ = io.Copy(c, struct{ io.Reader }{c}) // until its end; in user space, as a server does
				_ = c.Close()
			})
		}
	})
	defer echoes.Wait()
	defer l.Close()
	r, err := start(l.Addr().String(), told)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	through, err := roundTrip(r.Addr(), 0)
	if err != nil {
		return 0, err
	}
	direct, err := roundTrip(l.Addr().String(), told)
	if err != nil {
		return 0, err
	}
	return max(0, (through-direct)/2-told), nil
}

// roundTrip returns the median time of some round trips to an echo. Between them it
// pauses, so that processors fall asleep as they do behind a relay.
func roundTrip(addr string, pause time.Duration) (time.Duration, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, fmt.Errorf("connect to an echo: %w", err)
	}
	defer c.Close()
	a, err := newAlarm()
	if err != nil {
		return 0, err
	}
	defer a.close()
	times := make([]time.Duration, 41)
	buf := make([]byte, 64)
	for i := range times {
		a.until(time.Now().Add(pause))
		began := time.Now()
		if _, err := c.Write(buf); err != nil {
			return 0, fmt.Errorf("write to an echo: %w", err)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			return 0, fmt.Errorf("read from an echo: %w", err)
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
