// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A finder finds out which recipe is in a directory, and reads it. It belongs to one task of
// a worker.
type finder struct {
	reader  *Reader
	session *zkio.Session
	most    int // entries to be read; negative: all

	// What a walk has read already, by path; nil without one.
	seen  map[string]*directory
	gates map[string]zkio.Read // the data of those that may be gates
}

// mayFind reports whether there may be a recipe in d.
func mayFind(d *directory) bool { return len(d.others) > 0 || len(d.queue) == 0 && mayBeGate(d.stat) }

// find reads the recipe in d.
func (f *finder) find(d *directory) (r Roster, found bool, err error) {
	names := d.others
	for _, l := range suspects(names) {
		var marker *zkio.Read
		if l.marker != "" {
			if marker, err = f.data(join(d.path, l.marker)); err != nil {
				return r, false, err
			}
		}
		if !l.is(names, marker) {
			continue
		}
		r = f.roster(d, l.kind)
		r.parts = l.parts
		if marker != nil && marker.What == zkio.ReadStat {
			r.Unread = append(r.Unread, marker.Path)
			marker.Data = nil
		}
		switch l.kind {
		case KindElection:
			err = f.election(&r, marker)
		case KindCron:
			err = f.cron(&r, marker)
		case KindShards:
			err = f.shards(&r, marker)
		case KindSemaphore:
			err = f.semaphore(&r, marker)
		case KindQueue:
			err = f.queue(&r, nil)
		case KindBarrier:
			err = f.barrier(&r, marker)
		}
		return r, true, err
	}
	switch all := elements(names); {
	case len(all) > 0:
		r = f.roster(d, KindQueue)
		r.Foreign = "ZooKeeper's DistributedQueue"
		err = f.queue(&r, all)
		return r, true, err
	case len(names) == 0 && mayBeGate(d.stat):
		return f.gate(d)
	case len(d.queue) == 0 && d.recipe == "":
		return f.members(d)
	}
	return r, false, nil
}

func (f *finder) roster(d *directory, kind RecipeKind) Roster {
	return Roster{Recipe: Recipe{Name: f.reader.nameOf(d.path), Path: d.path, Kind: kind}}
}

// shown returns how many of n entries are to be read.
func (f *finder) shown(n int) int {
	if f.most < 0 {
		return n
	}
	return min(n, f.most)
}

// data reads a node, or only its Stat if this client may not read it.
func (f *finder) data(path string) (*zkio.Read, error) {
	reads := []zkio.Read{{Path: path, What: zkio.ReadData}}
	f.session.Read(&reads[0])
	lookAtUnreadable(f.session, reads)
	if err := reads[0].Err; err != nil && !errors.Is(err, zkio.ErrNoNode) {
		return nil, err
	}
	return &reads[0], nil
}

// children lists a directory of the recipe: none if there is no such directory. If it may
// not be listed, that is noted.
func (f *finder) children(r *Roster, path string) ([]string, error) {
	list := zkio.Read{Path: path, What: zkio.ReadChildren}
	f.session.Read(&list)
	switch {
	case errors.Is(list.Err, zkio.ErrNoNode):
		return nil, nil
	case errors.Is(list.Err, zkio.ErrNoAuth):
		r.Unread = append(r.Unread, path)
		return nil, nil
	}
	return list.Names, list.Err
}

// stats returns the Stats of nodes that are there, by path: the zero Stat if the server does not
// tell it to a client that may not read the node.
func (f *finder) stats(paths []string) (map[string]zkio.Stat, error) {
	found := make(map[string]zkio.Stat)
	for some := range slices.Chunk(paths, mostNodes) {
		reads := make([]*zkio.Read, len(some))
		for i, path := range some {
			reads[i] = &zkio.Read{Path: path, What: zkio.ReadStat}
		}
		f.session.Read(reads...)
		for _, read := range reads {
			switch {
			case read.Err == nil:
				found[read.Path] = read.Stat
			case errors.Is(read.Err, zkio.ErrNoAuth): // it is there, and newer servers tell no more
				found[read.Path] = zkio.Stat{}
			case !errors.Is(read.Err, zkio.ErrNoNode):
				return nil, read.Err
			}
		}
	}
	return found, nil
}

