// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
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
