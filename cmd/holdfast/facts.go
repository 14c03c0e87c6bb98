// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/inspect"
	"github.com/holdfast-go/holdfast/zkio"
)

// A source is where the verbs that only read get their facts from: a session of its own,
// which creates no node.
type source struct {
	*inspect.Reader
	client *zkio.Client
	root   string // with the chroot
}

// source connects to ZooKeeper, to read about the lock called name, or about all locks if
// name is empty. The caller closes the source.
func (a *app) source(name string) (*source, error) {
	c, err := a.connection()
	if err != nil {
		return nil, err
	}
	if _, err := manager.LockPath(c.root, cmp.Or(name, "any")); err != nil {
		return nil, fmt.Errorf("%s: %w", safe(cmp.Or(name, c.root)), err) // before anything is sent
	}
	client, session, err := a.client(a.ctx)
	if err != nil {
		return nil, err
	}
	s := &source{client: client, root: c.root}
	if s.Reader, err = inspect.NewReader(client, c.root); err == nil && c.chroot != "" {
		var there bool
		if there, err = session.There(c.chroot); err == nil && !there {
			err = a.noChroot(c.chroot)
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// reader returns a Reader of what is under the root, by a session that is there already.
func (a *app) reader(client *zkio.Client) (*inspect.Reader, error) {
	c, err := a.connection()
	if err != nil {
		return nil, err
	}
	return inspect.NewReader(client, c.root)
}

// missing returns the error of a lock, group or such that ZooKeeper has nothing of: the name
// is a mistake, or no process uses it. It names what there is of similar names.
func (s *source) missing(ctx context.Context, what, name string) error {
	text := fmt.Sprintf("there is no %s %s: the name is mistyped, or no process has used it lately", what, safe(name))
	// If the names cannot be read, what is known is worth saying all the same.
	near, _ := s.Near(ctx, name)
	near = slices.DeleteFunc(near, func(n string) bool { return n == strings.TrimPrefix(name, "/") })
	if len(near) > 0 {
		text += "; like it: " + some(near)
	}
	return exitf(exitMissing, "%s", text)
}

// unlessMissing returns err, what a verb says of a lock that is free, unless ZooKeeper has
// nothing of that lock: then it returns the error that says so.
func (a *app) unlessMissing(name string, err error) error {
	s, e := a.source(name)
	if e != nil {
		return cmp.Or(err, e)
	}
	defer s.close()
	q, e := s.Queue(a.ctx, name, 0)
	switch {
	case e != nil:
		return cmp.Or(err, failed("read the queue of", name, e))
	case q.Missing:
		return s.missing(a.ctx, "lock", name)
	}
	return err
}

// recipeWords are what the verbs for locks say of the name of a recipe: what it is, and where
// its lock is, if it has one.
var recipeWords = map[inspect.RecipeKind]struct{ is, lock string }{
	inspect.KindElection:  {"an election", "its lock, %s/lock"},
	inspect.KindCron:      {"a job at planned times", "its lock, %s/lock"},
	inspect.KindShards:    {"divided work", "the lock of a shard, such as %s/shards/0"},
	inspect.KindMembers:   {"a group of members", ""},
	inspect.KindSemaphore: {"a semaphore", ""},
	inspect.KindQueue:     {"a queue", ""},
	inspect.KindBarrier:   {"a barrier", ""},
	inspect.KindGate:      {"a gate", ""},
}

// notRecipe refuses the name of a recipe in a verb for locks. No contender of a lock queues in
// the recipe's own directory, so the lock of that name is free, whatever its processes hold.
func (a *app) notRecipe(client *zkio.Client, name string) error {
	r, err := a.reader(client)
	if err != nil {
		return err
	}
	roster, found, err := r.Recipe(a.ctx, name, 0)
	words := recipeWords[roster.Kind]
	switch name = safe(name); {
	case err != nil || !found:
		return nil //nolint:nilerr // what hinders this look hinders the verb, too, which says so
	case a.verb == "run":
		return usagef("%s is %s: a lock of that name would not keep its processes out; choose another name", name, words.is)
	case words.lock == "":
		return usagef("%s is %s, and no lock to %s: see holdfast who %[1]s", name, words.is, a.verb)
	}
	return usagef("%s is %s: name "+words.lock+", or see holdfast who %[1]s", name, words.is, name)
}

// deniedAll returns the error of a verb that shows nothing because this client may not look.
func (a *app) deniedAll(paths []string) error {
	return fmt.Errorf("this client may not list %s, so what is there is not known: give credentials that may, by --auth-file or HOLDFAST_AUTH", some(paths))
}

// checkName refuses an empty name, and a path where a verb takes a name: "/holdfast/jobs/x"
// would be the name of another lock than jobs/x, which the path is of.
func (a *app) checkName(verb *kong.Node) error {
	for _, arg := range verb.Positional {
		name, ok := arg.Target.Interface().(string)
		switch {
		case ok && arg.Name == "name" && name == "":
			return usagef("the name is empty: see holdfast %s --help", verb.Path())
		case !ok || arg.Name != "name" && arg.Name != "prefix" || a.Root == "/":
			continue
		}
		_, chroot, _ := manager.ParseServers(a.Servers) // which the verb refuses, if it must
		for _, root := range []string{chroot + a.Root, a.Root} {
			if of, found := strings.CutPrefix(name, root+"/"); found {
				return usagef("%s is a path: the name is what comes behind the root, %s", safe(name), safe(of))
			}
		}
	}
	return nil
}

// close ends the session. It does not wait long for a server that does not answer: there
// is nothing to clean up.
func (s *source) close() { closeSoon(s.client) }

// closeSoon ends a session that has nothing to clean up.
func closeSoon(client *zkio.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = client.Close(ctx)
}

// under returns the path that the locks called prefix, and those below, are under.
func under(root, prefix string) string {
	if prefix == "" {
		return safe(root)
	}
	return safe(strings.TrimSuffix(root, "/") + "/" + strings.TrimPrefix(prefix, "/"))
}

// failed returns the error of a verb that wanted to do something with a lock, or with the
// locks if name is empty.
func failed(what, name string, err error) error {
	if name != "" {
		what += " " + safe(name)
	}
	wrapped := fmt.Errorf("cannot %s: %w", what, err)
	if errors.Is(err, inspect.ErrOutage) {
		return &exitError{exitNoConnection, wrapped}
	}
	return wrapped
}

// late returns err with the exit code of a lock that another process still holds, if err
// is that of a ctx that has timed out.
func late(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return exitf(exitNotGranted, "%s", strings.TrimSuffix(oneLine(err), ": "+context.DeadlineExceeded.Error()))
}

// warnDenied says which directories could not be listed.
func (a *app) warnDenied(paths []string) {
	if len(paths) == 0 {
		return
	}
	a.warnf("may not list %s, so what is there does not show: %s", count(len(paths), "directory", "directories"), some(paths))
}

// some names the first of some paths, and says how many others there are.
func some(paths []string) string {
	shown := make([]string, len(paths))
	for i, path := range paths {
		shown[i] = safe(path)
	}
	return first(shown)
}

// first returns the first of some texts, which are safe, and says how many others there are.
func first(texts []string) string {
	const most = 3
	text := strings.Join(texts[:min(len(texts), most)], ", ")
	if more := len(texts) - most; more > 0 {
		text += fmt.Sprintf(" and %s more", figures.Number(more))
	}
	return text
}

// contenderFacts are the facts about a contender, as JSON.
type contenderFacts struct {
	Node       string    `json:"node"`
	Position   int       `json:"position,omitempty"`
	Holds      bool      `json:"holds"`
	Kind       string    `json:"kind,omitempty"`
	Client     string    `json:"client,omitempty"`
	Label      string    `json:"label,omitempty"`
	Host       string    `json:"host,omitempty"`
	PID        int       `json:"pid,omitempty"`
	Endpoint   string    `json:"endpoint,omitempty"`
	Identity   string    `json:"identity,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	Session    string    `json:"session,omitempty"`
	Token      uint64    `json:"token,omitempty"`
	Persistent bool      `json:"persistent,omitempty"`
	Unreadable bool      `json:"unreadable,omitempty"`
}

// factsOf returns the facts about c, which may be nil, at a position in its queue; 0 is
// none.
func factsOf(c *inspect.Contender, position int) *contenderFacts {
	if c == nil {
		return nil
	}
	return &contenderFacts{
		Node: c.Path, Position: position, Holds: c.Holds, Kind: c.Kind.String(), Client: c.Client,
		Label: c.Label, Host: c.Host, PID: c.PID, Endpoint: c.Endpoint, Identity: c.Identity,
		Since: utc(c.Since), Session: sessionText(c.Session), Token: c.Token, Persistent: c.Persistent, Unreadable: c.Unreadable,
	}
}

// utc returns t as it is written in JSON; the zero Time stays so.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

// sessionText returns a session's id as ZooKeeper's own tools write it; "" if it is 0.
func sessionText(id int64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", uint64(id))
}

// longest is how many columns a label or an identity gets in a text. JSON has all of it.
const longest = 40

// who names a contender's process in a few words.
func who(c *inspect.Contender) string {
	switch {
	case c.Label != "" || c.Host != "":
		return strings.TrimPrefix(fit(safe(c.Label), longest)+"@"+fit(safe(c.Host), 64), "@")
	case c.Identity != "":
		return fit(safe(c.Identity), longest) + " (" + cmp.Or(c.Client, "another client") + ")"
	case c.Unreadable:
		return "(may not be read)"
	case c.Client != "":
		return "(" + c.Client + ")"
	}
	return "(unknown client)"
}

// whoLong names a contender's process with all that it says of itself.
func whoLong(c *inspect.Contender) string {
	text := who(c)
	if c.PID != 0 {
		text += fmt.Sprintf(", pid %d", c.PID)
	}
	if c.Endpoint != "" {
		text += ", at " + safe(c.Endpoint)
	}
	return text
}

// whoElse is whoLong for a contender that package manager has described.
func whoElse(c *manager.Contender) string { return whoLong(inspect.FromManager(*c)) }

// pidText returns a process id; "-" if it is not known.
func pidText(pid int) string {
	if pid == 0 {
		return "-"
	}
	return fmt.Sprint(pid)
}
