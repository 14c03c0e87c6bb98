// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }

// An arrival is data and when it arrived.
type arrival struct {
	after time.Duration
	text  string
}

// A recorder notes when each of its writes came. It fails from the write on that it is
// told.
type recorder struct {
	began time.Time
	got   []arrival
	fails int // the number of the first write that fails, from 1; 0: none
}

var errBroken = errors.New("broken")

func (r *recorder) Write(p []byte) (int, error) {
	if r.got = append(r.got, arrival{time.Since(r.began), string(p)}); len(r.got) == r.fails {
		return 0, errBroken
	}
	return len(p), nil
}

// Each chunk arrives exactly the delay after it was sent, however many are in flight,
// and so does the end.
func TestDelay(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		sender, src := net.Pipe()
		r := &recorder{began: time.Now()}
		var pumping sync.WaitGroup
		pumping.Go(func() {
			if err := pump(r, src, 10*ms, sleepUntil); err != nil {
				t.Error(err)
			}
		})
		for _, c := range []arrival{{0, "a"}, {0, "b"}, {1 * ms, "c"}, {9 * ms, "d"}, {50 * ms, "e"}} {
			sleepUntil(r.began.Add(c.after))
			_, _ = sender.Write([]byte(c.text))
		}
		sleepUntil(r.began.Add(52 * ms))
		_ = sender.Close()
		pumping.Wait()
		want := []arrival{{10 * ms, "a"}, {10 * ms, "b"}, {11 * ms, "c"}, {19 * ms, "d"}, {60 * ms, "e"}, {62 * ms, ""}}
		if len(r.got) != len(want) {
			t.Fatalf("got %v, want %v", r.got, want)
		}
		for i := range want {
			if r.got[i] != want[i] {
				t.Errorf("arrival %d: got %v, want %v", i, r.got[i], want[i])
			}
		}
	})
}

// A delay does not limit throughput: a thousand chunks take as long as one.
func TestThroughput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sender, src := net.Pipe()
		r := &recorder{began: time.Now()}
		var pumping sync.WaitGroup
		pumping.Go(func() { _ = pump(r, src, time.Second, sleepUntil) })
		for range 1000 {
			_, _ = sender.Write(make([]byte, 1000))
		}
		_ = sender.Close()
		pumping.Wait()
		if n := len(r.got); n != 1001 {
			t.Fatalf("%d arrivals, want 1,001", n)
		}
		for i, a := range r.got {
			if a.after != time.Second {
				t.Fatalf("chunk %d arrived after %v, want 1 s", i, a.after)
			}
		}
	})
}

// If the receiver fails, the sender's end is closed.
func TestBrokenReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sender, src := net.Pipe()
		var pumping sync.WaitGroup
		pumping.Go(func() {
			if err := pump(&recorder{fails: 1}, src, time.Second, sleepUntil); !errors.Is(err, errBroken) {
				t.Errorf("got %v", err)
			}
		})
		_, _ = sender.Write([]byte("a"))
		pumping.Wait()
		if _, err := sender.Write([]byte("b")); err == nil {
			t.Error("the sender can still write")
		}
	})
}

// echo returns the address of a server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// Over TCP a round trip takes at least twice the delay, and everything arrives, in
// order, with the end.
func TestRelay(t *testing.T) {
	const delay = 3 * time.Millisecond
	r, err := start(echo(t), delay)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := dial(t, r.Addr())
	for range 20 {
		began := time.Now()
		var b [1]byte
		if _, err := c.Write(b[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, b[:]); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d < 2*delay {
			t.Fatalf("a round trip took %v, with a delay of %v in each direction", d, delay)
		}
	}
	sent := make([]byte, 10<<20)
	_, _ = rand.Read(sent)
	var sending sync.WaitGroup
	sending.Go(func() {
		if _, err := c.Write(sent); err != nil {
			t.Error(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
	})
	got, err := io.ReadAll(c)
	sending.Wait()
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back of %d, error %v", len(got), len(sent), err)
	}
}

// What a relay deducts for itself is not more than a quarter.
func TestDeduction(t *testing.T) {
	r, err := Start("127.0.0.1:1", 40*time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if d := r.delay; d < 30*time.Microsecond || d > 40*time.Microsecond {
		t.Errorf("of 40 µs, %v are left", d)
	}
}

// Close ends open connections.
func TestClose(t *testing.T) {
	r, err := Start(echo(t), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, r.Addr())
	if _, err := c.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	r.Close()
	r.Close()
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came from a closed relay", n)
	}
}

// A client of a server that does not listen is told.
func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	r, err := Start(addr, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := dial(t, r.Addr()).Read(make([]byte, 1)); err == nil {
		t.Error("no error")
	}
}

// The round-trip time of a relay with a delay of 1 ms should be 2 ms.
func BenchmarkRoundTrip(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	})
	r, err := Start(l.Addr().String(), time.Millisecond)
	if err != nil {
		b.Fatal(err)
	}
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 100)
	for b.Loop() {
		if _, err := c.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(r.delay.Microseconds()), "µs-told/op")
	_ = c.Close()
	r.Close()
	_ = l.Close()
	serving.Wait()
}
