// SPDX-License-Identifier: Apache-2.0

package apitext_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/apitext"
)

const (
	root    = "../.."
	module  = "github.com/holdfast-go/holdfast"
	apiFile = root + "/docs/api.txt"
)

var update = flag.Bool("update", false, "write docs/api.txt")

// public returns the packages of this module that others can import.
func public(t *testing.T) []string {
	t.Helper()
	packages, err := apitext.Public(root, "./...")
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

func TestAPIFile(t *testing.T) {
	now, err := apitext.Of(root, public(t)...)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(apiFile, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	then, err := os.ReadFile(apiFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := apitext.Diff(string(then), now); diff != "" {
		t.Errorf("the API differs from docs/api.txt:\n\n%s\nIf this is intended, run `make api`, and describe the change in CHANGELOG.md.", diff)
	}
}

func TestStabilityNamesThePackages(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/stability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range public(t) {
		if name, ok := strings.CutPrefix(pkg, module+"/"); ok && !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/stability.md does not mention package %s", name)
		}
	}
}

func TestPublic(t *testing.T) {
	got, err := apitext.Public(root, ".", "./state", "./stress", "./internal/jute")
	if err != nil {
		t.Fatal(err)
	}
	if want := module + " " + module + "/state"; strings.Join(got, " ") != want {
		t.Errorf("public packages %q, want %s", got, want)
	}
}

const sampleAPI = `package sample // import "github.com/holdfast-go/holdfast/internal/apitext/testdata/sample"

const Green Colour = 1
const Limit = 1024
const Pause time.Duration = 3000000000
const Red Colour = 0
var ErrEmpty error
func Each[K comparable, V any](m map[K]V, fn func(K, V) bool)
func Open(ctx context.Context, names ...string) (_ *Box[int], err error)
type Basket struct
    Items []Handle
type Box[T any] struct
    *Lid // embedded
    Value T
    Weight int
    func (Box) Close() error
    func (*Box) Put(v T) (old T)
    func (Box) Weigh() int
type Colour uint8
    func (Colour) String() string
type Handle struct // comparable
    func (Handle) Valid() bool
type Lid struct // comparable
    Locked bool
    Open bool
    func (Lid) Close() error
type Reader interface
    ReadAt(p []byte, off int64) (n int, err error)
    Size() (n int64)
type Sealed interface
    // and methods that only its own package can implement
type Time = time.Time
type Visit func(h Handle, done <-chan struct{}) error
`

func TestOf(t *testing.T) {
	got, err := apitext.Of(root, module+"/internal/apitext/testdata/sample")
	if err != nil {
		t.Fatal(err)
	}
	if diff := apitext.Diff(sampleAPI, got); diff != "" || len(got) != len(sampleAPI) {
		t.Errorf("- want, + got:\n%s\nall of it:\n%s", diff, got)
	}
}

func TestOfAPackageWithoutAPI(t *testing.T) {
	if got, err := apitext.Of(root, module); got != "" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestErrorsNameThePackage(t *testing.T) {
	for name, call := range map[string]func() error{
		"list": func() error { _, err := apitext.Public(root, "./nosuch"); return err },
		"of":   func() error { _, err := apitext.Of(root, module+"/nosuch"); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "nosuch") {
			t.Errorf("%s: %v, want an error that names the missing package", name, err)
		}
	}
}

func TestOfAPackageThatDoesNotCompile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module broken\n\ngo 1.26\n",
		"a.go":   "package broken\n\nfunc F() Missing { return 1 }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := apitext.Of(dir, "broken"); err == nil || !strings.Contains(err.Error(), "Missing") {
		t.Errorf("%v, want an error that names what is undefined", err)
	}
}

func TestDiff(t *testing.T) {
	const old = `package a

func F()
type T struct
    A int
    func (T) M()

package b

type U int
`
	tests := []struct{ name, new, want string }{
		{"nothing", old, ""},
		{"line ends", strings.ReplaceAll(old, "\n", "\r\n"), ""},
		{"an added function", strings.Replace(old, "func F()", "func E()\nfunc F()", 1), "  package a\n+ func E()\n"},
		{"a removed function", strings.Replace(old, "func F()\n", "", 1), "  package a\n- func F()\n"},
		{"a changed field", strings.Replace(old, "A int", "A uint", 1), "  package a\n  type T struct\n-     A int\n+     A uint\n"},
		{"two removed members", strings.Replace(old, "    A int\n    func (T) M()\n", "", 1), "  package a\n  type T struct\n-     A int\n-     func (T) M()\n"},
		{"an added type with members", strings.Replace(old, "type T", "type S struct\n    B int\ntype T", 1), "  package a\n+ type S struct\n+     B int\n"},
		{"in the second package", strings.Replace(old, "type U int", "type U uint", 1), "  package b\n- type U int\n+ type U uint\n"},
		{"an added package", old + "\npackage c\n\nfunc G()\n", "+ package c\n+ func G()\n"},
		{"everything", "", "- package a\n- func F()\n- type T struct\n-     A int\n-     func (T) M()\n- package b\n- type U int\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := apitext.Diff(old, tt.new); got != tt.want {
				t.Errorf("diff:\n%swant:\n%s", got, tt.want)
			}
		})
	}
}
