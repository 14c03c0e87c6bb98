// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/foreign"
)

// ErrNotInstalled is wrapped by the error of a contender that needs what this machine does not have.
var ErrNotInstalled = foreign.ErrNotInstalled

// A known is a contender that the repository has.
type known struct {
	name    string
	library library
	shared  bool   // it has shared locks
	class   string // of its program in Java
}

// A library is one that contenders use.
type library struct {
	name string
	// find returns its version, and what has to be in the command: jars, or an interpreter.
	find    func(ctx context.Context) (version, what string, err error)
	command func(ctx context.Context, k known, what string) ([]string, error)
	backend *Backend // nil: ZooKeeper
}

// newCurator is the release of Curator that is fetched, beside that of the machine.
const newCurator = "5.9.0"

var (
	curator     = library{"Apache Curator", jars(func(context.Context) (foreign.Jars, error) { return foreign.Curator() }), inJava, nil}
	curator59   = library{"Apache Curator", jars(fetchedCurator), inJava, nil}
	writeLock   = library{"ZooKeeper's recipes", jars(func(context.Context) (foreign.Jars, error) { return foreign.WriteLock() }), inJava, nil}
	kazoo       = library{"kazoo", pythonWithKazoo, inPython, nil}
	goZooKeeper = library{"go-zookeeper", module("github.com/go-zookeeper/zk"), inGo, nil}
	etcdClient  = library{"etcd's client", module("go.etcd.io/etcd/client/v3"), inGo, etcd}
	redsync     = library{"redsync", module("github.com/go-redsync/redsync/v4"), inGo, redis}
	ours        = library{"holdfast run", ourVersion, holdfastRun, nil}
	ourMutex    = library{"Holdfast", ourVersion, inGo, nil}
)

const (
	ofCurator   = "CuratorContender"
	ofWriteLock = "WriteLockContender"
)

var all = append(eachListening(
	known{"curator", curator, false, ofCurator},
	known{"curator-5.9", curator59, false, ofCurator},
	known{"curator-rw", curator, true, ofCurator},
	known{"curator-5.9-rw", curator59, true, ofCurator},
	known{"write-lock", writeLock, false, ofWriteLock},
	known{"kazoo", kazoo, false, ""},
	known{"kazoo-rw", kazoo, true, ""},
	known{"go-zookeeper", goZooKeeper, false, ""},
	known{"naive", goZooKeeper, false, ""},
	known{"etcd", etcdClient, false, ""},
	known{"redsync", redsync, false, ""},
), known{"holdfast-run", ours, false, ""}, known{"holdfast-mutex", ourMutex, false, ""})

// eachListening returns each contender, and after it the one whose holders listen.
func eachListening(some ...known) (all []known) {
	for _, k := range some {
		listening := k
		listening.name += "-listening"
		all = append(all, k, listening)
	}
	return all
}

// Names returns the names of the contenders that the repository has.
func Names() (names []string) {
	for _, k := range all {
		names = append(names, k.name)
	}
	return names
}

// Sharing reports whether the contender may have shared locks: one that the repository has says so,
// and a command may.
func Sharing(text string) bool {
	i := indexOf(text)
	return i < 0 || all[i].shared
}

// Library returns the name and the version of the library whose locks those of a contender are, such
// as "Apache Curator 5.4.0"; "" if the text is a command. It may fetch the library.
func Library(ctx context.Context, text string) (string, error) {
	i := indexOf(text)
	if i < 0 {
		return "", nil
	}
	version, _, err := all[i].library.find(ctx)
	return strings.TrimSpace(all[i].library.name + " " + version), err
}

// Command returns the program of a contender, and its arguments. One that the repository has is
// built into bin, which blocks for some seconds, or for longer if its library has to be fetched; the
// end of ctx kills the build. Any other text is a command, of words between spaces.
func Command(ctx context.Context, text string) ([]string, error) {
	if i := indexOf(text); i >= 0 {
		_, what, err := all[i].library.find(ctx)
		if b := all[i].library.backend; err == nil && b != nil {
			err = b.Servers.Installed(ctx)
		}
		if err != nil {
			return nil, err
		}
		return all[i].library.command(ctx, all[i], what)
	}
	return words(text)
}

// Check returns why a text names no contender, and is no command; nil if it does or is. It builds
// nothing.
func Check(text string) error {
	if indexOf(text) >= 0 {
		return nil
	}
	_, err := words(text)
	return err
}

func indexOf(name string) int {
	return slices.IndexFunc(all, func(k known) bool { return k.name == name })
}

