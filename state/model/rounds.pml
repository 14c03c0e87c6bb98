/* SPDX-License-Identifier: Apache-2.0
 *
 * The rounds of one lock in two processes, and an abstract ZooKeeper.
 *
 * README.md says what this model is of and how to read a counter-example.
 * Processes and inlines name the Go functions that they stand for, as
 * "Go: file: function"; a test looks whether these are there.
 *
 * What may happen (each is off unless given; numbers are how often):
 *
 *   -DFULL1       process 1 has one goroutine and an actor of its own; without
 *                 it process 1 is a contender that does everything right
 *   -DTWO1        process 1 has two goroutines (implies FULL1)
 *   -DWORKERS=2   process 0 has two workers of the pool instead of one
 *   -DFINE        wakes, settling and notes are steps of their own
 *   -DCANCEL=1    holders of process 0 withdraw while they wait; 2: of process 1; 3: of both
 *   -DGATE        the gate of a round that process 0 holds closes
 *   -DGATEANY     the gate of any round does
 *   -DREOPEN      a gate that closed for a contender opens when that one gives up (with GATE)
 *   -DPROBE=1     the plain contender gives up and comes back, again and again;
 *                 2: another one does, beside the one that stays
 *   -DLONG        a goroutine of process 0 may hold the lock for ever
 *   -DLOST=1      a reply of the server gets lost, or a request does
 *   -DREFUSE=1    a create is refused for good: the round fails
 *   -DEXPIRE=p    the lease of process p lapses once; its session may end then
 *   -DSHUT=1      process 0 is shut down; 2: it is closed
 *   -DSTAY        goroutines never stop wanting the lock (for liveness)
 *   -DLIVE=i      the property: goroutine i, once it is counted, gets an answer
 *
 * Wrong variants, each of which must fail: see sets.go beside this file for
 * the list, and V_ below for what each does.
 */

/* ---- configuration ---- */
#ifdef TWO1
#define FULL1
#endif
#ifndef WORKERS
#define WORKERS 1
#endif
#ifndef LOST
#define LOST 0
#endif
#ifndef REFUSE
#define REFUSE 0
#endif
#ifndef SHUT
#define SHUT 0
#endif
#ifndef PROBE
#define PROBE 0
#endif
#ifndef K
#define K 5                       /* rounds of a process that exist at a time */
#endif

/* With FINE every access to something shared is a step of its own. Without it
 * steps of one goroutine are joined where no other can tell the difference, or
 * where FINE has shown that nothing hangs on it. */
#ifdef FINE
#define STEP }; atomic {
#define JOIN {
#else
#define STEP
#define JOIN atomic {
#endif

/* ---- Go: state/phase.go: Phase ---- */
#define FREE      0
#define FETCHING  1
#define RETAINED  2
#define RELEASING 3
#define RELEASED  4

/* ---- Go: state/flags.go: Flags ---- */
#define PREV   1
#define WANTED 2
#define OVER   4
#define CLOSED 8

/* ---- Go: manager/internal/errand/runner.go: idle, queuedFetch, queuedEnd, running, again ---- */
#define IDLE 0
#define QF   1
#define QE   2
#define RUN  3
#define AGN  4

/* next: nothing, the sentinel, or a round + 1 */
#define NIL    0
#define PASSED 255
#define NONE   255                /* no round: see at */

/* futures */
#define PENDING 0
#define GRANTED 1
#define FAILED  2

/* A round and its I/O. Go: manager/round.go: round; manager/roundio.go: roundIO */
typedef Round {
  byte ph; byte c;                /* word */
  byte next;
  byte fl;                        /* flags */
  byte fut;                       /* granted (and lost, which fails with it) */
  byte st;
  byte node;                      /* 0 none; 1 there; 2 a create had no answer */
  bool used;                      /* the slot is a round at all */
  bool ending;                    /* why it ended is noted */
  bool act;                       /* Go: manager/activeset.go: activeSet.add */
  bool wat;                       /* the server has a watch on who is ahead */
  bool ev;                        /* its event is on its way */
  bool retry; bool retryEnd;      /* delayed wakes */
  bool ses;                       /* the session that node is of */
  bool lease;                     /* the lease that it was granted under */
  bool shy;                       /* V_GRANT0 only */
  byte ex;                        /* what a step that lets the next round in has counted ahead */
};
Round r[2*K];                      /* process p has r[p*K] to r[p*K+K-1] */

byte cur[2];                      /* Go: manager/lock.go: Lock */
bool fq[2];                       /* Lock.fetchQueued */
byte fe[2];                       /* entries in the pool's queue of fetches */
chan rq[2] = [6] of { byte };     /* the pool's queue of releases: rounds */
byte stage[2];                    /* 0 open, 1 shutting down, 2 closing */

/* ---- sessions and leases ---- */
bool ses[2];                      /* the present session, as the client knows */
bool gone[2];                     /* session 0 is over at the server */
bool lno[2];                      /* the session's present lease … */
bool down[2];                     /* … is over */
#define DEAD(p,s)   (gone[p] && (s) == 0)
#ifdef V_REVIVE                   /* a proof makes the old lease good again */
#define INFORCE(p,x) (!down[p])
#else
#define INFORCE(p,x) (r[x].lease == lno[p] && !down[p])
#endif

/* ---- the server: the queue of one directory, front first ---- */
#define NODE(x,s) ((x)+1+(s)*32)
#define FOREIGN 31
#define PROBER  30
chan q = [6] of { byte };
byte owed;                        /* the contender that a gate of process 0 is closed for; 0: none */
byte lostLeft = LOST; byte refuseLeft = REFUSE;

/* ---- who refers to which round, for the garbage collector ---- */
#define NAT 13
byte at[NAT];                     /* 0-3 goroutines, 4-9 workers (two each), 10 tenure, 11 dispatcher, 12 the end */
#define at2 at[12]
bool inside[4]; bool counted[4];
bool waiting[4];
byte stopped;
hidden byte hi, hj, hk, hb;

