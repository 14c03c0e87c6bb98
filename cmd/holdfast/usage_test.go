// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestBadUsage: bad usage is one line on standard error and exit code 2, and nothing is
// done: no server is needed.
func TestBadUsage(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	writeFile(t, secret, "no colon\n")
	for _, tt := range []struct {
		name string
		args string
		want string
	}{
		{"no verb", "", `expected one of`},
		{"unknown verb", "wo x", `unexpected argument wo.*see holdfast --help`},
		{"unknown flag", "who --foo x", `unknown flag --foo.*see holdfast who --help`},
		{"argument missing", "who", `expected "<name>"; see holdfast who --help`},
		{"too many arguments", "who a b", `unexpected argument b`},
		{"bad duration", "run --wait soon x -- true", `--wait: .*soon`},
		{"bad choice", "run --on-revoke kill x -- true", `--on-revoke must be one of "term","ignore" but got "kill"`},
		{"both kinds", "run --read --write x -- true", `--read and --write can't be used together`},
		{"try and wait", "run --try --wait 1s x -- true", `--try and --wait can't be used together`},
		{"no program", "run x", `expected "<program> ..."`},
		{"no program after --", "run x --", `there is no program|expected "<program> ..."`},
		{"negative wait", "run --wait=-1s x -- true", `--wait is -1s: it must be positive; --try does not wait`},
		{"no wait", "run --wait=0s x -- true", `--wait is 0s: it must be positive; --try does not wait`},
		{"no wait for an element", "queue take --wait=0s x", `--wait is 0s: it must be positive; --try does not wait`},
		{"long kill-after", "run --kill-after 2500ms x -- true", `--kill-after is 2.5s: it must be at least 1ms and less than a quarter of --session-timeout \(10s\)`},
		{"short kill-after", "run --kill-after 3ns x -- true", `--kill-after is 3ns: it must be at least 1ms`},
		{"negative kill-after", "run --kill-after=-1s x -- true", `--kill-after is -1s`},
		{"never", "cron --every 0s x -- true", `--every is 0s`},
		{"no schedule", "cron x -- true", `the program is not planned: --every or --schedule must`},
		{"two schedules", "cron --every 1s --schedule @daily x -- true", `--every and --schedule can't be used together`},
		{"an empty schedule", "cron --schedule= x -- true", `--schedule is "": empty`},
		{"a bad schedule", "cron --schedule 5 x -- true", `--schedule is "5": expected exactly 5 fields`},
		{"a schedule from start to start", "cron --schedule=@every_1h x -- true", `--schedule is "@every 1h": .*: use --every`},
		{"a bad minute", "cron --schedule 60_*_*_*_* x -- true", `--schedule is .*above maximum \(59\): 60`},
		{"no such day", "cron --schedule 0_0_30_2_* x -- true", `--schedule is "0 0 30 2 \*": there is no such time`},
		{"no such zone", "cron --schedule TZ=Mars/Crater_@daily x -- true", `--schedule is .*bad location Mars/Crater`},
		{"only a zone", "cron --schedule TZ=UTC x -- true", `--schedule is "TZ=UTC": there is a time zone, and nothing else`},
		{"the machine's zone", "cron --schedule TZ=Local_@daily x -- true", `--schedule is .*differs from machine to machine`},
		{"negative grace", "cron --every 1s --grace=-1s x -- true", `--grace is -1s`},
		{"no attempt", "cron --every 1s --attempts 0 x -- true", `--attempts is 0`},
		{"bad policy", "cron --every 1s --missed some x -- true", `--missed must be one of`},
		{"no server", "run --servers= x -- true", `--servers: connection string "": `},
		{"bad server", "run --servers a:b x -- true", `--servers: .*a:b`},
		{"a URL", "ls --servers http://zk1:2181", `--servers is "http://zk1:2181", a URL: give host:port`},
		{"bad root", "run --root locks x -- true", `: --root: root "locks" does not begin with a slash`},
		{"bad root, to be read", "ls --root locks", `: --root: root "locks" does not begin with a slash`},
		{"bad session timeout", "run --session-timeout 10ms x -- true", `: --session-timeout is 10ms: it must be between 100ms and 24h0m0s`},
		{"bad session timeout, to read", "ls --session-timeout 10ms", `: --session-timeout is 10ms: it must be between 100ms and 24h0m0s`},
		{"bad session timeout, to check", "doctor --session-timeout 10ms", `: --session-timeout is 10ms: it must be between 100ms and 24h0m0s`},
		{"no session timeout", "run --session-timeout 0s x -- true", `: --session-timeout is 0s`},
		{"no name", "who ''", `: the name is empty: see holdfast who --help`},
		{"no name of a queue", "queue ls ''", `: the name is empty: see holdfast queue ls --help`},
		{"no such file", "run --auth-file /nonexistent x -- true", `--auth-file: .*no such file`},
		{"bad credentials", "run --auth-file " + secret + " x -- true", `does not have the form user:password`},
		{"acl without credentials", "run --acl private x -- true", `--acl=private needs credentials`},
		{"bad acl", "run --acl mine x -- true", `--acl must be one of`},
		{"certificate without key", "run --tls-cert /a x -- true", `--tls-cert and --tls-key go together`},
		{"no authorities", "run --tls-ca " + secret + " x -- true", `--tls-ca: .* has no certificate`},
		{"bad port", "server --port 65536", `--port is 65536`},
		{"bad shell", "completion tcsh", `must be one of "bash","zsh","fish"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(tt.args)
			for i := range args {
				args[i] = strings.NewReplacer("_", " ", "''", "").Replace(args[i]) // an argument with blanks, or an empty one
			}
			stdout, stderr, code := do(t, args...)
			if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "holdfast: ") {
				t.Errorf("exit code %d, stdout %q, stderr %q; want code 2 and one line", code, stdout, stderr)
			}
			if !regexp.MustCompile(tt.want).MatchString(stderr) {
				t.Errorf("it says %q, want %q", stderr, tt.want)
			}
		})
	}
}

// TestBadEnvironment: what is wrong with a variable is said of the variable, unless the flag is
// given.
func TestBadEnvironment(t *testing.T) {
	for _, test := range []struct{ variable, args, want string }{
		{"HOLDFAST_SERVERS=", "ls", `holdfast: HOLDFAST_SERVERS: connection string ""`},
		{"HOLDFAST_SERVERS=", "ls --servers a:b", `holdfast: --servers: connection string "a:b"`},
		{"HOLDFAST_SERVERS=zk://x", "ls", `holdfast: HOLDFAST_SERVERS is "zk://x", a URL`},
		{"HOLDFAST_ROOT=locks", "who x", `holdfast: HOLDFAST_ROOT: root "locks"`},
		{"HOLDFAST_SESSION_TIMEOUT=10ms", "run x -- true", `holdfast: HOLDFAST_SESSION_TIMEOUT is 10ms: `},
	} {
		c := prepare(t, strings.Fields(test.args)...)
		c.Env = append(c.Env, test.variable)
		c.begin()
		if code := c.code(); code != exitUsage || !strings.HasPrefix(c.stderr.String(), test.want) {
			t.Errorf("%s %s: exit code %d, %s; want %s", test.variable, test.args, code, c.stderr, test.want)
		}
	}
}

// TestLogNamesFlags: a line of the log says what to do in the words of the command line.
func TestLogNamesFlags(t *testing.T) {
	r := startEnsemble(t).holdfast("ls", "--session-timeout", "100ms")
	if want := `msg="the zookeeper servers changed the session timeout: set --session-timeout to what they grant`; r.code != 0 || !strings.Contains(r.stderr, want) {
		t.Errorf("exit code %d, %s; want %s", r.code, r.stderr, want)
	}
}

// TestLogLevel: warnings are logged by default, information and no warnings if --log-level says so.
func TestLogLevel(t *testing.T) {
	e := startEnsemble(t)
	for flags, want := range map[string][2]bool{ // a warning, information
		"":                  {true, false},
		"--log-level=error": {false, false},
		"--log-level=warn":  {true, false},
		"--log-level=info":  {true, true},
	} {
		r := e.holdfast(append(strings.Fields(flags), "ls", "--session-timeout", "100ms")...)
		got := [2]bool{strings.Contains(r.stderr, "changed the session timeout"), strings.Contains(r.stderr, "zookeeper session begins")}
		if got != want {
			t.Errorf("%q: %v, want %v: %s", flags, got, want, r.stderr)
		}
	}
}

// TestHelp: each verb has help with an example.
func TestHelp(t *testing.T) {
	t.Parallel()
	parser := newParser(new(cli), os.Stdout, os.Stderr)
	for _, verb := range parser.Model.Children {
		t.Run(verb.Name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := do(t, verb.Name, "--help")
			if code != 0 || stderr != "" || !strings.Contains(stdout, "Examples:") || !strings.Contains(stdout, "holdfast "+verb.Name) {
				t.Errorf("exit code %d, stderr %q, stdout %s", code, stderr, stdout)
			}
		})
	}
	stdout, _, code := do(t, "--help")
	for _, want := range []string{"run", "who", "--servers", "HOLDFAST_SERVERS"} {
		if !strings.Contains(stdout, want) || code != 0 {
			t.Errorf("exit code %d; no %q in %s", code, want, stdout)
		}
	}
}

