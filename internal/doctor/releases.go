// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A release is the number of a release of ZooKeeper.
type release [3]int

var releaseNumber = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)`)

// releaseOf returns the release of a server that calls itself version, such as
// "3.8.0-5a02a05ed…"; false if that does not begin as ZooKeeper's do.
func releaseOf(version string) (r release, ok bool) {
	m := releaseNumber.FindStringSubmatch(version)
	if m == nil {
		return r, false
	}
	for i := range r {
		r[i], _ = strconv.Atoi(m[i+1]) // its digits are few
	}
	return r, true
}

func (r release) String() string { return fmt.Sprintf("%d.%d.%d", r[0], r[1], r[2]) }

func (r release) before(other release) bool { return slices.Compare(r[:], other[:]) < 0 }

// newest are the last releases of the lines that the table of bugs is about.
var newest = []release{{3, 8, 6}, {3, 9, 5}}

// known reports whether the table of bugs is about this release.
func (r release) known() bool {
	for _, n := range newest {
		if r[0] == n[0] && r[1] == n[1] {
			return !n.before(r)
		}
	}
	return r.before(newest[len(newest)-1])
}

// advised is the first release without any bug of the table that some release has mended.
var advised = release{3, 9, 4}

// A bug of ZooKeeper breaks any lock from below.
type bug struct {
	issue int    // ZOOKEEPER-issue
	what  string // what can happen
	in    []span
}

// A span is the releases that have a bug: from the first on, before fixed.
type span struct{ first, fixed release }

// bugs are collected from the tags of ZooKeeper's repository: the releases whose history has
// a commit for the issue are mended. What begins with 3.5.0 may be younger than that.
// ZOOKEEPER-4643, -4646 and -4685 were mended with -4394, and -3642 in 3.6 with -4225.
// docs/compatibility.md has the same table.
var bugs = []bug{
	{2355, "an ephemeral node can outlive its session", []span{{release{3, 5, 0}, release{3, 5, 4}}}},
	{3642, "a follower that was interrupted while it took over a snapshot can differ from the others", []span{{release{3, 5, 0}, release{3, 5, 10}}, {release{3, 6, 0}, release{3, 6, 3}}}},
	{3911, "transactions are lost if servers crash before they have written what they confirmed", []span{{release{3, 5, 0}, release{3, 5, 9}}, {release{3, 6, 0}, release{3, 6, 3}}}},
	{4394, "a follower that catches up can confirm transactions before it has written them, apply some that are never committed, or fail", []span{{release{3, 5, 0}, release{3, 9, 3}}}},
	{4712, "a server that leaves its leader can go on writing, and differ from the others from then on", []span{{release{3, 5, 0}, release{3, 9, 3}}}},
	{4785, "a follower that catches up can lose a transaction", []span{{release{3, 5, 0}, release{3, 8, 5}}, {release{3, 9, 0}, release{3, 9, 2}}}},
	{4846, "a server can fail to load its data when it starts", []span{{release{3, 8, 4}, release{3, 8, 5}}, {release{3, 9, 2}, release{3, 9, 4}}}},
	{4925, "a follower that has caught up and becomes the leader can pass on a history with gaps: data is lost", []span{{release{3, 9, 3}, release{3, 9, 4}}}},
}

// has reports whether a release has the bug.
func (b bug) has(r release) bool {
	return slices.ContainsFunc(b.in, func(s span) bool { return !r.before(s.first) && r.before(s.fixed) })
}

// unmended are the bugs of the table that no release up to newest has a fix of.
var unmended = []bug{
	{2846, "a follower that catches up from the transactions on the leader's disk can differ from the others", []span{{release{3, 5, 0}, never}}},
	{4306, "the end of a session with too many nodes can make the ensemble unavailable", []span{{release{3, 6, 0}, never}}},
	{4837, "an ephemeral node can outlive its session", []span{{release{3, 5, 0}, never}}},
	{4882, "a server whose disk failed for a moment can lack transactions", []span{{release{3, 5, 0}, never}}},
	{5010, "an ephemeral node can outlive its session", []span{{release{3, 5, 0}, never}}},
}

// never is after all releases.
var never = release{math.MaxInt}

// those returns the numbers of the bugs that a release has, and what each can do.
func (r release) those(of []bug) (issues, what []string) {
	for _, b := range of {
		if b.has(r) {
			issues = append(issues, fmt.Sprintf("ZOOKEEPER-%d", b.issue))
			what = append(what, fmt.Sprintf("%s (%d)", b.what, b.issue))
		}
	}
	return issues, what
}

// judgeVersion judges one server's version.
func judgeVersion(version string) Finding {
	r, ok := releaseOf(version)
	switch {
	case strings.Contains(version, "-zktest"):
		return Finding{Level: Warn, Found: "it is Holdfast's embedded server", Why: "it is one process, and keeps nothing on disk", Change: "use it for development and tests only"}
	case !ok:
		return Finding{Level: Note, Found: "its version is " + strconv.Quote(version), Why: "Holdfast is tested on ZooKeeper", Change: "find out which ZooKeeper it is like"}
	case r.before(release{3, 5}):
		return Finding{Level: Fail, Found: r.String(), Why: "it has no container nodes, and Holdfast was never run on it", Change: "upgrade to " + advised.String() + " or newer"}
	}
	issues, what := r.those(bugs)
	_, rest := r.those(unmended)
	unfixed := fmt.Sprintf("no release up to %s has fixes of these bugs of ZooKeeper: %s", newest[len(newest)-1], strings.Join(rest, "; "))
	switch {
	case issues != nil && !r.known():
		return Finding{
			Level: Note, Found: fmt.Sprintf("%s is newer than what doctor knows of its line, which lacks the fixes of %s", r, strings.Join(issues, ", ")),
			Why:    strings.Join(what, "; "),
			Change: fmt.Sprintf("read its release notes for these issues; if they are not there, upgrade to %s or newer", advised),
		}
	case issues != nil:
		return Finding{
			Level: Warn, Found: fmt.Sprintf("%s lacks the fixes of %s", r, strings.Join(issues, ", ")),
			Why:    strings.Join(what, "; ") + ". A lock can be lost or granted twice by that. And " + unfixed,
			Change: fmt.Sprintf("upgrade to %s or newer: no older release has all fixes", advised),
		}
	case !r.known():
		return Finding{
			Level: Note, Found: fmt.Sprintf("%s is newer than the releases that doctor knows", r),
			Why:    "Holdfast is tested on ZooKeeper 3.5 to 3.9",
			Change: "look for a newer Holdfast; or run the tests of this one on it: make test with ZOOKEEPER_HOME set",
		}
	}
	return fine("%s (%s)", r, unfixed)
}
