// SPDX-License-Identifier: Apache-2.0

package oneline

import (
	"errors"
	"testing"
)

func TestJoin(t *testing.T) {
	one, two := errors.New("no space"), errors.New("no inode")
	for _, test := range []struct {
		errs []error
		want string
	}{
		{[]error{one}, "no space"},
		{[]error{nil, one, nil}, "no space"},
		{[]error{one, nil, two}, "no space; no inode"},
		{[]error{Join(one, two), one}, "no space; no inode; no space"},
	} {
		err := Join(test.errs...)
		if err.Error() != test.want {
			t.Errorf("%v: %q, want %q", test.errs, err, test.want)
		}
		for _, part := range test.errs {
			if part != nil && !errors.Is(err, part) {
				t.Errorf("%q does not wrap %q", err, part)
			}
		}
	}
	if err := Join(); err != nil {
		t.Errorf("no errors: %v", err)
	}
	if err := Join(nil, nil); err != nil {
		t.Errorf("nothing but nil: %v", err)
	}
}
