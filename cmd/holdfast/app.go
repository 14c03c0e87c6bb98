// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// An app is what the verbs share: the global flags, the streams, and the ways to
// ZooKeeper.
type app struct {
	*globals

	ctx            context.Context // ends at SIGINT, SIGTERM and SIGHUP
	stdin          io.Reader
	stdout, stderr io.Writer
	asJSON         bool        // --json
	known          *connection // what connection has read: a file can be a pipe, and is read once
	verb           string
	given          map[string]bool // the flags that are on the command line
	parser         *kong.Kong
}

// manager opens a session of its own for a verb that contends, asks or revokes. change
// may change the configuration before, or be nil. The caller closes the Manager.
func (a *app) manager(ctx context.Context, change func(*manager.Config)) (*manager.Manager, error) {
	c, err := a.connection()
	if err != nil {
		return nil, err
	}
	if a.CreateChroot && c.chroot != "" {
		if err := a.createChroot(ctx, c); err != nil {
			return nil, err
		}
	}
	cfg := manager.Config{
		Servers:        c.servers,
		Chroot:         c.chroot,
		Root:           a.Root,
		SessionTimeout: a.SessionTimeout,
		Auth:           c.auth,
		ACL:            c.acl,
		TLS:            c.tls,
		Logger:         a.logger(),
		Label:          "holdfast-" + a.verb,
	}
	if change != nil {
		change(&cfg)
	}
	trying, cancel := context.WithTimeout(ctx, a.ConnectTimeout)
	defer cancel()
	m, err := manager.Open(trying, cfg)
	switch {
	case errors.Is(err, manager.ErrNoChroot):
		return nil, a.noChroot(c.chroot)
	case errors.Is(err, zkio.ErrNoAuth):
		return nil, fmt.Errorf("%w (of holdfast, Config.Auth is --auth-file or HOLDFAST_AUTH, and Config.Root is --root)", err)
	case err != nil:
		return nil, a.notOpened(ctx, trying, err)
	}
	return m, nil
}

// createChroot makes what there is not of the chroot. Unlike the root and what is below, it
// stays when it has become empty.
func (a *app) createChroot(ctx context.Context, c connection) error {
	client, session, err := a.client(ctx)
	if err != nil {
		return err
	}
	defer closeSoon(client)
	path := ""
	for segment := range strings.SplitSeq(c.chroot[1:], "/") {
		path += "/" + segment
		if there, err := session.There(path); err != nil {
			return failed("create the chroot", c.chroot, err)
		} else if there {
			continue
		}
		if err := session.Create(path, nil, c.acl); err != nil && !errors.Is(err, zkio.ErrNodeExists) {
			return failed("create the chroot", c.chroot, err)
		}
	}
	return nil
}

// noChroot returns the error of a chroot that does not exist.
func (a *app) noChroot(chroot string) error {
	return usagef("%s: there is no chroot %s: is it mistyped? If it is new, create it: holdfast run --create-chroot …", a.origin("servers"), safe(chroot))
}

// origin returns by what a global flag has its value: the flag, or its variable.
func (a *app) origin(flag string) string {
	variable := "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	if _, set := os.LookupEnv(variable); set && !a.given[flag] {
		return variable
	}
	return "--" + flag
}

// badValue returns the error of a global flag's value, which err is about.
func (a *app) badValue(flag string, err error) error {
	return usagef("%s: %s", a.origin(flag), strings.TrimPrefix(err.Error(), manager.ErrBadConfig.Error()+": "))
}

// client opens a session of its own for a verb that only reads, and leaves no trace. The
// caller closes the Client.
func (a *app) client(ctx context.Context) (*zkio.Client, *zkio.Session, error) {
	c, err := a.connection()
	if err != nil {
		return nil, nil, err
	}
	trying, cancel := context.WithTimeout(ctx, a.ConnectTimeout)
	defer cancel()
	client, err := zkio.Open(trying, zkio.Config{
		Servers:        c.servers,
		SessionTimeout: a.SessionTimeout,
		Auth:           c.auth,
		TLS:            c.tls,
		Logger:         a.logger(),
	})
	if err != nil {
		return nil, nil, a.notOpened(ctx, trying, err)
	}
	session := client.Session()
	return client, session, nil
}

// notOpened returns the error of a session that could not be had: err, with the exit
// code that says so if no server was reached in time.
func (a *app) notOpened(ctx, trying context.Context, err error) error {
	if ctx.Err() != nil || trying.Err() == nil {
		return err
	}
	return &exitError{exitNoConnection, errors.New(strings.TrimSuffix(oneLine(err), ": "+context.DeadlineExceeded.Error()))}
}

// A connection is what the global flags say about ZooKeeper.
type connection struct {
	servers []string
	chroot  string // "" if there is none
	root    string // with the chroot
	auth    []zkio.Auth
	acl     []zkio.ACL
	secrets tlsFiles // what tls is made of
	tls     *tls.Config
}

// connection returns what the global flags say, and the files that they name. Its errors are
// those of bad usage.
func (a *app) connection() (connection, error) {
	if a.known == nil {
		c, err := a.readConnection()
		if err != nil {
			return connection{}, err
		}
		a.known = &c
	}
	return *a.known, nil
}

