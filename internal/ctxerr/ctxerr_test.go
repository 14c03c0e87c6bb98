// SPDX-License-Identifier: Apache-2.0

package ctxerr

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestOf(t *testing.T) {
	full := errors.New("disk full")
	for _, tt := range []struct {
		cause error
		want  string
	}{
		{nil, "context canceled"},
		{full, "context canceled: disk full"},
		{fmt.Errorf("%w by the user", context.Canceled), "context canceled by the user"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(tt.cause)
		err := Of(ctx)
		if err.Error() != tt.want || !errors.Is(err, context.Canceled) || !errors.Is(err, context.Cause(ctx)) {
			t.Errorf("cause %v: %v, want %q", tt.cause, err, tt.want)
		}
	}
}
