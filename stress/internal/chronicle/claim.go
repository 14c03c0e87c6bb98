// SPDX-License-Identifier: Apache-2.0

package chronicle

import (
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast/internal/flock"
)

// claim takes the directory of a history for this process, until it closes the file: two
// runs that write into one would remove each other's events. The flock on the directory
// ends with the process, however that ends.
func claim(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	switch ok, err := flock.Lock(f, flock.Exclusive); {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("claiming %s: %w", dir, err), f.Close())
	case !ok:
		return nil, errors.Join(fmt.Errorf("another run writes its history into %s: wait until it has ended, or name another directory", dir), f.Close())
	}
	return f, nil
}