func (a *app) readConnection() (c connection, err error) {
	const shortest, longest = 100 * time.Millisecond, 24 * time.Hour // as package manager has them
	switch t := a.SessionTimeout; {
	case t < shortest || t > longest:
		return c, usagef("%s is %v: it must be between %v and %v", a.origin("session-timeout"), t, shortest, longest)
	case strings.Contains(a.Servers, "://"):
		return c, usagef("%s is %q, a URL: give host:port, and a comma between servers; a chroot may follow", a.origin("servers"), a.Servers)
	}
	if c.servers, c.chroot, err = manager.ParseServers(a.Servers); err != nil {
		return c, a.badValue("servers", err)
	}
	if _, err := manager.LockPath(a.Root, "any"); err != nil {
		return c, a.badValue("root", err)
	}
	c.root = c.chroot + a.Root
	if c.auth, err = a.auth(); err != nil {
		return c, usagef("%w", err)
	}
	if c.acl, err = a.acl(c.auth != nil); err != nil {
		return c, usagef("%w", err)
	}
	if c.secrets, err = a.tlsFiles(); err != nil {
		return c, usagef("%w", err)
	}
	if c.tls, err = c.secrets.config(); err != nil {
		return c, usagef("%w", err)
	}
	return c, nil
}

// auth returns the credentials. They come from a file or from HOLDFAST_AUTH, and never
// from the command line, which every user of the machine can read.
func (a *app) auth() ([]zkio.Auth, error) {
	secret, from := os.Getenv("HOLDFAST_AUTH"), "HOLDFAST_AUTH"
	if a.AuthFile != "" {
		text, err := os.ReadFile(a.AuthFile)
		if err != nil {
			return nil, fmt.Errorf("--auth-file: %w", err)
		}
		secret, from = strings.TrimRight(string(text), "\r\n"), "--auth-file "+a.AuthFile
		if secret == "" {
			return nil, fmt.Errorf("%s is empty: it must have user:password", from)
		}
		if info, err := os.Stat(a.AuthFile); err == nil && info.Mode().Perm()&0o004 != 0 && runtime.GOOS != "windows" {
			a.warnf("%s can be read by every user of this machine: chmod o-r %[1]s", a.AuthFile)
		}
	}
	if secret == "" {
		return nil, nil
	}
	if user, _, ok := strings.Cut(secret, ":"); !ok || user == "" {
		return nil, fmt.Errorf("%s does not have the form user:password", from)
	}
	return []zkio.Auth{{Scheme: "digest", Data: []byte(secret)}}, nil
}

// acl returns the ACL of what is created: nil is open to every client.
func (a *app) acl(authenticated bool) ([]zkio.ACL, error) {
	if a.ACL == "open" {
		return nil, nil
	}
	if !authenticated {
		return nil, fmt.Errorf("--acl=%s needs credentials: give --auth-file, or set HOLDFAST_AUTH", a.ACL)
	}
	acl := []zkio.ACL{{Perms: zkio.PermAll, Scheme: "auth"}} // those of this session
	if a.ACL == "readable" {
		acl = append(acl, zkio.ACL{Perms: zkio.PermRead, Scheme: "world", ID: "anyone"})
	}
	return acl, nil
}

// tlsFiles are the flags for TLS, with what is in the files that they name.
type tlsFiles struct {
	On            bool
	CA, Cert, Key []byte `json:",omitempty"`
	ServerName    string `json:",omitempty"`
	CAName        string `json:"-"` // of the file CA
}

// tlsFiles reads the files of the flags for TLS.
func (a *app) tlsFiles() (f tlsFiles, err error) {
	if (a.TLSCert == "") != (a.TLSKey == "") {
		return f, errors.New("--tls-cert and --tls-key go together")
	}
	f.ServerName, f.CAName = a.TLSServerName, a.TLSCA
	f.On = a.TLS || f.ServerName != ""
	for _, file := range []struct {
		flag, name string
		text       *[]byte
	}{{"--tls-ca", a.TLSCA, &f.CA}, {"--tls-cert", a.TLSCert, &f.Cert}, {"--tls-key", a.TLSKey, &f.Key}} {
		if file.name == "" {
			continue
		}
		f.On = true
		if *file.text, err = os.ReadFile(file.name); err != nil {
			return f, fmt.Errorf("%s: %w", file.flag, err)
		}
	}
	return f, nil
}

// config returns the configuration of TLS; nil is plain TCP.
func (f tlsFiles) config() (*tls.Config, error) {
	if !f.On {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != nil {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(f.CA) {
			return nil, fmt.Errorf("--tls-ca: %s has no certificate in PEM", f.CAName)
		}
	}
	if f.Cert != nil {
		pair, err := tls.X509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// logger returns the logger of sessions, which writes to standard error.
func (a *app) logger() *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.LogLevel)); err != nil {
		level = slog.LevelWarn // the parser lets no other word pass
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: inFlags}))
}

// inFlags has a line of the log name the flag where packages name the field of their Config.
func inFlags(_ []string, at slog.Attr) slog.Attr {
	if at.Key == slog.MessageKey {
		return slog.String(at.Key, strings.ReplaceAll(at.Value.String(), "SessionTimeout", "--session-timeout"))
	}
	return at
}

// printf writes to standard output.
func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.stdout, format, args...) }

// warnf writes a line to standard error.
func (a *app) warnf(format string, args ...any) {
	fmt.Fprintf(a.stderr, "holdfast: "+format+"\n", args...)
}

// tellf writes a line to standard error that has the time: what happens while a program runs
// is compared with other logs later.
func (a *app) tellf(format string, args ...any) {
	fmt.Fprintf(a.stderr, stamp()+" holdfast: "+format+"\n", args...)
}

// stamp returns the present time as the lines of a session's log have it.
func stamp() string { return time.Now().Format("2006-01-02T15:04:05.000Z07:00") }

// json writes v to standard output as one line of JSON.
func (a *app) json(v any) error { return writeJSON(a.stdout, v) }

// color reports whether standard output is a terminal that wants colour.
func (a *app) color() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(a.stdout)
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	if w, ok := stream.(*writer); ok {
		stream = w.w
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
