// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/zkio"
)

// Servers is the only field that has to be set. The others have the defaults that
// their comments state.
func TestConfigDefaults(t *testing.T) {
	cfg, err := Config{Servers: []string{"zk1", "zk2:2182"}}.complete()
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Servers: []string{"zk1:2181", "zk2:2182"}, Root: "/holdfast", SessionTimeout: 10 * time.Second, CloseTimeout: 5 * time.Second,
		Tenure: 100 * time.Millisecond, Workers: 64, Label: filepath.Base(os.Args[0]), Logger: slog.Default(),
	}
	for field, value := range reflect.ValueOf(want).Fields() {
		got := reflect.ValueOf(cfg).FieldByIndex(field.Index)
		if field.IsExported() {
			expect(t, reflect.DeepEqual(got.Interface(), value.Interface()), "%s: got %v, want %v", field.Name, got, value)
		}
	}
}

// Values within the bounds are taken as they are.
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
		{Endpoint: "http://[2001:db8::1]:8080/größe"},
		{Endpoint: strings.Repeat("x", 255)},
		{ACL: []zkio.ACL{world, {Perms: zkio.PermRead, Scheme: "auth"}, {Perms: zkio.PermAll, Scheme: "digest", ID: "u:h="}, {Perms: 1, Scheme: "ip", ID: "10.0.0.0/8"}}},
		{Auth: []zkio.Auth{{Scheme: "digest", Data: []byte("u:p")}, {Scheme: "sasl"}}},
		{Sentinel: new(sentinel.Sentinel)},
	} {
		cfg.Servers = []string{"zk1:2181"}
		got, err := cfg.complete()
		expect(t, err == nil, "%+v: %v", cfg, err)
		given, taken := reflect.ValueOf(cfg), reflect.ValueOf(got)
		for i := range given.NumField() {
			expect(t, given.Field(i).IsZero() || reflect.DeepEqual(given.Field(i).Interface(), taken.Field(i).Interface()),
				"%s: %+v became %+v", given.Type().Field(i).Name, given.Field(i), taken.Field(i))
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
		{Config{Servers: []string{"zk1", ""}}, "it names no host"},
		{Config{Servers: []string{"zk1:port"}}, `"zk1:port"`},
		{Config{Servers: []string{"zk1:2181,zk2:2181"}}, `"zk1:2181,zk2:2181"`}, // a connection string: ParseServers takes it apart
		{Config{Servers: []string{"zk1:2181/chroot"}}, `"zk1:2181/chroot"`},
		{Config{Servers: []string{"zk1:26842/chroot"}}, `ParseServers takes a connection string apart`},
		{Config{Servers: []string{"zk1,zk2"}}, `ParseServers takes a connection string apart`},
		{Config{Root: "holdfast"}, "Root"},
		{Config{Root: "/a/"}, "Root"},
		{Config{Root: "/" + strings.Repeat("a", maxPath)}, "Root"}, // no name could be added to it
		{Config{Chroot: "prod"}, "Chroot"},
		{Config{Chroot: "/" + strings.Repeat("a", maxPath/2-1)}, "Chroot and Root together"},
		{Config{SessionTimeout: -time.Second}, "SessionTimeout is -1s"},
		{Config{SessionTimeout: time.Millisecond}, "SessionTimeout is 1ms"},
		{Config{SessionTimeout: 25 * time.Hour}, "SessionTimeout is 25h"},
		{Config{CloseTimeout: -1}, "CloseTimeout"},
		{Config{CloseTimeout: 2 * time.Hour}, "CloseTimeout"},
		{Config{LostMargin: -1}, "LostMargin"},
		{Config{LostMargin: 2500 * time.Millisecond}, "LostMargin is 2.5s"}, // a quarter of the default timeout
		{Config{SessionTimeout: time.Second, LostMargin: 250 * time.Millisecond}, "LostMargin is 250ms"},
		{Config{Workers: -1}, "Workers is -1"},
		{Config{Endpoint: strings.Repeat("x", 256)}, "Endpoint has 256 bytes"},
		{Config{Endpoint: "a\nb"}, "has a control character"},
		{Config{Endpoint: "a\xff"}, "not valid UTF-8"},
		{Config{Workers: minWorkers - 1}, "Workers is 8"},
		{Config{ACL: acl(0, "world", "anyone")}, "ACL[0]"},
		{Config{ACL: acl(32, "world", "anyone")}, "ACL[0]"},
		{Config{ACL: acl(-1, "world", "anyone")}, "ACL[0]"},
		{Config{ACL: acl(zkio.PermAll, "", "anyone")}, "ACL[0]"},
		{Config{ACL: acl(zkio.PermAll, "world", "everyone")}, `"anyone"`},
		{Config{ACL: acl(zkio.PermAll, "digest", "user")}, "digest"},
		{Config{ACL: append(acl(zkio.PermAll, "world", "anyone"), acl(zkio.PermAll, "digest", "a:b:c")...)}, "ACL[1]"},
		{Config{Auth: []zkio.Auth{{Data: []byte("u:p")}}}, "Auth[0]"},
		{Config{Sentinel: new(sentinel.Sentinel), TLS: new(tls.Config)}, "Sentinel: its process cannot be told of TLS and Dialer"},
		{Config{Sentinel: new(sentinel.Sentinel), Dialer: new(net.Dialer).DialContext}, "Sentinel: its process cannot be told of TLS and Dialer"},
	} {
		cfg := test.cfg
		if cfg.Servers == nil && !strings.Contains(test.says, "Servers") {
			cfg.Servers = []string{"zk1"}
		}
		_, err := cfg.complete()
		wantErr(t, test.says, err, ErrBadConfig)
		wantSays(t, err, test.says)
	}
}

