// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestServerAddresses(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"zk1:2181", "zk1:2181"},
		{"zk1", "zk1:2181"},
		{"10.0.0.1", "10.0.0.1:2181"},
		{"10.0.0.1:1", "10.0.0.1:1"},
		{"[::1]:65535", "[::1]:65535"},
		{"::1", "[::1]:2181"},
		{"fe80::1%eth0", "[fe80::1%eth0]:2181"},
		{"[::1]", "[::1]:2181"},
	} {
		got, err := ServerAddress(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("%q becomes %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
	for _, bad := range []string{"", ":2181", "zk1:", "zk1:0", "zk1:65536", "zk1:x", "a:b:c", "zk1:2181,zk2:2181", "zk1:2181/chroot", "zk1/chroot", "zk 1", "[::1", "[zk1]x:1", "u@zk1", "zk1\x00"} {
		if got, err := ServerAddress(bad); err == nil {
			t.Errorf("%q becomes %q, want an error", bad, got)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	cfg, err := Config{Servers: []string{"zk1", "zk2:7"}}.resolve("open")
	must(t, err)
	if cfg.SessionTimeout != 10*time.Second || cfg.Workers != 64 || cfg.LostMargin != 0 || cfg.Logger == nil {
		t.Errorf("defaults are %+v", cfg)
	}
	if got := strings.Join(cfg.Servers, " "); got != "zk1:2181 zk2:7" {
		t.Errorf("servers are %s", got)
	}
}

func TestConfigFaults(t *testing.T) {
	good := func() Config { return Config{Servers: []string{"zk1"}} }
	for _, tt := range []struct {
		name   string
		damage func(*Config)
		want   string
	}{
		{"no servers", func(c *Config) { c.Servers = nil }, "Servers is empty"},
		{"bad server", func(c *Config) { c.Servers = []string{"zk1", "zk2:x"} }, "Servers[1]"},
		{"timeout too short", func(c *Config) { c.SessionTimeout = time.Millisecond }, "SessionTimeout is 1ms"},
		{"timeout negative", func(c *Config) { c.SessionTimeout = -time.Second }, "SessionTimeout is -1s"},
		{"timeout too long", func(c *Config) { c.SessionTimeout = 1000 * time.Hour }, "SessionTimeout is 1000h"},
		{"margin negative", func(c *Config) { c.LostMargin = -1 }, "LostMargin is -1ns"},
		{"margin half the timeout", func(c *Config) { c.LostMargin = 5 * time.Second }, "LostMargin is 5s"},
		{"too few workers", func(c *Config) { c.Workers = 8 }, "Workers is 8"},
		{"no scheme", func(c *Config) { c.Auth = []Auth{{Data: []byte("u:p")}} }, "Auth[0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := good()
			tt.damage(&cfg)
			_, err := Open(t.Context(), cfg)
			wantErr(t, err, ErrBadArguments, Definite)
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v does not say %q", err, tt.want)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		cfg := good()
		for _, s := range []string{"Servers[0]", "Workers is 1", "LostMargin is -1ns"} {
			cfg.Servers, cfg.Workers, cfg.LostMargin = []string{""}, 1, -1
			if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%v does not say %q", err, s)
			}
		}
	})
}

// TestF098_AuthIsNotShown: whatever prints a Config, the secret is not in it.
func TestF098_AuthIsNotShown(t *testing.T) {
	cfg := Config{Servers: []string{"zk1"}, Auth: []Auth{{"digest", []byte("user:secret")}, {"x", nil}}}
	var shown []string
	for _, v := range []any{cfg, &cfg, cfg.Auth, cfg.Auth[0], &cfg.Auth[0]} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
		var text bytes.Buffer
		slog.New(slog.NewTextHandler(&text, nil)).Info("opening", "with", v)
		slog.New(slog.NewJSONHandler(&text, nil)).Info("opening", "with", v)
		marshaled, _ := json.Marshal(v) // a Config has functions, which cannot be
		shown = append(shown, text.String(), string(marshaled))
	}
	for _, s := range shown {
		for _, secret := range []string{"secret", "dXNlcjpzZWNyZXQ", "736563726574", "115 101 99", "0x73, 0x65"} {
			if strings.Contains(s, secret) {
				t.Errorf("shown: %s", s)
			}
		}
	}
	if got := fmt.Sprint(cfg.Auth); got != "[digest (11 bytes) x (0 bytes)]" {
		t.Errorf("credentials are written as %s", got)
	}
}
