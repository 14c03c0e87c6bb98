// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/zkio"
)

// A mistyped name, a path for a name, and a look without the right to look are no successes,
// and the line says what there is.
func TestF322_MistakesShow(t *testing.T) {
	e := startEnsemble(t)
	e.hold(t, "jobs/nightly", "lock-", 1, "billing")
	must(t, e.CreateAll("/holdfast/jobs/idle", nil))
	must(t, e.CreateAll("/prod/holdfast/jobs/x", nil))
	admin := openClient(t, e.addr, zkio.Auth{Scheme: "digest", Data: []byte("admin:secret")}).Session()
	must(t, admin.Create("/secret", nil, []zkio.ACL{{Perms: zkio.PermAll, Scheme: "auth"}}))
	nodes := len(e.Nodes())

	like := `: the name is mistyped, or no process has used it lately; like it: jobs/nightly`
	for _, test := range []struct {
		args, stderr string
		code         int
	}{
		{"who jobs/nihgtly", `there is no lock jobs/nihgtly` + like, exitMissing},
		{"who --json jobs/nihgtly", `there is no lock jobs/nihgtly` + like, exitMissing},
		{"who zzz", `there is no lock zzz: the name is mistyped, or no process has used it lately$`, exitMissing},
		{"who jobs/idle", ``, 0}, // free
		{"ask jobs/nihgtly", `there is no lock jobs/nihgtly` + like, exitMissing},
		{"ask jobs/idle", `no process holds the lock`, exitFailure},
		{"revoke jobs/nihgtly", `there is no lock jobs/nihgtly` + like, exitMissing},
		{"revoke jobs/idle", ``, 0},
		{"break --yes jobs/nihgtly", `there is no lock jobs/nihgtly` + like, exitMissing},
		{"break jobs/nihgtly", `there is no lock jobs/nihgtly` + like, exitMissing}, // nothing to ask about
		{"break jobs/idle", ``, 0},
		{"break jobs/nightly", `standard input is no terminal: give --yes$`, exitUsage},
		{"members jobs/nihgtly", `there is no group jobs/nihgtly` + like, exitMissing},
		{"shards jobs/nihgtly", `there is no divided work jobs/nihgtly` + like, exitMissing},

		{"who /holdfast/jobs/nightly", `/holdfast/jobs/nightly is a path: the name is what comes behind the root, jobs/nightly$`, exitUsage},
		{"run /holdfast/jobs/nightly -- true", `is a path`, exitUsage},
		{"who --servers ADDR/prod /prod/holdfast/jobs/x", `is a path: the name is what comes behind the root, jobs/x$`, exitUsage},
		{"who --servers ADDR/prod jobs/x", ``, 0},

		{"run --servers ADDR/prdo jobs/x -- true", `--servers: there is no chroot /prdo: is it mistyped\? If it is new, create it: holdfast run --create-chroot …$`, exitUsage},
		{"ls --servers ADDR/prdo", `there is no chroot /prdo`, exitUsage},
		{"doctor --for 0s --servers ADDR/prdo", `^$`, exitFindings},

		{"ls --root /secret", `this client may not list /secret, so what is there is not known: give credentials that may`, exitFailure},
		{"ls --root /secret --json", `this client may not list /secret`, exitFailure},
		{"ps --root /secret", `this client may not list /secret`, exitFailure},
		{"ask --root /secret x", `not authorized .*give it credentials.* \(of holdfast, Config.Auth is --auth-file or HOLDFAST_AUTH, and Config.Root is --root\)$`, exitFailure},
		{"ls --root /nothing", ``, 0},
	} {
		r := e.holdfast(strings.Fields(strings.ReplaceAll(test.args, "ADDR", e.addr))...)
		if r.code != test.code || !regexp.MustCompile(test.stderr).MatchString(strings.TrimSuffix(r.stderr, "\n")) || (test.stderr == "") != (r.stderr == "") && test.stderr != "^$" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want %d, %q", test.args, r.code, r.stdout, r.stderr, test.code, test.stderr)
		}
		if strings.HasPrefix(test.args, "doctor") && !strings.Contains(r.stdout, "fail  chroot: /prdo: ") {
			t.Errorf("doctor prints %s", r.stdout)
		}
	}
	if made := e.Nodes(); e.Exists("/prdo") || len(made) > nodes+1 { // the directory of questions
		t.Errorf("they made nodes: %q", made)
	}
}

// A chroot that is to be made is made, and stays.
func TestF321_CreateChroot(t *testing.T) {
	e := startEnsemble(t)
	for range 2 {
		_, stderr, code := do(t, "run", "--servers", e.addr+"/new/place", "--create-chroot", "x", "--", "true")
		if code != 0 || stderr != "" || !e.Exists("/new/place/holdfast") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
	}
	for _, path := range []string{"/new", "/new/place"} {
		if _, stat, _ := e.Get(path); stat.EphemeralOwner != 0 {
			t.Errorf("%s is a container: the server removes it", path)
		}
	}
}

// A file that should have credentials and has none is refused: the program would run with the
// rights of any client.
func TestF322_EmptyAuthFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth")
	writeFile(t, file, "\n")
	must(t, os.Chmod(file, 0o600))
	e := startEnsemble(t)
	if r := e.holdfast("run", "--auth-file", file, "x", "--", "true"); r.code != exitUsage || !strings.Contains(r.stderr, "is empty: it must have user:password") {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
}