// TestGlobalFlagsInTheEnvironment: each global flag is a variable as well, the flag wins,
// and docs/command.md has both.
func TestGlobalFlagsInTheEnvironment(t *testing.T) {
	text, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range newParser(new(cli), os.Stdout, os.Stderr).Model.Flags {
		if f.Name == "help" {
			continue
		}
		want := "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if len(f.Envs) != 1 || f.Envs[0] != want {
			t.Errorf("--%s has the variables %q, want %s", f.Name, f.Envs, want)
		}
		if s := string(text); !strings.Contains(s, "`--"+f.Name+"`") || !strings.Contains(s, "`"+want+"`") {
			t.Errorf("docs/command.md lacks --%s or %s", f.Name, want)
		}
	}

	c := prepare(t, "version", "--json")
	c.Env = append(c.Env, "HOLDFAST_SESSION_TIMEOUT=long")
	c.begin()
	if code := c.code(); code != exitUsage || !strings.Contains(c.stderr.String(), "HOLDFAST_SESSION_TIMEOUT") {
		t.Errorf("exit code %d, %s", code, c.stderr)
	}
}

// TestVerbsInTheReference: docs/command.md has each verb in its table, and a section on it.
func TestVerbsInTheReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/command.md")
	must(t, err)
	table, sections, _ := strings.Cut(string(text), "## A first session")
	for _, verb := range newParser(new(cli), os.Stdout, os.Stderr).Model.Children {
		if !strings.Contains(table, "[`"+verb.Name+"`](#"+verb.Name+")") || !strings.Contains(sections, "\n## "+verb.Name+"\n") {
			t.Errorf("docs/command.md lacks %s in its table, or its section", verb.Name)
		}
	}
}