#define LIVEHOLD(i,p) (inside[i] && r[at[i]].ph == RETAINED && INFORCE(p,at[i]))
#ifdef FULL1
#define HOLDS1 (LIVEHOLD(2,1) || LIVEHOLD(3,1))
#else
#define HOLDS1 (inside[2])
#endif
#define HOLDS0 (LIVEHOLD(0,0) || LIVEHOLD(1,0))
#define EXCLUSIVE assert(!(HOLDS0 && HOLDS1))
#define FIRST(x) (q?[eval(NODE(x,r[x].ses))])
#define INQ(x)   (q??[eval(NODE(x,r[x].ses))])

#define P(x) ((x)/K)
#define MEMBERS(x) (r[x].ex + (counted[0] && at[0] == x) + (counted[1] && at[1] == x) + (counted[2] && at[2] == x) + (counted[3] && at[3] == x))

/* An unreachable round is garbage. In Go an old Hold keeps its round
 * alive; here at[] does. The rounds of a process stand in the order of their age
 * without gaps: when one goes the younger ones move down, and all that refers
 * to them with them. So states that differ in nothing but in where a round is
 * kept are the same state. */
inline move(to, from) {
  r[to].ph = r[from].ph; r[to].c = r[from].c; r[to].next = r[from].next;
  r[to].fl = r[from].fl; r[to].fut = r[from].fut; r[to].st = r[from].st;
  r[to].node = r[from].node; r[to].used = r[from].used;
  r[to].ending = r[from].ending; r[to].act = r[from].act; r[to].wat = r[from].wat;
  r[to].ev = r[from].ev; r[to].retry = r[from].retry; r[to].retryEnd = r[from].retryEnd;
  r[to].ses = r[from].ses; r[to].lease = r[from].lease; r[to].shy = r[from].shy;
  r[to].ex = r[from].ex
}
inline clear(x) {
  r[x].ph = 0; r[x].c = 0; r[x].next = 0; r[x].fl = 0; r[x].fut = 0; r[x].st = 0;
  r[x].node = 0; r[x].used = 0; r[x].ending = 0; r[x].act = 0; r[x].wat = 0;
  r[x].ev = 0; r[x].retry = 0; r[x].retryEnd = 0; r[x].ses = 0; r[x].lease = 0; r[x].shy = 0; r[x].ex = 0
}
inline collect(p) {
  d_step {
    hi = p*K;
    do
    :: hi < p*K+K && r[hi].used ->
#ifndef FINE
       if                         /* roundIO.Step would do nothing for a late entry, or a late wake */
       :: r[hi].ph == RELEASED && cur[p] != hi ->
          r[hi].ev = 0; r[hi].retry = 0; r[hi].retryEnd = 0; r[hi].fl = 0; r[hi].lease = 0; r[hi].ses = 0;
          do :: rq[p]??[eval(hi)] -> rq[p]??eval(hi) :: else -> break od
       :: else
       fi;
#endif
       hb = cur[p] != hi && !(rq[p]??[eval(hi)]) && !r[hi].ev && !r[hi].retry && !r[hi].retryEnd;
       hk = 0;
       do
       :: hb && hk < NAT -> if :: at[hk] == hi -> hb = 0 :: else -> hk++ fi
       :: else -> break
       od;
       hk = p*K;
       do
       :: hb && hk < p*K+K -> if :: r[hk].used && r[hk].next == hi+1 -> hb = 0 :: else -> hk++ fi
       :: else -> break
       od;
       if
       :: hb ->
          assert(r[hi].ph == RELEASED);
          hk = hi;
          do
          :: hk < p*K+K-1 -> move(hk, hk+1); hk++
          :: else -> break
          od;
          clear(hk);
          hk = 0;
          do
          :: hk < NAT -> if :: at[hk] > hi && at[hk] < p*K+K -> at[hk]-- :: else fi; hk++
          :: else -> break
          od;
          if :: cur[p] > hi -> cur[p]-- :: else fi;
          hk = p*K;
          do
          :: hk < p*K+K -> if :: r[hk].next > hi+1 && r[hk].next != PASSED -> r[hk].next-- :: else fi; hk++
          :: else -> break
          od;
          hk = len(q);
          do
          :: hk > 0 ->
             q?hj;
             if :: (hj & 31) > hi+1 && (hj & 31) <= p*K+K -> hj-- :: else fi;
             q!hj; hk--
          :: else -> break
          od;
          hk = len(rq[p]);
          do
          :: hk > 0 -> rq[p]?hj; if :: hj > hi -> hj-- :: else fi; rq[p]!hj; hk--
          :: else -> break
          od
       :: else -> hi++
       fi
    :: else -> break
    od;
    hi = 0; hj = 0; hk = 0; hb = 0
  }
}

/* Go: manager/round.go: round.following; makes the round after x, which has none */
inline follow(p, x) {
  d_step {
#if !defined(GATEANY) && SHUT == 0 && !defined(SOFT)
    /* the chain is cur and at most one next, and the one that is to take its place */
    assert(x == cur[p] || r[cur[p]].next == x+1);
#endif
    hi = 0;
    do
    :: r[p*K+hi].used -> hi++; assert(hi < K)
    :: else -> break
    od;
    r[p*K+hi].used = 1; r[x].next = p*K + hi + 1; hi = 0
  }
}

/* The server tells who watches that a node has gone. Those who do not stand
 * right behind it are told too: a wake is never more than "look again". */
inline fire() {
  d_step {
    hi = 0;
    do
    :: hi < 2*K -> if :: r[hi].wat -> r[hi].wat = 0; r[hi].ev = 1 :: else fi; hi++
    :: else -> break
    od; hi = 0
  }
}

/* Go: manager/waiter.go: waiter.unwatchAhead; an event that has not been told yet
 * stays with the plan that is dropped. */
inline unwatch(x) { r[x].wat = 0; r[x].ev = 0 }

/* The server deletes the node of round x. */
inline delete(x) {
  if :: INQ(x) -> q??eval(NODE(x,r[x].ses)); fire() :: else fi
}

#define SETTLE(x,v) r[x].fut = (r[x].fut == PENDING -> v : r[x].fut)
/* Go: manager/round.go: round.urgent */
#define URGENT(x) (r[x].ph >= RELEASING || (r[x].ph == FETCHING && r[x].c == 0))

