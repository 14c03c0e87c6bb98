// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	repository = "../../.."
	library    = "github.com/holdfast-go/holdfast"
	version    = "v0.9.0"
)

// A user is someone who has nothing of Holdfast but what is released: an empty directory, and
// a cache of modules that only the users before it have filled, from a proxy.
type user struct {
	*testing.T
	dir string
	env []string
}

// home is the directory of all users. They share the proxy and the cache of modules: in
// another directory Go would compile all modules anew.
var home string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if home, err = os.MkdirTemp("", "holdfast-users-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(home)
		return m.Run()
	}())
}

// release releases the modules of the repository, for the tests alone. It returns the
// environment of their users. The proxy also has what this machine has downloaded of other
// modules; what is missing comes from its own proxy.
var release = sync.OnceValues(func() (env []string, err error) {
	all, err := modules(repository)
	if err != nil {
		return nil, err
	}
	released := filepath.Join(home, "proxy")
	if err := proxy(repository, all, version, released); err != nil {
		return nil, err
	}
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return nil, err
	}
	cache, others, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return append(os.Environ(),
		"GOPROXY=file://"+released+",file://"+filepath.Join(cache, "cache", "download")+","+others,
		"GOMODCACHE="+filepath.Join(home, "modules"),
		"GOBIN="+filepath.Join(home, "bin"),
		"GOFLAGS=-modcacherw", // so that the directory can be removed
		"GONOSUMDB="+library+",*", "GOSUMDB=off", "GOWORK=off", "GOTOOLCHAIN=local"), nil
})

func newUser(t *testing.T) user {
	env, err := release()
	if err != nil {
		t.Fatal(err)
	}
	return user{t, t.TempDir(), env}
}

// run runs a command in the user's directory, and returns what it printed.
func (u user) run(name string, args ...string) string {
	u.Helper()
	cmd := exec.CommandContext(u.Context(), name, args...)
	cmd.Dir, cmd.Env = u.dir, u.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// write writes a file of the user's.
func (u user) write(name, text string) {
	u.Helper()
	if err := os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o600); err != nil {
		u.Fatal(err)
	}
}

// sums returns the modules that go.sum has, of those whose code is needed, sorted.
func (u user) sums() []string {
	u.Helper()
	text, err := os.ReadFile(filepath.Join(u.dir, "go.sum"))
	if err != nil {
		u.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if field := strings.Fields(line); !strings.HasSuffix(field[1], "/go.mod") {
			names = append(names, field[0])
		}
	}
	slices.Sort(names)
	return names
}

// A new user gets the library, and of other modules what it is made of and nothing else.
// README's first program runs on the server of the command, which is installed by its name.
func TestNewUser(t *testing.T) {
	u := newUser(t)
	u.run("go", "mod", "init", "example.com/user")
	u.run("go", "get", library+"@"+version)
	u.write("main.go", firstProgram(t))
	u.run("go", "get", ".")
	u.run("go", "build", "-o", "user", ".")
	want := []string{"github.com/go-zookeeper/zk", library, "go.uber.org/atomic", "golang.org/x/sys"}
	if got := u.sums(); !slices.Equal(got, want) {
		t.Errorf("go.sum has %q, want %q", got, want)
	}

	u.run("go", "install", library+"/cmd/holdfast@"+version)
	holdfast := filepath.Join(home, "bin", "holdfast")
	if got := u.run(holdfast, "version"); !strings.Contains(got, version) {
		t.Errorf("holdfast version prints %q, without %s", got, version)
	}
	server := exec.CommandContext(t.Context(), holdfast, "server", "--port", "0", "--json")
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill() // it may have ended
		_ = server.Wait()
	}()
	address := addressIn(t, stdout)
	u.write("main.go", strings.Replace(firstProgram(t), "127.0.0.1:2181", address, 1))
	if got := u.run("go", "run", "."); !strings.Contains(got, "\ninside, with token ") {
		t.Errorf("README's first program prints %q", got)
	}
	t.Log(u.run("go", "mod", "graph"))
}

// Each other module that is released can be required, with what it promises to its users.
func TestOtherModules(t *testing.T) {
	u := newUser(t)
	u.run("go", "mod", "init", "example.com/user")
	all, err := modules(repository)
	if err != nil {
		t.Fatal(err)
	}
	get := []string{"get"}
	var main strings.Builder
	fmt.Fprintln(&main, "package main")
	for _, m := range all {
		if m.path == library || strings.HasSuffix(m.dir, "/holdfast") || m.dir == "stress" {
			continue // a program, or part of TestNewUser
		}
		get = append(get, m.path+"@"+version)
		fmt.Fprintf(&main, "import _ %q\n", m.path)
	}
	fmt.Fprintln(&main, "func main() {}")
	u.run("go", get...)
	u.write("main.go", main.String())
	u.run("go", "mod", "tidy")
	// That the packages and the files they embed are there is what a release can get wrong. The
	// compiler has seen them as they are in the repository.
	u.run("go", "list", "-deps", ".")
	u.run("go", "install", "-n", library+"/stress@"+version)
}

// firstProgram returns the first program of README.md.
func firstProgram(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```go\n")
	program, _, ok := strings.Cut(block, "```")
	if !ok || !strings.HasPrefix(program, "package main\n") {
		t.Fatal("README.md does not begin with a program")
	}
	return program
}

// addressIn returns the address in what holdfast server --json prints.
func addressIn(t *testing.T, stdout io.Reader) string {
	t.Helper()
	var says struct{ Address string }
	if err := json.NewDecoder(stdout).Decode(&says); err != nil || says.Address == "" {
		t.Fatalf("holdfast server has printed no address: %v", err)
	}
	return says.Address
}

func TestChecked(t *testing.T) {
	for version, ok := range map[string]bool{"v0.9.0": true, "v1.0.0-rc.1": true, "0.9.0": false, "v1": false, "v1.0.0+x": false, "v2.0.0": false, "": false} {
		if _, err := checked(version); (err == nil) != ok {
			t.Errorf("%q: %v, want that it is accepted: %v", version, err, ok)
		}
	}
}

func TestLastBefore(t *testing.T) {
	tags := []string{"v0.9.0", "v0.10.0", "v1.0.0-rc.1", "v1.0.0", "v1.0.0-rc.2", "vendor", "v1.1.0"}
	for version, want := range map[string]string{"v0.9.0": "", "v0.9.1": "v0.9.0", "v1.0.0": "v0.10.0", "v1.0.1": "v1.0.0", "v1.1.0-rc.1": "v1.0.0", "v2.0.0": "v1.1.0"} {
		if got := lastBefore(version, tags); got != want {
			t.Errorf("before %s: %q, want %q", version, got, want)
		}
	}
}

func TestPermits(t *testing.T) {
	for _, tt := range []struct {
		earlier, version string
		want             bool
	}{
		{"v0.9.0", "v0.9.1", false},
		{"v0.9.0", "v0.10.0", true},
		{"v0.9.0", "v1.0.0", true},
		{"v1.0.0", "v1.1.0", false},
	} {
		if got := permits(tt.earlier, tt.version); got != tt.want {
			t.Errorf("%s after %s: %v, want %v", tt.version, tt.earlier, got, tt.want)
		}
	}
}
