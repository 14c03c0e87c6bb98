// SPDX-License-Identifier: Apache-2.0

package certmagic

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/adapters/internal/adaptertest"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

func newStorage(t *testing.T, dir string, m *manager.Manager, cfg Config) *Storage {
	t.Helper()
	s, err := New(&certmagic.FileStorage{Path: dir}, m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An authority issues certificates, and counts them. It is a certmagic.Issuer.
type authority struct {
	t      *testing.T
	key    *ecdsa.PrivateKey
	mu     sync.Mutex
	inside int
	issued int
	fail   func() error // instead of the first certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t: t, key: key}
}

func (*authority) IssuerKey() string { return "test" }

func (a *authority) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	a.mu.Lock()
	if a.inside++; a.inside != 1 {
		a.t.Errorf("%d processes obtain the certificate", a.inside)
	}
	fail := a.fail
	a.fail = nil
	a.mu.Unlock()
	time.Sleep(5 * time.Second) // what the authority takes
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inside--
	if fail != nil {
		return nil, fail()
	}
	a.issued++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(a.issued)), DNSNames: csr.DNSNames,
		NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// config returns certmagic's configuration of a process.
func config(t *testing.T, s certmagic.Storage, a *authority) *certmagic.Config {
	t.Helper()
	var cfg *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil }, Logger: zap.NewNop(),
	})
	t.Cleanup(cache.Stop)
	cfg = certmagic.New(cache, certmagic.Config{Storage: s, Issuers: []certmagic.Issuer{a}, Logger: zap.NewNop()})
	return cfg
}

// Of processes, and of goroutines of one process, that need a certificate at the same time, one
// obtains it, and later one renews it.
func TestOneObtainsACertificate(t *testing.T) {
	for name, processes := range map[string]int{"four processes": 4, "one process": 1} {
		t.Run(name, func(t *testing.T) {
			adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				dir, a := t.TempDir(), newAuthority(t)
				var storages []*Storage
				for range processes {
					storages = append(storages, newStorage(t, dir, adaptertest.Open(t, srv), Config{}))
				}
				var configs []*certmagic.Config
				for i := range 4 {
					configs = append(configs, config(t, storages[i%processes], a))
				}
				each := func(what string, do func(cfg *certmagic.Config) error) {
					var wg sync.WaitGroup
					for _, cfg := range configs {
						wg.Go(func() {
							if err := do(cfg); err != nil {
								t.Errorf("%s: %v", what, err)
							}
						})
					}
					wg.Wait()
				}
				each("obtain", func(cfg *certmagic.Config) error { return cfg.ObtainCertSync(t.Context(), "*.example.com") })
				if a.issued != 1 {
					t.Errorf("%d certificates were obtained, want 1", a.issued)
				}
				time.Sleep(50 * time.Minute)
				each("renew", func(cfg *certmagic.Config) error { return cfg.RenewCertAsync(t.Context(), "*.example.com", false) })
				if a.issued != 2 {
					t.Errorf("%d certificates were obtained, want 2", a.issued)
				}
				each("clean", func(cfg *certmagic.Config) error {
					return certmagic.CleanStorage(t.Context(), cfg.Storage, certmagic.CleanStorageOptions{Logger: zap.NewNop()})
				})
			})
		})
	}
}

// A process that loses its lock between two attempts is told, and then takes the lock anew and
// finds the certificate that another process has obtained.
func TestCertmagicLearnsOfALoss(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		dir, a := t.TempDir(), newAuthority(t)
		lost := make(chan string, 1)
		s := newStorage(t, dir, adaptertest.Open(t, srv), Config{OnLost: func(name string, err error) {
			if !errors.Is(err, manager.ErrLost) {
				t.Errorf("OnLost was told %v, want ErrLost", err)
			}
			lost <- name
		}})
		other := config(t, newStorage(t, dir, adaptertest.Open(t, srv), Config{}), a)
		done := make(chan error, 1)
		a.fail = func() error {
			grant, err := s.Hold("issue_cert_example.com").Grant()
			if err != nil {
				return err
			}
			srv.ExpireSession(grant.Session)
			go func() { done <- other.ObtainCertSync(t.Context(), "example.com") }()
			return errors.New("try again")
		}
		start := time.Now()
		if err := config(t, s, a).ObtainCertAsync(t.Context(), "example.com"); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("another process: %v", err)
		}
		if name := <-lost; name != "issue_cert_example.com" {
			t.Errorf("OnLost was told of %q", name)
		}
		if took := time.Since(start); a.issued != 1 || took > 4*time.Minute {
			t.Errorf("%d certificates were obtained within %v, want 1 within 4m", a.issued, took)
		}
		if nodes := srv.Children("/holdfast/certmagic/issue_cert_example.com"); len(nodes) != 0 {
			t.Errorf("left in the queue: %v", nodes)
		}
	})
}

