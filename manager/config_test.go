// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// The zero Config plus Servers works, with the defaults that the fields'
// comments state.
func TestConfigDefaults(t *testing.T) {
	cfg, err := Config{Servers: []string{"zk1", "zk2:2182"}}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"zk1:2181", "zk2:2182"}; !slices.Equal(cfg.Servers, want) {
		t.Errorf("Servers is %q, want %q", cfg.Servers, want)
	}
	for _, field := range []struct {
		name      string
		got, want any
	}{
		{"Root", cfg.Root, "/holdfast"},
		{"SessionTimeout", cfg.SessionTimeout, 10 * time.Second},
		{"CloseTimeout", cfg.CloseTimeout, 5 * time.Second},
		{"LostMargin", cfg.LostMargin, time.Duration(0)},
		{"Workers", cfg.Workers, 32},
		{"Label", cfg.Label, filepath.Base(os.Args[0])},
		{"Logger", cfg.Logger, slog.Default()},
		{"len(ACL)", len(cfg.ACL), 0},
		{"len(Auth)", len(cfg.Auth), 0},
		{"TLS", cfg.TLS == nil, true},
		{"Dialer", cfg.Dialer == nil, true},
	} {
		if field.got != field.want {
			t.Errorf("%s is %v, want %v", field.name, field.got, field.want)
		}
	}
}

// What is given is taken, up to the bounds.
func TestConfigTaken(t *testing.T) {
	world := zkio.ACL{Perms: zkio.PermAll, Scheme: "world", ID: "anyone"}
	for _, cfg := range []Config{
		{Root: "/"},
		{Root: "/a/b"},
		{SessionTimeout: minSessionTimeout, LostMargin: minSessionTimeout/4 - 1},
		{SessionTimeout: maxSessionTimeout, CloseTimeout: time.Hour},
		{CloseTimeout: time.Millisecond},
		{Workers: minWorkers},
		{Workers: 1000},
		{Label: "billing"},
		{ACL: []zkio.ACL{world, {Perms: zkio.PermRead, Scheme: "auth"}, {Perms: zkio.PermAll, Scheme: "digest", ID: "u:h="}, {Perms: 1, Scheme: "ip", ID: "10.0.0.0/8"}}},
		{Auth: []zkio.Auth{{Scheme: "digest", Data: []byte("u:p")}, {Scheme: "sasl"}}},
	} {
		cfg.Servers = []string{"zk1"}
		got, err := cfg.complete()
		if err != nil {
			t.Errorf("%+v: %v", cfg, err)
			continue
		}
		for _, kept := range []bool{
			cfg.Root == "" || got.Root == cfg.Root,
			cfg.SessionTimeout == 0 || got.SessionTimeout == cfg.SessionTimeout,
			cfg.CloseTimeout == 0 || got.CloseTimeout == cfg.CloseTimeout,
			got.LostMargin == cfg.LostMargin,
			cfg.Workers == 0 || got.Workers == cfg.Workers,
			cfg.Label == "" || got.Label == cfg.Label,
			len(got.ACL) == len(cfg.ACL),
			len(got.Auth) == len(cfg.Auth),
		} {
			if !kept {
				t.Errorf("%+v became %+v", cfg, got)
			}
		}
	}
}