// Open names every fault at once. It neither waits nor connects.
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
		wantErr(c.t, "open", err, ErrBadConfig)
		wantSays(c.t, err, "holdfast: open: ",
			"it names no host", "zk1:0", "Root", "SessionTimeout", "CloseTimeout", "LostMargin", "Workers", "ACL[0]", "ACL[1]", "Auth[0]")
		wantEq(c.t, "there were connections", c.srv.Connections(), 0)
	})
}

// The caller's slices are copied, not written.
func TestConfigIsCopied(t *testing.T) {
	servers := []string{"zk1"}
	acl := []zkio.ACL{{Perms: zkio.PermAll, Scheme: "world", ID: "anyone"}}
	cfg, err := Config{Servers: servers, ACL: acl}.complete()
	wantErr(t, "complete", err, nil)
	expect(t, servers[0] == "zk1", "the caller's servers became %q", servers)
	servers[0], acl[0].Perms = "elsewhere", 0
	expect(t, cfg.Servers[0] == "zk1:2181" && cfg.ACL[0].Perms == zkio.PermAll,
		"the caller can change the configuration: %q, %v", cfg.Servers, cfg.ACL)
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
		expect(t, slices.Equal(servers, test.servers) && chroot == test.chroot && err == nil,
			"%q: got %q, %q, %v; want %q, %q", test.s, servers, chroot, err, test.servers, test.chroot)
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
		} else if !strings.ContainsAny(s, "\t\x00") {
			wantSays(t, err, s)
		}
	}
}

// Config takes what ParseServers returns.
func FuzzParseServers(f *testing.F) {
	for _, s := range []string{"a", "a:1,b:2/c", "[::1]:2181", "::1", "", ",", "a/b", "a:0", "[", "%", "a\x00", "a/" + strings.Repeat("c", maxPath/2)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		servers, chroot, err := ParseServers(s)
		if err != nil {
			expect(t, servers == nil && chroot == "" && errors.Is(err, ErrBadConfig),
				"%q: %q, %q, %v", s, servers, chroot, err)
			return
		}
		cfg, err := Config{Servers: servers, Chroot: chroot, Root: "/"}.complete()
		expect(t, err == nil && slices.Equal(cfg.Servers, servers),
			"%q: %q, %q are refused: %q, %v", s, servers, chroot, cfg.Servers, err)
	})
}