func TestLocks(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m, ctx := adaptertest.Open(t, srv), t.Context()
		s, other := newStorage(t, t.TempDir(), m, Config{}), newStorage(t, t.TempDir(), adaptertest.Open(t, srv), Config{})
		if err := s.Lock(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if err := s.RenewLockLease(ctx, "a", time.Hour); err != nil {
			t.Errorf("renew: %v", err)
		}
		for name, x := range map[string]*Storage{"this process": s, "another process": other} {
			if ok, err := x.TryLock(ctx, "a"); ok || err != nil {
				t.Errorf("%s: trylock: %v, %v; want false, nil", name, ok, err)
			}
			short, cancel := context.WithTimeout(ctx, time.Second)
			if err := x.Lock(short, "a"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: lock: %v, want DeadlineExceeded", name, err)
			}
			cancel()
		}
		synctest.Wait()
		if nodes := srv.Children("/holdfast/certmagic/a"); len(nodes) != 1 {
			t.Errorf("in the queue: %v, want the holder", nodes)
		}
		if err := s.Unlock(ctx, "a"); err != nil {
			t.Error(err)
		}
		if nodes := srv.Children("/holdfast/certmagic/a"); len(nodes) != 0 {
			t.Errorf("left in the queue: %v", nodes)
		}
		for name, do := range map[string]func() error{
			"unlock again":       func() error { return s.Unlock(ctx, "a") },
			"unlock another's":   func() error { return other.Unlock(ctx, "a") },
			"renew without lock": func() error { return s.RenewLockLease(ctx, "a", time.Hour) },
			"hold":               s.Hold("a").Err,
		} {
			if err := do(); !errors.Is(err, manager.ErrReleased) {
				t.Errorf("%s: %v, want ErrReleased", name, err)
			}
		}
		if ok, err := other.TryLock(ctx, "a"); !ok || err != nil {
			t.Errorf("trylock: %v, %v; want true, nil", ok, err)
		}
		if err := other.Unlock(ctx, "a"); err != nil {
			t.Error(err)
		}
		_ = m.Close()
		if ok, err := s.TryLock(ctx, "a"); ok || !errors.Is(err, manager.ErrClosed) {
			t.Errorf("trylock after Close: %v, %v; want ErrClosed", ok, err)
		}
	})
}

