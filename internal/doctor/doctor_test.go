// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// open opens a session that lasts as long as the test.
func open(t *testing.T, timeout time.Duration, dial dialer, servers ...string) *zkio.Session {
	t.Helper()
	c, err := zkio.Open(t.Context(), zkio.Config{Servers: servers, SessionTimeout: timeout, Dialer: dial, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = c.Close(ctx) // the server may be gone already
	})
	return c.Session()
}

// wantFindings checks that each of want, "check level where", is among the findings.
func wantFindings(t *testing.T, findings []Finding, want ...string) {
	t.Helper()
	var got strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&got, "%s %v %s: %s\n", f.Check, f.Level, f.Where, f.Found)
	}
	for _, line := range want {
		if !strings.Contains("\n"+got.String(), "\n"+line+": ") {
			t.Errorf("no finding %q", line)
		}
	}
	if t.Failed() {
		t.Logf("found:\n%s", got.String())
	}
}

// embedded runs test with an embedded server, in virtual time.
func embedded(t *testing.T, cfg zktest.Config, timeout time.Duration, test func(t *testing.T, srv *zktest.Server, examine func() []Finding)) {
	synctest.Test(t, func(t *testing.T) {
		cfg.Logger = slog.New(slog.DiscardHandler)
		srv := zktest.NewServer(cfg)
		t.Cleanup(func() { _ = srv.Close() })
		const addr = "zk1:2181"
		s := open(t, timeout, srv.Dial, addr)
		test(t, srv, func() []Finding {
			return Examine(t.Context(), Config{
				Servers: []string{addr}, Root: "/holdfast", Session: s, SessionTimeout: timeout,
				Watch: 2 * time.Second, Dialer: srv.Dial,
			})
		})
	})
}

func TestEmbeddedHealthy(t *testing.T) {
	embedded(t, zktest.Config{}, 10*time.Second, func(t *testing.T, srv *zktest.Server, examine func() []Finding) {
		wantFindings(t, examine(),
			"servers note zk1:2181", "four-letter-words ok ", "version warn zk1:2181", "likeness ok ", "members ok ", "tick-time ok ",
			"session-bounds ok ", "session-timeout ok ", "observers ok ", "permissions ok ", "containers ok ",
			"latency ok ", "clocks ok ", "open-directories ok ", "foreign-recipes ok ", "mixed-kinds ok ", "persistent-contenders ok ", "unknown-nodes ok ", "sequence-numbers ok ")
		if nodes := srv.Nodes(); len(nodes) > 4 { // ZooKeeper's own
			t.Errorf("left behind: %v", nodes)
		}
	})
}

// The bounds of session timeouts are found without conf.
func TestEmbeddedTellsNothing(t *testing.T) {
	cfg := zktest.Config{FourLetterWords: []string{"srvr"}, MinSessionTimeout: 5 * time.Second, MaxSessionTimeout: 50 * time.Second}
	embedded(t, cfg, 10*time.Second, func(t *testing.T, _ *zktest.Server, examine func() []Finding) {
		findings := examine()
		wantFindings(t, findings, "four-letter-words note zk1:2181", "tick-time note ", "session-timeout ok ")
		for _, f := range findings {
			if f.Check == "session-bounds" && f.Found != "5s to 50s" {
				t.Errorf("%+v", f)
			}
		}
	})
}

func TestEmbeddedBadTimeouts(t *testing.T) {
	cfg := zktest.Config{TickTime: 2 * time.Second, MinSessionTimeout: time.Second}
	embedded(t, cfg, 3*time.Second, func(t *testing.T, _ *zktest.Server, examine func() []Finding) {
		wantFindings(t, examine(), "session-bounds warn zk1:2181", "session-timeout fail ", "session-timeout warn ")
	})
}

// What is in the tree is found, among 10,000 contenders as well.
func TestEmbeddedTree(t *testing.T) {
	embedded(t, zktest.Config{}, 10*time.Second, func(t *testing.T, srv *zktest.Server, examine func() []Finding) {
		const guid = "_c_0123456789abcdef0123456789abcdef-"
		paths := []string{
			"/holdfast/elect/" + guid + "latch-0000000000",
			"/holdfast/deep/down/queue/qn-0000000007",
			"/holdfast/permits/leases/" + guid + "lease-0000000000", "/holdfast/permits/locks",
			"/holdfast/mixed/" + guid + "lock-0000000000", "/holdfast/mixed/" + guid + "__WRIT__0000000001",
			"/holdfast/kazoo/" + guid + "lock-0000000000", "/holdfast/kazoo/0123456789abcdef0123456789abcdef__lock__0000000001",
			"/holdfast/_held_/latch-0000000000", "/holdfast/_taken_/latch-0000000000", // the library's own directories
		}
		for i := range 10_000 {
			paths = append(paths, fmt.Sprintf("/holdfast/long/%slock-%010d", guid, i))
		}
		for _, path := range paths {
			if err := srv.CreateAll(path, nil); err != nil {
				t.Fatal(err)
			}
		}
		findings := examine()
		wantFindings(t, findings,
			"foreign-recipes note /holdfast/elect", "foreign-recipes note /holdfast/deep/down/queue", "foreign-recipes note /holdfast/permits",
			"mixed-kinds warn /holdfast/mixed", "mixed-kinds warn /holdfast/kazoo", "open-directories note /holdfast")
		for _, f := range findings {
			if strings.Contains(f.Where, "_held_") || strings.Contains(f.Where, "_taken_") || f.Check == "foreign-recipes" && f.Where == "/holdfast/long" {
				t.Errorf("%+v", f)
			}
		}
	})
}

