// SPDX-License-Identifier: Apache-2.0

// Package ctxerr makes the error of a wait that a context has ended.
package ctxerr

import (
	"context"
	"errors"
	"fmt"
)

// Of returns an error that wraps both the Err and the Cause of ctx, which must
// have ended. Where one wraps the other, it says so once.
func Of(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
