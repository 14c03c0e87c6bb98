// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func testPipe() (a, b net.Conn) { return newPipe(pipeAddr("a"), pipeAddr("b")) }

func TestPipeAddrs(t *testing.T) {
	a, b := testPipe()
	for _, tc := range []struct {
		name string
		got  net.Addr
		want string
	}{
		{"a local", a.LocalAddr(), "a"},
		{"a remote", a.RemoteAddr(), "b"},
		{"b local", b.LocalAddr(), "b"},
		{"b remote", b.RemoteAddr(), "a"},
	} {
		if tc.got.String() != tc.want || tc.got.Network() != "pipe" {
			t.Errorf("%s = %s %s, want pipe %s", tc.name, tc.got.Network(), tc.got, tc.want)
		}
	}
}

// TestPipeBuffers: writes do not wait for reads, in either direction.
func TestPipeBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := testPipe()
		const chunks, size = 500, 1000
		for i := range chunks {
			for _, end := range []net.Conn{a, b} {
				if n, err := end.Write(bytes.Repeat([]byte{byte(i)}, size)); n != size || err != nil {
					t.Fatalf("Write = %d, %v", n, err)
				}
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(b) // what was written before the close arrives
		if err != nil || len(got) != chunks*size {
			t.Fatalf("ReadAll = %d bytes, %v", len(got), err)
		}
		for i, v := range got {
			if v != byte(i/size) {
				t.Fatalf("byte %d is %d, want %d", i, v, byte(i/size))
			}
		}
	})
}

// TestPipeStream writes and reads at the same time, in pieces of random
// lengths.
func TestPipeStream(t *testing.T) {
	a, b := testPipe()
	const total = 1 << 20
	sent := make([]byte, total)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range sent {
		sent[i] = byte(rnd.Uint32())
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		rnd := rand.New(rand.NewPCG(3, 4))
		for rest := sent; len(rest) > 0; {
			n := min(rnd.IntN(5000), len(rest))
			if _, err := a.Write(rest[:n]); err != nil {
				t.Errorf("Write: %v", err)
				return
			}
			rest = rest[n:]
		}
		_ = a.Close()
	})
	var got []byte
	buf := make([]byte, 7000)
	for {
		n, err := b.Read(buf[:rnd.IntN(len(buf)-1)+1])
		got = append(got, buf[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if !bytes.Equal(got, sent) {
		t.Error("what was read is not what was written")
	}
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := testPipe()
		buf := make([]byte, 8)
		read := func() (time.Duration, error) {
			start := time.Now()
			_, err := a.Read(buf)
			return time.Since(start), err
		}
		isTimeout := func(err error) bool {
			var ne net.Error
			return errors.Is(err, os.ErrDeadlineExceeded) && errors.As(err, &ne) && ne.Timeout()
		}

		_ = a.SetReadDeadline(time.Now().Add(3 * time.Second))
		if took, err := read(); took != 3*time.Second || !isTimeout(err) {
			t.Errorf("Read took %v, %v; want a timeout after 3s", took, err)
		}
		if took, err := read(); took != 0 || !isTimeout(err) {
			t.Errorf("a further Read took %v, %v; want a timeout at once", took, err)
		}
		_ = a.SetDeadline(time.Time{})
		if _, err := b.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if took, err := read(); took != 0 || err != nil {
			t.Errorf("Read without a deadline took %v, %v", took, err)
		}

		// A deadline that is moved while Read waits.
		for _, move := range []time.Duration{-time.Second, 0, 2 * time.Second, 9 * time.Second} {
			_ = a.SetReadDeadline(time.Now().Add(5 * time.Second))
			time.AfterFunc(time.Second, func() { _ = a.SetReadDeadline(time.Now().Add(move)) })
			if took, err := read(); took != time.Second+max(move, 0) || !isTimeout(err) {
				t.Errorf("deadline moved by %v after 1s: Read took %v, %v", move, took, err)
			}
		}
		_ = a.SetReadDeadline(time.Now().Add(5 * time.Second))
		time.AfterFunc(time.Second, func() { _ = a.SetReadDeadline(time.Time{}) })
		time.AfterFunc(time.Hour, func() { _, _ = b.Write([]byte("y")) })
		if took, err := read(); took != time.Hour || err != nil {
			t.Errorf("deadline taken away: Read took %v, %v", took, err)
		}

		_ = a.SetDeadline(time.Now().Add(-time.Second))
		if _, err := a.Write([]byte("x")); !isTimeout(err) {
			t.Errorf("Write after the deadline: %v", err)
		}
		_ = a.SetWriteDeadline(time.Time{})
		if _, err := a.Write([]byte("x")); err != nil {
			t.Errorf("Write: %v", err)
		}
	})
}

func TestPipeClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := testPipe()
		buf := make([]byte, 8)
		time.AfterFunc(time.Second, func() { _ = a.Close() })
		if _, err := b.Read(buf); err != io.EOF {
			t.Errorf("Read at the other side's close: %v, want EOF", err)
		}
		if _, err := b.Write(buf); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Write to a closed connection: %v", err)
		}
		if _, err := a.Read(buf); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read on a closed connection: %v", err)
		}
		if _, err := a.Write(buf); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write on a closed connection: %v", err)
		}
		_ = a.Close() // again

		c, _ := testPipe()
		time.AfterFunc(time.Second, func() { _ = c.Close() })
		if _, err := c.Read(buf); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read during the own Close: %v", err)
		}
	})
}
