// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// fenced reads the value KEYS[1], or sets it to ARGV[2], for the holder with the token
// ARGV[1]. KEYS[2] is the highest token so far. Redis runs a script without interruption.
var fenced = redis.NewScript(`
local seen = redis.call('GET', KEYS[2])
if seen and seen > ARGV[1] then
  return redis.error_reply('STALE a later holder of the lock has been here')
end
redis.call('SET', KEYS[2], ARGV[1])
if ARGV[2] then
  redis.call('SET', KEYS[1], ARGV[2])
end
return redis.call('GET', KEYS[1])`)

// A RedisValue is a value in Redis that a lock protects.
type RedisValue struct {
	Client redis.Scripter
	Key    string
}

// Get returns the value, which is "" at first.
func (v RedisValue) Get(ctx context.Context, token uint64) (string, error) {
	return v.run(ctx, token)
}

// Set sets the value.
func (v RedisValue) Set(ctx context.Context, token uint64, value string) error {
	_, err := v.run(ctx, token, value)
	return err
}

func (v RedisValue) run(ctx context.Context, token uint64, values ...any) (string, error) {
	// The braces keep both keys on one server of a cluster. The token has 20 digits, to be
	// compared as text: Lua's numbers are exact only up to 2^53.
	keys := []string{"{" + v.Key + "}", "{" + v.Key + "}:fence"}
	args := append([]any{fmt.Sprintf("%020d", token)}, values...)
	value, err := fenced.Run(ctx, v.Client, keys, args...).Text()
	switch {
	case errors.Is(err, redis.Nil):
		return "", nil
	case redis.HasErrorPrefix(err, "STALE"):
		return "", ErrStale
	}
	return value, err
}
