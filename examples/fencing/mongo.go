// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A MongoValue is a document in MongoDB that a lock protects. It has a field with the
// highest token so far. Create it, with token 0, before the first holder comes.
type MongoValue struct {
	Collection *mongo.Collection // with write concern majority
	ID         string
}

// Get returns the value.
func (v MongoValue) Get(ctx context.Context, token uint64) (string, error) {
	return v.update(ctx, token, bson.M{"token": int64(token)})
}

// Set sets the value.
func (v MongoValue) Set(ctx context.Context, token uint64, value string) error {
	_, err := v.update(ctx, token, bson.M{"token": int64(token), "value": value})
	return err
}

// update compares the token and sets the fields, in one step.
func (v MongoValue) update(ctx context.Context, token uint64, fields bson.M) (string, error) {
	var doc struct{ Value string }
	err := v.Collection.FindOneAndUpdate(ctx,
		bson.M{"_id": v.ID, "token": bson.M{"$lte": int64(token)}},
		bson.M{"$set": fields},
		options.FindOneAndUpdate().SetReturnDocument(options.After),
	).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return "", ErrStale
	}
	return doc.Value, err
}
