// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/otherclients"
	"github.com/holdfast-go/holdfast/internal/realzk"
)

// startGoZooKeeper is startCurator for go-zookeeper.
func startGoZooKeeper(t *testing.T, zk *realzk.Server, timeout ...string) *otherclients.Program {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "gozk")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./testdata/gozk")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	return otherclients.Start(t, exec.Command(binary, append([]string{zk.Addr()}, timeout...)...))
}

// The clients whose contenders TestRealHolderOfAnyClient mixes.
const (
	byOurs = iota
	byCurator
	byGoZooKeeper
	byKazoo
	clientKinds
)

// namesOf are the names of their nodes.
var namesOf = [clientKinds]*regexp.Regexp{
	byOurs:        regexp.MustCompile(`^_c_[0-9a-f]{32}-lock-\d{10}$`),
	byCurator:     regexp.MustCompile(`^_c_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}-lock-\d{10}$`),
	byGoZooKeeper: regexp.MustCompile(`^_c_[0-9a-f]{32}-lock-\d{10}$`),
	byKazoo:       regexp.MustCompile(`^[0-9a-f]{32}__lock__\d{10}$`),
}

// HOLDER, W1, W2 and W3 are in line, each of any client: Holder, CachedHolder and Queue
// tell the truth, TryLock's error names the holder, and WatchHolder tells of each.
func TestRealHolderOfAnyClient(t *testing.T) {
	const inLine = 4
	zk := realzk.Shared(t)
	s := realBackend(t, zk)
	asker := s.lock("asker")
	// Not a container, which the server could delete between two lines: then some clients
	// fail.
	wantErr(t, "create the directory", s.session().Create(asker.Path(), nil, nil), nil)
	others := [clientKinds]*others{
		byCurator:     {t, nil, startCurator(t, zk)},
		byGoZooKeeper: {t, nil, startGoZooKeeper(t, zk)},
		byKazoo:       {t, nil, startKazoo(t, zk)},
	}
	ours := make([]*Lock, inLine)
	for i := range ours {
		ours[i] = s.lock(fmt.Sprint("ours", i))
		for _, o := range others[1:] {
			o.ask(fmt.Sprint(i), "open "+asker.Path(), "opened")
		}
	}
	told := make(chan string, 1)
	go func() {
		for c, err := range asker.WatchHolder(t.Context()) {
			if err != nil {
				return
			}
			path := ""
			if c != nil {
				path = c.Path
			}
			told <- path
		}
	}()
	holds := make([]Hold, inLine)
	for n := range clientKinds * clientKinds * clientKinds { // any three places have any three clients
		var by [inLine]int
		by[0], by[1], by[2] = n%clientKinds, n/clientKinds%clientKinds, n/clientKinds/clientKinds
		by[3] = (by[0] + by[1] + by[2]) % clientKinds
		for i := range by {
			if by[i] == byOurs {
				holds[i] = ours[i].Acquire(t.Context())
			} else {
				others[by[i]].tell(fmt.Sprint(i), "acquire mutex")
			}
			s.untilQueued(asker, i+1)
		}
		paths := s.wantLine(asker, by[:])
		for i, path := range paths {
			if by[i] == byOurs {
				s.granted(holds[i])
			} else {
				others[by[i]].hear(fmt.Sprint(i), "acquired mutex")
			}
			s.wantHolder(asker, path, by[i], i)
			s.until("the loop is told of each holder that stays", func() bool {
				select {
				case got := <-told:
					return got == path
				default:
					return false
				}
			})
			if by[i] == byOurs {
				mustRelease(t, holds[i])
			} else {
				others[by[i]].ask(fmt.Sprint(i), "release mutex", "released mutex")
			}
		}
		if t.Failed() {
			t.Fatalf("in line: %v", by)
		}
	}
	// What is remembered is out of date for the time that the notification takes.
	s.until("the asker has heard of the last release", func() bool {
		c, err := asker.CachedHolder(t.Context())
		return c == nil && err == nil
	})
}

// wantLine checks what Queue says, and returns the nodes' paths.
func (s *backend) wantLine(asker *Lock, by []int) (paths []string) {
	s.t.Helper()
	all, err := asker.Queue(s.t.Context(), -1)
	if err != nil || len(all) != len(by) {
		s.t.Fatalf("queue: %v, %v", all, err)
	}
	for i, c := range all {
		expect(s.t, c.Holds == (i == 0) && c.Session != 0 && c.Token != 0 && !c.Since.IsZero() && !c.Own,
			"number %d is %+v", i, c)
		s.wantFrom(c, by[i], i)
		paths = append(paths, c.Path)
	}
	expect(s.t, slices.IsSortedFunc(all, func(a, b Contender) int { return int(a.Sequence - b.Sequence) }),
		"not in order: %v", all)
	return paths
}

// wantFrom checks that number i in line says what a contender of its client says.
func (s *backend) wantFrom(c Contender, by, i int) {
	s.t.Helper()
	expect(s.t, namesOf[by].MatchString(filepath.Base(c.Path)),
		"number %d is %s, want a name of client %d", i, filepath.Base(c.Path), by)
	label := ""
	if by == byOurs {
		label = fmt.Sprint("ours", i)
	}
	if c.Label != label || (c.Identity != "") != (by == byCurator) {
		s.t.Errorf("number %d says %+v", i, c)
	}
}