// describe reads nodes that say something about their processes. Those that are gone are
// nil.
func (f *finder) describe(paths []string) ([]*Contender, error) {
	all := make([]*Contender, len(paths))
	for i, path := range paths {
		all[i] = new(Contender)
		all[i].Path = path
	}
	gone, err := describeAll(f.session, all)
	if err != nil {
		return nil, err
	}
	for i, c := range all {
		if gone[c.Path] {
			all[i] = nil
		}
	}
	return all, nil
}

// lines returns the queues of locks that are the recipe's, and reads those of their contenders
// that pick selects. What a walk has listed is not read again: of that, the first holder and
// the first waiter are known.
func (f *finder) lines(r *Roster, pick selection, paths ...string) ([]*directory, error) {
	all := make([]*directory, len(paths))
	var unseen []string
	var at []int // among all
	for i, path := range paths {
		if all[i] = f.seen[path]; all[i] == nil {
			unseen, at = append(unseen, path), append(at, i)
		}
	}
	for some := range slices.Chunk(unseen, mostLists) {
		found, err := look(f.session, some, pick, nil)
		if err != nil {
			return nil, err
		}
		for i, d := range found {
			all[at[i]] = d
		}
		at = at[len(found):]
	}
	for _, d := range all {
		if d.denied != nil {
			r.Unread = append(r.Unread, d.path)
		}
	}
	return all, nil
}

// enough returns the selection of the contenders that have to be read of a queue.
func (f *finder) enough() selection {
	if f.most == 0 {
		return ends
	}
	return first(f.most)
}

// note makes since the recipe's if it is the oldest.
func (r *Recipe) note(since time.Time) {
	if !since.IsZero() && (r.Since.IsZero() || since.Before(r.Since)) {
		r.Since = since
	}
}

// election: the leader is the first in the queue.
func (f *finder) election(r *Roster, record *zkio.Read) error {
	if err := f.line(r, "leads"); err != nil {
		return err
	}
	var leader electionRecord
	if json.Unmarshal(record.Data, &leader) != nil {
		return nil //nolint:nilerr // it may not be read
	}
	r.Leader = &Leader{Token: leader.Token, ID: leader.ID, Data: leader.Data}
	if r.Holder != nil {
		r.Leader.Present = r.Leader.Token == r.Holder.Token
	}
	if r.Leader.Present && len(r.Entries) > 0 {
		r.Entries[0].ID = r.Leader.ID
	}
	return nil
}

// cron: the process that runs the job is the first in the queue.
func (f *finder) cron(r *Roster, record *zkio.Read) error {
	var run cronRecord
	if json.Unmarshal(record.Data, &run) == nil {
		r.Run = &Run{Planned: run.Planned, State: run.State, Token: run.Token, Attempt: run.Attempt, ID: run.ID}
	}
	return f.line(r, "runs")
}

// line reads the queue of the lock whose holder is what the recipe has. State is what it does.
func (f *finder) line(r *Roster, state string) error {
	lines, err := f.lines(r, f.enough(), join(r.Path, "lock"))
	if err != nil {
		return err
	}
	line := lines[0]
	r.Holders, r.Waiting = min(1, len(line.queue)), max(0, len(line.queue)-1)
	if r.Holders > 0 {
		c := line.contender(0)
		r.Holder, r.Since = &c, c.Since
	}
	for i := range f.shown(len(line.queue)) {
		e := Entry{Contender: line.contender(i), State: "waits"}
		if i == 0 {
			e.State = state
		}
		r.Entries = append(r.Entries, e)
	}
	r.More = len(line.queue) - len(r.Entries)
	return nil
}

