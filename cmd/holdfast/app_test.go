// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// newApp returns an app for a verb in this process, and its standard output and error.
func newApp(t *testing.T, addr string) (a *app, stdout, stderr *bytes.Buffer) {
	t.Helper()
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &app{
		globals: &globals{Servers: addr, Root: "/holdfast", SessionTimeout: 10 * time.Second, ConnectTimeout: patience, ACL: "open", LogLevel: "error"},
		ctx:     t.Context(),
		stdout:  stdout,
		stderr:  stderr,
		verb:    "test",
	}, stdout, stderr
}

// TestCredentials: credentials come from a file or from the environment, and the ACL of
// what is created is as asked for.
func TestCredentials(t *testing.T) {
	_, addr := serve(t)
	file := filepath.Join(t.TempDir(), "secret")
	writeFile(t, file, "anna:secret\n")
	for _, tt := range []struct {
		name     string
		prepare  func(t *testing.T, a *app)
		acl      string
		readable bool
	}{
		{"none", func(*testing.T, *app) {}, "open", true},
		{"from the environment", func(t *testing.T, _ *app) { t.Setenv("HOLDFAST_AUTH", "anna:secret") }, "private", false},
		{"from a file", func(_ *testing.T, a *app) { a.AuthFile = file }, "private", false},
		{"others may read", func(_ *testing.T, a *app) { a.AuthFile = file }, "readable", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, _, stderr := newApp(t, addr)
			a.ACL, a.Root = tt.acl, "/"+strings.ReplaceAll(tt.name, " ", "-")
			tt.prepare(t, a)
			m, err := a.manager(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			stranger, _, _ := newApp(t, addr)
			t.Setenv("HOLDFAST_AUTH", "")
			client, session, err := stranger.client(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close(t.Context())
			if _, _, err := session.Children(a.Root); errors.Is(err, zkio.ErrNoAuth) == tt.readable {
				t.Errorf("a stranger reads the root: %v", err)
			}
			if stderr.Len() > 0 {
				t.Errorf("stderr %q", stderr)
			}
		})
	}
}

// TestColor: colour is for terminals only.
func TestColor(t *testing.T) {
	a, _, _ := newApp(t, "")
	if a.color() {
		t.Error("colour for a buffer")
	}
}

// TestTLS: the flags, or the variables, have the command show its certificate, and take only a server
// with the certificate that they say. Each flag alone means TLS.
func TestTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	secret, err := x509.MarshalPKCS8PrivateKey(web.TLS.Certificates[0].PrivateKey)
	must(t, err)
	certificate, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	writeFile(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	writeFile(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates, ClientAuth: tls.RequireAnyClientCert})
	must(t, err)
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = server.Close() })
	must(t, server.Serve(l))

	ca, shows, name := "--tls-ca="+certificate, "--tls-cert="+certificate+" --tls-key="+key, "--tls-server-name="
	for _, tt := range []struct {
		name, args string
		code       int
		stderr     string
	}{
		{"all", ca + " " + shows + " " + name + "example.com ls", 0, ""},
		{"the host's name", ca + " " + shows + " ls", 0, ""},
		{"run", ca + " " + shows + " run x -- " + os.Args[0] + " version", 0, ""},
		{"doctor", ca + " " + shows + " doctor --for=0s", exitFindings, ""},
		{"another name", ca + " " + shows + " " + name + "holdfast.invalid ls", exitNoConnection, "not holdfast.invalid"},
		{"only --tls", "--tls ls", exitNoConnection, "x509: "},
		{"only a name", name + "example.com ls", exitNoConnection, "x509: "},
		{"only a certificate", shows + " ls", exitNoConnection, "x509: "},
		{"only an authority", ca + " ls", exitNoConnection, "certificate required"},
	} {
		args := append([]string{"--servers", l.Addr().String()}, strings.Fields(tt.args)...)
		if tt.code == exitNoConnection {
			args = append([]string{"--connect-timeout=1s"}, args...)
		}
		_, stderr, code := do(t, args...)
		if code != tt.code || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: exit code %d, want %d; stderr %q", tt.name, code, tt.code, stderr)
		}
	}
	c := prepare(t, "--servers", l.Addr().String(), "ls")
	c.Env = append(c.Env, "HOLDFAST_TLS_CA="+certificate, "HOLDFAST_TLS_CERT="+certificate, "HOLDFAST_TLS_KEY="+key, "HOLDFAST_TLS_SERVER_NAME=example.com")
	c.begin()
	if code := c.code(); code != 0 {
		t.Errorf("by the environment: exit code %d", code)
	}
}
