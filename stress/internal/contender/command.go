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
)

// ErrNotInstalled is wrapped by the error of a contender that needs what this machine does not have.
var ErrNotInstalled = errors.New("not installed")

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

// debianRecipes is Apache Curator as Debian ships it; its manifest names what it needs.
const debianRecipes = "/usr/share/java/curator-recipes.jar"

// curator returns the command for Apache Curator: the jars in CURATOR_HOME, or else Debian's.
func curator(ctx context.Context, name string) ([]string, error) {
	const separator = string(filepath.ListSeparator)
	jars := debianRecipes + separator + "/usr/share/java/slf4j-nop.jar"
	if home := os.Getenv("CURATOR_HOME"); home != "" {
		found, err := filepath.Glob(filepath.Join(home, "*.jar"))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("%w: CURATOR_HOME is %q, and has no jars", ErrNotInstalled, home)
		}
		jars = strings.Join(found, separator)
	} else if _, err := os.Stat(debianRecipes); err != nil {
		return nil, fmt.Errorf("%w: there is no %s (Debian: apt-get install libcurator-recipes-java)", ErrNotInstalled, debianRecipes)
	}
	root, err := root()
	if err != nil {
		return nil, err
	}
	file, classes := filepath.Join(root, "stress", "contenders", "curator", "Contender.java"), filepath.Join(root, "bin", "curator-contender")
	javac, java := javaTool("javac"), javaTool("java")
	if javac == "" || java == "" {
		return nil, fmt.Errorf("%w: there is no javac in the PATH, nor in JAVA_HOME (Debian: apt-get install default-jdk-headless)", ErrNotInstalled)
	}
	if err := run(exec.CommandContext(ctx, javac, "-encoding", "UTF-8", "-cp", jars, "-d", classes, file)); err != nil {
		return nil, err
	}
	return []string{java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes + separator + jars, "Contender", name}, nil
}

// javaTool returns the path of a program of the JDK, or "".
func javaTool(name string) string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// kazoo returns the command for kazoo: of KAZOO_PYTHON, or else of the first python3 that has it.
func kazoo(ctx context.Context, name string) ([]string, error) {
	root, err := root()
	if err != nil {
		return nil, err
	}
	script := filepath.Join(root, "stress", "contenders", "kazoo", "contender.py")
	pythons := []string{"/usr/bin/python3", "python3"}
	if python := os.Getenv("KAZOO_PYTHON"); python != "" {
		pythons = []string{python}
	}
	for _, python := range pythons {
		if exec.CommandContext(ctx, python, "-c", "import kazoo").Run() != nil {
			continue
		}
		path, err := exec.LookPath(python)
		return []string{path, script, name}, err
	}
	return nil, fmt.Errorf("%w: no python3 has the module kazoo (Debian: apt-get install python3-kazoo)", ErrNotInstalled)
}

// run runs a command. Its error includes the output.
func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
}
