// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"context"
	"testing"
	"unsafe"
)

// Every held or queued lock has several promises, so their size matters: the
// result, and at most 48 bytes.
func TestSize(t *testing.T) {
	const most = 48
	for _, tt := range []struct {
		name      string
		got, data uintptr
	}{
		{"struct{}", unsafe.Sizeof(Promise[struct{}]{}), 0},
		{"int64", unsafe.Sizeof(Promise[int64]{}), 8},
		{"string", unsafe.Sizeof(Promise[string]{}), unsafe.Sizeof("")},
		{"[5]uint64", unsafe.Sizeof(Promise[[5]uint64]{}), 40},
	} {
		t.Logf("Promise[%s]: %d bytes, %d of them the value", tt.name, tt.got, tt.data)
		if tt.got > most+tt.data {
			t.Errorf("Promise[%s] has %d bytes, want at most %d + %d", tt.name, tt.got, most, tt.data)
		}
	}
}

// What locks do all the time does not allocate.
func TestAllocs(t *testing.T) {
	const runs = 100
	ctx := t.Context()
	ended, cancel := context.WithCancel(ctx)
	cancel()

	var pending Promise[int]
	born := Resolved(7, nil) // settled before Done was called
	var awaited Promise[int] // settled after Done was called
	awaited.Future().Done()
	awaited.Settle(7, nil)
	fresh := make([]Promise[int], runs+1) // AllocsPerRun makes one run more
	next := 0

	for _, tt := range []struct {
		name string
		do   func()
	}{
		{"Settle, pending", func() { fresh[next].Settle(7, nil); next++ }},
		{"Settle, settled", func() { awaited.Settle(8, nil) }},
		{"Poll, pending", func() { _, _, _ = pending.Future().Poll() }},
		{"Settled, pending", func() { pending.Settled() }},
		{"Poll", func() { _, _, _ = born.Poll() }},
		{"Poll, with a channel", func() { _, _, _ = awaited.Future().Poll() }},
		{"Wait", func() { _, _ = born.Wait(ctx) }},
		{"Wait, with a channel", func() { _, _ = awaited.Future().Wait(ctx) }},
		{"Wait, with a context that is done", func() { _, _ = born.Wait(ended) }},
		{"Done", func() { born.Done() }},
		{"Done, with a channel", func() { awaited.Future().Done() }},
	} {
		if got := testing.AllocsPerRun(runs, tt.do); got != 0 {
			t.Errorf("%s: %v allocations, want none", tt.name, got)
		}
	}
}