// TestFlagsInTheReference: the section on a verb in docs/command.md has each flag of the verb, and
// of the verbs below it.
func TestFlagsInTheReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/command.md")
	must(t, err)
	for _, verb := range newParser(new(cli), os.Stdout, os.Stderr).Model.Leaves(true) {
		name := strings.Fields(verb.Path())[0]
		_, section, _ := strings.Cut(string(text), "\n## "+name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, f := range verb.Flags {
			if !regexp.MustCompile(`--` + f.Name + `\b`).MatchString(section) {
				t.Errorf("docs/command.md does not have --%s under %s", f.Name, name)
			}
		}
	}
}

// jsonName finds the names of what verbs print with --json.
var jsonName = regexp.MustCompile("json:\"([a-z0-9_]+)[^\"]*\"`")

// TestFieldsInTheReference: docs/command.md has each name that verbs print with --json.
func TestFieldsInTheReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/command.md")
	must(t, err)
	files, err := filepath.Glob("*.go")
	must(t, err)
	n := 0
	for _, file := range files {
		code, err := os.ReadFile(file)
		must(t, err)
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, found := range jsonName.FindAllStringSubmatch(string(code), -1) {
			n++
			if !strings.Contains(string(text), "`"+found[1]+"`") {
				t.Errorf("docs/command.md does not have `%s`, of %s", found[1], file)
			}
		}
	}
	if n < 50 {
		t.Errorf("there are %d names only", n)
	}
}