// A client that may only read is told so, and gets what it can see.
func TestEmbeddedReadOnly(t *testing.T) {
	embedded(t, zktest.Config{}, 10*time.Second, func(t *testing.T, srv *zktest.Server, examine func() []Finding) {
		s := open(t, 10*time.Second, srv.Dial, "zk1:2181")
		for _, dir := range []struct {
			path, id string
			perms    int32
		}{
			{"/holdfast", "anyone", zkio.PermRead | zkio.PermCreate},
			{"/holdfast/secret", "admin:x", zkio.PermAll},
		} {
			scheme := "world"
			if dir.id != "anyone" {
				scheme = "digest"
			}
			if err := s.Create(dir.path, nil, []zkio.ACL{{Perms: dir.perms, Scheme: scheme, ID: dir.id}}); err != nil {
				t.Fatal(err)
			}
		}
		wantFindings(t, examine(), "permissions fail /holdfast", "permissions warn /holdfast/secret", "open-directories ok ")
	})
}

// A server that is stopped for a part of the time is not called healthy, although half of
// its answers come at once, and although it stands still for no request that is sent when
// the one before is answered.
func TestF319_EmbeddedStopped(t *testing.T) {
	for _, of := range []struct{ part, period time.Duration }{
		{900 * time.Millisecond, time.Second},
		{200 * time.Millisecond, 400 * time.Millisecond},
	} {
		embedded(t, zktest.Config{}, 10*time.Second, func(t *testing.T, srv *zktest.Server, examine func() []Finding) {
			begin := time.Now()
			srv.OnRequest(func(int64, zktest.Op, string) {
				if at := time.Since(begin) % of.period; at < of.part {
					time.Sleep(of.part - at)
				}
			})
			findings := examine()
			srv.OnRequest(nil)
			wantFindings(t, findings, "latency warn ")
			for _, f := range findings {
				if want := fmt.Sprintf("for %v at most", of.part); f.Check == "latency" && !strings.HasSuffix(f.Found, want) {
					t.Errorf("found %q, want %q", f.Found, want)
				}
			}
		})
	}
}

