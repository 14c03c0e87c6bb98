// SPDX-License-Identifier: Apache-2.0

// Package futures provides results that are settled once and awaited by many.
//
// A [Promise] is the writing end. The goroutine that produces a result keeps the
// Promise and calls [Promise.Settle] with the result. Its [Future] is the reading
// end, which any number of goroutines may share. Each of them may wait with its
// own context, poll, or register a function to be called. All see the same value
// and the same error, and one that stops waiting does not affect the others.
//
// A future neither starts nor cancels the work that produces its result. It holds
// one result, which all readers share; they must not modify what it points to.
//
// Futures are small and need no clean-up. The zero Promise is ready to use, so it
// can be a field of a larger struct. A future allocates only if it is waited for
// before it is settled. No goroutine waits on behalf of a pending future,
// including those made by [All], [Any] and [Map].
package futures
