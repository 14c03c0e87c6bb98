// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// CanFind tells that this system names the children of other processes.
const CanFind = true

// Named returns a child of a process by argv[0], the name that it was started under; nil if there
// is none.
func Named(parent int, argument string) *os.Process {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent)) // none if it has ended
	for _, task := range tasks {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, task.Name()))
		for _, field := range strings.Fields(string(children)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			p, err := os.FindProcess(pid) // it stands for the process, whatever the number stands for later
			if err != nil {
				continue
			}
			if arguments, _ := os.ReadFile("/proc/" + field + "/cmdline"); strings.HasPrefix(string(arguments), argument+"\x00") {
				return p
			}
			_ = p.Release()
		}
	}
	return nil
}
