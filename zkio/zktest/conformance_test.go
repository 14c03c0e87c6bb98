// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// The scripts in testdata/conformance hold what a real ZooKeeper answered
// (Debian's 3.8.0-11+deb12u2). zktest, and whatever real server is installed, must
// answer the same. Where the two differ, the real one is right.
//
// Those in the directory extended need a server with options, those in ensemble
// several servers. With -update the tests of real servers rewrite the scripts.
var update = flag.Bool("update", false, "keep what the real server answers as the truth")

const (
	plain    = "testdata/conformance"
	extended = plain + "/extended"
	ensemble = plain + "/ensemble"

	// newServer finds the server as it has started. Its name sorts first.
	newServerScript = "a-new-server"

	// minAnswers is how many answers the plain scripts compare, at least. A
	// script that is cut short must not go unnoticed.
	minAnswers = 2200

	// The options of the extended servers.
	checkInterval = 200 * time.Millisecond               // between looks for containers and nodes with a time to live
	superDigest   = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=" // of the password "test"
)

var tick = realzk.TickTime(500 * time.Millisecond)

// TestConformance plays the scripts on embedded servers.
func TestConformance(t *testing.T) {
	eachScript(t, func(t *testing.T, file string) {
		t.Parallel()
		cfg := zktest.Config{TickTime: 500 * time.Millisecond}
		if filepath.Dir(file) == extended {
			cfg.ExtendedTypes, cfg.ContainerCheckInterval = true, checkInterval
			cfg.SuperDigest = superDigest
			cfg.FourLetterWords = []string{"srvr", "ruok", "conf"}
		}
		addr, err := newServer(t, cfg).Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		compare(t, file, to(addr), nil)
	}, plain, extended)
}

// TestConformanceReal plays the plain ones on a real server, one after the other.
func TestConformanceReal(t *testing.T) {
	addr := realzk.Start(t, tick, realzk.SessionTimeouts(time.Second, 10*time.Second)).Addr()
	answers := 0
	eachScript(t, func(t *testing.T, file string) {
		answers += strings.Count(compare(t, file, to(addr), nil), " -> ")
	}, plain)
	t.Logf("%d answers", answers)
	if answers < minAnswers {
		t.Errorf("%d answers were compared, want at least %d", answers, minAnswers)
	}
}

// TestConformanceRealExtended plays those that need a server with options.
func TestConformanceRealExtended(t *testing.T) {
	addr := realzk.Start(t, tick, realzk.SessionTimeouts(time.Second, 10*time.Second),
		realzk.ConfigLine("4lw.commands.whitelist=srvr, ruok, conf"),
		realzk.JavaOption("-Dzookeeper.extendedTypesEnabled=true"),
		realzk.JavaOption("-Dzookeeper.DigestAuthenticationProvider.superDigest="+superDigest),
		realzk.JavaOption(fmt.Sprintf("-Dznode.container.checkIntervalMs=%d", checkInterval.Milliseconds()))).Addr()
	eachScript(t, func(t *testing.T, file string) { compare(t, file, to(addr), nil) }, extended)
}

// TestConformanceEnsemble plays those about several servers with a Lag and a
// Restart.
func TestConformanceEnsemble(t *testing.T) {
	eachScript(t, func(t *testing.T, file string) {
		srv := newServer(t, zktest.Config{TickTime: 500 * time.Millisecond})
		var lag *zktest.Lag
		dial := func(client string) (net.Conn, error) {
			if client == "new" {
				client = "follower"
			}
			return srv.Dial(t.Context(), "tcp", client)
		}
		compare(t, file, dial, map[string]func(){
			"lag":      func() { lag = srv.Faults().LagServer(-1, "follower") },
			"catch-up": func() { lag.Remove() },
			"change":   srv.Restart,
		})
	}, ensemble)
}

// TestConformanceRealEnsemble plays them on three real servers. The follower is
// cut off from the others; it goes on serving reads for a while.
func TestConformanceRealEnsemble(t *testing.T) {
	e := realzk.StartEnsemble(t, 3, tick, realzk.SessionTimeouts(time.Second, 10*time.Second))
	eachScript(t, func(t *testing.T, file string) {
		leader, follower := e.Settled(), e.Follower()
		dial := func(client string) (net.Conn, error) {
			if client == "follower" || client == "new" {
				return net.Dial("tcp", follower.Addr())
			}
			return net.Dial("tcp", leader.Addr())
		}
		compare(t, file, dial, map[string]func(){
			"lag":      func() { e.Isolate(follower) },
			"catch-up": e.Heal,
			"change": func() {
				leader.Kill()
				leader.Restart()
				leader = e.Settled()
				follower = e.Follower()
			},
		})
	}, ensemble)
}

func eachScript(t *testing.T, test func(t *testing.T, file string), dirs ...string) {
	for _, dir := range dirs {
		files, err := filepath.Glob(dir + "/*.txt")
		if err != nil || len(files) == 0 {
			t.Fatalf("no scripts in %s: %v", dir, err)
		}
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { test(t, file) })
		}
	}
}

func to(addr string) func(string) (net.Conn, error) {
	return func(string) (net.Conn, error) { return net.Dial("tcp", addr) }
}

// compare plays a script, in which the client "server" has these commands, and
// compares what happens with what it says.
func compare(t *testing.T, file string, dial func(client string) (net.Conn, error), commands map[string]func()) (got string) {
	t.Helper()
	if strings.TrimSuffix(filepath.Base(file), ".txt") != newServerScript {
		newRecord(t, dial).play(`
			setup! connect
			setup! auth digest "joe:secret"
			setup! auth digest "super:test"
			setup! removeAll "/zt"
			setup! create "/zt"
			setup! close
		`)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := newRecord(t, dial)
	r.command = func(a args) (string, bool) {
		switch fn := commands[a.verb]; {
		case a.verb == "epoch": // zxids count from the beginning of the latest one
			result := fmt.Sprintf("higher %v, %d transactions", r.last>>32 > r.base>>32, r.last&0xffffffff)
			r.base = r.last &^ 0xffffffff
			return result, true
		case fn != nil:
			fn()
			return "", true
		}
		return "", false
	}
	got = r.play(string(want))
	// Sessions that are left behind would take zxids when they expire.
	for _, name := range r.sessions {
		if name != "none" {
			r.play(fmt.Sprintf("setup! connect session=%s\nsetup! close", name))
		}
	}
	if *update && strings.HasPrefix(t.Name(), "TestConformanceReal") {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := diffLines(string(want), got); diff != "" {
		t.Errorf("script (-) and answers here (+) differ:\n%s", diff)
	}
	return got
}

// diffLines shows the lines in which two texts differ.
func diffLines(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	for i := range max(len(w), len(g)) {
		var x, y string
		if i < len(w) {
			x = w[i]
		}
		if i < len(g) {
			y = g[i]
		}
		if x != y {
			fmt.Fprintf(&b, "%d\n- %s\n+ %s\n", i+1, x, y)
		}
	}
	return b.String()
}
