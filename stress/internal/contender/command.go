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
	command func(ctx context.Context, name string) ([]string, error)
	backend *Backend // nil: ZooKeeper
}

var all = []known{
	{"curator", curator, nil},
	{"curator-listening", curator, nil},
	{"kazoo", kazoo, nil},
	{"kazoo-listening", kazoo, nil},
	{"go-zookeeper", inGo, nil},
	{"go-zookeeper-listening", inGo, nil},
	{"naive", inGo, nil},
	{"naive-listening", inGo, nil},
	{"etcd", inGo, etcd},
	{"etcd-listening", inGo, etcd},
	{"redsync", inGo, redis},
	{"redsync-listening", inGo, redis},
	{"holdfast-run", holdfastRun, nil},
}

// Names returns the names of the contenders that the repository has.
func Names() (names []string) {
	for _, k := range all {
		names = append(names, k.name)
	}
	return names
}

// Command returns the program of a contender, and its arguments. One that the repository has is
// built into bin, which blocks for some seconds; the end of ctx kills the build. Any other text is
// a command, of words between spaces.
func Command(ctx context.Context, text string) ([]string, error) {
	if i := indexOf(text); i >= 0 {
		return all[i].command(ctx, text)
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

// inGo returns the command of a contender of bench/peers.
func inGo(ctx context.Context, name string) ([]string, error) {
	root, err := root()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(root, "bin", "peers")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = filepath.Join(root, "bench", "peers")
	return []string{program, "contend", name}, run(build)
}

// holdfastRun returns the command for `holdfast run`.
func holdfastRun(ctx context.Context, _ string) ([]string, error) {
	root, err := root()
	if err != nil {
		return nil, err
	}
	program, contender := filepath.Join(root, "bin", "holdfast"), filepath.Join(root, "bin", "run-contender")
	for name, from := range map[string]string{program: "./cmd/holdfast", contender: "./stress/contenders/run"} {
		build := exec.CommandContext(ctx, "go", "build", "-o", name, from)
		build.Dir = root
		if err := run(build); err != nil {
			return nil, err
		}
	}
	return []string{contender, program}, nil
}

// curator returns the command for Apache Curator.
func curator(ctx context.Context, name string) ([]string, error) {
	jars, err := foreign.Curator()
	if err != nil {
		return nil, err
	}
	jdk, err := foreign.FindJDK()
	if err != nil {
		return nil, err
	}
	root, err := root()
	if err != nil {
		return nil, err
	}
	classes := filepath.Join(root, "bin", "curator-contender")
	if err := jdk.Compile(ctx, jars.ClassPath, classes, filepath.Join(root, "stress", "contenders", "curator", "Contender.java")); err != nil {
		return nil, err
	}
	return []string{jdk.Java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes + string(filepath.ListSeparator) + jars.ClassPath, "Contender", name}, nil
}

// kazoo returns the command for kazoo.
func kazoo(ctx context.Context, name string) ([]string, error) {
	root, err := root()
	if err != nil {
		return nil, err
	}
	python, _, err := foreign.Python(ctx)
	return []string{python, filepath.Join(root, "stress", "contenders", "kazoo", "contender.py"), name}, err
}

// run runs a command. Its error includes the output.
func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
}
