// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// A Code is an error code of ZooKeeper's protocol, found in the header of a
// reply. It implements error, and the errors of Server's methods wrap it: test
// them with errors.Is(err, zktest.CodeNoNode).
type Code int32

// The codes that the server answers with.
const (
	CodeOK                      Code = Code(jute.ErrOK)
	CodeRuntimeInconsistency    Code = Code(jute.ErrRuntimeInconsistency)
	CodeMarshalling             Code = Code(jute.ErrMarshalling)
	CodeUnimplemented           Code = Code(jute.ErrUnimplemented)
	CodeBadArguments            Code = Code(jute.ErrBadArguments)
	CodeNoNode                  Code = Code(jute.ErrNoNode)
	CodeNoAuth                  Code = Code(jute.ErrNoAuth)
	CodeBadVersion              Code = Code(jute.ErrBadVersion)
	CodeNoChildrenForEphemerals Code = Code(jute.ErrNoChildrenForEphemerals)
	CodeNodeExists              Code = Code(jute.ErrNodeExists)
	CodeNotEmpty                Code = Code(jute.ErrNotEmpty)
	CodeSessionExpired          Code = Code(jute.ErrSessionExpired)
	CodeInvalidACL              Code = Code(jute.ErrInvalidACL)
	CodeAuthFailed              Code = Code(jute.ErrAuthFailed)
	CodeNoWatcher               Code = Code(jute.ErrNoWatcher)
	CodeReconfigDisabled        Code = Code(jute.ErrReconfigDisabled)
)

var codeTexts = map[Code]string{
	CodeOK:                      "ok",
	CodeRuntimeInconsistency:    "runtime inconsistency",
	CodeMarshalling:             "marshalling error",
	CodeUnimplemented:           "unimplemented",
	CodeBadArguments:            "bad arguments",
	CodeNoNode:                  "no node",
	CodeNoAuth:                  "not authorized",
	CodeBadVersion:              "bad version",
	CodeNoChildrenForEphemerals: "ephemerals have no children",
	CodeNodeExists:              "node exists",
	CodeNotEmpty:                "node has children",
	CodeSessionExpired:          "session expired",
	CodeInvalidACL:              "invalid ACL",
	CodeAuthFailed:              "authentication failed",
	CodeNoWatcher:               "no such watch",
	CodeReconfigDisabled:        "reconfiguration is disabled",
}

// Error returns the code's meaning and its number.
func (c Code) Error() string {
	if s, ok := codeTexts[c]; ok {
		return fmt.Sprintf("%s (%d)", s, int32(c))
	}
	return fmt.Sprintf("code %d", int32(c))
}
