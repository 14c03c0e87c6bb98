// SPDX-License-Identifier: Apache-2.0

package recipetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(realzk.WithShared(m)) }
