// SPDX-License-Identifier: Apache-2.0

// Command cache keeps data in the memory of several processes, of which one changes them
// now and then.
//
//	go run ./examples/cache                         on an embedded ZooKeeper server
//	go run ./examples/cache -servers host:2181      on yours
//
// It starts three processes that read, with 64 goroutines each, for 3 seconds. One of them
// also writes a new version every half second. The data are two files, which the writer
// changes one after the other, so that a reader without a lock would see a new part
// beside an old one. In the end the program prints how often the data were read, and how
// many of these reads one load has served. It fails if a reader has
// seen two parts that do not fit together, or an old version after a new one.
//
// Cache in cache.go is what you would copy. It rests on four things:
//
//   - What was read under a grant of the read lock stays true for as long as the grant
//     lasts, because no other process can write meanwhile. So the data are loaded once
//     per grant. The token tells the grants apart.
//   - The goroutines of a process share the grant. While one of them is inside, another
//     enters by one compare-and-swap, without a request to ZooKeeper.
//   - The cache has a hold of its own beside those of the goroutines, so that the process
//     keeps the lock, and the data, while no goroutine is inside. It releases that hold
//     when [manager.Hold.Contended] tells it that a writer waits, in its own process or
//     in another one.
//   - The locks exclude processes. While a process holds the write lock, its own readers
//     come in beside the writer, and could load half of what it writes, or what it is
//     about to change. So a sync.RWMutex keeps them out while the data are being written,
//     and afterwards the data are loaded again.
//
// Get asks [manager.Hold.Err] after it has the data, not only before: if the process was
// paused while it read the files, the lock may have been lost, and the data may be half
// of one version and half of another.
package main
