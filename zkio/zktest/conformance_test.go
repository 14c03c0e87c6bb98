// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
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
//
// Other releases than 3.8.0 answer some things otherwise. The directory releases has the
// lines that differ, by release: with -update these are rewritten, and not the scripts.
var update = flag.Bool("update", false, "keep what the real server answers as the truth")

const (
	plain    = "testdata/conformance"
	extended = plain + "/extended"
	ensemble = plain + "/ensemble"

	releases = plain + "/releases"

	// recorded is the release that the scripts hold the answers of.
	recorded = "3.8.0"

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

// TestConformanceEnsemble plays those about several servers on an Ensemble.
func TestConformanceEnsemble(t *testing.T) {
	eachScript(t, func(t *testing.T, file string) {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, zktest.EnsembleConfig{SyncLimit: 20})
			leader, follower := e.Leader(), e.Leader()%3+1
			dial := func(client string) (net.Conn, error) {
				server := leader
				if client == "follower" || client == "new" {
					server = follower
				}
				return e.Dial(t.Context(), "tcp", e.Addresses()[server-1])
			}
			compare(t, file, dial, map[string]func(){
				"lag":      func() { e.Isolate(follower) },
				"catch-up": e.Heal,
				"change": func() {
					e.Server(leader).Stop()
					e.Server(leader).Start()
					time.Sleep(time.Second)
					leader = e.Leader()
					follower = leader%3 + 1
				},
			})
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
	real := strings.HasPrefix(t.Name(), "TestConformanceReal")
	release := recorded
	if real {
		release = releaseHere(t)
	}
	if release != recorded {
		compareRelease(t, filepath.Join(releases, release, strings.TrimPrefix(file, plain+"/")), string(want), withoutZxids(got))
	} else if *update && real {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := diffLines(string(want), got); diff != "" {
		t.Errorf("script (-) and answers here (+) differ:\n%s", diff)
	}
	return got
}

// releaseHere returns the release of the installed server.
func releaseHere(t *testing.T) string {
	t.Helper()
	in, err := realzk.Find()
	if err != nil {
		t.Fatal(err)
	}
	return in.Version
}

// compareRelease compares how a release differs from the script with what file says of that:
// nothing, if there is no file.
func compareRelease(t *testing.T, file, want, got string) {
	t.Helper()
	diff := diffLines(want, got)
	if *update {
		err := os.RemoveAll(file)
		if diff != "" {
			err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(diff), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	known, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if diff != string(known) {
		t.Errorf("script (-) and answers here (+) differ:\n%s\nand by %s they should so:\n%s", diff, file, known)
	}
}

// zxidOfEvent is what releases since 3.9 tell in events: their transaction.
var zxidOfEvent = regexp.MustCompile(`(?m)^(.*: event .*) with zxid \d+, code 0, state 3$`)

func withoutZxids(text string) string { return zxidOfEvent.ReplaceAllString(text, "$1") }

// diffLines shows the lines in which two texts differ, each difference with the number of its
// line in the first one.
func diffLines(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	// common has the length of the longest common subsequence of w[i:] and g[j:].
	common := make([][]int, len(w)+1)
	for i := range common {
		common[i] = make([]int, len(g)+1)
	}
	for i := len(w) - 1; i >= 0; i-- {
		for j := len(g) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); w[i] == g[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var b strings.Builder
	same := true
	for i, j := 0, 0; i < len(w) || j < len(g); {
		if i < len(w) && j < len(g) && w[i] == g[j] {
			i, j, same = i+1, j+1, true
			continue
		}
		if same {
			fmt.Fprintf(&b, "%d\n", i+1)
			same = false
		}
		if j == len(g) || i < len(w) && common[i+1][j] >= common[i][j+1] {
			fmt.Fprintf(&b, "- %s\n", w[i])
			i++
		} else {
			fmt.Fprintf(&b, "+ %s\n", g[j])
			j++
		}
	}
	return b.String()
}