// So it is with a real server, which the system stops and wakes up.
func TestF319_RealStopped(t *testing.T) {
	for _, of := range []struct{ part, period time.Duration }{
		{900 * time.Millisecond, time.Second},
		{200 * time.Millisecond, 400 * time.Millisecond},
	} {
		srv := realzk.Start(t)
		s := open(t, 10*time.Second, nil, srv.Addr())
		ctx, cancel := context.WithCancel(t.Context())
		stopping := make(chan struct{})
		go func() {
			defer close(stopping)
			defer srv.Resume()
			for tick := time.NewTicker(of.period); ctx.Err() == nil; {
				srv.Pause()
				until(ctx, time.Now().Add(of.part))
				srv.Resume()
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		}()
		findings := Examine(t.Context(), Config{Servers: []string{srv.Addr()}, Root: "/holdfast", Session: s, SessionTimeout: 10 * time.Second, Watch: 3 * time.Second})
		cancel()
		<-stopping
		wantFindings(t, findings, "latency warn ")
	}
}

// Each release is judged by the bugs that it has, whatever the number after its line: a later
// one is not always a better one.
func TestF320_Releases(t *testing.T) {
	for _, test := range []struct {
		version string
		level   Level
		missing string // the issues that are named
		advice  string
	}{
		{"3.4.14-x", Fail, "", "upgrade to 3.9.4"},
		{"3.5.5-390fe37ea45dee01bf87dc1c042b5e3dcce88653", Warn, "3642 3911 4394 4712 4785", "upgrade to 3.9.4"}, // Cloudera's
		{"3.5.10-x", Warn, "4394 4712 4785", "upgrade to 3.9.4"},
		{"3.6.2-x", Warn, "3642 3911 4394 4712 4785", "upgrade to 3.9.4"},
		{"3.6.4-x", Warn, "4394 4712 4785", "upgrade to 3.9.4"},
		{"3.7.2-x", Warn, "4394 4712 4785", "upgrade to 3.9.4"},
		{"3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f", Warn, "4394 4712 4785", "upgrade to 3.9.4"}, // Debian 12's
		{"3.8.4-x", Warn, "4394 4712 4785 4846", "upgrade to 3.9.4"},
		{"3.8.5-x", Warn, "4394 4712", "upgrade to 3.9.4"},
		{"3.8.6-x", Warn, "4394 4712", "upgrade to 3.9.4"},
		{"3.8.7-x", Note, "4394 4712", "release notes"},
		{"3.9.0-x", Warn, "4394 4712 4785", "upgrade to 3.9.4"},
		{"3.9.2-x", Warn, "4394 4712 4846", "upgrade to 3.9.4"},
		{"3.9.3-x", Warn, "4846 4925", "upgrade to 3.9.4"}, // whose data loss is new
		{"3.9.4-x", OK, "", ""},
		{"3.9.5-x", OK, "", ""},
		{"3.9.6-x", Note, "", "make test"},
		{"3.10.0-x", Note, "", "make test"},
	} {
		of := Examine(t.Context(), Config{Servers: []string{"zk1:2181"}, Dialer: calling(test.version)})
		of = slices.DeleteFunc(of, func(f Finding) bool { return f.Check != "version" })
		if len(of) != 1 {
			t.Fatalf("%s: %+v", test.version, of)
		}
		f := of[0]
		missing := ""
		if f.Level != OK { // which names those that no release mends
			for _, m := range regexp.MustCompile(`ZOOKEEPER-(\d+)`).FindAllStringSubmatch(f.Found, -1) {
				missing += " " + m[1]
			}
		}
		if f.Level != test.level || strings.TrimSpace(missing) != test.missing || !strings.Contains(f.Change, test.advice) {
			t.Errorf("%s: %v: %s\nwhy: %s\ndo: %s", test.version, f.Level, f.Found, f.Why, f.Change)
		}
	}
}

// calling returns a dialer to a server that only answers four-letter words, and calls itself
// that version.
func calling(version string) dialer {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			word := make([]byte, 4)
			if _, err := io.ReadFull(server, word); err != nil {
				return
			}
			answer := map[string]string{
				"srvr": "Zookeeper version: " + version + ", built on 2025-01-01 00:00 UTC\nMode: leader\n",
				"conf": "tickTime=2000\nminSessionTimeout=4000\nmaxSessionTimeout=40000\n",
				"mntr": "zk_synced_observers\t0\n",
			}[string(word)]
			_, _ = io.WriteString(server, answer)
		}()
		return client, nil
	}
}

// A server that accepts connections and says nothing, or closes them, does not serve.
func TestMute(t *testing.T) {
	for found, answer := range map[string]func(net.Conn){
		`no answer to "srvr" in 5s`:               func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"closes the connection without an answer": func(c net.Conn) { _, _ = c.Read(make([]byte, 4)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			dial := func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go func() {
					answer(server)
					_ = server.Close()
				}()
				return client, nil
			}
			findings := Examine(t.Context(), Config{Servers: []string{"zk1:2181"}, Dialer: dial})
			if len(findings) != 1 || findings[0].Level != Fail || !strings.Contains(findings[0].Found, found) {
				t.Errorf("%+v", findings)
			}
		})
	}
}

// When the context ends, Examine returns soon, and says what it has not seen.
func TestEmbeddedInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(func() { _ = srv.Close() })
		s := open(t, 10*time.Second, srv.Dial, "zk1:2181")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		findings := Examine(ctx, Config{Servers: []string{"zk1:2181"}, Root: "/holdfast", Session: s, SessionTimeout: 10 * time.Second, Watch: time.Hour, Dialer: srv.Dial})
		wantFindings(t, findings, "permissions warn /", "latency ok ")
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("it took %v", d)
		}
		for _, node := range srv.Nodes() {
			if strings.Contains(node, "_doctor_") {
				t.Errorf("left behind: %s", node)
			}
		}
	})
}

// Four-letter words go through TLS as well.
func TestTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(web.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		word := make([]byte, 4)
		if _, err := io.ReadFull(conn, word); err == nil {
			_, _ = conn.Write(append(word, " heard"...))
		}
	}()
	trusted := x509.NewCertPool()
	trusted.AddCert(web.Certificate())
	cfg := Config{Dialer: new(net.Dialer).DialContext, TLS: &tls.Config{RootCAs: trusted}}
	if answer, err := fourLetters(t.Context(), cfg, l.Addr().String(), "srvr"); answer != "srvr heard" || err != nil {
		t.Errorf("%q, %v", answer, err)
	}
}

