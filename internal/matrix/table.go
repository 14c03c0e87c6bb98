// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
)

// setRow replaces the row of a table in a document that has the same first cell, or adds it
// at the table's end. The table stands between <!-- matrix: NAME --> and <!-- end -->, and
// begins with its two lines of heads.
func setRow(document, table string, cells []string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	changed, err := withRow(string(text), table, cells)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, []byte(changed), 0o644)
}

func withRow(text, table string, cells []string) (string, error) {
	begin := "<!-- matrix: " + table + " -->\n"
	before, rest, found := strings.Cut(text, begin)
	rows, after, ended := strings.Cut(rest, "<!-- end -->")
	if !found || !ended {
		return "", fmt.Errorf("no table between %q and %q", strings.TrimSpace(begin), "<!-- end -->")
	}
	row := "| " + strings.Join(cells, " | ") + " |\n"
	var out strings.Builder
	replaced := false
	for line := range strings.Lines(rows) {
		if strings.HasPrefix(line, "| "+cells[0]+" |") {
			line, replaced = row, true
		}
		out.WriteString(line)
	}
	if !replaced {
		out.WriteString(row)
	}
	return before + begin + out.String() + "<!-- end -->" + after, nil
}
