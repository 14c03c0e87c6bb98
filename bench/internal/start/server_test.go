// SPDX-License-Identifier: Apache-2.0

package start

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// A started server serves, and leaves nothing behind when it is stopped.
func TestServers(t *testing.T) {
	for _, kind := range []string{ZooKeeper, ZooKeeperForced, ZooKeeperLarge, Etcd, Redis} {
		t.Run(kind, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			s, err := Start(t.Context(), kind)
			if errors.Is(err, ErrNotInstalled) {
				realzk.NotRun(t, err.Error())
			}
			if err != nil {
				t.Fatal(err)
			}
			if name, version, _ := strings.Cut(s.Version, " "); !strings.EqualFold(name, strings.Split(kind, "-")[0]) || !strings.Contains(version, ".") {
				t.Errorf("it is %q, want %s and its version", s.Version, kind)
			}
			for range 2 {
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			}
			if conn, err := net.Dial("tcp", s.Addr); err == nil {
				conn.Close()
				t.Error("a server still listens after Stop")
			}
			left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
			if err != nil || len(left) > 0 && !strings.HasPrefix(kind, ZooKeeper) { // a JVM leaves a directory of its own
				t.Errorf("left behind: %q, error %v", left, err)
			}
		})
	}
}

func TestServerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Start(ctx, Redis)
	if errors.Is(err, ErrNotInstalled) {
		cancel()
		realzk.NotRun(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := s.Stop(); err != nil { // waits for its end
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", s.Addr); err == nil {
		conn.Close()
		t.Error("a server still listens after its context has ended")
	}
}

func TestNotInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", t.TempDir())
	t.Setenv("ZOOKEEPER_HOME", t.TempDir())
	for kind, remedy := range map[string]string{ZooKeeper: "ZOOKEEPER_HOME", Etcd: "apt-get install etcd-server", Redis: "apt-get install redis-server"} {
		if _, err := Start(t.Context(), kind); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %v, want what to install", kind, err)
		}
	}
	if _, err := curator(t.Context(), t.TempDir()); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("curator: %v, want what to install", err)
	}
	if _, err := Start(t.Context(), "abacus"); err == nil || errors.Is(err, ErrNotInstalled) {
		t.Errorf("an unknown kind: %v", err)
	}
}