// A server that serves clients without a certificate admits strangers, whether or not this client
// shows one.
func TestAdmitsStrangers(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(web.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(web.Certificate())
	for _, test := range []struct {
		name      string
		demands   tls.ClientAuthType
		shows     []tls.Certificate
		strangers bool
	}{
		{"none is shown", tls.NoClientCert, nil, true},
		{"one is shown, and none needed", tls.RequestClientCert, web.TLS.Certificates, true},
		{"one is shown, and needed", tls.RequireAnyClientCert, web.TLS.Certificates, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
			l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates, ClientAuth: test.demands})
			if err != nil {
				t.Fatal(err)
			}
			var serving sync.WaitGroup
			serving.Go(func() { _ = srv.Serve(l) })
			defer serving.Wait()
			defer srv.Close()
			cfg := Config{Dialer: new(net.Dialer).DialContext, TLS: &tls.Config{RootCAs: trusted, Certificates: test.shows}}
			if s := askServer(t.Context(), cfg, l.Addr().String()); s.err != nil || s.strangers != test.strangers {
				t.Errorf("%v; it admits strangers: %v, want %v", s.err, s.strangers, test.strangers)
			}
		})
	}
}

// An ensemble of three in which one server has another bound, syncLimit is long, and
// sessions shorter than two ticks are allowed.
func TestRealEnsemble(t *testing.T) {
	const timeout = 6 * time.Second
	e := realzk.StartEnsemble(t, 3,
		realzk.TickTime(4*time.Second), realzk.SessionTimeouts(500*time.Millisecond, 60*time.Second), realzk.ConfigLine("syncLimit=60"),
		realzk.Member(2, realzk.SessionTimeouts(500*time.Millisecond, 30*time.Second)))
	e.Settled()
	addrs := realzk.Addrs(e.Servers()...)
	s := open(t, timeout, nil, addrs...)
	findings := Examine(t.Context(), Config{
		Servers: addrs, Root: "/holdfast", Session: s, SessionTimeout: timeout, Watch: 500 * time.Millisecond,
	})
	wantFindings(t, findings,
		"likeness ok ",
		"servers ok ", "four-letter-words ok ", "members ok ", "tick-time ok ", "session-bounds fail "+addrs[1], "session-bounds warn "+strings.Join(addrs, ", "),
		"session-timeout fail ", "sync-limit warn ", "observers ok ", "permissions ok ", "containers ok ")
	for _, f := range findings {
		if f.Check == "members" && f.Found != "3 voters, 0 observers" {
			t.Errorf("%+v", f)
		}
	}

	leader := e.Leader()
	dead := slices.IndexFunc(e.Servers(), func(s *realzk.Server) bool { return s != leader && s.Addr() != addrs[1] })
	e.Servers()[dead].Kill()
	findings = Examine(t.Context(), Config{Servers: addrs})
	wantFindings(t, findings, "servers warn "+addrs[dead])
}

// A contender that belongs to no session holds its lock for ever, and what looks like a
// contender of no known client is in no queue: both are told.
func TestF325_Strangers(t *testing.T) {
	embedded(t, zktest.Config{}, 10*time.Second, func(t *testing.T, srv *zktest.Server, examine func() []Finding) {
		s := open(t, 10*time.Second, srv.Dial, "zk1:2181")
		for _, path := range []string{
			"/holdfast/stuck/lock-0000000000",
			"/holdfast/jobs",
			"/holdfast/own/write-0000000000", "/holdfast/own/write-0000000001",
			"/holdfast/orders/o-0000000042/lock", // a lock's name may end like that
			"/holdfast/queue/qn-0000000007",
			"/holdfast/README",
		} {
			if err := srv.CreateAll(path, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{"/holdfast/jobs/_c_0123456789abcdef0123456789abcdef-lock-0000000000", "/holdfast/jobs/mylock-0000000001"} {
			if err := s.CreateEphemeral(path, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, f := range examine() {
			if f.Check == "persistent-contenders" || f.Check == "unknown-nodes" {
				got = append(got, fmt.Sprintf("%s %v %s: %s", f.Check, f.Level, f.Where, f.Found))
			}
		}
		slices.Sort(got)
		want := []string{
			"persistent-contenders warn /holdfast/stuck: lock-0000000000 is not ephemeral: it belongs to no session",
			"unknown-nodes note /holdfast/jobs: mylock-0000000001 looks like a contender, but like that of no known client",
			"unknown-nodes note /holdfast/own: write-0000000000 and 1 more look like contenders, but like those of no known client",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
