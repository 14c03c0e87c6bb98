// SPDX-License-Identifier: Apache-2.0

// Package documents runs the programs and commands that the documents show, so that
// readers can copy them. Its tests are the checks.
//
// Every Go program of every document is compiled, and the README's is run. In the
// documents for users (see [executed]) every block runs:
//
//   - a Go program or test file, as it is;
//   - a part of a Go function, inside the function that testdata/parts_test.go describes;
//   - each line of a sh block, and of a console block each line behind a $, whose output
//     must be what the block shows, where … stands for anything;
//   - Java and Python against the same server, if Curator and kazoo are installed.
//
// A comment before the block says otherwise: <!-- from FILE -->, that the block stands
// word for word in a file that has tests of its own; or <!-- not run: REASON -->.
package documents
