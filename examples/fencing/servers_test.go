// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	_ "github.com/lib/pq"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// miniRedis starts a Redis within the process.
func miniRedis(t *testing.T) *redis.Client {
	return redisClient(t, &redis.Options{Addr: miniredis.RunT(t).Addr()})
}

// startRedis starts the Redis that is installed.
func startRedis(t *testing.T) *redis.Client {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		realzk.NotRun(t, "there is no redis-server (Debian: apt-get install redis-server)")
	}
	socket := filepath.Join(t.TempDir(), "redis.sock")
	start(t, exec.Command(program, "--port", "0", "--unixsocket", socket, "--save", ""), "ready to accept connections at")
	return redisClient(t, &redis.Options{Network: "unix", Addr: socket})
}

func redisClient(t *testing.T, o *redis.Options) *redis.Client {
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// startPostgres starts the PostgreSQL that is installed, and returns how to reach it.
// PostgreSQL refuses to run as root, and then runs as the user that Debian made for it.
func startPostgres(t *testing.T) (source string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		realzk.NotRun(t, "there is no PostgreSQL (Debian: apt-get install postgresql)")
	}
	bin := filepath.Dir(found[0])
	command := func(args ...string) *exec.Cmd {
		if os.Geteuid() == 0 {
			args = append([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"}, args...)
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = os.TempDir()
		return cmd
	}
	out, err := command("mktemp", "-d").Output()
	if err != nil {
		t.Fatalf("mktemp: %v", err)
	}
	dir := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	data := filepath.Join(dir, "data")
	initdb := command(filepath.Join(bin, "initdb"), "-D", data, "-U", "test", "-A", "trust", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	start(t, command(filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses="), "ready to accept connections")
	return "host=" + dir + " user=test dbname=postgres sslmode=disable"
}

// start starts a server, waits until it has written ready, and ends it with the test.
func start(t *testing.T, cmd *exec.Cmd, ready string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	_ = w.Close() // the server has its own
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	lines := bufio.NewScanner(r)
	read := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		<-read
		_ = r.Close()
	})
	for lines.Scan() {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), ready) {
			go func() { // so that the server never waits for a reader
				defer close(read)
				for lines.Scan() {
				}
			}()
			return
		}
	}
	close(read)
	t.Fatalf("%v ended:\n%s", cmd, log.String())
}
