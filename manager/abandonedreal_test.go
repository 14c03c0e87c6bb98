// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

var kills = flag.Int("kills", 5, "how many processes TestF135_RealKilledHolders kills")

// Processes hold locks that report abandonment, and release them: the next holder is told
// of nothing. Then they are killed: the next holder is told, and the one after it is not.
func TestF135_RealKilledHolders(t *testing.T) {
	zk := realzk.Shared(t)
	m := openReal(t, zk.Addr(), "next", func(cfg *Config) { cfg.Root = defaultRoot })
	const together = 10
	reported, clean := 0, 0
	for from := 0; from < *kills; from += together {
		var holders []*holder
		var locks []*Lock
		for i := from; i < min(from+together, *kills); i++ {
			name := fmt.Sprintf("%s/%d", ownRoot(t), i)
			locks = append(locks, reports(t, exclusive(t, m, name), 0))
			holders = append(holders, startHolder(t, zk.Addr(), name, childReports+"=yes"))
		}
		for i, p := range holders {
			h := locks[i].Acquire(t.Context())
			if got := p.ask("unlock"); got != "ok" {
				t.Errorf("unlock: %s", got)
			}
			granted(t, "after a release", h, time.Minute)
			if !grantOf(t, h).Abandoned {
				clean++
			}
			mustRelease(t, h)
			if got := p.ask("lock"); got != "ok" {
				t.Errorf("lock: %s", got)
			}
		}
		var heirs []Hold
		for i, p := range holders {
			heirs = append(heirs, locks[i].Acquire(t.Context()))
			p.kill()
		}
		for i, h := range heirs {
			granted(t, "after a death", h, time.Minute)
			if grantOf(t, h).Abandoned {
				reported++
			}
			wantErr(t, "recovered", h.Recovered(), nil)
			mustRelease(t, h)
			h = mustLock(t, locks[i])
			wantTold(t, h, false)
			mustRelease(t, h)
		}
	}
	t.Logf("reported %d of %d deaths, and %d of %d clean releases", reported, *kills, *kills-clean, *kills)
	if reported != *kills || clean != *kills {
		t.Errorf("%d deaths are reported, and %d clean releases are not, want %d", reported, clean, *kills)
	}
}
