// SPDX-License-Identifier: Apache-2.0

package manager

import "testing"

// These tests are cases of the scripts in testdata/scripts, under the names that
// docs/faults.md and internal/mutants know.

func TestAbandonedBeforeItsTurn(t *testing.T)                  { playScript(t) }
func TestDowngradeWhileTheQueueIsPutInOrder(t *testing.T)      { playScript(t) }
func TestF002_RecoveryOutlivesItsCaller(t *testing.T)          { playScript(t) }
func TestF007_DirectoryIsMissing(t *testing.T)                 { playScript(t) }
func TestF008_DirectoryIsDeletedWhileIdle(t *testing.T)        { playScript(t) }
func TestF009_DirectoryMadeByTwo(t *testing.T)                 { playScript(t) }
func TestF014_UpgradeRefused(t *testing.T)                     { playScript(t) }
func TestF015_JunkInTheDirectory(t *testing.T)                 { playScript(t) }
func TestF015_StrangersInTheDirectory(t *testing.T)            { playScript(t) }
func TestF020_ReadersAndWritersInOneQueue(t *testing.T)        { playScript(t) }
func TestF021_ContenderAheadGoesUnseen(t *testing.T)           { playScript(t) }
func TestF022_ContenderAheadDiesWaiting(t *testing.T)          { playScript(t) }
func TestF023_ContenderAheadGivesUp(t *testing.T)              { playScript(t) }
func TestF024_ContenderAheadGoesMeanwhile(t *testing.T)        { playScript(t) }
func TestF026_ContenderAheadIsTouched(t *testing.T)            { playScript(t) }
func TestF027_WakeAtEachStep(t *testing.T)                     { playScript(t) }
func TestF028_NextOnesNodeIsDeleted(t *testing.T)              { playScript(t) }
func TestF028_NoGrantOnANodeThatIsGone(t *testing.T)           { playScript(t) }
func TestF028_WaiterFurtherBackIsDeleted(t *testing.T)         { playScript(t) }
func TestF028_WaiterIsDeleted(t *testing.T)                    { playScript(t) }
func TestF029_ExpiredWaiterQueuesAtTheEnd(t *testing.T)        { playScript(t) }
func TestF029_ExpiryUnheard(t *testing.T)                      { playScript(t) }
func TestF031_CancelAtEachStep(t *testing.T)                   { playScript(t) }
func TestF033_LostCreateAndCancel(t *testing.T)                { playScript(t) }
func TestF034_TryLockLeavesNoNode(t *testing.T)                { playScript(t) }
func TestF036_ReaderWaitsForTheNearestWriterOnly(t *testing.T) { playScript(t) }
func TestF037_WriterAmongReaders(t *testing.T)                 { playScript(t) }
func TestF040_ConnectionLostWhileHeld(t *testing.T)            { playScript(t) }
func TestF048_NodeDeletedBySomebody(t *testing.T)              { playScript(t) }
func TestF049_DirectoryDeletedBySomebody(t *testing.T)         { playScript(t) }
func TestF050_LostHoldIsNotReentered(t *testing.T)             { playScript(t) }
func TestF053_OutageWithinTheLease(t *testing.T)               { playScript(t) }
func TestF055_GuardOfAStaleHolder(t *testing.T)                { playScript(t) }
func TestF056_ReadWriteTokens(t *testing.T)                    { playScript(t) }
func TestF062_ReleaseTwice(t *testing.T)                       { playScript(t) }
func TestF064_ReleaseAfterLoss(t *testing.T)                   { playScript(t) }
func TestF068_FailSettlesEverything(t *testing.T)              { playScript(t) }
func TestF069_ArrivalsWhileReleasing(t *testing.T)             { playScript(t) }
func TestF077_ErrUpgrade(t *testing.T)                         { playScript(t) }
func TestF077_ErrUpgradeToUpgradable(t *testing.T)             { playScript(t) }
func TestF079_ReaderAndWriterOfOneProcess(t *testing.T)        { playScript(t) }
func TestF081_LostDelete(t *testing.T)                         { playScript(t) }
func TestF082_DeletionImpossible(t *testing.T)                 { playScript(t) }
func TestF084_NumbersBeginAgain(t *testing.T)                  { playScript(t) }
func TestF085_CloseInEveryPhase(t *testing.T)                  { playScript(t) }
func TestF091_NodeComesBack(t *testing.T)                      { playScript(t) }
func TestF092_ContenderAheadMayNotBeRead(t *testing.T)         { playScript(t) }
func TestF094_MarginIsKeptInShutdown(t *testing.T)             { playScript(t) }
func TestF095_LostHoldIsGivenUpAtOnce(t *testing.T)            { playScript(t) }
func TestF131_ReaderBesideAnUpgrade(t *testing.T)              { playScript(t) }
func TestF131_WriterGoesBeforeTheShield(t *testing.T)          { playScript(t) }
func TestF132_NodeDeletedDuringAnUpgrade(t *testing.T)         { playScript(t) }
func TestF133_SessionEndsDuringAnUpgrade(t *testing.T)         { playScript(t) }
func TestF133_UpgradedAgainAfterALostDowngrade(t *testing.T)   { playScript(t) }
func TestF134_UpgradeGivenUp(t *testing.T)                     { playScript(t) }
func TestF134_UpgradedTogether(t *testing.T)                   { playScript(t) }
func TestF275_OneOfTwoCallsGivesUp(t *testing.T)               { playScript(t) }
func TestFairness(t *testing.T)                                { playScript(t) }
func TestHandOverBehindANumberNobodyGaveOut(t *testing.T)      { playScript(t) }
func TestHandOverBehindTheLastOneSeen(t *testing.T)            { playScript(t) }
func TestHandOverCostsNoHerd(t *testing.T)                     { playScript(t) }
func TestHandOverGoesToTheEndOfTheQueue(t *testing.T)          { playScript(t) }
func TestHandOverToOneselfIsOneRequest(t *testing.T)           { playScript(t) }
func TestLostMargin(t *testing.T)                              { playScript(t) }
func TestNegativeTenure(t *testing.T)                          { playScript(t) }
func TestNoDowngradeWithoutNumbers(t *testing.T)               { playScript(t) }
func TestOrderWhereNumbersRunOut(t *testing.T)                 { playScript(t) }
func TestReadersBesideAHandOver(t *testing.T)                  { playScript(t) }
func TestReadersHandOverBesideAWriter(t *testing.T)            { playScript(t) }
func TestWriterBehindAWriterListsAgain(t *testing.T)           { playScript(t) }
