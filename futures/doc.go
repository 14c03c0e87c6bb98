// SPDX-License-Identifier: Apache-2.0

// Package futures provides results that are settled once and awaited by many.
//
// A [Promise] is the writing end: somebody who owes a result keeps it and
// calls [Promise.Settle] when the result is there. Its [Future] is the reading
// end, which can be given to any number of goroutines. Each of them may wait
// with its own context, look without waiting, or leave a function to be
// called; all of them see the same value and the same error, and whoever gives
// up waiting disturbs nobody else.
//
// A future starts no work and cancels none: it is the place where the result
// of somebody else's work will be. It is not a queue, it holds one result; and
// it is not a lock, so those who see the result see the same value, which they
// must not change if it holds pointers.
//
// Futures are small, need no clean-up, and allocate only when somebody waits
// for one that is not settled: the zero Promise is ready to use, and so can be
// a field of something larger. No goroutine is tied to a future that is not
// settled, nor to one that [All], [Any] or [Map] has made.
package futures
