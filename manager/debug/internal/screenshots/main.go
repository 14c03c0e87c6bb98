// SPDX-License-Identifier: Apache-2.0

// Screenshots shows how the page looks. It opens processes on an embedded server, has
// them contend for locks, and takes pictures of the page with Chromium, as wide as a
// desktop and as a phone, light and dark:
//
//	go run ./internal/screenshots DIR
//
// With -serve it takes none, and serves the page until Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/debug"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

func main() {
	serve := flag.Bool("serve", false, "serve the page until Ctrl-C")
	locks := flag.Int("locks", 1000, "how many locks the process holds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *locks, *serve, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, locks int, serve bool, dir string) error {
	if !serve && dir == "" {
		return errors.New("usage: screenshots [-locks N] DIR, or screenshots -serve")
	}
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	page := debug.New()
	scene := &scene{server: server}
	defer scene.close()
	if err := scene.play(ctx, page, locks); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	web := &http.Server{Handler: page, ReadHeaderTimeout: time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	defer func() {
		_ = web.Close()
		<-served
	}()
	url := "http://" + listener.Addr().String() + "/"
	if serve {
		fmt.Println(url)
		<-ctx.Done()
		return nil
	}
	return shoot(ctx, url, dir)
}

// A view is one picture.
type view struct {
	name, query   string
	width, height int
}

var views = []view{
	{"wide", "", 1280, 1400},
	{"phone", "", 390, 1800},
	{"wide-stuck", "?show=stuck", 1280, 900},
	{"phone-stuck", "?show=stuck", 390, 1400},
	{"wide-hostile", "?q=hostile", 1280, 900},
	{"phone-hostile", "?q=hostile", 390, 1600},
	{"wide-nothing", "?q=no+such+lock", 1280, 700},
}

// shoot takes each picture in light and dark.
func shoot(ctx context.Context, url, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	profile, err := os.MkdirTemp("", "screenshots")
	if err != nil {
		return err
	}
	defer os.RemoveAll(profile)
	for _, v := range views {
		for _, scheme := range []string{"light", "dark"} {
			file := filepath.Join(dir, v.name+"-"+scheme+".png")
			args := []string{
				"--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + profile,
				fmt.Sprintf("--window-size=%d,%d", v.width, v.height), "--screenshot=" + file,
				"--blink-settings=preferredColorScheme=" + map[string]string{"light": "1", "dark": "0"}[scheme],
				url + v.query,
			}
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			out, err := exec.CommandContext(limited, "chromium", args...).CombinedOutput()
			cancel()
			if err != nil {
				return fmt.Errorf("chromium: %w\n%s", err, out)
			}
			fmt.Println(file)
		}
	}
	return nil
}

// A scene is the processes that contend.
type scene struct {
	server   *zktest.Server
	managers []*manager.Manager
}

func (s *scene) close() {
	for _, m := range s.managers {
		_ = m.Close()
	}
}

// open returns a process.
func (s *scene) open(ctx context.Context, label string, observer func(manager.Event)) (*manager.Manager, error) {
	m, err := manager.Open(ctx, manager.Config{
		Servers:        []string{"zk1:2181"},
		Dialer:         s.server.Dial,
		Logger:         slog.New(slog.DiscardHandler),
		SessionTimeout: 4 * time.Second,
		Label:          label,
		Endpoint:       label + ".example:8080",
		Observer:       observer,
	})
	if err == nil {
		s.managers = append(s.managers, m)
	}
	return m, err
}

// play has the process of the page hold many locks, of which another process waits for
// one, and wait for some.
func (s *scene) play(ctx context.Context, page *debug.Handler, locks int) error {
	shown, err := s.open(ctx, "billing", page.Observe)
	if err != nil {
		return err
	}
	page.Manage(shown)
	other, err := s.open(ctx, "reports", nil)
	if err != nil {
		return err
	}
	acquire := func(m *manager.Manager, name string) (manager.Hold, error) {
		l, err := m.Exclusive(name)
		if err != nil {
			return manager.Hold{}, err
		}
		return l.Acquire(ctx), nil
	}
	hold := func(m *manager.Manager, name string) error {
		h, err := acquire(m, name)
		if err != nil {
			return err
		}
		_, err = h.Ready().Wait(ctx)
		return err
	}

	// A lock was lost once.
	if err := hold(shown, "invoices/lost-once"); err != nil {
		return err
	}
	for _, session := range s.server.Sessions() {
		if len(session.Ephemerals) > 0 && s.server.ExpireSession(session.ID) {
			break
		}
	}

	const stuck = "accounts/00471"
	if err := hold(shown, stuck); err != nil {
		return err
	}
	hostile := "hostile/" + manager.Escape(`<script>alert("lock")</script>`) + "/" + strings.Repeat("long-name-without-an-end", 6)
	for _, name := range []string{"reports/monthly", "reports/" + strings.Repeat("yearly-", 12) + "end", hostile} {
		if err := hold(other, name); err != nil {
			return err
		}
		for range 3 {
			if _, err := acquire(shown, name); err != nil {
				return err
			}
		}
	}
	mutex, err := shown.Mutex("caches/prices")
	if err != nil {
		return err
	}
	if _, err := mutex.Lock(ctx); err != nil {
		return err
	}
	rw, err := shown.ReadWrite("tables/customers")
	if err != nil {
		return err
	}
	if _, err := rw.Reader().Lock(ctx); err != nil {
		return err
	}
	if _, err := acquire(other, stuck); err != nil {
		return err
	}
	for i := range locks {
		if err := hold(shown, fmt.Sprintf("orders/%05d", i)); err != nil {
			return err
		}
	}
	// Wait until the locks that are in the way look stuck, and ask for one of them.
	revoked, err := other.Exclusive("orders/00007")
	if err != nil {
		return err
	}
	revoking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = revoked.Revoke(revoking, "rolling restart of the database; see the on-call channel") // the holder ignores it
	return nil
}
