// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A Cluster is several servers: of etcd, which replicate each other, or of Redis, which know
// nothing of each other. Servers have numbers, from 1. Its methods block, and are safe for
// concurrent use.
type Cluster struct {
	kind    Kind
	servers []*Server
}

// RunCluster starts n servers, and returns when they serve. They run until [Cluster.Stop] is
// called or ctx ends. The error wraps [foreign.ErrNotInstalled] if their program is missing.
func RunCluster(ctx context.Context, k Kind, n int) (*Cluster, error) {
	all, err := runAll(ctx, k, n)
	if err != nil {
		return nil, err
	}
	return &Cluster{k, all}, nil
}

// Stop kills all servers and removes their data.
func (c *Cluster) Stop() error { return stopAll(c.servers) }

// Version returns name and version of the servers.
func (c *Cluster) Version() string { return c.servers[0].Version() }

// Addrs returns the servers' addresses, as host:port, in the order of their numbers.
func (c *Cluster) Addrs() (all []string) {
	for _, s := range c.servers {
		all = append(all, s.Addr())
	}
	return all
}

// Kill kills a server: see [Server.Kill].
func (c *Cluster) Kill(id int) error { return c.servers[id-1].Kill() }

// Restart starts a server again: see [Server.Restart].
func (c *Cluster) Restart(ctx context.Context, id int) error { return c.servers[id-1].Restart(ctx) }

// Pause pauses a server: see [Server.Pause].
func (c *Cluster) Pause(id int) error { return c.servers[id-1].Pause() }

// Resume resumes a server: see [Server.Resume].
func (c *Cluster) Resume(id int) error { return c.servers[id-1].Resume() }

// Leader waits until a server leads, and returns it. Of servers that know nothing of each other
// none does: that is an error.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	if c.kind.leads == nil {
		return 0, fmt.Errorf("no server of %s leads", c.kind.Name)
	}
	leader, _, err := c.await(ctx, func(leader, _ int) bool { return leader != 0 })
	return leader, err
}

// Followers waits until a server serves that does not lead, and returns all that do.
func (c *Cluster) Followers(ctx context.Context) (followers []int, err error) {
	_, followers, err = c.await(ctx, func(_, followers int) bool { return followers > 0 })
	return followers, err
}

// Settled waits until all servers serve, and returns the leader, or 0 if there is none by nature.
func (c *Cluster) Settled(ctx context.Context) (leader int, err error) {
	leader, _, err = c.await(ctx, func(leader, followers int) bool {
		return followers+min(leader, 1) == len(c.servers) && (leader != 0 || c.kind.leads == nil)
	})
	return leader, err
}

// await polls the servers until ok returns true, of the leader and the number of others that serve.
func (c *Cluster) await(ctx context.Context, ok func(leader, followers int) bool) (leader int, followers []int, err error) {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		leader, followers = 0, nil
		for i, s := range c.servers {
			if s.serves(ctx) != nil {
				continue
			}
			if c.kind.leads != nil {
				if leads, err := c.kind.leads(ctx, s.Addr()); err != nil {
					continue
				} else if leads {
					leader = i + 1
					continue
				}
			}
			followers = append(followers, i+1)
		}
		if ok(leader, len(followers)) {
			return leader, followers, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return 0, nil, fmt.Errorf("leader of %s: %d, others that serve: %v: %w", c.kind.Name, leader, followers, context.Cause(ctx))
		}
	}
}

// etcdLeads asks a server of etcd whether it leads.
func etcdLeads(ctx context.Context, addr string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v3/maintenance/status", bytes.NewReader([]byte("{}")))
	if err != nil {
		return false, err
	}
	ask.Close = true // it is asked seldom
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	var status struct {
		Header struct {
			Member string `json:"member_id"`
		}
		Leader string
	}
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
		return false, err
	}
	if status.Leader == "" || status.Leader == "0" {
		return false, errors.New("it knows no leader")
	}
	return status.Leader == status.Header.Member, nil
}
