/* SPDX-License-Identifier: Apache-2.0
 *
 * The same lock without rounds: one word per process, and an executor that does
 * all of a process's work in ZooKeeper. Here wrong designs can be expressed that
 * have no place in rounds.pml, because rounds rule them out:
 *
 * -DNAIVE_FAIL    the way of a failure in the article that the lock is from: the
 *                 future fails, the phase stays FETCHING until the count is 0,
 *                 and the goroutine that must end the round yields and tries again
 * -DNAIVE_SIGNAL  RELEASED -> FREE, and those are notified who are parked already
 * -DNAIVE_BARGE   RELEASED -> FREE, and all parked goroutines try again
 * -DNAIVE_EXPIRY  no local deadline: the server may end the session while the
 *                 client still trusts the lock
 * -DNAIVE_ORPHAN  a lost reply to a create is taken for "nothing was created"
 * -DNAIVE_END     ending a round does not settle its future
 *
 * -DLIVE, -DUNSTICK  the properties of that name, at the end
 * -DMAXEXP=n         how many sessions end
 *
 * Process 0 has goroutines 0 and 1, process 1 has goroutine 2.
 */
#ifndef MAXEXP
#define MAXEXP 1
#endif
#define G 2
#define FREE 0
#define FETCHING 1
#define RETAINED 2
#define RELEASING 3
#define RELEASED 4
typedef Word { byte ph; byte c };
Word w[2];
chan q = [4] of { byte };   /* znode queue, front = holder, value = process */
bool valid[2];              /* client-side belief */
bool gone[2];               /* server deleted our node */
bool failed[2];             /* NAIVE_FAIL only */
byte res[4];                /* future as seen by goroutine: 0 pending 1 granted 2 failed/lost */
bool att[4];                /* attached to the live generation */
bool waiting[4]; bool parked[4]; bool wake[4];
byte cs[2]; byte expired = 0;

#define ME (!(cs[0]>0 && valid[0] && cs[1]>0 && valid[1]))
#define COMPLETE(p,v) res[p*G] = ((att[p*G] && res[p*G]==0) -> v : res[p*G]); res[p*G+1] = ((att[p*G+1] && res[p*G+1]==0) -> v : res[p*G+1])
#ifdef NAIVE_END
#define ENDGEN(p) att[p*G] = false; att[p*G+1] = false
#else
#define ENDGEN(p) COMPLETE(p,2); att[p*G] = false; att[p*G+1] = false
#endif

proctype Goroutine(byte i) {
  byte p = i / G; byte lp; byte lc;
again: skip;
  waiting[i] = true;
try: skip;
#ifndef LIVE
  d_step { lp = w[p].ph; lc = w[p].c };                 /* atomic load of the word */
#endif
  atomic {
#ifdef LIVE
    lp = w[p].ph; lc = w[p].c;                          /* liveness runs: a CAS loop is taken to succeed */
#endif
    if
    :: w[p].ph != lp || w[p].c != lc -> goto try        /* CAS failed */
    :: else
    fi;
    if
    :: lp == FREE -> w[p].ph = FETCHING; w[p].c = 1; att[i] = true; res[i] = 0
    :: lp == FETCHING -> w[p].c = lc+1; att[i] = true; res[i] = (failed[p] -> 2 : 0)
    :: lp == RETAINED -> w[p].c = lc+1; att[i] = true; res[i] = 1
    :: lp == RELEASING || lp == RELEASED ->             /* never admitted here */
#if defined(NAIVE_SIGNAL)
       goto park
#elif defined(NAIVE_BARGE)
       goto park
#else
       parked[i] = true; res[i] = 0                     /* joins the NEXT generation, in the same step as the check */
#endif
    fi
  };
  goto got;
#if defined(NAIVE_SIGNAL) || defined(NAIVE_BARGE)
park: skip;
#ifdef NAIVE_SIGNAL
  parked[i] = true; atomic { wake[i] -> wake[i] = false; parked[i] = false };
#else
  (w[p].ph == FREE);
#endif
  goto try;
#endif
got: skip;
  assert(w[p].c < 15);
  (res[i] != 0);
  waiting[i] = false;
  if
  :: res[i] == 1 -> cs[p]++; assert(ME); cs[p]--
  :: else
  fi;
rel: skip;
#ifndef LIVE
  d_step { lp = w[p].ph; lc = w[p].c };
#endif
  atomic {
#ifdef LIVE
    lp = w[p].ph; lc = w[p].c;
#endif
    if
    :: !att[i] -> skip                                   /* dead generation: no-op */
    :: att[i] && (w[p].ph != lp || w[p].c != lc) -> goto rel
    :: att[i] && w[p].ph == lp && w[p].c == lc ->
       assert(lc > 0);                                   /* no underflow */
       assert(lp == FETCHING || lp == RETAINED);
       att[i] = false;
       if
       :: lp == RETAINED && lc == 1 -> w[p].ph = RELEASING; w[p].c = 0; valid[p] = false
       :: else -> w[p].c = lc-1
       fi
    fi
  };
  goto again
}

