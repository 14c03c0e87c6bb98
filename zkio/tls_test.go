// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestTLS: over TCP and TLS, through a proxy that ends the encryption as some
// installations have it.
func TestTLS(t *testing.T) {
	identity := httptest.NewTLSServer(nil) // for its certificate
	defer identity.Close()
	roots := x509.NewCertPool()
	roots.AddCert(identity.Certificate())

	z := zktest.NewServer(zktest.Config{Logger: quiet})
	defer z.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: identity.TLS.Certificates})
	must(t, err)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.Close()
	accepted := make(chan struct{}, 100)
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			wg.Go(func() { proxy(t, conn, z) })
		}
	})

	for _, tt := range []struct {
		name string
		conf *tls.Config
		want string // what Open says; "" if it succeeds
	}{
		{"by address", &tls.Config{RootCAs: roots}, ""},
		{"by name", &tls.Config{RootCAs: roots, ServerName: "example.com"}, ""},
		{"by a wrong name", &tls.Config{RootCAs: roots, ServerName: "holdfast.invalid"}, "TLS handshake: "},
		{"by an unknown authority", &tls.Config{}, "TLS handshake: "},
		{"without TLS", nil, "TLS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for len(accepted) > 0 {
				<-accepted
			}
			if tt.want != "" {
				go func() {
					// A second attempt begins when the first has failed.
					for range 2 {
						select {
						case <-accepted:
						case <-ctx.Done():
						}
					}
					cancel()
				}()
			}
			before := ""
			if tt.conf != nil {
				before = tt.conf.ServerName
			}
			c, err := Open(ctx, Config{Servers: []string{l.Addr().String()}, TLS: tt.conf, Logger: quiet})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("error %v, want %q", err, tt.want)
				}
				return
			}
			must(t, err)
			must(t, c.Session().Sync("/"))
			if tt.conf.ServerName != before {
				t.Error("the user's configuration was changed")
			}
			mustClose(t, c)
		})
	}
}

// proxy passes on what comes over conn to z, and back.
func proxy(t *testing.T, conn net.Conn, z *zktest.Server) {
	defer conn.Close()
	server, err := z.Dial(context.WithoutCancel(t.Context()), "tcp", "zk")
	if err != nil {
		return
	}
	defer server.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(server, conn)
		server.Close()
	})
	_, _ = io.Copy(conn, server)
	conn.Close()
	wg.Wait()
}

// TLS to a port without it: the error says what to check. Real servers close the
// connection, as the start of a handshake is too long for a request to them; others
// answer in their own words.
func TestTLSToAPlainPort(t *testing.T) {
	for _, tt := range []struct {
		what   string
		answer func(net.Conn)
	}{
		{"closes", func(conn net.Conn) { _, _ = io.ReadFull(conn, make([]byte, 4)) }},
		{"resets", func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, 4))
			_ = conn.(*net.TCPConn).SetLinger(0)
		}},
		{"answers", func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") }},
	} {
		t.Run(tt.what, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			defer wg.Wait()
			defer l.Close()
			wg.Go(func() {
				for n := 0; ; n++ {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					if n == 2 {
						cancel() // two attempts have failed
					}
					tt.answer(conn)
					conn.Close()
				}
			})
			_, err = Open(ctx, Config{Servers: []string{l.Addr().String()}, TLS: &tls.Config{}, Logger: quiet})
			if err == nil || !strings.Contains(err.Error(), "is this the server's port for TLS (secureClientPort)?") {
				t.Errorf("error %v", err)
			}
		})
	}
}
