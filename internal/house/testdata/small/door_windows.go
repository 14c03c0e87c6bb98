// SPDX-License-Identifier: Apache-2.0

package small

func (d *door) slam() { d.shut() }