// words returns the words of a command, with the path of its program.
func words(text string) ([]string, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, fmt.Errorf("it is empty: name one of %s, or a command", strings.Join(Names(), ", "))
	}
	program, err := exec.LookPath(words[0])
	if err == nil {
		program, err = filepath.Abs(program) // the worker processes run elsewhere
	}
	if err != nil {
		return nil, fmt.Errorf("it is none of %s, and no command: %w", strings.Join(Names(), ", "), err)
	}
	words[0] = program
	return words, nil
}

// root returns the root of the repository, in or below which the harness is run.
func root() (string, error) {
	dir, err := filepath.Abs(".")
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "stress", "contenders")); missing == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			err = errors.New("run the harness in Holdfast's repository, which has the sources of its contenders")
		}
		dir = up
	}
	return "", err
}

// jars makes a library's find of what finds its jars.
func jars(find func(ctx context.Context) (foreign.Jars, error)) func(context.Context) (version, what string, err error) {
	return func(ctx context.Context) (version, what string, err error) {
		found, err := find(ctx)
		return found.Version, found.ClassPath, err
	}
}

// fetchedCurator finds Curator where internal/matrix has it, too, and fetches it by Maven.
func fetchedCurator(ctx context.Context) (foreign.Jars, error) {
	root, err := root()
	if err != nil {
		return foreign.Jars{}, err
	}
	lib, err := foreign.Fetch(ctx, filepath.Join(root, "bin", "matrix", "curator-"+newCurator), foreign.CuratorArtifacts(newCurator)...)
	if err != nil {
		return foreign.Jars{}, err
	}
	return foreign.In(lib, "curator-recipes")
}

// inJava returns the command of a contender of stress/contenders/java.
func inJava(ctx context.Context, k known, jars string) ([]string, error) {
	jdk, err := foreign.FindJDK()
	if err != nil {
		return nil, err
	}
	root, err := root()
	if err != nil {
		return nil, err
	}
	sources, classes := filepath.Join(root, "stress", "contenders", "java"), filepath.Join(root, "bin", "contenders", k.name)
	if err := jdk.Compile(ctx, jars, classes, filepath.Join(sources, "Protocol.java"), filepath.Join(sources, k.class+".java")); err != nil {
		return nil, err
	}
	return []string{jdk.Java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes + string(filepath.ListSeparator) + jars, k.class, k.name}, nil
}

func pythonWithKazoo(ctx context.Context) (version, what string, err error) {
	python, version, err := foreign.Python(ctx)
	return version, python, err
}

// inPython returns the command of the contender of stress/contenders/kazoo.
func inPython(_ context.Context, k known, python string) ([]string, error) {
	root, err := root()
	return []string{python, filepath.Join(root, "stress", "contenders", "kazoo", "contender.py"), k.name}, err
}

// module returns a find for the version of a module in bench/peers/go.mod.
func module(name string) func(context.Context) (version, what string, err error) {
	return func(ctx context.Context) (version, what string, err error) {
		root, err := root()
		if err != nil {
			return "", "", err
		}
		list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", name)
		list.Dir, list.Env = filepath.Join(root, "bench", "peers"), append(os.Environ(), "GOWORK=off")
		out, err := list.Output()
		if err != nil {
			return "", "", fmt.Errorf("%v: %w", list, err)
		}
		return strings.TrimSpace(string(out)), "", nil
	}
}

// inGo returns the command of a contender of bench/peers.
func inGo(ctx context.Context, k known, _ string) ([]string, error) {
	root, err := root()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(root, "bin", "peers")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = filepath.Join(root, "bench", "peers")
	return []string{program, "contend", k.name}, foreign.Run(build)
}

func ourVersion(context.Context) (version, what string, err error) { return "", "", nil }

// holdfastRun returns the command of the contender of stress/contenders/run, which starts holdfast.
func holdfastRun(ctx context.Context, _ known, _ string) ([]string, error) {
	root, err := root()
	if err != nil {
		return nil, err
	}
	program, contender := filepath.Join(root, "bin", "holdfast"), filepath.Join(root, "bin", "run-contender")
	for name, from := range map[string]string{program: "./cmd/holdfast", contender: "./stress/contenders/run"} {
		build := exec.CommandContext(ctx, "go", "build", "-o", name, from)
		build.Dir = root
		if err := foreign.Run(build); err != nil {
			return nil, err
		}
	}
	return []string{contender, program}, nil
}