func TestConfigFaults(t *testing.T) {
	acl := func(perms int32, scheme, id string) []zkio.ACL {
		return []zkio.ACL{{Perms: perms, Scheme: scheme, ID: id}}
	}
	for _, test := range []struct {
		cfg  Config
		says string
	}{
		{Config{Servers: nil}, "Servers is empty"},
		{Config{Servers: []string{}}, "Servers is empty"},
		{Config{Servers: []string{"zk1", ""}}, "an address is empty"},
		{Config{Servers: []string{"zk1:port"}}, `"zk1:port"`},
		{Config{Servers: []string{"zk1:2181,zk2:2181"}}, `"zk1:2181,zk2:2181"`}, // a connection string: ParseServers takes it apart
		{Config{Servers: []string{"zk1:2181/chroot"}}, `"zk1:2181/chroot"`},
		{Config{Root: "holdfast"}, "Root"},
		{Config{Root: "/a/"}, "Root"},
		{Config{Root: "/" + strings.Repeat("a", maxPath)}, "Root"}, // no name could be added to it
		{Config{SessionTimeout: -time.Second}, "SessionTimeout is -1s"},
		{Config{SessionTimeout: time.Millisecond}, "SessionTimeout is 1ms"},
		{Config{SessionTimeout: 25 * time.Hour}, "SessionTimeout is 25h"},
		{Config{CloseTimeout: -1}, "CloseTimeout"},
		{Config{CloseTimeout: 2 * time.Hour}, "CloseTimeout"},
		{Config{LostMargin: -1}, "LostMargin"},
		{Config{LostMargin: 2500 * time.Millisecond}, "LostMargin is 2.5s"}, // a quarter of the default timeout
		{Config{SessionTimeout: time.Second, LostMargin: 250 * time.Millisecond}, "LostMargin is 250ms"},
		{Config{Workers: -1}, "Workers is -1"},
		{Config{Workers: minWorkers - 1}, "Workers is 8"},
		{Config{ACL: acl(0, "world", "anyone")}, "ACL[0]"},
		{Config{ACL: acl(32, "world", "anyone")}, "ACL[0]"},
		{Config{ACL: acl(-1, "world", "anyone")}, "ACL[0]"},
		{Config{ACL: acl(zkio.PermAll, "", "anyone")}, "ACL[0]"},
		{Config{ACL: acl(zkio.PermAll, "world", "everyone")}, `"anyone"`},
		{Config{ACL: acl(zkio.PermAll, "digest", "user")}, "digest"},
		{Config{ACL: append(acl(zkio.PermAll, "world", "anyone"), acl(zkio.PermAll, "digest", "a:b:c")...)}, "ACL[1]"},
		{Config{Auth: []zkio.Auth{{Data: []byte("u:p")}}}, "Auth[0]"},
	} {
		cfg := test.cfg
		if cfg.Servers == nil && !strings.Contains(test.says, "Servers") {
			cfg.Servers = []string{"zk1"}
		}
		_, err := cfg.complete()
		if !errors.Is(err, ErrBadConfig) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: got %v, want ErrBadConfig that says %q", cfg, err, test.says)
		}
	}
}

// Every fault is named at once, by Open too, which neither waits nor connects.
func TestConfigNamesEveryFault(t *testing.T) {
	bubble(t, func(c *cluster) {
		_, err := Open(c.t.Context(), Config{
			Servers:        []string{"", "zk1:0", "zk2:2181"},
			Root:           "relative",
			SessionTimeout: -1,
			CloseTimeout:   -1,
			LostMargin:     -1,
			Workers:        3,
			ACL:            []zkio.ACL{{Perms: 99, Scheme: "world", ID: "anyone"}, {Perms: 1}},
			Auth:           []zkio.Auth{{}},
			Dialer:         c.srv.Dial,
		})
		var e *Error
		if !errors.Is(err, ErrBadConfig) || !errors.As(err, &e) || e.Op != "open" {
			c.t.Fatalf("got %v, want ErrBadConfig of open", err)
		}
		for _, fault := range []string{
			"an address is empty", "zk1:0", "Root", "SessionTimeout", "CloseTimeout", "LostMargin", "Workers", "ACL[0]", "ACL[1]", "Auth[0]",
		} {
			if !strings.Contains(err.Error(), fault) {
				c.t.Errorf("the error does not name %s:\n%v", fault, err)
			}
		}
		if n := c.srv.Connections(); n != 0 {
			c.t.Errorf("there were %d connections", n)
		}
	})
}

