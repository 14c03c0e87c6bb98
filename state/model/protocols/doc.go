// SPDX-License-Identifier: Apache-2.0

// Command protocols checks models of five protocols of package manager. They were
// designed here before the code was written, and a change of the design begins here. The
// README of the directory above says where the code differs.
//
//	go run ./state/model/protocols [-set quick|full] [-run regexp] [-v]
//
//	upgrade.go    reads that can be upgraded to writes in place
//	lockall.go    several locks at once, all or none
//	linger.go     a lock that its process keeps for a while when it is idle
//	mutex.go      a lock that excludes goroutines as well as processes
//	abandoned.go  a holder learns that the one before it was interrupted
//
// Each file begins with the protocol, step by step, as the code has it. Then
// come its invariants, one sentence each, and the rules of the model. Those behind
// the words "each is a wrong reading" are mistakes. Their comments say what goes
// wrong and which invariant notices. Most of them are what one would build at first.
//
// The command searches the right protocol with different clients and troubles, which
// must hold, and every wrong reading, which must violate the very invariant that is
// expected. It prints how many states it searched, and of a wrong reading the last
// steps that lead to the violation; -v prints all steps and the states between. It
// exits with 0 only if all searches ended as expected and none was cut off.
//
// The models are programs for the breadth-first search of package checker, which
// also looks whether a run can always end. They need no tool but Go. Like all
// models they show what follows from their steps, and not that the steps are those
// of the code. The core of the lock has its own models beside this package, and a test
// that holds them to the code.
package main