/* Go: manager/roundio.go: roundIO.Submit; manager/internal/errand/runner.go: Entry.Submit; for a fetch */
inline submitFetch(p) {
  if :: !fq[p] -> fq[p] = 1; fe[p]++ :: else fi
}

/* Go: manager/internal/errand/runner.go: Runner.Wake; manager/roundio.go: roundIO.Submit; if u is 1, and nothing if it is 0.
 * There a wake does nothing as long as the round's turn has not come (Go:
 * manager/round.go: round.due); here nothing wakes it before.
 * Used at the end of an atomic. The look at run and its swap are one step: the
 * swap succeeds only if run is still what it was. To be put into the queue of
 * releases is part of it: until the entry is there it cannot be found, as if the
 * worker were late. */
#define wake(p, x, u) \
  STEP u = (u -> URGENT(x) : 3); \
  STEP enqueue(p, x, u); \
  STEP if :: u == 2 -> u = 0; submitFetch(p) :: else fi

inline enqueue(p, x, u) {
  if
  :: u == 3 -> u = 0
#ifndef FINE
  :: u != 3 && r[x].ph == RELEASED -> u = 0           /* late: roundIO.Step would do nothing */
  :: u != 3 && r[x].ph != RELEASED ->
#else
  :: u != 3 ->
#endif
     if
#ifdef V_NOGUARD                  /* nothing keeps two workers from one round */
     :: rq[p]??[eval(x)] -> u = 0
     :: else -> assert(nfull(rq[p])); rq[p]!x; u = 0
#else
     :: r[x].st == IDLE && u  -> r[x].st = QE; assert(nfull(rq[p])); rq[p]!x; u = 0
     :: r[x].st == IDLE && !u -> r[x].st = QF; u = 2
     :: r[x].st == QF && u    -> r[x].st = QE; assert(nfull(rq[p])); rq[p]!x; u = 0
#ifdef V_NOAGAIN                  /* a worker that runs is taken to have seen it */
     :: r[x].st == RUN -> u = 0
#else
     :: r[x].st == RUN -> r[x].st = AGN; u = 0
#endif
     :: (r[x].st == QF && !u) || r[x].st == QE || r[x].st == AGN -> u = 0
#endif
     fi
  fi
}

/* Go: manager/share.go: share.endBy (share.fail, share.failPending); when is the
 * phase that must be there */
inline endBy(p, x, u, when) {
  atomic {
    if
    :: when -> r[x].ph = RELEASING; r[x].c = 0; r[x].ex = 0; u = 1
    :: else -> u = 0
    fi };
  if
  :: u ->
     atomic {
#ifndef V_NOSETTLE                /* who ends a round does not settle it */
       SETTLE(x, FAILED);
#endif
#ifdef V_WAKEFIRST                /* the wake before the note of why */
       u = (r[x].fl & PREV) != 0; r[x].fl = r[x].fl | OVER;
       wake(p, x, u)
     };
     r[x].ending = 1
#else
       STEP
       r[x].ending = 1;
       STEP
#ifdef V_SHUT                     /* a round whose turn it is not yet is released at once */
       u = 1;
#else
       u = (r[x].fl & PREV) != 0;
#endif
       r[x].fl = r[x].fl | OVER;
       wake(p, x, u)
     }
#endif
  :: else
  fi
}

