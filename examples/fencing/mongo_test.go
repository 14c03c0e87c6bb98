// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A mongoServer stands in for MongoDB, which cannot be had within a process. It has one
// document, and understands what the driver sends when it connects, and findAndModify
// with a filter and an update of the form that this package uses.
type mongoServer struct {
	mu          sync.Mutex
	id, value   string
	token       int64
	connections sync.WaitGroup
}

// mongoDocument returns a document of such a server.
func mongoDocument(t *testing.T) value {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &mongoServer{id: "report"}
	s.connections.Go(func() { s.accept(l) })
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + l.Addr().String() + "/?directConnection=true").
		SetServerAPIOptions(options.ServerAPI(options.ServerAPIVersion1))) // no legacy handshake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Disconnect(context.Background())
		_ = l.Close()
		s.connections.Wait()
	})
	return MongoValue{client.Database("app").Collection("reports"), "report"}
}

func (s *mongoServer) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.connections.Go(func() { s.serve(conn) })
	}
}

// serve answers requests: a header of four numbers (length, id, the id answered, kind),
// flags, the kind of the section, and a document.
func (s *mongoServer) serve(conn net.Conn) {
	defer conn.Close()
	const header, before = 16, 16 + 5
	for {
		start := make([]byte, header)
		if _, err := io.ReadFull(conn, start); err != nil {
			return
		}
		request := make([]byte, binary.LittleEndian.Uint32(start))
		if _, err := io.ReadFull(conn, request[header:]); err != nil {
			return
		}
		var command bson.D
		if err := bson.Unmarshal(request[before:], &command); err != nil {
			return
		}
		doc, err := bson.Marshal(s.answer(command))
		if err != nil {
			return
		}
		reply := make([]byte, before, before+len(doc))
		binary.LittleEndian.PutUint32(reply, uint32(before+len(doc)))
		copy(reply[8:], start[4:8])  // answers this id
		copy(reply[12:], start[12:]) // the kind is the same
		if _, err := conn.Write(append(reply, doc...)); err != nil {
			return
		}
	}
}

// answer carries out a command, whose name is its first element.
func (s *mongoServer) answer(command bson.D) bson.M {
	switch command[0].Key {
	case "hello":
		return bson.M{"ok": 1, "isWritablePrimary": true, "minWireVersion": 0, "maxWireVersion": 21,
			"maxBsonObjectSize": 16 << 20, "maxMessageSizeBytes": 48 << 20, "maxWriteBatchSize": 1000}
	case "findAndModify":
		return s.findAndModify(command)
	case "endSessions":
		return bson.M{"ok": 1}
	}
	return bson.M{"ok": 0, "code": 59, "errmsg": "no such command: " + command[0].Key}
}

func (s *mongoServer) findAndModify(command bson.D) bson.M {
	raw, err := bson.Marshal(command)
	if err != nil {
		return bson.M{"ok": 0, "errmsg": err.Error()}
	}
	var c struct {
		Query struct {
			ID    string `bson:"_id"`
			Token struct {
				LTE int64 `bson:"$lte"`
			}
		}
		Update struct {
			Set struct {
				Token int64
				Value *string
			} `bson:"$set"`
		}
		New bool
	}
	if err := bson.Unmarshal(raw, &c); err != nil {
		return bson.M{"ok": 0, "errmsg": err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Query.ID != s.id || s.token > c.Query.Token.LTE || !c.New {
		return bson.M{"ok": 1, "value": nil}
	}
	s.token = c.Update.Set.Token
	if c.Update.Set.Value != nil {
		s.value = *c.Update.Set.Value
	}
	return bson.M{"ok": 1, "value": bson.M{"_id": s.id, "token": s.token, "value": s.value}}
}