proctype Exec(byte p) {
  bool made; bool hold;
loop: skip;
  if
  :: w[p].ph == FETCHING && !failed[p] ->
     made = false;
     if
     :: atomic { q!p; gone[p] = false; made = true }                  /* create ok */
#ifndef NAIVE_ORPHAN
     :: atomic { q!p; gone[p] = false };                              /* created, reply lost */
        atomic { if :: q??[eval(p)] -> q??eval(p) :: else fi }        /* sync, find by GUID, delete */
#else
     :: atomic { nfull(q) -> q!(p+2) }                                /* created, reply lost: a node without a known owner */
#endif
     :: skip                                                          /* definite failure */
     fi;
     if
     :: made -> 
        atomic { (q?[eval(p)] || gone[p]) ->
          hold = (q?[eval(p)] && !gone[p]);
          if
          :: hold && w[p].c > 0 -> w[p].ph = RETAINED; valid[p] = true
          :: hold && w[p].c == 0 -> w[p].ph = RELEASING               /* all left meanwhile */
          :: else
          fi };
        if
        :: hold -> atomic { COMPLETE(p,1) }
        :: else -> made = false
        fi
     :: else
     fi;
     if
     :: !made ->
#ifdef NAIVE_FAIL
        atomic { failed[p] = true; COMPLETE(p,2) }
#else
        atomic { w[p].ph = RELEASING; w[p].c = 0; ENDGEN(p) }         /* one CAS ends the generation */
#endif
     :: else
     fi
#ifdef NAIVE_FAIL
  :: failed[p] ->                                                     /* Thread.yield() + CAS */
     atomic { w[p].ph == FETCHING && w[p].c == 0 -> w[p].ph = RELEASING; failed[p] = false }
#endif
  :: w[p].ph == RETAINED && gone[p] ->
     atomic { if :: w[p].ph == RETAINED -> w[p].ph = RELEASING; w[p].c = 0; valid[p] = false; ENDGEN(p) :: else fi }
  :: w[p].ph == RELEASING ->
     atomic { if :: q??[eval(p)] -> q??eval(p) :: else fi };          /* delete; NoNode is fine */
     w[p].ph = RELEASED;
#if defined(NAIVE_SIGNAL)
     atomic { w[p].ph = FREE; wake[p*G] = parked[p*G]; wake[p*G+1] = parked[p*G+1] }
#elif defined(NAIVE_BARGE)
     w[p].ph = FREE
#else
     atomic {                                                         /* hand the parked batch to the next generation */
       w[p].c = parked[p*G] + parked[p*G+1];
       att[p*G] = att[p*G] || parked[p*G]; att[p*G+1] = att[p*G+1] || parked[p*G+1];
       parked[p*G] = false; parked[p*G+1] = false;
       w[p].ph = (w[p].c > 0 -> FETCHING : FREE) }
#endif
  fi;
  goto loop
}

proctype Env() {
  byte p;
  do
  :: expired < MAXEXP ->
     if :: p = 0 :: p = 1 fi;
     expired++;
#ifdef NAIVE_EXPIRY
     atomic { if :: q??[eval(p)] -> q??eval(p); gone[p] = true :: else fi }
#else
     atomic { if :: w[p].ph == RETAINED -> w[p].ph = RELEASING; w[p].c = 0; valid[p] = false; ENDGEN(p) :: else fi };
     atomic { if :: !valid[p] && q??[eval(p)] -> q??eval(p); gone[p] = true :: else fi }
#endif
  :: break
  od
}

init { atomic { run Goroutine(0); run Goroutine(1); run Goroutine(2); run Exec(0); run Exec(1); run Env() } }
#ifdef LIVE
ltl live { [] (waiting[0] -> <> !waiting[0]) }
#endif
#ifdef UNSTICK
ltl unstick { [] (failed[0] -> <> !failed[0]) }
#endif