// members: ephemeral nodes that are no contenders are members.
func (f *finder) members(d *directory) (r Roster, found bool, err error) {
	r = f.roster(d, KindMembers)
	names := slices.Sorted(slices.Values(d.others))
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = join(d.path, name)
	}
	stats := make(map[string]zkio.Stat)
	if f.seen == nil {
		if stats, err = f.stats(paths); err != nil {
			return r, false, err
		}
	}
	for _, path := range paths {
		if known := f.seen[path]; known != nil {
			stats[path] = known.stat
		}
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return !ephemeral(stats[path]) })
	for _, path := range paths {
		r.note(sinceOf(stats[path]))
	}
	r.Holders = len(paths)
	shown := paths[:f.shown(len(paths))]
	for some := range slices.Chunk(shown, mostNodes) {
		reads := f.session.GetAll(some...)
		lookAtUnreadable(f.session, reads)
		for _, read := range reads {
			if errors.Is(read.Err, zkio.ErrNoNode) {
				continue // it has left since
			} else if read.Err != nil {
				return r, false, read.Err
			}
			e := Entry{State: "member", ID: read.Path[len(d.path)+1:], Data: read.Data}
			e.Path, e.Since, e.Token, e.Session = read.Path, sinceOf(read.Stat), uint64(read.Stat.Czxid), read.Stat.EphemeralOwner
			e.Unreadable = read.What == zkio.ReadStat
			r.Entries = append(r.Entries, e)
		}
	}
	r.More = len(paths) - len(shown)
	return r, len(paths) > 0, nil
}

// sinceOf returns when a node was created.
func sinceOf(st zkio.Stat) time.Time {
	if st == (zkio.Stat{}) {
		return time.Time{} // it may not be read
	}
	return time.UnixMilli(st.Ctime)
}

// shards: each shard is a lock.
func (f *finder) shards(r *Roster, spec *zkio.Read) error {
	var said shardsSpec
	_ = json.Unmarshal(spec.Data, &said) // it was looked at, or could not be read
	r.Of = said.Shards
	members, err := f.children(r, join(r.Path, "members"))
	if err != nil {
		return err
	}
	r.Members = len(members)
	numbers, err := f.numbers(r)
	if err != nil {
		return err
	}
	n := len(numbers)
	paths := make([]string, n)
	for i, number := range numbers {
		paths[i] = join(join(r.Path, "shards"), strconv.Itoa(number))
	}
	shown := f.shown(n)
	lines, err := f.lines(r, ends, paths...)
	if err != nil {
		return err
	}
	for i, line := range lines {
		e := Entry{State: "free", ID: strconv.Itoa(numbers[i])}
		e.Path = line.path
		if len(line.queue) > 0 {
			e.Contender, e.State, e.Waiting = line.contender(0), "owned", len(line.queue)-1
			r.Holders++
			r.Waiting += e.Waiting
			r.note(e.Since)
		}
		if i < shown {
			r.Entries = append(r.Entries, e)
		}
	}
	r.More = n - len(r.Entries)
	return nil
}

