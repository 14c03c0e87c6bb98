// SPDX-License-Identifier: Apache-2.0

package judge

import "github.com/holdfast-go/holdfast/stress/internal/history"

// History judges a history that has been written, also whether it is whole.
func History(dir string) (*Judge, error) { return read(dir, true) }

// read judges the history in dir from its beginning, and if asked whether it is whole.
func read(dir string, whole bool) (*Judge, error) {
	h, err := history.ReadHeader(dir)
	if err != nil {
		return nil, err
	}
	j := New(h)
	j.whole.On = whole
	for e, err := range history.All(dir) {
		if err != nil {
			return nil, err
		}
		j.Add(e)
	}
	return j, nil
}
