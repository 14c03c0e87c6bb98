// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"time"
)

// A Message is for one entity, here an account. A sender that gets no reply sends it
// again with the same ID; the account applies it once.
type Message struct {
	ID     uint64
	Entity string
	Amount int64 // to be added to the balance; 0 only asks for it
}

// A Reply says that the owner of the entity has handled a message.
type Reply struct {
	Balance int64
	Token   uint64 // of the grant under which the owner has handled it
}

const (
	errNotOwner = rpc.ServerError("the entity does not live in this process")
	errFenced   = rpc.ServerError("a later owner was here")
	errNoAnswer = rpc.ServerError("no answer") // what was asked for may have been done, or not
)

// call calls a method of another process. It returns errNoAnswer, or what that has said.
func call(timeout time.Duration, address, method string, in, out any) error {
	conn, err := net.DialTimeout("tcp", address, timeout)
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(timeout)) // fails only after Close
		client := rpc.NewClient(conn)
		defer client.Close()
		err = client.Call(method, in, out)
	}
	if _, answered := errors.AsType[rpc.ServerError](err); err != nil && !answered {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return err
}

// serve lets other processes call the methods of a service, until the listener is closed.
func serve(listener net.Listener, name string, service any) {
	server := rpc.NewServer()
	_ = server.RegisterName(name, service) // fails only without methods that can be called
	server.Accept(listener)
}