// numbers returns the numbers of the shards. If it is not known how many there are, it returns
// those that have a directory.
func (f *finder) numbers(r *Roster) (numbers []int, err error) {
	const most = 1000 // shards that package shards allows
	if r.Of > 0 {
		for i := range min(r.Of, most) {
			numbers = append(numbers, i)
		}
		return numbers, nil
	}
	names, err := f.children(r, join(r.Path, "shards"))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < most {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// semaphore: each node in leases is a permit. Those beyond the number belong to the process
// at the head of the line, which waits until they are not.
func (f *finder) semaphore(r *Roster, number *zkio.Read) error {
	if number != nil {
		r.Of = permitsIn(number.Data)
	}
	names, err := f.children(r, join(r.Path, "leases"))
	if err != nil {
		return err
	}
	names = numbered(names, "lease-")
	lines, err := f.lines(r, f.enough(), join(r.Path, "locks"))
	if err != nil {
		return err
	}
	line := lines[0]
	var head *Contender
	if len(line.queue) > 0 {
		c := line.contender(0)
		head = &c
	}
	// Those at the end tell whether they wait, and the first one for how long it has been in use.
	read := max(f.shown(len(names)), min(1, len(names)))
	tail := len(names)
	if r.Of > 0 {
		tail = min(max(r.Of, read), len(names))
	}
	some := slices.Concat(names[:read], names[tail:])
	for i := range some {
		some[i] = join(join(r.Path, "leases"), some[i])
	}
	leases, err := f.describe(some)
	if err != nil {
		return err
	}
	r.Holders, r.Waiting = len(names), len(line.queue)
	for i, c := range leases {
		at := i // among names
		if i >= read {
			at = tail + i - read
		}
		switch {
		case c == nil: // released since
			r.Holders--
			continue
		case r.Of > 0 && at >= r.Of && head != nil && c.Session == head.Session:
			r.Holders-- // it shows in the line
			continue
		}
		r.note(c.Since)
		if r.Holder == nil {
			r.Holder = c
		}
		if at < f.shown(len(names)) {
			r.Entries = append(r.Entries, Entry{Contender: *c, State: "holds"})
		}
	}
	for i := range f.shown(len(line.queue)) {
		if f.most >= 0 && len(r.Entries) >= f.most {
			break
		}
		r.Entries = append(r.Entries, Entry{Contender: line.contender(i), State: "waits"})
	}
	r.More = r.Holders + r.Waiting - len(r.Entries)
	return nil
}

// leastLook is how many elements of a queue are looked at to tell how many are taken. With
// more consumers it is more: they take those that are among the first 16 for each.
const (
	leastLook = 100
	lookEach  = 16
)

// attempts returns how often an element was taken: Cversion counts creations and deletions of
// claims, and each change of its data says that one of them was no attempt.
func attempts(st zkio.Stat) int {
	return max(int(uint32(st.Cversion+st.NumChildren)/2)-int(st.Version), 0)
}

// queue: an element that is taken has a child. names has the elements of another client's
// queue.
func (f *finder) queue(r *Roster, names []string) error {
	dir := r.Path
	var consumers, dead []string
	if r.Foreign == "" {
		dir = join(r.Path, items)
		found, err := f.children(r, dir)
		if err != nil {
			return err
		}
		names = elements(found)
		if consumers, err = f.children(r, join(r.Path, "consumers")); err != nil {
			return err
		}
		if dead, err = f.children(r, join(r.Path, "dead")); err != nil {
			return err
		}
	}
	r.Members, r.Buried = len(consumers), len(elements(dead))
	shown := f.shown(len(names))
	paths := make([]string, min(len(names), max(shown, leastLook, lookEach*min(len(consumers), mostNodes))))
	for i := range paths {
		paths[i] = join(dir, names[i])
	}
	stats, err := f.stats(paths)
	if err != nil {
		return err
	}
	total := len(names) - len(paths) + len(stats)
	var claims []string
	for i, path := range paths {
		st, there := stats[path]
		if !there { // taken away since
			continue
		}
		r.note(sinceOf(st))
		e := Entry{State: "waits", ID: names[i], Bytes: int(st.DataLength), Attempts: attempts(st)}
		e.Path, e.Since, e.Token = path, sinceOf(st), uint64(st.Czxid)
		if st.NumChildren > 0 {
			e.State = "taken"
			r.Holders++
		}
		if i < shown {
			if e.State == "taken" {
				claims = append(claims, join(path, claim))
			}
			r.Entries = append(r.Entries, e)
		}
	}
	r.Waiting, r.More = total-r.Holders, total-len(r.Entries)
	if len(claims) == 0 {
		return nil
	}
	return f.takers(r, claims, consumers)
}

// takers fills in which processes have the elements that are taken: the claims tell their
// sessions, and the consumers' nodes the rest.
func (f *finder) takers(r *Roster, claims, consumers []string) error {
	stats, err := f.stats(claims)
	if err != nil {
		return err
	}
	const most = 1000
	paths := make([]string, min(len(consumers), most))
	for i := range paths {
		paths[i] = join(join(r.Path, "consumers"), consumers[i])
	}
	all, err := f.describe(paths)
	if err != nil {
		return err
	}
	by := make(map[int64]*Contender)
	for _, c := range all {
		if c != nil {
			by[c.Session] = c
		}
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		st, there := stats[join(e.Path, claim)]
		if !there || st == (zkio.Stat{}) {
			continue // free again, or none's that can be told
		}
		if c := by[st.EphemeralOwner]; c != nil {
			path, since := e.Path, e.Since
			e.Contender = *c
			e.Path, e.Since = path, since
		}
		e.Session, e.Token = st.EphemeralOwner, uint64(st.Czxid)
	}
	return nil
}

// barrier: the members of the round that is under way are inside, and others wait to enter.
func (f *finder) barrier(r *Roster, round *zkio.Read) error {
	var rec barrierRecord
	_ = json.Unmarshal(round.Data, &rec) // it was looked at, or could not be read
	r.Of, r.Round = rec.Size, rec.Round
	names, err := f.children(r, join(r.Path, "members"))
	if err != nil {
		return err
	}
	id := make(map[string]string) // of the round's members, by name
	for _, m := range rec.Members {
		id[m.Name] = m.ID
	}
	if len(rec.Members) > 0 {
		r.Since = time.UnixMilli(round.Stat.Mtime)
	}
	var in, wait []string
	var gone []Entry
	has := make(map[string]bool)
	slices.Sort(names)
	for _, name := range names {
		entered, is := strings.CutPrefix(name, inside)
		_, known := id[entered]
		switch {
		case is && known:
			in, has[entered] = append(in, name), true
		case is:
			wait = append(wait, name)
		}
		if out, is := strings.CutPrefix(name, left); is && id[out] != "" {
			has[out] = true
			gone = append(gone, Entry{State: "left", ID: id[out]})
		}
	}
	for _, m := range rec.Members {
		if !has[m.Name] {
			gone = append(gone, Entry{State: "died", ID: m.ID})
		}
	}
	r.Holders, r.Waiting = len(in), len(wait)
	shown := slices.Concat(in, wait)
	total := len(shown) + len(gone)
	shown = shown[:f.shown(len(shown))]
	for i, name := range shown {
		shown[i] = join(join(r.Path, "members"), name)
	}
	all, err := f.describe(shown)
	if err != nil {
		return err
	}
	for i, c := range all {
		switch {
		case c == nil: // it has gone since
			total--
		case i < len(in):
			r.Entries = append(r.Entries, Entry{Contender: *c, State: "inside"})
		default:
			r.Entries = append(r.Entries, Entry{Contender: *c, State: "waits"})
		}
	}
	if f.most != 0 {
		r.Entries = append(r.Entries, gone[:f.shown(len(gone))]...)
	}
	r.More = total - len(r.Entries)
	return nil
}

// gate: a node that is there shuts it.
func (f *finder) gate(d *directory) (r Roster, found bool, err error) {
	read, known := f.gates[d.path]
	if !known {
		asked, err := f.data(d.path)
		if err != nil {
			return r, false, err
		}
		read = *asked
	}
	if !showsGate(read) {
		return r, false, nil
	}
	r = f.roster(d, KindGate)
	if isAddress(string(read.Data)) {
		r.Foreign = "Curator's DistributedBarrier"
	}
	c := new(Contender)
	c.Path = d.path
	c.describe(read)
	if r.Foreign != "" {
		c.Client = "curator"
	}
	r.Holder, r.Since = c, c.Since
	if f.most != 0 {
		r.Entries = []Entry{{Contender: *c, State: "shut"}}
	}
	return r, true, nil
}

// showsGate reports whether a read has shown a gate that is shut. What this client may not
// read is none, as far as it can tell.
func showsGate(read zkio.Read) bool {
	return read.Err == nil && read.What == zkio.ReadData && isGate(read.Data)
}
