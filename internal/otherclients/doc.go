// SPDX-License-Identifier: Apache-2.0

// Package otherclients starts programs that use the locks and recipes of other client
// libraries, beside which tests run ours. The programs are in the testdata of the package
// under test.
//
// A test that lacks what such a program needs ends as one that lacks ZooKeeper does: see
// [realzk.NotRun]. Package foreign finds it.
package otherclients