// TestNoServer: the error names each server, why it cannot be reached, and for how long
// that was tried; the exit code is 3.
func TestNoServer(t *testing.T) {
	_, stderr, code := do(t, "run", "--servers", "127.0.0.1:1,127.0.0.1:2", "--connect-timeout", "300ms", "x", "--", "true")
	want := regexp.MustCompile(`^holdfast: no session with 127\.0\.0\.1:1, 127\.0\.0\.1:2 within 3\d\dms: 127\.0\.0\.1:1: connection refused; 127\.0\.0\.1:2: connection refused\n$`)
	if code != exitNoConnection || !want.MatchString(stderr) {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// TestSilentServer: a server that has given a session does not answer what is asked of it then. The
// exit code is that of no server, also of run --try when --connect-timeout is over.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		unanswered zktest.Match
		args       string
	}{
		{zktest.Match{Path: "/holdfast", Times: zktest.Every}, "ls --session-timeout 1s"},
		{zktest.Match{Path: "/holdfast", Times: zktest.Every}, "who x --session-timeout 1s"},
		{zktest.Match{Op: zktest.OpMulti, Path: "/holdfast/x", Times: zktest.Every}, "run --try --connect-timeout 1s x -- " + os.Args[0]},
	} {
		server, addr := serve(t)
		must(t, server.CreateAll("/holdfast/x", nil))
		server.Faults().SwallowRequest(test.unanswered)
		_, stderr, code := do(t, append([]string{"--servers", addr}, strings.Fields(test.args)...)...)
		if code != exitNoConnection {
			t.Errorf("%s: exit code %d, %s", test.args, code, stderr)
		}
	}
}

// TestKillAfterDefault: the program has a sixth of the session timeout after SIGTERM.
func TestKillAfterDefault(t *testing.T) {
	a, _, _ := newApp(t, "127.0.0.1:2181")
	a.SessionTimeout = 12 * time.Second
	c := &runCmd{Name: "x", Command: []string{"true"}}
	if err := c.check(a); err != nil || c.KillAfter != 2*time.Second {
		t.Errorf("%v, %v", c.KillAfter, err)
	}
}

// TestVersion: the version names the platform, as text and as JSON.
func TestVersion(t *testing.T) {
	stdout, stderr, code := do(t, "version", "--json")
	var v version
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != 0 || stderr != "" || v.Version == "" || v.Go == "" || v.Platform == "" {
		t.Errorf("exit code %d, %q, %q, %v", code, stdout, stderr, err)
	}
	stdout, _, _ = do(t, "version")
	if !strings.HasPrefix(stdout, "holdfast "+v.Version+"\n") || !strings.Contains(stdout, v.Platform) {
		t.Errorf("%q", stdout)
	}
}

// TestHelpShowsDefaults: the help of a verb has the default of each flag that has one.
func TestHelpShowsDefaults(t *testing.T) {
	t.Parallel()
	for _, verb := range newParser(new(cli), os.Stdout, os.Stderr).Model.Leaves(true) {
		stdout, _, code := do(t, append(strings.Fields(verb.Path()), "--help")...)
		if code != 0 {
			t.Errorf("%s --help: exit code %d", verb.Path(), code)
		}
		text := strings.Join(strings.Fields(stdout), " ")
		for _, f := range verb.Flags {
			shown := strings.Contains(text, "--"+f.Name+"="+f.Default) || strings.Contains(text, fmt.Sprintf("--%s=%q", f.Name, f.Default)) || strings.Contains(text, "("+f.Default+" by default)")
			if f.Default != "" && !shown {
				t.Errorf("%s: the default of --%s, %s, is not in %s", verb.Path(), f.Name, f.Default, stdout)
			}
		}
	}
}

// TestOtherSpellings: what users of other commands try for the version and for help works.
func TestOtherSpellings(t *testing.T) {
	for _, test := range []struct{ tried, is []string }{
		{[]string{"--version"}, []string{"version"}},
		{[]string{"--version", "--json"}, []string{"version", "--json"}},
		{[]string{"help"}, []string{"--help"}},
		{[]string{"help", "run"}, []string{"run", "--help"}},
		{[]string{"help", "queue", "put"}, []string{"queue", "put", "--help"}},
	} {
		got, stderr, code := do(t, test.tried...)
		if want, _, _ := do(t, test.is...); code != 0 || got != want {
			t.Errorf("%q: exit code %d, %q, %s; want %s", test.tried, code, stderr, got, want)
		}
	}
}