/* A goroutine that takes the lock and gives it up, again and again. */
#define LEFT x = NONE; u = 0; g = 0; collect(p); goto again
proctype Gor(byte i; byte p) {
  byte u; bool g;
#define x at[i]

again:
  if
#ifndef STAY
  :: goto stop
#endif
  /* Go: manager/lock.go: Lock.acquire, Lock.arrive */
#if SHUT > 0
  :: stage[p] == 0 -> goto start
  :: stage[p] != 0 -> goto stop
#else
  :: goto start
#endif
  fi;
start:
  atomic { x = cur[p] };

  /* Go: manager/round.go: round.arrive; state/word.go: Word.Arrive
   * Atomic.Apply is one step: its swap succeeds only on the word that the
   * transition was computed from. The gate is read before it; in Go between the
   * load and the swap, which is a shorter time. */
loop:
#if defined(GATE) || defined(GATEANY)
  g = (r[x].fl & CLOSED) != 0;
#endif
  atomic {
    if
#ifdef V_FREEGATE                 /* a closed gate is honoured on a FREE round */
    :: r[x].ph == FREE && g -> g = 0; goto next
    :: r[x].ph == FREE && !g ->
#else
    :: r[x].ph == FREE ->
#endif
#ifdef V_WANTFIRST                /* wanted before the CAS: here as one step too many */
       goto wantfirst;
started:
#endif
       assert(r[x].c == 0);
       r[x].ph = FETCHING; r[x].c = 1; counted[i] = 1; waiting[i] = 1; g = 0
    :: (r[x].ph == FETCHING || r[x].ph == RETAINED) && !g ->
       assert(r[x].c == MEMBERS(x));
       r[x].c++;
#ifdef V_LATELOAD                 /* the round is loaded after the CAS */
       g = r[x].ph == RETAINED;
       goto late;
#else
       counted[i] = 1; waiting[i] = 1;
#ifdef FINE
       if :: r[x].ph == RETAINED -> goto entered :: else -> goto got fi
#else
       if :: r[x].ph == RETAINED -> SETTLE(x, GRANTED) :: else fi;
       goto got
#endif
#endif
#ifdef V_ADMIT                    /* who comes while the lock is released enters */
    :: r[x].ph == RELEASING -> r[x].c++; counted[i] = 1; waiting[i] = 1; goto got
    :: r[x].ph == RELEASED -> g = 0; goto next
#else
    :: r[x].ph == RELEASING || r[x].ph == RELEASED -> g = 0; goto next
#endif
    :: (r[x].ph == FETCHING || r[x].ph == RETAINED) && g -> g = 0; goto next
    fi
  };
  /* Go: manager/round.go: round.want */
  atomic {
#ifdef V_EARLY                    /* the fetch does not wait for the release before it */
    u = !(r[x].fl & OVER);
#else
    u = (r[x].fl & PREV) && !(r[x].fl & OVER);
#endif
    r[x].fl = r[x].fl | WANTED;
    wake(p, x, u);
#ifndef REOPEN
    goto got
#endif
  };
#ifdef REOPEN
#ifndef V_NOASK                   /* the first that waits relies on the gate it found closed */
  /* Go: manager/gate.go: round.askIn. The word says that we wait before we look at the
   * gate; a step opens the gate before it looks for those who wait. */
  atomic {
    u = !(r[x].fl & PREV) && r[cur[p]].ph == RETAINED && !(r[cur[p]].fl & CLOSED);
    wake(p, cur[p], u) };
#endif
  goto got;
#endif

#ifdef V_WANTFIRST
wantfirst:
  atomic { u = (r[x].fl & (PREV|OVER|WANTED)) == PREV; r[x].fl = r[x].fl | WANTED; wake(p, x, u) };
  atomic { if :: r[x].ph == FREE -> r[x].ph = FETCHING; r[x].c = 1; counted[i] = 1; waiting[i] = 1; goto got :: else -> goto loop fi };
#endif
#ifdef V_LATELOAD
late:
  atomic { x = cur[p]; counted[i] = 1; waiting[i] = 1; if :: g -> g = 0; goto entered :: else -> goto got fi };
#endif

next:
  atomic {
    if
    :: r[x].next == NIL -> follow(p, x); x = r[x].next - 1
    :: r[x].next == PASSED -> goto reload
    :: else ->
       assert(r[x].next > x+1);   /* the chain never leads back */
       x = r[x].next - 1
    fi;
    collect(p)
  };
  goto loop;
reload:
  atomic { x = cur[p]; collect(p); goto loop };

entered:                          /* Go: manager/share.go: promises.settleGrant */
  SETTLE(x, GRANTED);

  /* Go: manager/lock.go: Lock.await; manager/hold.go: withdrawal.run */
got:
#ifdef CANCEL
  if
  :: (CANCEL >> p) & 1 -> goto progress_leave                  /* from now on at any time, whatever comes first */
  :: 1                            /* a patient one has to get an answer */
  fi;
#endif
progress_answered:                /* in a search for cycles in which nothing comes of it all */
  (r[x].fut != PENDING);
  /* Go: manager/hold.go: Hold.check */
  atomic {
    waiting[i] = 0;
    if
    :: r[x].fut == GRANTED && r[x].ph == RETAINED && INFORCE(p,x) ->
       inside[i] = 1;
       assert(counted[i] && r[x].c == MEMBERS(x));
       assert(FIRST(x));          /* ours by the server's word, too */
       EXCLUSIVE;
#ifndef EXPIRE
#ifdef LONG
       if :: i == 1 -> goto forever :: 1 fi;
#endif
       goto progress_leave        /* at any time from now on */
#endif
    :: r[x].fut == GRANTED && r[x].ph == RETAINED && !INFORCE(p,x)
    :: r[x].fut == GRANTED && r[x].ph != RETAINED -> assert(r[x].ph >= RELEASING); goto progress_leave
    :: r[x].fut == FAILED -> assert(r[x].ph >= RELEASING); goto progress_leave
    fi };
#ifdef EXPIRE
  if
  :: inside[i]                    /* and leaves at any time from now on */
  :: !INFORCE(p,x) -> (r[x].ph != RETAINED)           /* does not look at the clock, and has to be told. Go: manager/hold.go: Hold.Lost */
  :: !inside[i] -> endBy(p, x, u, (r[x].ph == RETAINED || r[x].ph == FETCHING))
  fi;
#endif

  /* Go: manager/hold.go: Hold.giveUpSlow; manager/share.go: share.leave; state/word.go: Word.Leave */
progress_leave:
  atomic {
    assert(counted[i]);
    inside[i] = 0; waiting[i] = 0;
    if
    :: r[x].ph >= RELEASING ->    /* the handle of a dead round touches nothing */
#ifdef V_DEADLEAVE                /* it counts down in the round that is present */
       if :: r[cur[p]].c > 0 -> r[cur[p]].c-- :: else fi;
#endif
#ifndef V_ADMIT
       assert(r[x].c == 0);
#endif
       counted[i] = 0; goto left
    :: r[x].ph == FETCHING || r[x].ph == RETAINED ->
       assert(r[x].c > 0);        /* never below zero */
       assert(r[x].c == MEMBERS(x));
       counted[i] = 0; r[x].c--;
       if
       :: r[x].c > 0 -> goto left
       :: r[x].c == 0 && r[x].ph == RETAINED -> r[x].ph = RELEASING
       :: r[x].c == 0 && r[x].ph == FETCHING -> goto withdrawn
       fi
    :: r[x].ph == FREE -> assert(false)
    fi };
  atomic {
    SETTLE(x, GRANTED);
    STEP
    r[x].ending = 1;              /* Go: manager/roundio.go: roundIO.end */
    u = 1;
    wake(p, x, u);
    STEP LEFT };
withdrawn:
  atomic {
#if defined(V_CANCEL)             /* a round that was not started is cancelled */
    u = 1;
#elif defined(V_CANCELD)          /* the same, and its release waits for its turn */
    if
    :: !(r[x].fl & PREV) && r[x].ph == FETCHING && r[x].c == 0 ->
       r[x].ph = RELEASING; SETTLE(x, FAILED); r[x].ending = 1; r[x].fl = r[x].fl | OVER; u = 0
    :: else -> u = (r[x].fl & (PREV|WANTED)) == (PREV|WANTED)
    fi;
#else
    u = (r[x].fl & (PREV|WANTED)) == (PREV|WANTED);
#endif
    wake(p, x, u);
    STEP LEFT };
left:
  atomic { LEFT };
#ifdef LONG
forever:
  false;
#endif
stop:
  atomic { stopped++; u = 0; g = 0 }
#undef x
}

