// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// An Op is the kind of a request, by its number in ZooKeeper's protocol.
type Op int32

// The requests that the server knows. OpConnect is the handshake, which has no
// number on the wire; ZooKeeper calls it createSession internally.
const (
	OpConnect              Op = -10
	OpClose                Op = Op(jute.OpClose)
	OpCreate               Op = Op(jute.OpCreate)
	OpDelete               Op = Op(jute.OpDelete)
	OpExists               Op = Op(jute.OpExists)
	OpGetData              Op = Op(jute.OpGetData)
	OpSetData              Op = Op(jute.OpSetData)
	OpGetACL               Op = Op(jute.OpGetACL)
	OpSetACL               Op = Op(jute.OpSetACL)
	OpGetChildren          Op = Op(jute.OpGetChildren)
	OpSync                 Op = Op(jute.OpSync)
	OpPing                 Op = Op(jute.OpPing)
	OpGetChildren2         Op = Op(jute.OpGetChildren2)
	OpCheck                Op = Op(jute.OpCheck)
	OpMulti                Op = Op(jute.OpMulti)
	OpCreate2              Op = Op(jute.OpCreate2)
	OpCreateContainer      Op = Op(jute.OpCreateContainer)
	OpDeleteContainer      Op = Op(jute.OpDeleteContainer)
	OpCreateTTL            Op = Op(jute.OpCreateTTL)
	OpReconfig             Op = Op(jute.OpReconfig)
	OpCheckWatches         Op = Op(jute.OpCheckWatches)
	OpRemoveWatches        Op = Op(jute.OpRemoveWatches)
	OpMultiRead            Op = Op(jute.OpMultiRead)
	OpAuth                 Op = Op(jute.OpAuth)
	OpSetWatches           Op = Op(jute.OpSetWatches)
	OpSASL                 Op = Op(jute.OpSASL)
	OpGetEphemerals        Op = Op(jute.OpGetEphemerals)
	OpGetAllChildrenNumber Op = Op(jute.OpGetAllChildrenNumber)
	OpSetWatches2          Op = Op(jute.OpSetWatches2)
	OpAddWatch             Op = Op(jute.OpAddWatch)
	OpWhoAmI               Op = Op(jute.OpWhoAmI)
)

var opNames = map[Op]string{
	OpConnect:              "connect",
	OpClose:                "close",
	OpCreate:               "create",
	OpDelete:               "delete",
	OpExists:               "exists",
	OpGetData:              "getData",
	OpSetData:              "setData",
	OpGetACL:               "getACL",
	OpSetACL:               "setACL",
	OpGetChildren:          "getChildren",
	OpSync:                 "sync",
	OpPing:                 "ping",
	OpGetChildren2:         "getChildren2",
	OpCheck:                "check",
	OpMulti:                "multi",
	OpCreate2:              "create2",
	OpCreateContainer:      "createContainer",
	OpDeleteContainer:      "deleteContainer",
	OpCreateTTL:            "createTTL",
	OpAuth:                 "auth",
	OpSetWatches:           "setWatches",
	OpReconfig:             "reconfig",
	OpCheckWatches:         "checkWatches",
	OpRemoveWatches:        "removeWatches",
	OpMultiRead:            "multiRead",
	OpSASL:                 "sasl",
	OpGetEphemerals:        "getEphemerals",
	OpGetAllChildrenNumber: "getAllChildrenNumber",
	OpSetWatches2:          "setWatches2",
	OpAddWatch:             "addWatch",
	OpWhoAmI:               "whoAmI",
}

// String returns ZooKeeper's name of the request, such as "getChildren2".
func (op Op) String() string {
	if s, ok := opNames[op]; ok {
		return s
	}
	return fmt.Sprintf("op(%d)", int32(op))
}

// writes reports whether op is a transaction, which uses up a zxid whether it
// succeeds or not.
func (op Op) writes() bool {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpDeleteContainer, OpCreateTTL, OpDelete, OpSetData, OpSetACL, OpMulti, OpCheck, OpReconfig, OpClose:
		return true
	}
	return false
}
