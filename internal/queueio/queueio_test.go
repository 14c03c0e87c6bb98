// SPDX-License-Identifier: Apache-2.0

package queueio_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/queueio"
	"github.com/holdfast-go/holdfast/zkio"
)

// TestFirst has contenders go between the list and the look at them.
func TestFirst(t *testing.T) {
	const guid = "_c_0123456789abcdef0123456789abcdef-"
	const (
		mutex  = guid + "lock-0000000001"
		read   = guid + "__READ__0000000002"
		write  = guid + "__WRIT__0000000003"
		plain  = "lock-0000000004"
		later  = guid + "lock-0000000005"
		spent  = guid + "lock--000000009"
		denied = guid + "lock-0000000007"
	)
	refused := errors.New("refused")
	for _, test := range []struct {
		name   string
		list   []string
		gone   []string
		place  int
		err    error
		looked int
	}{
		{"empty", nil, nil, -1, nil, 0},
		{"all there", []string{mutex, later}, nil, 0, nil, 1},
		{"the first has gone", []string{mutex, later}, []string{mutex}, 1, nil, 2},
		{"a reader has gone", []string{read, later}, []string{read}, 1, nil, 2},
		{"all have gone", []string{mutex, later}, []string{mutex, later}, -1, nil, 2},
		{"a write has gone, which a read may have replaced", []string{write, later}, []string{write}, -1, nil, 1},
		{"one has gone whose name can come again", []string{plain, later}, []string{plain}, -1, nil, 1},
		{"one has gone whose number does not order it", []string{spent, later}, []string{spent}, -1, nil, 1},
		{"an error", []string{mutex, denied, later}, []string{mutex}, 1, refused, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := queue.List(test.list, false, 0)
			if len(q.Contenders) != len(test.list) {
				t.Fatalf("%d contenders, want %d", len(q.Contenders), len(test.list))
			}
			looked := 0
			place, err := queueio.First(q.Contenders, func(c queue.Contender) error {
				looked++
				switch {
				case slices.Contains(test.gone, c.Name):
					return zkio.ErrNoNode
				case c.Name == denied:
					return refused
				}
				return nil
			})
			if place != test.place || !errors.Is(err, test.err) || looked != test.looked {
				t.Errorf("place %d (%v) after %d looks; want %d (%v) after %d", place, err, looked, test.place, test.err, test.looked)
			}
		})
	}
}