/* A worker of the pool. Go: zkio/pool.go: pool.serve */
proctype Worker(byte j; byte p) {
  byte u; bool s;
#ifdef REOPEN
  byte n;
#endif
#define x at[j]
#define y at[j+1]

end:
  atomic {
    if
    :: fe[p] > 0 && empty(rq[p]) -> fe[p]--; u = 1    /* Go: zkio/pool.go: pool.takeLocked */
#ifdef V_CURFIRST                 /* the present round is looked up before the flag is cleared */
       ; x = cur[p]
#else
       ; fq[p] = 0                /* Go: manager/roundio.go: lockFetch.Run */
#endif
    :: rq[p]?u -> x = u; u = 0
    fi;
    s = ses[p];
#ifdef V_CURFIRST
  };
  atomic {
#else
    STEP
#endif
    if
    :: u == 1 ->
#ifdef V_CURFIRST
       fq[p] = 0; u = 0
#else
       x = cur[p]; u = 0
#endif
    :: else
    fi;

    /* Go: manager/internal/errand/runner.go: Runner.Run */
    STEP
    u = URGENT(x);
    STEP
    if
#ifdef V_NOGUARD
    :: 1 -> u = 0
#else
    :: r[x].st != QF && r[x].st != QE -> u = 0; goto rest
    :: r[x].st == QE && !u -> r[x].st = QF; u = 2
    :: r[x].st == QF || (r[x].st == QE && u) -> r[x].st = RUN; u = 0
#endif
    fi;
    if :: u == 2 -> u = 0; submitFetch(p); goto rest :: else fi
  };

  /* Go: manager/roundio.go: roundIO.Step */
step:
  atomic {
    if
    :: r[x].ph == FREE || r[x].ph == RELEASED -> goto out
    :: r[x].ph == FETCHING && stage[p] != 0 -> goto closing
    :: r[x].ph == FETCHING && stage[p] == 0 && r[x].c == 0 -> goto cancel
    :: r[x].ph == FETCHING && stage[p] == 0 && r[x].c > 0 -> goto fetch
    :: r[x].ph == RETAINED ->                     /* Go: manager/roundio.go: roundIO.keep */
#ifdef REOPEN
       goto gate
#else
       goto out
#endif
    :: r[x].ph == RELEASING -> goto release
    fi };

#ifdef REOPEN
  /* Go: manager/gate.go: incumbent.seeToGate. The watch of the contender that the gate is
   * closed for; to set it again is one step with the look, as in list. */
gate:
  atomic {
    if
    :: !(r[x].fl & CLOSED)
#ifdef V_SHUT4EVER                /* a closed gate never opens */
    :: (r[x].fl & CLOSED) -> goto out
#elif !defined(V_OPENEARLY)       /* it opens while the contender still waits */
    :: (r[x].fl & CLOSED) && owed != 0 -> r[x].wat = 1; goto out
    :: (r[x].fl & CLOSED) && owed == 0 -> r[x].fl = r[x].fl & 7
#else
    :: (r[x].fl & CLOSED) -> r[x].fl = r[x].fl & 7
#endif
    fi };

  /* Go: manager/gate.go: round.admitNext; state/word.go: Word.LetIn. Those who wait in the
   * next round are counted here before they are there no more, and so is the step itself:
   * the round does not end meanwhile. The step's entry in y is what n is in Go. */
  atomic {
#ifdef V_NOMOVE                   /* those who wait already are left where they are */
    goto out;
#endif
    if
    :: r[x].next == NIL || r[x].next == PASSED -> goto out
    :: else -> y = r[x].next - 1
    fi;
    if
    :: r[y].ph == FETCHING && r[x].ph == RETAINED ->
       n = r[y].c;
#ifdef V_COUNTLATE                /* they are counted once they can leave */
       r[x].c++; r[x].ex = 1
#else
       r[x].c = r[x].c+n+1; r[x].ex = n+1
#endif
    :: else -> y = NONE; goto out
    fi };
  /* The round that comes after the next one is there before that is taken out, for
   * those who still go from one to the other. */
#ifdef V_BACK                     /* they are sent back to the round that they came from */
  atomic { if :: r[y].next == NIL -> r[y].next = x+1 :: else -> goto stays fi };
#else
  atomic { if :: r[y].next == NIL -> follow(p, y) :: else fi };
#endif
merge:
  /* Go: state/word.go: Word.Merge; manager/mergers.go: share.home. From then on those who
   * have the one round find the other. Go reads the gate once more before that: a
   * revocation may have closed it, which is not modelled. A contender that waits too long
   * closes it by a step, and there is one step at a time. */
  atomic {
    if
    :: r[y].ph == FETCHING && r[y].c == n ->
#ifdef V_COUNTLATE
       u = r[y].c;
#endif
       r[y].ph = RELEASED; r[y].c = 0;
       n = 0;
       do
       :: n < 2 -> if :: counted[n] && at[n] == y -> at[n] = x :: else fi; n++
       :: else -> break
       od;
       n = 0;
       if :: r[x].ph == RETAINED -> r[x].ex = 1 :: else fi
    :: r[y].ph == FETCHING && r[y].c != n ->
#ifdef V_COUNTLATE
       n = r[y].c;
#endif
       if
       :: r[x].ph == RETAINED -> r[x].c = r[x].c + r[y].c - n; r[x].ex = r[x].ex + r[y].c - n
       :: r[x].ph != RETAINED && r[y].c > n -> goto stays      /* ended by force */
       :: else
       fi;
       n = r[y].c;
       goto merge
    :: r[y].ph != FETCHING -> goto stays      /* ended by force: it stays in the chain */
    fi };
#ifdef V_COUNTLATE
  atomic { if :: r[x].ph == RETAINED -> r[x].c = r[x].c+u :: else fi; u = 0 };
#endif
#ifdef V_BACK
  atomic { follow(p, x); y = NONE; collect(p) };
#else
  atomic { r[x].next = r[y].next };
  atomic { r[y].next = PASSED; y = NONE; collect(p) };
#endif
stays:
  atomic {                        /* As often as the step has counted. Go: manager/share.go: share.leave */
    y = NONE; n = 0;
    if
    :: r[x].ph == RETAINED ->
       r[x].c = r[x].c - r[x].ex; r[x].ex = 0;
       if :: r[x].c == 0 -> r[x].ph = RELEASING; SETTLE(x, GRANTED); r[x].ending = 1 :: else fi
    :: else
    fi;
    goto step };
#endif

closing:
#if SHUT > 0
  endBy(p, x, u, r[x].ph == FETCHING);
  goto step;
#endif

  /* Go: manager/roundio.go: roundIO.cancel, roundIO.abandoned; state/word.go: Word.Cancel */
cancel:
  atomic {
    if
    :: r[x].ph == FETCHING && r[x].c == 0 -> r[x].ph = RELEASING
    :: else -> goto step
    fi };
  atomic { SETTLE(x, FAILED); r[x].ending = 1; goto step };

  /* Go: manager/roundio.go: roundIO.fetch */
fetch:
  atomic {
#if !defined(V_EARLY) && !defined(SOFT)
    assert(cur[p] == x);          /* the only round that is fetched is cur */
#endif
    r[x].act = 1;
    if
    :: r[x].node != 0 && r[x].ses != s && r[x].ses == ses[p] -> goto later  /* it is s that is over */
    :: r[x].node != 0 && r[x].ses != s && r[x].ses != ses[p] -> r[x].node = 0; unwatch(x)
    :: else
    fi };

  /* Go: manager/queuer.go: queuer.createNode; zkio/node.go: Node.Create, Node.CreateAndCount, Node.resolve
   * A call in a session that is over at the server has no answer until the
   * client knows; a call in one that is over for the client fails. */
queue:
  atomic {
    (ses[p] != s || !DEAD(p,s));
    if
    :: ses[p] != s -> goto later
    :: ses[p] == s && r[x].node == 2 && INQ(x) -> r[x].node = 1; goto list
    :: ses[p] == s && r[x].node == 2 && !INQ(x) -> r[x].node = 0
    :: ses[p] == s && r[x].node == 1 -> goto list
    :: ses[p] == s && r[x].node == 0
    fi;
    r[x].ses = s;
    if
    :: 1 ->
       q!NODE(x,s); r[x].node = 1
    :: lostLeft > 0 ->            /* made, and the reply is lost */
       lostLeft--; q!NODE(x,s);
#ifdef V_ORPHAN                   /* no reply is taken for no node */
       r[x].node = 0;
#else
       r[x].node = 2;
#endif
       goto later
    :: lostLeft > 0 ->            /* the request is lost */
       lostLeft--; r[x].node = 2; goto later
    :: refuseLeft > 0 -> refuseLeft--; goto refused
    fi };

  /* Go: manager/waiter.go: waiter.listQueue, waiter.watchAhead. That the directory is listed and
   * the one ahead is watched is one step: a watch that comes too late finds no
   * node, and the trip lists again. The grants without a list (a create that
   * was alone, the deletion of the only one ahead) are looks that were taken
   * earlier: who is first stays first. */
list:
  atomic {
    (ses[p] != s || !DEAD(p,s));
    if
    :: ses[p] != s -> goto later
    :: ses[p] == s && FIRST(x) -> goto enter
    :: ses[p] == s && !FIRST(x) -> assert(INQ(x)); r[x].wat = 1; goto out
    fi };

refused:                          /* Go: manager/roundio.go: roundIO.failed */
#if REFUSE > 0
  endBy(p, x, u, (r[x].ph == FETCHING || r[x].ph == RETAINED));
  goto step;
#endif

  /* Go: manager/roundio.go: roundIO.grant; zkio/leasetracker.go: leaseTracker.proved */
enter:
  atomic {
    (ses[p] != s || !DEAD(p,s) || !down[p]);
    if
    :: ses[p] != s -> goto later
    :: ses[p] == s && !down[p]
    :: ses[p] == s && down[p] -> down[p] = 0; lno[p] = 1     /* Session.Prove */
    fi;
#ifdef V_GRANT0
    if :: r[x].shy -> goto out :: else fi;
#endif
    unwatch(x);
    r[x].lease = lno[p] };
  atomic {                        /* Go: state/word.go: Word.Grant */
    if
    :: r[x].ph == FETCHING && r[x].c > 0 -> r[x].ph = RETAINED; assert(cur[p] == x)
    :: r[x].ph == FETCHING && r[x].c == 0 ->
#ifdef V_GRANT0                   /* the granter leaves it to the cancel */
       r[x].shy = 1; goto out
#else
       r[x].ph = RELEASING; SETTLE(x, FAILED); r[x].ending = 1; goto step
#endif
    :: r[x].ph == RELEASING -> goto step
    :: r[x].ph == FREE || r[x].ph == RETAINED || r[x].ph == RELEASED -> assert(false)
    fi };
  SETTLE(x, GRANTED);
#if defined(EXPIRE) && !defined(V_RECHECK)      /* no look at the lease after the grant */
  if
  :: !INFORCE(p,x) -> endBy(p, x, u, (r[x].ph == FETCHING || r[x].ph == RETAINED)); goto step
  :: else
  fi;
#endif
#if SHUT == 2
  if
  :: stage[p] == 2 -> endBy(p, x, u, (r[x].ph == FETCHING || r[x].ph == RETAINED)); goto step
  :: else
  fi;
#endif
  goto step;

  /* Go: manager/handover.go: roundIO.release, roundIO.deleteNode, roundIO.adopt; zkio/node.go: Node.Remove, Node.Replace
   *
   * roundIO.deleteNode may create the next round's node in the transaction that
   * deletes this one's; roundIO.adopt takes it in the next round's first step.
   * Here these are two steps, the second of which is the next round's own, once it
   * is cur (queue). That covers the one: until its turn comes the next round takes
   * no step, and a wake does nothing; so what happens to it after the transaction
   * and before its turn (a withdrawal, a forced end, the session's end), it finds
   * at its first step, as here when that happens right behind the second step.
   * That other contenders can queue between the two is more than can happen there.
   * If the answer to the transaction is lost, this round finds out about its node,
   * finishes, and only then does the next one, as here when the answers to both
   * are lost.
   */
release:
  if
  :: !r[x].ending -> goto out     /* ending it will wake us */
  :: else
  fi;
  atomic {
    (r[x].node == 0 || ses[p] != r[x].ses || !DEAD(p,r[x].ses));
    unwatch(x);
    if
    :: r[x].node == 0
    :: r[x].node != 0 && ses[p] != r[x].ses -> r[x].node = 0              /* it went with its session */
    :: r[x].node != 0 && ses[p] == r[x].ses && s != r[x].ses -> goto later
    :: r[x].node != 0 && ses[p] == r[x].ses && s == r[x].ses ->
       if
       :: delete(x); r[x].node = 0
       :: lostLeft > 0 -> lostLeft--; delete(x); goto later
       :: lostLeft > 0 -> lostLeft--; goto later
       fi
    fi;
    r[x].act = 0;
    STEP
    /* Go: manager/round.go: round.finish */
    assert(r[x].ph == RELEASING && r[x].c == 0 && r[x].fut != PENDING);
    assert(!(q??[eval(NODE(x,0))]) && !(q??[eval(NODE(x,1))]));           /* nothing of it is left */
    r[x].ph = RELEASED;
  STEP
#ifdef V_NOLINK                   /* a fresh round is put into cur unlinked */
  if
  :: r[x].next == NIL -> follow(p, x); y = r[x].next - 1; r[x].next = NIL
  :: else -> y = r[x].next - 1
  fi;
#else
  if :: r[x].next == NIL -> follow(p, x) :: else fi; y = r[x].next - 1;
#endif
  STEP
#ifdef V_CUT                      /* next is cut before cur has moved on */
  r[x].next = PASSED;
  STEP
#endif
#ifdef V_ORDER                    /* prevReleased before cur */
  u = (r[y].fl & (OVER|WANTED)) != 0; r[y].fl = r[y].fl | PREV;
  wake(p, y, u);
  STEP
#endif
  cur[p] = y;
#if !defined(V_CUT) && !defined(V_NOLINK)
  STEP
  r[x].next = PASSED;
#endif
#ifndef V_ORDER
  STEP
#ifdef V_EARLY
  u = 0;
#else
  u = (r[y].fl & (OVER|WANTED)) != 0;
#endif
  r[y].fl = r[y].fl | PREV;
  wake(p, y, u);
#endif
  STEP
  y = NONE; goto out };

later:                            /* Go: manager/delays.go: delays.retry */
  atomic { if :: URGENT(x) -> r[x].retryEnd = 1 :: else -> r[x].retry = 1 fi };

out:
  atomic {
#ifdef V_NOGUARD
    goto rest;
#else
    if
    :: r[x].st == RUN -> r[x].st = IDLE
    :: r[x].st == AGN -> r[x].st = RUN; goto step
    fi;
#endif
rest:
    x = NONE; y = NONE; u = 0; s = 0; collect(p) };
  goto end
#undef x
#undef y
}