// complete does not write into what its caller keeps.
func TestConfigIsCopied(t *testing.T) {
	servers := []string{"zk1", "zk2"}
	acl := []zkio.ACL{{Perms: zkio.PermAll, Scheme: "world", ID: "anyone"}}
	cfg, err := Config{Servers: servers, ACL: acl}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if servers[0] != "zk1" {
		t.Errorf("the caller's servers became %q", servers)
	}
	servers[0], acl[0].Perms = "elsewhere", 0
	if cfg.Servers[0] != "zk1:2181" || cfg.ACL[0].Perms != zkio.PermAll {
		t.Errorf("what the caller changes later changes the configuration: %q, %v", cfg.Servers, cfg.ACL)
	}
}

func TestParseServers(t *testing.T) {
	for _, test := range []struct {
		s, chroot string
		servers   []string
	}{
		{"zk1", "", []string{"zk1:2181"}},
		{"zk1:2182", "", []string{"zk1:2182"}},
		{"zk1:2181,zk2:2182,zk3", "", []string{"zk1:2181", "zk2:2182", "zk3:2181"}},
		{"zk1:2181, zk2:2182", "", []string{"zk1:2181", "zk2:2182"}},
		{"a:2181,b:2181/chroot", "/chroot", []string{"a:2181", "b:2181"}},
		{"a,b/some/root", "/some/root", []string{"a:2181", "b:2181"}},
		{"a:1/", "", []string{"a:1"}},
		{"10.0.0.1:65535", "", []string{"10.0.0.1:65535"}},
		{"[::1]:2181", "", []string{"[::1]:2181"}},
		{"[::1]", "", []string{"[::1]:2181"}},
		{"::1", "", []string{"[::1]:2181"}},
		{"[fe80::1]:2181,zk2", "", []string{"[fe80::1]:2181", "zk2:2181"}},
		{"[fe80::1%eth0]:2181", "", []string{"[fe80::1%eth0]:2181"}},
		{"zk-1.example.org.:2181", "", []string{"zk-1.example.org.:2181"}},
	} {
		servers, chroot, err := ParseServers(test.s)
		if !slices.Equal(servers, test.servers) || chroot != test.chroot || err != nil {
			t.Errorf("%q: got %q, %q, %v; want %q, %q", test.s, servers, chroot, err, test.servers, test.chroot)
		}
	}
}

func TestParseServersFaults(t *testing.T) {
	for _, s := range []string{
		"", " ", ",", "a,", ",a", "a,,b", "/chroot", ":2181", "a:", "a:0", "a:-1", "a:65536", "a:port", "a:21 81",
		"a:1:2", "[::1", "::1]:2181", "[]:2181", "a b:2181", "a\t:2181", "http://a:2181", "a:2181/chroot/", "a:2181//chroot", "a:2181/..",
		"a:2181/zookeeper", "a:2181/" + strings.Repeat("c", maxPath/2), "a;b", "a\x00b", "user@a:2181",
	} {
		servers, chroot, err := ParseServers(s)
		if !errors.Is(err, ErrBadConfig) || servers != nil || chroot != "" {
			t.Errorf("%q: got %q, %q, %v; want ErrBadConfig", s, servers, chroot, err)
			continue
		}
		if s != "" && s != "a\x00b" && s != "a\t:2181" && !strings.Contains(err.Error(), s) {
			t.Errorf("%q: the error does not show it: %v", s, err)
		}
	}
}

// Whatever ParseServers takes, Config takes.
func FuzzParseServers(f *testing.F) {
	for _, s := range []string{"a", "a:1,b:2/c", "[::1]:2181", "::1", "", ",", "a/b", "a:0", "[", "%", "a\x00", "a/" + strings.Repeat("c", maxPath/2)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		servers, chroot, err := ParseServers(s)
		if err != nil {
			if servers != nil || chroot != "" || !errors.Is(err, ErrBadConfig) {
				t.Errorf("%q: %q, %q, %v", s, servers, chroot, err)
			}
			return
		}
		cfg, err := Config{Servers: servers, Root: chroot}.complete()
		if err != nil || !slices.Equal(cfg.Servers, servers) {
			t.Errorf("%q: %q, %q are not taken: %q, %v", s, servers, chroot, cfg.Servers, err)
		}
	})
}
