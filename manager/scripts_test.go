// SPDX-License-Identifier: Apache-2.0

package manager

import "testing"

// The tests below are cases of the scripts in testdata/scripts. Their names are
// those that docs/faults.md knows.

func TestF009_DirectoryMadeByTwo(t *testing.T)                 { playScript(t) }
func TestF029_ExpiredWaiterQueuesAtTheEnd(t *testing.T)        { playScript(t) }
func TestF008_DirectoryIsDeletedWhileIdle(t *testing.T)        { playScript(t) }
func TestF015_StrangersInTheDirectory(t *testing.T)            { playScript(t) }
func TestF028_NoGrantOnANodeThatIsGone(t *testing.T)           { playScript(t) }
func TestF036_ReaderWaitsForTheNearestWriterOnly(t *testing.T) { playScript(t) }
func TestF055_GuardOfAStaleHolder(t *testing.T)                { playScript(t) }
func TestF056_ReadWriteTokens(t *testing.T)                    { playScript(t) }
func TestF079_ReaderAndWriterOfOneProcess(t *testing.T)        { playScript(t) }
func TestFairness(t *testing.T)                                { playScript(t) }
func TestHandOverCostsNoHerd(t *testing.T)                     { playScript(t) }
func TestHandOverGoesToTheEndOfTheQueue(t *testing.T)          { playScript(t) }
func TestNegativeTenure(t *testing.T)                          { playScript(t) }
func TestNoDowngradeWithoutNumbers(t *testing.T)               { playScript(t) }
func TestWriterBehindAWriterListsAgain(t *testing.T)           { playScript(t) }
func TestHandOverBehindANumberNobodyGaveOut(t *testing.T)      { playScript(t) }
func TestHandOverToOneselfIsOneRequest(t *testing.T)           { playScript(t) }
func TestReadersBesideAHandOver(t *testing.T)                  { playScript(t) }
func TestReadersHandOverBesideAWriter(t *testing.T)            { playScript(t) }