// Names are different locks if they differ, whatever is in them.
func TestNames(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		names := []string{
			"issue_cert_example.com", "issue_cert_*.example.com", "issue_cert_wildcard_.example.com", "issue_cert_EXAMPLE.com",
			"issue_cert_::1", "issue_cert_bücher.example", "storage_clean", "ari_aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE",
			"a/b", "a%2Fb", "a//b", "/a", "a/", "a b", "a+b", "..", ".", "", "zookeeper", "\x00", "%", "%00", "\xff", "😀",
			strings.Repeat("x", 300), strings.Repeat("x", 301), "_c_0c7e5956d9e56a300000000000000002-lock-0000000000",
		}
		s := newStorage(t, t.TempDir(), adaptertest.Open(t, srv), Config{Prefix: "certs/"})
		for _, name := range names {
			if ok, err := s.TryLock(t.Context(), name); !ok || err != nil {
				t.Errorf("%q: %v, %v; want it locked", name, ok, err)
			}
		}
		if got := srv.Children("/holdfast/certs"); len(got) != len(names) {
			t.Errorf("%d locks for %d names: %q", len(got), len(names), got)
		}
		for _, name := range names {
			if err := s.Unlock(t.Context(), name); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

// lose locks name and loses the lock.
func lose(t *testing.T, srv *zktest.Server, s *Storage, name string) {
	t.Helper()
	if err := s.Lock(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	grant, err := s.Hold(name).Grant()
	if err != nil {
		t.Fatal(err)
	}
	srv.ExpireSession(grant.Session)
	<-s.Hold(name).Lost()
}

func TestUnlockAfterALoss(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := newStorage(t, t.TempDir(), adaptertest.Open(t, srv), Config{})
		for _, renewals := range []int{0, 1} {
			lose(t, srv, s, "a")
			for range renewals {
				if err := s.RenewLockLease(t.Context(), "a", time.Hour); !errors.Is(err, manager.ErrLost) {
					t.Errorf("renew: %v, want ErrLost", err)
				}
			}
			if err := s.Unlock(t.Context(), "a"); err != nil { // or certmagic keeps it in its list
				t.Errorf("unlock: %v, want nil", err)
			}
		}
	})
}

// A goroutine that takes its lock anew, and gives up, does not unlock that of another goroutine of
// its process.
func TestTakenAnewBesideAnotherGoroutine(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s, rival := newStorage(t, t.TempDir(), adaptertest.Open(t, srv), Config{}), newStorage(t, t.TempDir(), adaptertest.Open(t, srv), Config{})
		lose(t, srv, s, "a")
		if err := s.RenewLockLease(t.Context(), "a", time.Hour); !errors.Is(err, manager.ErrLost) {
			t.Fatalf("renew: %v, want ErrLost", err)
		}
		second := make(chan error, 1)
		go func() { second <- s.Lock(t.Context(), "a") }() // is ahead of the first in the process
		synctest.Wait()
		if err := rival.Lock(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.RenewLockLease(ctx, "a", time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("renew again: %v, want DeadlineExceeded", err)
		}
		if err := rival.Unlock(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if err := <-second; !errors.Is(err, manager.ErrLocked) {
			t.Errorf("the second: %v, want ErrLocked while the first has not unlocked", err)
		}
		if err := s.RenewLockLease(t.Context(), "a", time.Hour); err != nil {
			t.Errorf("renew: %v, want the lock", err)
		}
		if ok, err := rival.TryLock(t.Context(), "a"); ok || err != nil {
			t.Errorf("trylock: %v, %v; want false", ok, err)
		}
		if err := s.Unlock(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if err := s.Lock(t.Context(), "a"); err != nil {
			t.Errorf("lock: %v", err)
		}
	})
}

func TestNewRefusesBadPrefixes(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		if _, err := New(&certmagic.FileStorage{}, adaptertest.Open(t, srv), Config{Prefix: "a//"}); !errors.Is(err, manager.ErrBadName) {
			t.Errorf("%v, want ErrBadName", err)
		}
	})
}

// A process that was paused may unlock before the watch has looked at the clock. OnLost is
// called then, too, and once.
func TestTellsOfALossAtUnlock(t *testing.T) {
	adaptertest.TellsOfALossAtUnlock(t, func(t *testing.T, m *manager.Manager, onLost func(err error)) (unlock func()) {
		s := newStorage(t, t.TempDir(), m, Config{OnLost: func(_ string, err error) { onLost(err) }})
		if err := s.Lock(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		l := s.locks["a"]
		l.unwatch = adaptertest.Late(l.unwatch)
		s.locks["a"] = l
		return func() { _ = s.Unlock(t.Context(), "a") }
	})
}

// A lock that is unlocked while RenewLockLease takes it anew is not kept.
func TestUnlockedWhileTakenAnew(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s, rival := newStorage(t, t.TempDir(), adaptertest.Open(t, srv), Config{}), newStorage(t, t.TempDir(), adaptertest.Open(t, srv), Config{})
		lose(t, srv, s, "a")
		if err := rival.Lock(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if err := s.RenewLockLease(t.Context(), "a", time.Hour); !errors.Is(err, manager.ErrLost) {
			t.Fatalf("renew: %v, want ErrLost", err)
		}
		renewed := make(chan error, 1)
		go func() { renewed <- s.RenewLockLease(t.Context(), "a", time.Hour) }()
		synctest.Wait()
		if err := s.Unlock(t.Context(), "a"); err != nil {
			t.Errorf("unlock: %v", err)
		}
		if err := rival.Unlock(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if err := <-renewed; !errors.Is(err, manager.ErrReleased) {
			t.Errorf("renew: %v, want ErrReleased", err)
		}
		synctest.Wait()
		if nodes := srv.Children("/holdfast/certmagic/a"); len(nodes) != 0 {
			t.Errorf("left in the queue: %v", nodes)
		}
	})
}
