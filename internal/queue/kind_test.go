// SPDX-License-Identifier: Apache-2.0

package queue

import "testing"

// Each kind has a row of its own, and what our nodes of it are called is parsed as that kind.
func TestKinds(t *testing.T) {
	names := make(map[string]bool)
	for k := range Kinds {
		guid := hex32
		if k == Upgradable {
			guid = UpgradableGUID(guid)
		}
		name := "_c_" + guid + "-" + k.Mark() + "0000000007"
		if c, ok := ParseName(name); !ok || c.Kind != k {
			t.Errorf("%s is parsed as %v, want %v", name, c.Kind, k)
		}
		if names[k.String()] || k.String() == "" || k.Family() == "" {
			t.Errorf("kind %d is called %q, of the family %q", k, k, k.Family())
		}
		names[k.String()] = true
	}
	if len(names) != NumKinds-1 {
		t.Errorf("there are %d kinds, want %d", len(names), NumKinds-1)
	}
	for _, k := range []Kind{0, Kind(NumKinds)} {
		if k.String() != "unknown" {
			t.Errorf("kind %d is called %q", k, k)
		}
	}
}