/* What wakes trips: watches and delayed wakes.
 * Go: manager/ahead.go: ahead.PathChanged; manager/delays.go: delayedWake.Run */
#define TELL(n) r[n].ev -> r[n].ev = 0; x = n :: r[n].retry -> r[n].retry = 0; x = n :: r[n].retryEnd -> r[n].retryEnd = 0; x = n
proctype Dispatcher() {
  byte u;
#define x at[11]
end:
  atomic {
    if
    :: TELL(0) :: TELL(1) :: TELL(2) :: TELL(3) :: TELL(4)
#if K > 5
    :: TELL(5)
#endif
#if K > 6
    :: TELL(6)
#endif
#ifdef FULL1
    :: TELL(K) :: TELL(K+1) :: TELL(K+2) :: TELL(K+3) :: TELL(K+4)
#if K > 5
    :: TELL(K+5)
#endif
#if K > 6
    :: TELL(K+6)
#endif
#endif
    fi;
    u = 1;
    wake(P(x), x, u);
    STEP
    u = P(x); x = NONE; collect(u); u = 0;
    goto end }
#undef x
}

#ifdef EXPIRE
/* The one round, if any, that was granted under the lease */
inline lookForHeld(p, n) {
  n = 0;
  do
  :: n < K && r[p*K+n].act && r[p*K+n].ph == RETAINED && r[p*K+n].lease == 0 -> at2 = p*K+n; break
  :: n < K && !(r[p*K+n].act && r[p*K+n].ph == RETAINED && r[p*K+n].lease == 0) -> n++
  :: n == K -> break
  od;
  n = 0
}

