// SPDX-License-Identifier: Apache-2.0

// Package members keeps a group of processes: each can join under an id with some data,
// all can see who is there, and a process that dies or is cut off is gone from the group
// when its ZooKeeper session ends.
//
//	group, err := members.New(m, "workers")
//	me, err := group.Join(ctx, "worker-7", []byte("10.0.0.7:8080"))
//	defer me.Leave(context.Background())
//	for view := range group.Watch(ctx) {
//		fmt.Println(len(view.Members), "members")
//	}
//
// # What it promises
//
// An id belongs to one member at a time. [Group.Join] waits while another session has it, or
// another caller in this process, by this or another Group of the same name.
//
// A member joins again by itself when its session has ended or its node was deleted, until
// it leaves. [Member.Lost] says that it is not in the group at present, before ZooKeeper
// can show the group without it, within the bounds that package manager states.
//
// [Group.Watch] never misses the last state of the group. It may skip states in between.
//
// # What it does not promise
//
// A view may be out of date. Two processes may see different groups at the same moment, and
// a process may be shown as a member that has just died. To let only one process do a
// thing, use a lock, an election, or package shards, which divides work among members.
//
// There is no order in which waiters get an id, and all of them wake when it is free.
//
// # Cost
//
// To join costs one packet with a write and two reads. If the group has no directory yet,
// that write is refused, and the packet is sent again after another write, which makes it. If
// the group is full, a look at each member follows, which tells whether others came first, and
// the deletion. To leave costs one write. While it is a member, a process sends a write
// every seventh of the session timeout, which it shares with all its locks. For watchers see
// [Group.Watch]: with n watchers, one who joins causes 2n requests. So groups are limited
// to [MaxMembers], and a member's data to [MaxData]. Data that change more than now and
// then belong elsewhere.
//
// # Nodes
//
// A member is an ephemeral node in the group's directory, named manager.Escape(id), with
// the data as they are. The directory is a container: ZooKeeper removes it some time after
// the last member has left. Nodes that are not ephemeral are no members.
//
// This is the layout of Curator's GroupMember, and both see each other's members. Where
// Join waits for an id that is taken, GroupMember replaces the data of the member that has
// it, and believes that it is a member. It does not escape ids.
package members
