// SPDX-License-Identifier: Apache-2.0

package main

// A mutant is one mistake in one place: the code as somebody could have written
// it who had not thought of a fault.
type mutant struct {
	fault string // the row or rows of docs/faults.md whose handling is broken
	what  string // what is wrong with it, in a few words
	file  string
	old   string // occurs once in file …
	new   string // … and is replaced by this
	pkg   string // where the tests are that have to fail: "./manager"
	tests string // their names, with spaces between; one that fails is enough
	seeds int    // how many seeds to simulate, where pkg is the simulation
}

// mutants is the list, in the order of the catalogue of faults. What it has no
// mutant for, the catalogue says why.
var mutants = []mutant{
	{
		fault: "F1", what: "a create whose answer was lost is made again without a look",
		file: "zkio/node.go",
		old: `	if n.maybe {
		return n.resolve()
	}
`,
		new: `	n.maybe = false
`,
		pkg: "./zkio", tests: "TestF001_LostReplies",
	},
	{
		fault: "F2", what: "the node is forgotten when the look for it fails, too",
		file: "zkio/node.go",
		old: `	paths, err := n.candidates(n.session)
	if err != nil {
`,
		new: `	paths, err := n.candidates(n.session)
	if err != nil {
		n.maybe = false
`,
		pkg: "./zkio", tests: "TestF002_RecoveryIsLost",
	},
	{
		fault: "F3", what: "a list is believed that may be older than the lost answer",
		file: "zkio/node.go",
		old:  "if err := s.Sync(n.dir); err != nil {",
		new:  "if err := error(nil); err != nil {",
		pkg:  "./zkio", tests: "TestF003_SyncBeforeTheList",
	},
	{
		fault: "F3", what: "the second of two nodes is left there",
		file: "zkio/node.go",
		old: `	return n.session.Delete(path, -1)
}`,
		new: `	return nil
}`,
		pkg: "./zkio", tests: "TestF003_SurplusIsDeleted",
	},
	{
		fault: "F4", what: "a node of an older session is adopted",
		file: "zkio/node.go",
		old: `	case st.EphemeralOwner != n.session.ID():
		return nil`,
		new: `	case st.EphemeralOwner == 0:
		return nil`,
		pkg: "./zkio", tests: "TestF004_AnotherSessionsNodeIsNotAdopted",
	},
	{
		fault: "F5", what: "what was learnt in one session is used in the next",
		file: "zkio/node.go",
		old: `		n.Forget()
		n.session = s
`,
		new: `		n.session = s
`,
		pkg: "./zkio", tests: "TestF005_NodeInTheNextSession",
	},
	{
		fault: "F7", what: "the levels above the lock's directory are not made",
		file: "zkio/calls.go",
		old:  "if err := s.EnsureDir(parent(dir), acl); err != nil {",
		new:  "if err := error(nil); err != nil {",
		pkg:  "./manager", tests: "TestF007_DirectoryIsMissing",
	},
	{
		fault: "F8", what: "the directory is remembered when it is gone",
		file: "manager/trip.go",
		old: `		case errors.Is(err, zkio.ErrNoNode):
			l.directory.Store(dirUnknown)
			return true
		case errors.Is(err, zkio.ErrNoAuth):`,
		new: `		case errors.Is(err, zkio.ErrNoNode):
			return t.later()
		case errors.Is(err, zkio.ErrNoAuth):`,
		pkg: "./manager", tests: "TestF008_DirectoryIsDeletedWhileIdle",
	},
	{
		fault: "F9", what: "that the directory is there already is an error",
		file: "zkio/calls.go",
		old: `	case errors.Is(err, ErrNodeExists):
		return nil
`,
		new: `	case errors.Is(err, ErrNodeExists):
		return err
`,
		pkg: "./manager", tests: "TestF009_DirectoryMadeByTwo",
	},
	{
		fault: "F10", what: "a directory that cannot have children is tried again",
		file: "zkio/class.go",
		old:  "{ErrNoChildrenForEphemerals, Definite}",
		new:  "{ErrNoChildrenForEphemerals, Unknown}",
		pkg:  "./manager", tests: "TestF010_DirectoryIsEphemeral",
	},
	{
		fault: "F11", what: "what is not permitted is tried again",
		file: "zkio/class.go",
		old:  "{ErrNoAuth, Definite}",
		new:  "{ErrNoAuth, Unknown}",
		pkg:  "./manager", tests: "TestF011_LockWithoutPermission",
	},
	{
		fault: "F12", what: "waiters are not told that the credentials are refused",
		file: "manager/manager.go",
		old:  "if errors.Is(cause, zkio.ErrAuthFailed) {",
		new:  "if false {",
		pkg:  "./manager", tests: "TestF012_CredentialsRefusedLater",
	},
	{
		fault: "F13", what: "an error that nobody knows is final",
		file: "zkio/errors.go",
		old: `		return ErrAuthFailed
	}
	return ErrUnknown
`,
		new: `		return ErrAuthFailed
	}
	return ErrBadArguments
`,
		pkg: "./manager", tests: "TestF013_UncommonErrors",
	},
	{
		fault: "F14", what: "where the numbers have run out they order the queue",
		file: "manager/contender.go",
		old: `		cmp.Compare(a.czxid, b.czxid),
`,
		new: "",
		pkg: "./manager", tests: "TestF014_SequenceRunsOut TestOrderWhereNumbersRunOut",
	},
	{
		fault: "F14", what: "a contender that goes while the queue is put in order is left out",
		file: "manager/line.go",
		old:  "case errors.Is(err, zkio.ErrNoNode) && exhausted(c.seq):",
		new:  "case errors.Is(err, zkio.ErrNoNode):",
		pkg:  "./manager", tests: "TestDowngradeWhileTheQueueIsPutInOrder",
	},
	{
		fault: "F14", what: "another client's contender is put in an order that it does not know",
		file: "manager/line.go",
		old:  "case !new(Contender).describe(data):",
		new:  "case len(data) < 0:",
		pkg:  "./manager", tests: "TestF014_SequenceRunsOut TestOthersWhereNumbersRunOut",
	},
	{
		fault: "F14", what: "a downgrade where the numbers have run out",
		file: "manager/trip.go",
		old:  "if c, _ := parseContender(w.Path[strings.LastIndexByte(w.Path, '/')+1:]); exhausted(c.seq) {",
		new:  "if c, _ := parseContender(w.Path[strings.LastIndexByte(w.Path, '/')+1:]); c.seq < 0 {",
		pkg:  "./manager", tests: "TestNoDowngradeWithoutNumbers",
	},
	{
		fault: "F15", what: "a child of the directory that is no contender is waited for",
		file: "manager/contender.go",
		old: `			q.foreign++
			continue
`,
		new: `			q.foreign++
`,
		pkg: "./manager", tests: "TestF015_JunkInTheDirectory",
	},
	{
		fault: "F15", what: "a contender that somebody made by hand is taken for the end of the queue",
		file: "manager/line.go",
		old:  `if l.name == "" || l.seq >= q.next {`,
		new:  `if l.name == "" {`,
		pkg:  "./manager", tests: "TestHandOverBehindANumberNobodyGaveOut",
	},
	{
		fault: "F16", what: "a contender that is not ephemeral is waited for in silence",
		file: "manager/line.go",
		old:  "Persistent: stat.EphemeralOwner == 0}",
		new:  "Persistent: stat.EphemeralOwner == -1}",
		pkg:  "./manager", tests: "TestF016_PersistentContender",
	},
	{
		fault: "F17", what: "a list of more than a megabyte is refused",
		file: "zkio/wire.go",
		old:  "maxFrame = 64 << 20",
		new:  "maxFrame = 1 << 20",
		pkg:  "./manager", tests: "TestF017_LongQueue",
	},
	{
		fault: "F18", what: "a segment may look like the node of a contender",
		file: "manager/name.go",
		old:  "if _, ok := parseContender(segment); ok {",
		new:  "if false {",
		pkg:  "./manager", tests: "TestF018_BadNames",
	},
	{
		fault: "F18", what: "characters that ZooKeeper refuses are sent",
		file: "manager/name.go",
		old:  "\t\tif illegalRune(r) {",
		new:  "\t\tif false {",
		pkg:  "./manager", tests: "TestF018_BadNames",
	},
	{
		fault: "F20", what: "readers and writers do not exclude each other",
		file: "manager/contender.go",
		old:  "return a != KindRead || b != KindRead",
		new:  "return a == b && a != KindRead",
		pkg:  "./manager", tests: "TestF020_ReadersAndWritersInOneQueue",
	},
	{
		fault: "F21", what: "the one ahead is asked after by exists, which watches what is not there",
		file: "manager/line.go",
		old: `	data, stat, err := s.Get(path)
`,
		new: `	data, stat, err := s.Get(path)
	if errors.Is(err, zkio.ErrNoNode) {
		_, _, err = s.Exists(path)
	}
`,
		pkg: "./manager", tests: "TestF021_ContenderAheadGoesUnseen",
	},
	{
		fault: "F22", what: "being woken is a grant",
		file: "manager/line.go",
		old:  "case gone == nil || *gone != t.ahead || t.sure != connection:",
		new:  "case gone == nil:",
		pkg:  "./manager", tests: "TestF022_ContenderAheadDiesWaiting TestFairness",
	},
	{
		fault: "F23", what: "the nearest one's going is a grant, whoever else is ahead",
		file: "manager/line.go",
		old:  "case p.n == 1:",
		new:  "case p.n >= 1:",
		pkg:  "./manager", tests: "TestF023_ContenderAheadGivesUp TestF022_ContenderAheadDiesWaiting",
	},
	{
		fault: "F23", what: "of two ahead the first one's going is a grant",
		file: "manager/line.go",
		old:  "p.watch, p.then, p.sure = second, &nearest, true",
		new:  "p.watch, p.sure = second, true",
		pkg:  "./manager", tests: "TestHandOverCostsNoHerd",
	},
	{
		fault: "F24", what: "watches are not set again after an outage",
		file: "zkio/session.go",
		old: `	if resumed {
		return`,
		new: `	if resumed && id == 0 {
		return`,
		pkg: "./manager", tests: "TestF024_ContenderAheadGoesMeanwhile",
	},
	{
		fault: "F24", what: "what is told after an outage counts as if there had been none",
		file: "manager/line.go",
		old:  "*gone != t.ahead || t.sure != connection:",
		new:  "*gone != t.ahead || t.sure == 0:",
		pkg:  "./manager", tests: "TestNoGrantAfterAnOutageWithoutALook",
	},
	{
		fault: "F25", what: "nobody looks after those who wait",
		file: "manager/manager.go",
		old: `	m.wg.Go(m.rotate)
`,
		new: "",
		pkg: "./manager", tests: "TestF025_WatchIsLost",
	},
	{
		fault: "F26", what: "only its deletion is a reason to look at the one ahead",
		file: "manager/line.go",
		old: `		t.news.Store(true)
	}
	t.wake()
`,
		new: `		t.news.Store(true)
		return
	}
	t.wake()
`,
		pkg: "./manager", tests: "TestF026_ContenderAheadIsTouched",
	},
	{
		fault: "F26", what: "what happened to the one ahead is forgotten over the look at the own node",
		file: "manager/line.go",
		old:  "gone == nil && !t.news.Load() && t.place",
		new:  "gone == nil && t.place",
		pkg:  "./manager", tests: "TestNewsTogetherWithTheLookAtTheOwnNode",
	},
	{
		fault: "F26", what: "a try that failed is forgotten over the look at the own node",
		file: "manager/line.go",
		old:  "if t.parked && gone == nil",
		new:  "if gone == nil",
		pkg:  "./manager", tests: "TestRetryTogetherWithTheLookAtTheOwnNode",
	},
	{
		fault: "F27", what: "news that come during a look are lost",
		file: "manager/trip.go",
		old: `			if t.run.CompareAndSwap(running, again) {
				return
			}
`,
		new: `			return
`,
		pkg: "./manager", tests: "TestF027_WakeAtEachStep",
	},
	{
		fault: "F28", what: "who waits does not watch his own node",
		file: "manager/line.go",
		old:  "if p.n == 1 && !t.ownWatched && t.ownLook",
		new:  "if p.n != 1 && !t.ownWatched && t.ownLook",
		pkg:  "./manager", tests: "TestF028_WaiterIsDeleted",
	},
	{
		fault: "F28", what: "who waits behind several others never looks at his own node",
		file: "manager/line.go",
		old:  "if t.ownDue.Swap(false) && !t.ownWatched {",
		new:  "if t.ownDue.Swap(false) && !t.ownWatched && t.sure != 0 {",
		pkg:  "./manager", tests: "TestF028_WaiterFurtherBackIsDeleted",
	},
	{
		fault: "F28", what: "who is next enters without a look, however long ago his node was seen",
		file: "manager/line.go",
		old:  "return t.ownWatched || m.now()-t.seenAt < int64(m.firstLook())",
		new:  "return m.now() > 0",
		pkg:  "./manager", tests: "TestHandOverIsTooLongAgo TestF028_WaiterIsDeleted",
	},
	{
		fault: "F28", what: "the next round's node is taken for granted when it was left and queued again long ago",
		file: "manager/line.go",
		old:  "	case t.first:\n		t.first, t.from = false, nil\n		if t.seen() {",
		new:  "	case t.first:\n		t.first, t.from = false, nil\n		if true {",
		pkg:  "./manager", tests: "TestHandOverIsTooLongAgo",
	},
	{
		fault: "F28", what: "news of the next round's node are overlooked when its process was alone in the queue",
		file: "manager/line.go",
		old:  "t.sure, t.first, t.from = 0, false, nil //",
		new:  "t.sure, t.from = 0, nil //",
		pkg:  "./manager", tests: "TestNewsOfTheNextNodeDuringTheHandOver",
	},
	{
		fault: "F29", what: "who waits is not told that his session is over",
		file: "manager/manager.go",
		old: `		} else {
			t.wake()
		}`,
		new: "\t\t}",
		pkg: "./manager", tests: "TestF029_ExpiryUnheard",
	},
	{
		fault: "F30", what: "first in line is enough for a grant, whatever the lease",
		file: "manager/trip.go",
		old: `	if lease.Remaining() < l.m.leaseToBegin(s) {
		// First in line`,
		new: `	if false {
		// First in line`,
		pkg: "./manager", tests: "TestF030_SuspendedBeforeTheGrant",
	},
	{
		fault: "F30", what: "no look at the lease after the grant",
		file: "manager/trip.go",
		old: `		if !lease.InForce() {
			//holdfast`,
		new: `		if false {
			//holdfast`,
		pkg: "./manager", tests: "TestF030_SuspendedAtTheGrant",
	},
	{
		fault: "F31", what: "the last one who gives up leaves the node there",
		file: "manager/round.go",
		old: `			t.unplace()
			t.wake()
`,
		new: `			t.unplace()
`,
		pkg: "./manager", tests: "TestF031_CancelAtEachStep",
	},
	{
		fault: "F31", what: "a round that everybody has left is granted",
		file: "state/word.go",
		old: `	case w == fetching0:
		return releasing0, Abandoned
`,
		new: "",
		pkg: "./state", tests: "TestTransitions TestReferenceModel",
	},
	{
		fault: "F32", what: "a hold is withdrawn after its grant was seen",
		file: "manager/slot.go",
		old:  "return w.Alive(g) && (!w.InDoubt() || h.word.Confirm(g) != state.Dead)",
		new:  "return w.Alive(g)",
		pkg:  "./manager", tests: "TestF032_WithdrawalLeavesAGrantedHold",
	},
	{
		fault: "F32", what: "a withdrawal does not look again after its doubt",
		file: "manager/hold.go",
		old: `			if pending() {
				return true
			}
`,
		new: `			if pending() || true {
				return true
			}
`,
		pkg: "./manager", tests: "TestF032_WithdrawalLeavesAGrantedHold",
	},
	{
		fault: "F33", what: "a lost create is forgotten when nobody waits any more",
		file: "zkio/node.go",
		old:  `n.path == "" && !n.maybe || n.session.Gone()`,
		new:  `n.path == "" || n.session.Gone()`,
		pkg:  "./zkio", tests: "TestDeleteAfterUnknownCreate",
	},
	{
		fault: "F34", what: "TryLock stays in the queue",
		file: "manager/lock.go",
		old: `			err := t.error(op, ErrLocked)
			h.giveUp()
`,
		new: `			err := t.error(op, ErrLocked)
`,
		pkg: "./manager", tests: "TestF034_TryLockLeavesNoNode",
	},
	{
		fault: "F34", what: "who asks for the place when it is noted already is not told",
		file: "manager/place.go",
		old: `	if t.place.Load() != nil {
		p.Settle(struct{}{}, nil)
`,
		new: `	if false {
		p.Settle(struct{}{}, nil)
`,
		pkg: "./manager", tests: "TestWhoAsksForThePlaceIsTold",
	},
	{
		fault: "F35", what: "watches on those who were ahead are never taken back",
		file: "manager/line.go",
		old: `		t.round.lock.m.client.Unwatch(t.ahead, (*aheadWatch)(t))
`,
		new: "",
		pkg: "./manager", tests: "TestF035_LongWait TestCancelledWaitsLeaveNothing",
	},
	{
		fault: "F36", what: "a reader waits for readers",
		file: "manager/line.go",
		old:  "\t\tif !excludes(c.kind, kind) || compareTurns(c, own) >= 0 {",
		new:  "\t\tif compareTurns(c, own) >= 0 {",
		pkg:  "./manager", tests: "TestF036_ReaderWaitsForTheNearestWriterOnly",
	},
	{
		fault: "F37", what: "readers go before writers",
		file: "manager/contender.go",
		old:  "if late(a)+late(b) == 0 && a.seq != b.seq {",
		new: `if c := cmp.Compare(order(b.kind), order(a.kind)); c != 0 {
		return c
	}
	if late(a)+late(b) == 0 && a.seq != b.seq {`,
		pkg: "./manager", tests: "TestF037_WriterAmongReaders",
	},
	{
		fault: "F38", what: "the tenure is ignored",
		file: "manager/tenure.go",
		old: `		t.round.flags.Set(state.GateClosed)
		return true
`,
		new: `		return true
`,
		pkg: "./manager", tests: "TestF038_Tenure",
	},
	{
		fault: "F38", what: "one look is enough to close the gate",
		file: "manager/tenure.go",
		old:  "if waited >= l.m.cfg.Tenure {",
		new:  "if true {",
		pkg:  "./manager", tests: "TestGateStaysOpen",
	},
	{
		fault: "F38", what: "all processes of ours are taken for this one",
		file: "manager/manager.go",
		old:  "return ok && strings.HasPrefix(rest, m.id)",
		new:  `return ok && rest != ""`,
		pkg:  "./manager", tests: "TestF038_Tenure",
	},
	{
		fault: "F38", what: "who leaves and queues again has the lock at once, whoever waits",
		file: "manager/trip.go",
		old:  "next.first, next.from = l.m.now(), children == 1, t.last",
		new:  "next.first, next.from = l.m.now(), children >= 1, t.last",
		pkg:  "./manager", tests: "TestHandOverGoesToTheEndOfTheQueue",
	},
	{
		fault: "F38", what: "who leaves and queues again overlooks those who came meanwhile",
		file: "manager/line.go",
		old:  "switch since := own.seq - l.seq - 1; {",
		new:  "switch since := int64(0); {",
		pkg:  "./manager", tests: "TestHandOverBehindTheLastOneSeen",
	},
	{
		fault: "F38", what: "a writer that is in the queue when its turn comes does not tell the readers of its process",
		file: "manager/trip.go",
		old:  "	if l.rw != nil {\n		// Also",
		new:  "	if l.rw != nil && t.node.Session() == nil {\n		// Also",
		pkg:  "./manager", tests: "TestReadersBesideAHandOver",
	},
	{
		fault: "F38", what: "the gate of a round that nobody has started yet turns people away",
		file: "state/word.go",
		old: `	case Free:
		return fetching0 + one, Started
`,
		new: `	case Free:
		if gateClosed {
			return w, Next
		}
		return fetching0 + one, Started
`,
		pkg: "./state", tests: "TestTransitions TestReferenceModel",
	},
	{
		fault: "F39", what: "everybody waits for the first in the queue",
		file: "manager/line.go",
		old:  "p.n == 1 || compareTurns(c, nearest) > 0:",
		new:  "p.n == 1 || compareTurns(c, nearest) < 0:",
		pkg:  "./manager", tests: "TestHandOverCostsNoHerd",
	},
	{
		fault: "F40", what: "a connection that is lost is taken for a lost lock",
		file: "zkio/session.go",
		old: `		s.downSince = now
`,
		new: `		s.downSince = now
		s.trust.end()
`,
		pkg: "./manager", tests: "TestF040_ConnectionLostWhileHeld",
	},
	{
		fault: "F41", what: "a lease lasts T after the proof",
		file: "zkio/trust.go",
		old:  "s+t.timeout/2",
		new:  "s+t.timeout",
		pkg:  "./zkio", tests: "TestLeaseRule TestF041_SilentPartition",
	},
	{
		fault: "F41", what: "what the leader had heard before the proof plays no part",
		file: "zkio/trust.go",
		old: `	end := min(s+t.timeout/2, p+t.timeout*11/12) - t.margin
`,
		new: `	_ = p
	end := s + t.timeout/2 - t.margin
`,
		pkg: "./zkio", tests: "TestLeaseRule",
	},
	{
		fault: "F41", what: "LostMargin is ignored: the lease",
		file: "zkio/trust.go",
		old:  "*11/12) - t.margin",
		new:  "*11/12)",
		pkg:  "./manager", tests: "TestLostMargin",
	},
	{
		fault: "F41", what: "LostMargin is ignored: the node goes at once",
		file: "manager/manager.go",
		old: `	return m.now() + int64(m.cfg.LostMargin)
`,
		new: `	return 0
`,
		pkg: "./manager", tests: "TestLostMargin",
	},
	{
		fault: "F41", what: "nobody is told of a lease's end",
		file: "zkio/trust.go",
		old: `			due = timer.C
`,
		new: "",
		pkg: "./manager", tests: "TestF041_SilentPartition",
	},
	{
		fault: "F41", what: "a session that the server has ended is tried again and again",
		file: "zkio/handshake.go",
		old: `		w.s.end(errSessionExpired, true)
`,
		new: "",
		pkg: "./zkio", tests: "TestF041_ExpiryWhileDisconnected",
	},
	{
		fault: "F42", what: "a ping is taken as proof",
		file: "zkio/reply.go",
		old: `	switch op {
`,
		new: `	switch op {
	case jute.OpPing:
		proof = true
`,
		pkg: "./manager", tests: "TestF042_PingsAndReadsProveNothing",
	},
	{
		fault: "F42", what: "a read is taken as proof",
		file: "zkio/reply.go",
		old: `		r.Buffer()
		checkStat(r)
`,
		new: `		proof = true
		r.Buffer()
		checkStat(r)
`,
		pkg: "./manager", tests: "TestF042_PingsAndReadsProveNothing",
	},
	{
		fault: "F43", what: "sync is taken as proof",
		file: "zkio/reply.go",
		old: `		err = checkText(r)
	case jute.OpMulti:`,
		new: `		proof, err = true, checkText(r)
	case jute.OpMulti:`,
		pkg: "./manager", tests: "TestF043_SyncProvesNothing",
	},
	{
		fault: "F43", what: "a transaction that was refused is taken as proof",
		file: "zkio/reply.go",
		old:  "proof = kind != jute.OpError",
		new:  "proof = true",
		pkg:  "./zkio", tests: "TestWireProofs",
	},
	{
		fault: "F44", what: "a hold does not look at the clock",
		file: "manager/hold.go",
		old:  "\t\tif !t.lease.InForce() {",
		new:  "\t\tif t.lease.Lapsed() {",
		pkg:  "./manager", tests: "TestWhoReadsTheClock",
	},
	{
		fault: "F45", what: "the time of a suspension is not counted",
		file: "zkio/clock.go",
		old:  "return elapsed + c.asleep(slept)",
		new:  "return elapsed",
		pkg:  "./zkio", tests: "TestClockCountsSuspensions TestF045_LeaseCountsSuspensions",
	},
	{
		fault: "F47", what: "clocks are believed to be equally fast",
		file: "zkio/trust.go",
		old:  "p+t.timeout*11/12",
		new:  "p+t.timeout",
		pkg:  "./zkio", tests: "TestF047_LeaseUnderDrift",
	},
	{
		fault: "F48", what: "a holder does not look at a node that nobody watches",
		file: "manager/trip.go",
		old:  "if look && !t.ownWatched || t.ownTouched.Swap(false) {",
		new:  "if t.ownTouched.Swap(false) {",
		pkg:  "./manager", tests: "TestF048_NodeDeletedBySomebody",
	},
	{
		fault: "F50", what: "another session in the place of ours is taken for it",
		file: "zkio/handshake.go",
		old:  "case old != 0 && id != old:",
		new:  "case false:",
		pkg:  "./zkio", tests: "TestAnotherSessionInstead",
	},
	{
		fault: "F50", what: "a lease that is over revives",
		file: "zkio/trust.go",
		old: `		t.current.Store(newLease(t, int64(end)))
`,
		new: `		l.until.Store(int64(end))
`,
		pkg: "./zkio", tests: "TestLapsedLeaseStaysLapsed TestLeaseLife",
	},
	{
		fault: "F50", what: "a lost hold in a context is reentered",
		file: "manager/hold.go",
		old:  "s.alive(e.gen) && e.round.word.Load().Phase() <= state.Retained {",
		new:  "s.alive(e.gen) {",
		pkg:  "./manager", tests: "TestF050_LostHoldIsNotReentered",
	},
	{
		fault: "F51", what: "a handshake takes as long as it takes",
		file: "zkio/session.go",
		old: `		err = conn.SetDeadline(deadline) // until the handshake's end
`,
		new: `		_ = deadline
`,
		pkg: "./zkio", tests: "TestF051_HungServerInTheList TestWireHandshakeDeadline",
	},
	{
		fault: "F51", what: "each server gets a third of T to answer",
		file: "zkio/hosts.go",
		old:  "timeout/time.Duration(3*n)",
		new:  "timeout/3",
		pkg:  "./zkio", tests: "TestHostsAttempt",
	},
	{
		fault: "F53", what: "a hold begins with whatever is left of a lease",
		file: "manager/trip.go",
		old:  "return min(timeout/4+timeout/48, (timeout/2-m.cfg.LostMargin)*3/4)",
		new:  "return min(1, timeout)",
		pkg:  "./manager", tests: "TestF053_LockSoonAfterAnOutage",
	},
	{
		fault: "F53", what: "soon after an outage no write comes sooner than usual",
		file: "zkio/trust.go",
		old:  "due = min(due, young+t.timeout/4)",
		new:  "due = min(due, young+t.timeout)",
		pkg:  "./manager", tests: "TestF053_LockSoonAfterAnOutage",
	},
	{
		fault: "F54", what: "the token counts this process's grants",
		file: "manager/trip.go",
		old:  "token := uint64(t.node.Czxid())",
		new:  "token := l.grants.Load() + 1",
		pkg:  "./manager", tests: "TestF054_TokensRise",
	},
	{
		fault: "F55", what: "a guarded write checks the directory instead of the node",
		file: "manager/guard.go",
		old:  "zkio.CheckOp(t.grant.Path, -1)",
		new:  "zkio.CheckOp(t.round.lock.path, -1)",
		pkg:  "./manager", tests: "TestF055_GuardOfAStaleHolder",
	},
	{
		fault: "F56", what: "a downgraded read has a token of its own",
		file: "manager/trip.go",
		old: `		token = t.besides.writer.Token
`,
		new: `		_ = token
`,
		pkg: "./manager", tests: "TestF056_ReadWriteTokens",
	},
	{
		fault: "F57", what: "a function that is to be told of something runs on the goroutine that tells",
		file: "futures/future.go",
		old:  "{ go run(fn, v, err) }}",
		new:  "{ run(fn, v, err) }}",
		pkg:  "./manager", tests: "TestF057_BlockedListeners",
	},
	{
		fault: "F58", what: "a panic in a callback is not recovered",
		file: "futures/future.go",
		old:  "if p := recover(); p != nil {",
		new:  "if p := any(nil); p != nil {",
		pkg:  "./futures", tests: "TestF058_OnDonePanic",
	},
	{
		fault: "F59", what: "the queue of news has a bound",
		file: "zkio/dispatcher.go",
		old: `	if !d.closed {
`,
		new: `	if !d.closed && d.queue.len() < 100 {
`,
		pkg: "./zkio", tests: "TestF059_EventStorm",
	},
	{
		fault: "F60", what: "the count overflows into the phase",
		file: "state/word.go",
		old: `	case w.Holders() == MaxHolders:
		return w, Full // one more would carry into the phase
`,
		new: "",
		pkg: "./state", tests: "TestF060_CountStopsAtItsBound",
	},
	{
		fault: "F60", what: "the fast path counts one too many",
		file: "state/word.go",
		old:  "if gateClosed || w-retained0 >= MaxHolders {",
		new:  "if gateClosed || w-retained0 > MaxHolders {",
		pkg:  "./state", tests: "TestF060_CountStopsAtItsBound",
	},
	{
		fault: "F61", what: "the mask is off by one bit",
		file: "state/word.go",
		old: `holderMask = 1<<holderBits - 1
`,
		new: `holderMask = 1<<(holderBits-1) - 1
`,
		pkg: "./state", tests: "TestF061_Layout",
	},
	{
		fault: "F62", what: "a handle can be released twice",
		file: "state/handles.go",
		old:  "return h.Generation() == generation && !h.FirstReleased()",
		new:  "return h.Generation() == generation",
		pkg:  "./state", tests: "TestHandlesTransitions TestHandlesModel",
	},
	{
		fault: "F62", what: "a leave of nobody is counted",
		file: "state/word.go",
		old: `		panic("state: leave of a lock with no holders (" + w.String() + ")")
`,
		new: `		return w - one, Left
`,
		pkg: "./state", tests: "TestF062_CountDoesNotUnderflow",
	},
	{
		fault: "F63", what: "a nested handle gives up its holder's count",
		file: "manager/slot.go",
		old: `	// The handle was alive until our CAS, so what owner read was true.
	if first != nil {
		return first.unpin()
	}
`,
		new: `	_ = first
`,
		pkg: "./manager", tests: "TestF063_HandleFreesItsOwnHoldOnly TestReenterAnyOrder",
	},
	{
		fault: "F64", what: "the release of a lost lock says that all is well",
		file: "manager/trip.go",
		old: `	err := why.err
	if t.node != nil {
`,
		new: `	var err error
	if t.node != nil {
`,
		pkg: "./manager", tests: "TestF064_ReleaseAfterLoss",
	},
	{
		fault: "F65", what: "the generation of a slot stays what it is",
		file: "state/handles.go",
		old:  "Handles(h.Generation()+1)",
		new:  "Handles(h.Generation())",
		pkg:  "./manager", tests: "TestF065_OldHoldAfterItsSlotIsReused",
	},
	{
		fault: "F67", what: "a future can be settled twice",
		file: "futures/future.go",
		old: `	if f.settled() {
		return nil, false
	}
`,
		new: "",
		pkg: "./futures", tests: "TestF067_SettleBehindAnother TestSettle",
	},
	{
		fault: "F68", what: "who ends a round by force leaves its grant pending",
		file: "manager/round.go",
		old: `	t.granted.Settle(Grant{}, err)
`,
		new: "",
		pkg: "./manager", tests: "TestF068_FailSettlesEverything",
	},
	{
		fault: "F68", what: "the last one who leaves does not tell of the grant",
		file: "manager/round.go",
		old: `		t.settleGrant() // who ends a round settles what is pending in it
`,
		new: "",
		pkg: "./manager", tests: "TestF068_EndedBeforeTheGrantIsTold",
	},
	{
		fault: "F69", what: "somebody is admitted while the lock is being released",
		file: "state/word.go",
		old: `	default: // Releasing, Released
		return w, Next
`,
		new: `	default: // Releasing, Released
		return retained0 + one, Entered
`,
		pkg: "./state", tests: "TestTransitions TestReferenceModel",
	},
	{
		fault: "F69", what: "the next round queues before this one is released",
		file: "manager/round.go",
		old: `	n := &round{lock: r.lock}
`,
		new: `	n := &round{lock: r.lock}
	n.flags.Set(state.PrevReleased)
`,
		pkg: "./manager", tests: "TestF069_ArrivalsWhileReleasing TestChain",
	},
	{
		fault: "F69", what: "everybody leaves a round whose turn has not come, and it is cancelled at once",
		file: "manager/round.go",
		old:  "return f.Has(state.PrevReleased|state.Wanted) ||",
		new:  "return f.Has(state.Wanted) ||",
		pkg:  "./manager", tests: "TestAbandonedBeforeItsTurn TestChain TestWakeBeforeItsTurn",
	},
	{
		fault: "F69", what: "who wakes a round whose turn has not come takes its own wake from it",
		file: "manager/trip.go",
		old: `	if !t.round.due() {
		return
	}
`,
		new: "",
		pkg: "./manager", tests: "TestWakeBeforeItsTurn",
	},
	{
		fault: "F70", what: "who came between two rounds is not fetched for",
		file: "manager/round.go",
		old:  "if old.Has(state.Over) || old.Has(state.Wanted) {",
		new:  "if old.Has(state.Over) {",
		pkg:  "./manager", tests: "TestF069_ArrivalsWhileReleasing TestChain",
	},
	{
		fault: "F71", what: "everybody who comes makes a trip of his own",
		file: "state/word.go",
		old: `		if gateClosed {
			return w, Next
`,
		new: `		if gateClosed || w.Phase() == Fetching {
			return w, Next
`,
		pkg: "./manager", tests: "TestF071_OneTripPerRound",
	},
	{
		fault: "F72", what: "a round that fails ends only when all have left it",
		file: "state/word.go",
		old: `	case Fetching, Retained:
		return releasing0, Ended
`,
		new: `	case Fetching, Retained:
		if w.Holders() > 1 {
			return w - one, Left
		}
		return releasing0, Ended
`,
		pkg: "./state", tests: "TestTransitions TestReferenceModel",
	},
	{
		fault: "F73", what: "attempts that fail are repeated as fast as can be",
		file: "manager/trip.go",
		old: `	d := min(firstRetry<<min(t.attempts, 10), lastRetry)
`,
		new: `	d := firstRetry
`,
		pkg: "./manager", tests: "TestF073_RetriesAreFarApart",
	},
	{
		fault: "F73", what: "no pause between connections that fail",
		file: "zkio/hosts.go",
		old: `	return d/2 + rand.N(d/2)
`,
		new: `	return rand.N(d) / 1000
`,
		pkg: "./zkio", tests: "TestHostsPauses TestF073_LongOutage",
	},
	{
		fault: "F74", what: "a lost race is given up",
		file: "state/atomic.go",
		old: `		if next == old || a.v.CompareAndSwap(uint32(old), uint32(next)) {
`,
		new: `		if a.v.CompareAndSwap(uint32(old), uint32(next)) || true {
`,
		pkg: "./state", tests: "TestF074_ApplyLosesRaces",
	},
	{
		fault: "F75", what: "a holder's handles have no bound",
		file: "state/handles.go",
		old: `	case h.Depth() == MaxDepth:
		return h, Full
`,
		new: "",
		pkg: "./state", tests: "TestHandlesTransitions",
	},
	{
		fault: "F76", what: "the registry keeps every name that there ever was",
		file: "manager/manager.go",
		old: `			delete(m.locks, path)
`,
		new: `			_ = path
`,
		pkg: "./manager", tests: "TestF076_ForgottenLocksAreCollected",
	},
	{
		fault: "F77", what: "who reads may ask to write, and waits for himself",
		file: "manager/lock.go",
		old:  "if _, ok := l.rw.reader.heldIn(ctx); ok {",
		new:  "if false {",
		pkg:  "./manager", tests: "TestF077_ErrUpgrade",
	},
	{
		fault: "F78", what: "a downgrade queues with a number of its own",
		file: "manager/trip.go",
		old:  "if w, ok := l.rw.held(); ok && (t.besides == nil || w.Path != t.besides.gone) {",
		new:  "if w, ok := l.rw.held(); ok && t.besides != nil && w.Path == t.besides.gone {",
		pkg:  "./manager", tests: "TestF078_DowngradeMeetsRelease",
	},
	{
		fault: "F78", what: "readers leave and queue again while their process has the write lock",
		file: "manager/trip.go",
		old: `		if _, writing := l.rw.held(); writing {
			return nil`,
		new: `		if _, writing := l.rw.held(); writing && false {
			return nil`,
		pkg: "./manager", tests: "TestReadersHandOverBesideAWriter",
	},
	{
		fault: "F78", what: "a downgrade does not ask whether the write lock is still there",
		file: "zkio/node.go",
		old:  "CheckOp(beside, -1), Op{",
		new:  "Op{",
		pkg:  "./zkio", tests: "TestCreateBeside",
	},
	{
		fault: "F78", what: "no list when a writer has gone, whose place a read may have taken",
		file: "manager/line.go",
		old:  "case q.exhausted || replaced(nearest, kind):",
		new:  "case q.exhausted:",
		pkg:  "./manager", tests: "TestWriterBehindAWriterListsAgain",
	},
	{
		fault: "F78", what: "the same, and the writer was not the nearest one",
		file: "manager/line.go",
		old:  "case p.n == 2 && !replaced(second, kind):",
		new:  "case p.n == 2:",
		pkg:  "./manager", tests: "TestProspect",
	},
	{
		fault: "F80", what: "a panic leaves the lock held",
		file: "manager/lock.go",
		old: `			h.Release() // and let the panic go on
`,
		new: "",
		pkg: "./manager", tests: "TestF080_DoThatDoesNotReturn",
	},
	{
		fault: "F80", what: "a Hold that was dropped is not reported",
		file: "manager/slot.go",
		old: `	runtime.AddCleanup(s, reportDropped, h)
`,
		new: `	_ = runtime.AddCleanup[slot, *handle]
`,
		pkg: "./manager", tests: "TestF080_DroppedHoldIsLogged",
	},
	{
		fault: "F81", what: "a deletion whose answer was lost is taken for somebody else's",
		file: "zkio/node.go",
		old: `		n.tried = true
`,
		new: "",
		pkg: "./manager", tests: "TestF081_LostDelete",
	},
	{
		fault: "F81", what: "the node is taken for somebody else's deletion when the answer was lost to leaving and queuing again",
		file: "zkio/node.go",
		old: `			old.tried = true
`,
		new: "",
		pkg: "./zkio", tests: "TestF081_LostEnterFor",
	},
	{
		fault: "F81", what: "the next round's node is forgotten when the answer was lost to leaving and queuing again",
		file: "manager/trip.go",
		old: `	case class == zkio.NotSent || class == zkio.Definite:
		//holdfast:reached hand`,
		new: `	case class >= zkio.Unknown:
		//holdfast:reached hand`,
		pkg: "./manager", tests: "TestF081_LostHandOver",
	},
	{
		fault: "F82", what: "the process queues again, but does not leave",
		file: "zkio/node.go",
		old:  "DeleteOp(old.path, -1), n.creation(), ",
		new:  "CheckOp(old.path, -1), n.creation(), ",
		pkg:  "./zkio", tests: "TestEnterFor",
	},
	{
		fault: "F82", what: "RELEASED before the deletion is confirmed",
		file: "manager/trip.go",
		old: `			if t.retryLater() {
				return
			}
			if err == nil {
				err = t.error("release", derr)`,
		new: `			if err == nil {
				err = t.error("release", derr)`,
		pkg: "./manager", tests: "TestF082_DeletionImpossible",
	},
	{
		fault: "F83", what: "Shutdown waits for a round that waits for one whose node stays",
		file: "manager/manager.go",
		old: `		if t.round.due() {
			return t
		}
`,
		new: `		return t
`,
		pkg: "./manager", tests: "TestF083_HandOverWithoutPermission",
	},
	{
		fault: "F83", what: "a release that is not permitted is pending for ever",
		file: "manager/trip.go",
		old: `				t.released.Settle(struct{}{}, t.error("release", errors.Join(why.err, derr)))
`,
		new: "",
		pkg: "./manager", tests: "TestF083_ReleaseWithoutPermission",
	},
	{
		fault: "F84", what: "all managers' nodes have the same names",
		file: "manager/manager.go",
		old: `	m.id = hex.EncodeToString(id[:])
`,
		new: `	m.id = hex.EncodeToString(make([]byte, len(id)))
`,
		pkg: "./manager", tests: "TestF084_NumbersBeginAgain TestF019_TwoManagersOfOneProcess TestF038_Tenure",
	},
	{
		fault: "F85", what: "Close does not end the rounds",
		file: "manager/manager.go",
		old: `	m.failAll()
`,
		new: "",
		pkg: "./manager", tests: "TestF085_CloseInEveryPhase",
	},
	{
		fault: "F86", what: "a second Close closes again",
		file: "manager/manager.go",
		old: `	if !m.closeBegun.CompareAndSwap(false, true) {
`,
		new: `	if m.closeBegun.Swap(true) && false {
`,
		pkg: "./manager", tests: "TestF086_AfterClose",
	},
}