/* The end of a lease, and perhaps of the session. */
proctype Expiry() {
  byte u; byte n;
#define p EXPIRE
#ifdef V_DEADLINE
  goto end_wait;
#endif
  if
  :: goto end_none
  :: 1
  fi;
#ifdef V_LATEMARK                 /* the words are looked at before the lease is marked */
  atomic { lookForHeld(p, n) };
  down[p] = 1;
#else
  down[p] = 1;                    /* the clock. Go: zkio/lease.go: Lease.InForce */
  /* Go: manager/listener.go: listener.LeaseLapsed */
  atomic { lookForHeld(p, n) };
#endif
  if
  :: at2 != NONE -> endBy(p, at2, u, (r[at2].ph == FETCHING || r[at2].ph == RETAINED)); atomic { at2 = NONE; collect(p) }
  :: else
  fi;
end_wait:
  JOIN
  gone[p];                        /* or never */
  ses[p] = 1;                     /* Session.end; the next session */
  /* Go: manager/listener.go: listener.SessionOver */
  n = K;                          /* from the top: they may move down meanwhile */
  do
  :: n > 0 ->
     n--;
     if
     :: atomic { r[p*K+n].act -> at2 = p*K+n };
        if
        :: r[at2].ph == RETAINED && r[at2].lease == 0 ->
           endBy(p, at2, u, (r[at2].ph == FETCHING || r[at2].ph == RETAINED))
        :: else ->
#ifndef V_NOREQUEUE               /* who waits is not told that the session is over */
           atomic { u = 1; wake(p, at2, u) }
#else
           skip
#endif
        fi;
        atomic { at2 = NONE; collect(p) }
     :: else
     fi
  :: else -> break
  od;
  n = 0; u = 0
  };
end_none:
  skip
#undef p
}

/* A write that is answered proves that the session is alive.
 * Go: zkio/heartbeat.go: Session.beat */
