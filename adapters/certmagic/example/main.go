// SPDX-License-Identifier: Apache-2.0

// Example has three processes that need the same certificate, and share a directory. The
// one that gets the lock is killed while it obtains the certificate. Another takes over, and
// in the end the authority has issued one certificate, which all use.
//
//	go run ./example
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	holdfast "github.com/holdfast-go/holdfast/adapters/certmagic"
	"github.com/holdfast-go/holdfast/adapters/internal/demo"
	"github.com/holdfast-go/holdfast/manager"
)

func main() {
	var check checker
	demo.Main(demo.Program{Work: work, Watch: check.watch})
}

// work is a process that needs a certificate.
func work(ctx context.Context, m *manager.Manager, dir string) error {
	storage, err := holdfast.New(&certmagic.FileStorage{Path: dir}, m, holdfast.Config{
		OnLost: func(name string, err error) { fmt.Println("lost", name, err) },
	})
	if err != nil {
		return err
	}
	var cfg *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil }, Logger: zap.NewNop(),
	})
	defer cache.Stop()
	cfg = certmagic.New(cache, certmagic.Config{
		Storage: storage, Issuers: []certmagic.Issuer{authority{}}, Logger: zap.NewNop(),
	})
	if err := cfg.ManageSync(ctx, []string{"*.example.com"}); err != nil {
		return err
	}
	cert, err := cfg.CacheManagedCertificate(ctx, "*.example.com")
	if err != nil {
		return err
	}
	fmt.Println("serves with the certificate", cert.Leaf.SerialNumber)
	<-ctx.Done()
	return nil
}

// An authority is a certmagic.Issuer that takes two seconds.
type authority struct{}

func (authority) IssuerKey() string { return "example" }

func (authority) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	fmt.Println("asks the authority")
	select {
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixMilli()), DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, key)
	if err != nil {
		return nil, err
	}
	fmt.Println("has got the certificate", template.SerialNumber)
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// A checker kills the first process that asks the authority.
type checker struct {
	killed, asks string // processes
	serial       string
	serve        int
}

func (c *checker) watch(process, line string) (demo.Next, error) {
	words := strings.Fields(line)
	last := words[len(words)-1]
	switch {
	case strings.HasPrefix(line, "asks"):
		if c.killed == "" {
			c.killed = process
			return demo.Kill, nil
		}
		if c.asks != "" {
			return 0, fmt.Errorf("%s asks the authority, too", process)
		}
		c.asks = process
	case strings.HasPrefix(line, "has got"):
		c.serial = last
	case strings.HasPrefix(line, "serves"):
		if last != c.serial {
			return 0, fmt.Errorf("%s serves with %s, and %s was issued", process, last, c.serial)
		}
		if c.serve++; c.serve == 2 {
			fmt.Println("one certificate was issued, and both use it")
			return demo.End, nil
		}
	}
	return demo.GoOn, nil
}
