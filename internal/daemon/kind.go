// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/internal/foreign"
)

// A Kind is a kind of server that consists of one program.
type Kind struct {
	Name    string // such as "Redis"
	program string

	install string // Debian's package
	// args returns arguments for member number me, from 0, with data in dir.
	args func(dir string, me int, members []ports) []string
	// A server that serves answers ask with a text that has answer in it.
	ask, answer string
	// version matches the version in the output of --version.
	version *regexp.Regexp
	// leads asks the server at addr whether it leads the others. It is nil if servers of that kind
	// know nothing of each other.
	leads func(ctx context.Context, addr string) (bool, error)
}

// Ports are those of a member: for clients and for other members.
type ports struct{ client, peer int }

func local(port int) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) }

// Etcd is etcd. It does not force its log to disk, which is not its default: a server that is
// killed loses nothing by that, while its machine runs.
var Etcd = Kind{
	Name: "etcd", program: "etcd", install: "etcd-server",
	args: func(dir string, me int, members []ports) []string {
		var all []string
		for i, m := range members {
			all = append(all, fmt.Sprintf("member%d=http://%s", i, local(m.peer)))
		}
		client, peer := "http://"+local(members[me].client), "http://"+local(members[me].peer)
		return []string{
			fmt.Sprintf("--name=member%d", me), "--data-dir=" + filepath.Join(dir, "data"),
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=" + strings.Join(all, ","),
			"--logger=zap", "--log-level=warn",
			"--unsafe-no-fsync",
		}
	},
	ask: "GET /health HTTP/1.0\r\n\r\n", answer: `"health":"true"`,
	version: regexp.MustCompile(`etcd Version: (\S+)`),
	leads:   etcdLeads,
}

// Redis is Redis with its defaults: a snapshot after a minute with many changes, and no log.
var Redis = redisWith()

// RedisDurable is Redis that writes each change to its log before it answers, as the description
// of Redlock asks for where servers are started again at once.
var RedisDurable = redisWith("--appendonly", "yes", "--appendfsync", "always")

func redisWith(options ...string) Kind {
	return Kind{
		Name: "Redis", program: "redis-server", install: "redis-server",
		args: func(dir string, me int, members []ports) []string {
			return append([]string{"--bind", "127.0.0.1", "--port", fmt.Sprint(members[me].client), "--dir", dir}, options...)
		},
		ask: "PING\r\n", answer: "+PONG",
		version: regexp.MustCompile(`v=(\S+)`),
	}
}

// Installed returns nil if the machine has the program, or an error that wraps
// [foreign.ErrNotInstalled].
func (k Kind) Installed(ctx context.Context) error {
	_, _, err := k.find(ctx)
	return err
}

// find returns the path of the program, and its version.
func (k Kind) find(ctx context.Context) (program, version string, err error) {
	program, err = exec.LookPath(k.program)
	if err != nil {
		return "", "", fmt.Errorf("start %s: %w: no %s in the PATH (Debian: apt-get install %s)", k.Name, foreign.ErrNotInstalled, k.program, k.install)
	}
	said, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("get the version of %s: %w", program, err)
	}
	if m := k.version.FindSubmatch(said); m != nil {
		return program, k.Name + " " + string(m[1]), nil
	}
	return program, k.Name + " (version unknown)", nil
}