proctype Heartbeat() {
end:
  atomic { down[EXPIRE] && !DEAD(EXPIRE,ses[EXPIRE]) -> down[EXPIRE] = 0; lno[EXPIRE] = 1 };
  goto end
}

/* The server ends the session, and deletes its nodes. It does so only when it
 * has not heard of it for so long that the lease is over: zkio/leasetracker.go: leaseTracker. */
proctype Server() {
  byte n;
end:
  atomic {
#ifdef V_DEADLINE                 /* the client trusts its lock until it hears otherwise */
    1;
#else
    down[EXPIRE];
#endif
    gone[EXPIRE] = 1;
    do                            /* its watches end with it */
    :: n < K -> if :: r[EXPIRE*K+n].ses == 0 -> r[EXPIRE*K+n].wat = 0 :: else fi; n++
    :: else -> break
    od;
    n = 0;
    do
    :: n < K ->
       if :: q??[eval(NODE(EXPIRE*K+n,0))] -> q??eval(NODE(EXPIRE*K+n,0)); fire() :: else fi;
       n++
    :: else -> break
    od;
    n = 0 }
}
#endif

/* Go: manager/tenure.go: incumbent.lookBehind; manager/gate.go: incumbent.closeFor; manager/paired.go: RWLock.closeGate */
#if defined(GATE) || defined(GATEANY)
#ifdef GATEANY
byte gates = 2;
#endif
proctype Tenure() {
#define x at[10]
end:
  if
#ifdef GATEANY
  :: atomic { gates > 0 -> gates--; x = 0; do :: x+1 < K && r[x+1].used -> x++ :: break od }
#else
  /* another contender waits, and the gate is open */
#ifdef REOPEN                     /* a step closes it, and watches the contender */
  :: atomic { r[cur[0]].ph == RETAINED && FIRST(cur[0]) && (q??[FOREIGN] || q??[PROBER]) && !(r[cur[0]].fl & CLOSED) ->
       x = cur[0];
       d_step {                   /* the first of the others */
         owed = 0; hk = len(q);
         do
         :: hk > 0 -> q?hj; if :: !owed && (hj == FOREIGN || hj == PROBER) -> owed = hj :: else fi; q!hj; hk--
         :: else -> break
         od; hj = 0; hk = 0 };
       r[x].wat = 1; r[x].fl = r[x].fl | CLOSED; x = NONE; goto end }
#else
  :: atomic { r[cur[0]].ph == RETAINED && len(q) > 1 && !(r[cur[0]].fl & CLOSED) -> x = cur[0] }
#endif
#endif
  fi;
  atomic { r[x].fl = r[x].fl | CLOSED; x = NONE; collect(0) };
  goto end
#undef x
}
#endif

#if SHUT > 0
/* Go: manager/close.go: Manager.Shutdown, Manager.Close
   Go: manager/close.go: Manager.eachShare */
proctype Shut() {
  byte u;
#define x at2
  if :: goto fin :: 1 fi;
  stage[0] = SHUT;
  x = cur[0];
  do
  :: atomic { r[x].ph != FREE -> skip };
#if SHUT == 1
     endBy(0, x, u, r[x].ph == FETCHING);
#else
     endBy(0, x, u, (r[x].ph == FETCHING || r[x].ph == RETAINED));
#endif
     goto on
  :: r[x].ph == FREE ->
on:  atomic {
       if
       :: r[x].next == NIL || r[x].next == PASSED -> break
       :: else -> x = r[x].next - 1
       fi }
  od;
fin:
  atomic { x = NONE; u = 0; collect(0) }
#undef x
}
#endif

#ifndef FULL1
/* Process 1 as a client that does everything right. */
proctype Contender() {
  do
#ifndef STAY
  :: break
#endif
  :: atomic { q!FOREIGN; waiting[2] = 1 };
progress_first:
     if
     :: atomic { q?[FOREIGN] -> inside[2] = 1; waiting[2] = 0; if :: owed == FOREIGN -> owed = 0 :: else fi; EXCLUSIVE };
        atomic { inside[2] = 0; q??FOREIGN; fire() }
#if PROBE == 1
     :: atomic { q??FOREIGN; waiting[2] = 0; if :: owed == FOREIGN -> owed = 0 :: else fi; fire() }
#endif
     fi
  od;
  stopped++
}
#endif

#if PROBE == 2
/* A client that waits for a while only, and comes back. */
proctype Prober() {
  do
  :: atomic { q!PROBER };
     atomic { q??PROBER; if :: owed == PROBER -> owed = 0 :: else fi; fire() }
  od
}
#endif

/* When nothing else can happen, all have ended and nothing is left. */
#ifdef TWO1
#define ALL 4
#else
#define ALL 3
#endif
proctype Check() {
  byte n;
  timeout;
  d_step {
    assert(stopped == ALL);       /* no wait is endless */
    assert(empty(q));
    do
    :: n < 2*K ->
       assert(!r[n].used || (n == cur[P(n)] && r[n].ph == FREE && r[n].st == IDLE && empty(rq[P(n)])));
       n++
    :: else -> break
    od;
    n = 0 }
}

init {
  byte n;
  atomic {
    do :: n < NAT -> at[n] = NONE; n++ :: else -> break od;
    n = 0;
    cur[1] = K;
    r[0].used = 1; r[K].used = 1; r[0].fl = PREV; r[K].fl = PREV;   /* Go: manager/lock.go: newLock */
    run Gor(0, 0); run Gor(1, 0);
    run Worker(4, 0);
#if WORKERS > 1
    run Worker(6, 0);
#endif
#ifdef FULL1
    run Gor(2, 1); run Worker(8, 1);
#ifdef TWO1
    run Gor(3, 1);
#endif
#else
    run Contender();
#endif
    run Dispatcher();
#ifdef EXPIRE
    run Expiry(); run Heartbeat(); run Server();
#endif
#if defined(GATE) || defined(GATEANY)
    run Tenure();
#endif
#if PROBE == 2
    run Prober();
#endif
#if SHUT > 0
    run Shut();
#endif
#ifndef STAY
    run Check()
#endif
  }
}

#ifdef LIVE
ltl answered { [] (waiting[LIVE] -> <> !waiting[LIVE]) }
#endif