// wantHolder checks what Holder, CachedHolder and the error of TryLock say.
func (s *backend) wantHolder(asker *Lock, path string, by, i int) {
	s.t.Helper()
	said := make(map[string]*Contender)
	var errs [3]error
	said["Holder"], errs[0] = asker.Holder(s.t.Context())
	said["CachedHolder"], errs[1] = asker.CachedHolder(s.t.Context())
	_, err := asker.TryLock(s.t.Context())
	var e *Error
	if !errors.Is(err, ErrLocked) || !errors.As(err, &e) {
		errs[2] = fmt.Errorf("trylock: %w", err)
	} else {
		said["TryLock"] = e.Holder
	}
	for what, c := range said {
		if c == nil || c.Path != path || !c.Holds {
			s.t.Errorf("%s says %+v, want %s", what, c, path)
			continue
		}
		s.wantFrom(*c, by, i)
	}
	if err := errors.Join(errs[:]...); err != nil {
		s.t.Error(err)
	}
	s.until("the asker has left", func() bool { return !slices.ContainsFunc(s.queue(asker), asker.m.owns) })
}

// On a real server: of 1,000 contenders in line, two requests tell the holder, and two
// the queue. Nothing is left at the server when a loop of WatchHolder ends.
func TestRealHolderOfMany(t *testing.T) {
	s := realBackend(t, realzk.Shared(t))
	asker := s.lock("asker")
	session := s.session()
	wantErr(t, "create", session.EnsureDir(asker.Path(), nil), nil)
	for i := range 1000 {
		wantErr(t, "create", session.CreateEphemeral(fmt.Sprintf("%s/_c_%032x-lock-%010d", asker.Path(), i, i), nil, nil), nil)
	}
	first := fmt.Sprintf("%s/_c_%032x-lock-%010d", asker.Path(), 0, 0)
	count := func(what string, want uint64, do func() error) {
		t.Helper()
		before := asker.m.client.Stats().Sent
		wantErr(t, what, do(), nil)
		var n uint64
		for op, sent := range asker.m.client.Stats().Sent {
			if op != "ping" {
				n += sent - before[op]
			}
		}
		expect(t, n == want || realzk.Before(t, "3.6"), "%s: %d requests, want %d", what, n, want) // which cannot read several nodes at once
	}
	count("Holder", 2, func() error {
		c, err := asker.Holder(t.Context())
		if err == nil && c.Path != first {
			err = fmt.Errorf("it is %v", c)
		}
		return err
	})
	count("Queue", 2, func() error {
		all, err := asker.Queue(t.Context(), -1)
		if err == nil && len(all) != 1000 {
			err = fmt.Errorf("%d contenders", len(all))
		}
		return err
	})
	before := s.watches()
	for c, err := range asker.WatchHolder(t.Context()) {
		expect(t, err == nil && c != nil && c.Path == first, "watch holder: %v, %v", c, err)
		expect(t, s.watches() == before+1,
			"%d watches at the server, want %d and one", s.watches(), before)
		break
	}
	left := func() bool { return s.watches() == before && asker.m.client.Stats().Watches == 0 }
	s.until("no watch is left", left)
	for c, err := range exclusive(t, asker.m, "missing").WatchHolder(t.Context()) {
		expect(t, c == nil && err == nil && s.watches() == before+1,
			"watch holder where there is no directory: %v, %v, %d watches", c, err, s.watches())
		break
	}
	s.until("no watch is left", left)
	_, there, err := session.Exists(asker.m.cfg.Root + "/missing")
	expect(t, !there && err == nil, "WatchHolder has made the directory, or %v", err)
}

// watches returns how many watches a real server has for all sessions.
func (s *backend) watches() (n int) {
	s.t.Helper()
	_, rest, _ := strings.Cut(s.zk.FourLetterWord("mntr"), "zk_watch_count")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// A client that may queue for one lock calls its node as if it were another process's. What
// it says there is not taken for what that process says, which holds another lock.
func TestForgedPeer(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", func(cfg *Config) { cfg.Endpoint = "a:1" }), c.lock("b")
		h := mustLock(c.t, a)
		stranger := c.open("stranger")
		for i, id := range []string{a.m.id, b.m.id} {
			other, err := b.m.Exclusive(fmt.Sprintf("other%d", i))
			wantErr(c.t, "exclusive", err, nil)
			wantErr(c.t, "directory", stranger.client.Session().EnsureDir(other.Path(), nil), nil)
			forged := fmt.Sprintf("%s/_c_%s%016x-lock-%010d", other.Path(), id, 99, 0)
			data := []byte(`{"kind":"exclusive","host":"evil","endpoint":"evil:1"}`)
			wantErr(c.t, "forge", stranger.client.Session().CreateEphemeral(forged, data, nil), nil)
			wantErr(c.t, "cached holder", errOf(other.CachedHolder(c.t.Context())), nil)
			wantErr(c.t, "trylock", errOf(other.TryLock(c.t.Context())), ErrLocked)
		}
		got, err := b.CachedHolder(c.t.Context())
		wantErr(c.t, "cached holder", err, nil)
		expect(c.t, got.Endpoint == "a:1" && got.Label == "a",
			"the holder is %v, at %q", got, got.Endpoint)
		mustRelease(c.t, h)
	})
}
